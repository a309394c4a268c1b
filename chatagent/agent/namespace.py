"""The `chat` namespace: `from chatagent import chat`.

Definitions (`chat.agent`, `chat.with_client_data`, `chat.with_ui_message`), and what hooks, tools and `run` call while
a run is on. Everything of the second kind raises `ChatContextError` outside a run.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from chatagent.agent.builder import ChatBuilder
from chatagent.agent.chat_local import ChatLocal
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.client_view import RunMetadata, show_context
from chatagent.agent.compaction import compact, compaction_plan, is_compaction_safe
from chatagent.agent.custom_functions import CustomFunctions
from chatagent.agent.history import History
from chatagent.agent.merge import upsert_incoming_message
from chatagent.agent.pipe import pipe_chunks
from chatagent.agent.prompt import ChatPrompt
from chatagent.agent.run import this_run, this_turn
from chatagent.agent.skills import ChatSkills
from chatagent.agent.stream_text_options import stream_text_arguments
from chatagent.agent.work import StreamWork
from chatagent.agent.writer import PipeResult, StreamWriter, start_pipe, start_writer, to_chunk
from chatagent.clock import Duration, to_seconds
from chatagent.current import current_clock
from chatagent.errors import ChatContextError, InvalidArgumentError
from chatagent.model import ModelMessage, parse_model_messages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from chatagent.agent.compaction_options import CompactionState, CompactResult, ShouldCompactEvent, SummarizeEvent
    from chatagent.agent.stream_text_options import LanguageModelRegistry
    from chatagent.generate import (
        PrepareStep,
        PrepareStepEvent,
        StepChanges,
        StepResult,
        Tools,
        UIMessageStreamOptions,
    )
    from chatagent.model import ProviderOptions
    from chatagent.signals import AbortSignal
    from chatagent.ui import Chunk, UIMessage

__all__ = ["Chat", "ChatStream", "Response", "chat"]

logger = logging.getLogger("chatagent")

T = TypeVar("T")
NewDataT = TypeVar("NewDataT")


class Response:
    """`chat.response`: writing to the client, with data parts that become part of the stored answer."""

    __slots__ = ()

    def write(self, chunk: Chunk | Mapping[str, Any]) -> None:
        """Send one chunk; a `data-…` chunk that is not transient also joins the stored answer (N-21, N-22).

        Raises:
            ChatContextError: there is no run.
            ChunkError: it is no chunk.
        """
        this_run("chat.response.write").write_response_chunk(to_chunk(chunk))


class ChatStream:
    """`chat.stream`: writing to the client without leaving a trace in the stored answer (N-23)."""

    __slots__ = ()

    id = "chat"

    def writer(self, *, execute: Callable[[StreamWriter], Any]) -> PipeResult:
        """Run a function with a writer, in the background; its errors are logged.

        Raises:
            TypeError: it is no function.
        """
        if not callable(execute):
            raise TypeError(f"chat.stream.writer: `execute` must be a function of one writer, not {execute!r}")
        return start_writer(this_run("chat.stream.writer"), execute)

    def pipe(self, source: Any, *, abort_signal: AbortSignal | None = None) -> PipeResult:
        """Send the chunks of a stream, in the background; its errors are logged."""
        return start_pipe(this_run("chat.stream.pipe"), source, abort_signal)

    async def append(self, value: Chunk | Mapping[str, Any]) -> None:
        """Send one chunk and wait until it is stored."""
        await this_run("chat.stream.append").out.append(to_chunk(value))


class Chat(ChatBuilder[Any], CustomFunctions):
    """The functions behind `chatagent.chat`; `chat.agent` is the one of a builder that nothing was given to."""

    history = History()
    response = Response()
    stream = ChatStream()

    run_metadata = RunMetadata()

    prompt = ChatPrompt()
    skills = ChatSkills()

    cleanup_aborted_parts = staticmethod(cleanup_aborted_parts)
    is_compaction_safe = staticmethod(is_compaction_safe)
    upsert_incoming_message = staticmethod(upsert_incoming_message)

    def to_stream_text_options(
        self,
        *,
        tools: Tools | None = None,
        registry: LanguageModelRegistry | None = None,
        telemetry: Mapping[str, str] | None = None,
        system_provider_options: ProviderOptions | None = None,
        cache_control: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return what the run knows, as arguments for `stream_text` (N-52).

        `prepare_step` is always among them: through it compaction, steering and `chat.inject` reach the model between
        two steps. The stored prompt gives `instructions` and its settings, skills add to them and to `tools`.

        Args:
            tools: further tools; one with the name of a skill's tool wins.
            registry: finds the model that the prompt names; the result then has `model`.
            telemetry: facts for the turn's span, beside the prompt's id, version and labels; without a prompt they are
                not told.
            system_provider_options: provider options of the instructions, in the place of all others.
            cache_control: short for `{"anthropic": {"cacheControl": …}}` there; wins over those of the prompt.

        Raises:
            ChatContextError: there is no run.
        """
        return stream_text_arguments(
            this_run("chat.to_stream_text_options"),
            tools=tools,
            registry=registry,
            telemetry=telemetry,
            system_provider_options=system_provider_options,
            cache_control=cache_control,
        )

    async def compact(
        self,
        messages: Sequence[ModelMessage],
        steps: Sequence[StepResult],
        *,
        summarize: Callable[[SummarizeEvent[Any]], Any],
        threshold: int | None = None,
        should_compact: Callable[[ShouldCompactEvent[Any]], Any] | None = None,
    ) -> CompactResult:
        """Put a summary in the place of the conversation between two steps, if it is time (N-42).

        For a `prepare_step` of your own; an agent with the option `compaction` needs it not.

        Args:
            messages: what the next step would be asked with.
            steps: the finished steps of the call.
            summarize: returns the summary.
            threshold: compact if the last step took more tokens than this.
            should_compact: decides instead of `threshold`.

        Raises:
            ChatContextError: no turn is on.
            InvalidArgumentError: neither `threshold` nor `should_compact` is given.
        """
        plan = compaction_plan(summarize, threshold, should_compact)
        run, turn = this_turn("chat.compact")
        return await compact(run, turn, messages, steps, plan)

    def compaction_step(
        self,
        *,
        summarize: Callable[[SummarizeEvent[Any]], Any],
        threshold: int | None = None,
        should_compact: Callable[[ShouldCompactEvent[Any]], Any] | None = None,
    ) -> PrepareStep:
        """Return a `prepare_step` that does what `chat.compact` does, and nothing else.

        Raises:
            InvalidArgumentError: neither `threshold` nor `should_compact` is given.
        """
        plan = compaction_plan(summarize, threshold, should_compact)

        async def prepare_step(event: PrepareStepEvent) -> StepChanges | None:
            run, turn = this_turn("chat.compaction_step")
            return (await compact(run, turn, event.messages, event.steps, plan)).changes

        return prepare_step

    def get_compaction_state(self) -> CompactionState | None:
        """Return what this turn was compacted to between its steps; `None` if it was not."""
        run = this_run("chat.get_compaction_state")
        compaction = None if run.turn is None else run.turn.compaction
        return None if compaction is None else compaction.state

    @property
    def session_id(self) -> str:
        """The current session's id: the payload's, else the chat's (N-33)."""
        run = this_run("chat.session_id")
        return run.env.payload.session_id or run.chat_id

    async def pipe(self, source: Any, *, abort_signal: AbortSignal | None = None) -> None:
        """Send an answer yourself; what `run` returns this turn is then not sent (N-24).

        Nothing is captured: the stored answer holds only what `chat.response.write` put there. A result is converted to
        chunks as it is by default: stream options are for what `run` returns. Send `result.to_ui_message_stream(…)` to
        have it otherwise.

        Args:
            source: an object with `to_ui_message_stream`, or an async iterable of chunks.
            abort_signal: ends the piping; by default the turn's own.

        Raises:
            TypeError: the source yields no chunks.
            Exception: what the source raised.
        """
        run = this_run("chat.pipe")
        signal = abort_signal
        if run.turn is not None:
            run.turn.pipe_count += 1
            signal = signal or run.turn.signal
        with run.observer.during(StreamWork()):
            await pipe_chunks(source, run.out.write, abort_signal=signal)

    def set_messages(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Replace the whole history; the same as `chat.history.set`."""
        self.history.set(messages)

    def defer(self, work: Awaitable[Any] | Callable[[], Awaitable[Any]]) -> None:
        """Let work run beside the turn; it is waited for, 5 seconds at most, before the completion hooks (N-40).

        Registered in `on_turn_complete` it runs while the run waits for the next message. Its failure is logged and
        changes nothing.

        Args:
            work: an awaitable, or a function that returns one and is called at once.

        Raises:
            TypeError: it is neither.
            ChatContextError: no turn is on; the work runs all the same, but nothing waits for it (G-41). Where the run
                is not strict this is a `RuntimeWarning`.
        """
        run = this_run("chat.defer")
        if not callable(work) and not inspect.isawaitable(work):
            raise TypeError(f"chat.defer takes an awaitable, or a function that returns one, not {work!r}")
        task = run.tasks.start(lambda: _deferred(work), name="deferred work")
        run.deferred = {each for each in run.deferred if not each.done} | {task}
        if run.turn is None:
            advice = "the work runs, but nothing waits for it before the run ends; call it from a hook of a turn"
            error = ChatContextError("chat.defer", needs="turn", advice=advice)
            if run.env.strict:
                raise error
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        elif run.turn.out_seq is None:
            run.turn.deferred.append(task)

    def inject(self, messages: Sequence[ModelMessage | Mapping[str, Any]], *, visible: bool = False) -> None:
        """Put model messages behind the conversation, for the model's eyes only (N-41).

        They join the model's messages before the next `run`, and never the history.

        Args:
            messages: the messages.
            visible: whether the clients of a service see them, as context of their run; the history still does not
                hold them. Only system and user messages of text can be seen, and only in a turn.

        Raises:
            InvalidPromptError: one of them is no model message; nothing was queued.
            ChatContextError: there is no run; or no turn is on that they could be seen in.
            InvalidArgumentError: one of them cannot be seen; nothing was queued.
        """
        run = this_run("chat.inject")
        parsed = parse_model_messages(messages)
        if visible:
            show_context(parsed, "chat.inject")
        run.state.background += parsed

    def end_run(self) -> None:
        """End the run behind this turn, once no message waits; the next message starts another (N-31)."""
        this_run("chat.end_run").state.end_run_requested = True

    def request_upgrade(self) -> None:
        """Let a newer version of the agent take over: before the model is asked, else behind this turn (N-31)."""
        this_run("chat.request_upgrade").state.upgrade_requested = True

    def is_stopped(self) -> bool:
        """Return whether the user has stopped this turn; `False` outside a turn (N-30)."""
        run = this_run("chat.is_stopped")
        return run.turn is not None and run.turn.stop.signal.aborted

    def set_turn_timeout(self, duration: Duration) -> None:
        """Set how long this run waits suspended for a message, from the next wait on (N-32)."""
        this_run("chat.set_turn_timeout").state.turn_timeout = to_seconds(duration)

    def set_idle_timeout(self, seconds: float) -> None:
        """Set how many seconds this run waits warm for a message, from the next wait on (N-32)."""
        this_run("chat.set_idle_timeout").state.idle_timeout = to_seconds(seconds, argument="seconds")

    def set_ui_message_stream_options(self, options: UIMessageStreamOptions) -> None:
        """Set options for the next conversion of an answer to chunks; they are forgotten behind it (N-60).

        Raises:
            InvalidArgumentError: these are no options by name.
        """
        run = this_run("chat.set_ui_message_stream_options")
        if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            problem = 'give options by name, such as {"send_reasoning": False}'
            raise InvalidArgumentError(argument="options", value=options, problem=problem)
        run.state.stream_options = options

    def local(self, schema: type[T], *, id: str) -> ChatLocal[T]:
        """Declare a record that belongs to a run (N-35).

        Args:
            schema: a pydantic model or another class whose attributes are the record's, or `dict`.
            id: names the record, uniquely in the project.
        """
        return ChatLocal(schema, id)

    async def sleep(self, seconds: float) -> None:
        """Wait so many seconds on the run's clock; on the system's outside a run.

        Args:
            seconds: how long; without end for `math.inf`, not at all below 0.

        Raises:
            InvalidArgumentError: it is no number.
        """
        if not isinstance(seconds, int | float) or seconds != seconds:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="a number of seconds")
        await current_clock().sleep(seconds)


async def _deferred(work: Awaitable[Any] | Callable[[], Awaitable[Any]]) -> None:
    try:
        outcome = work() if callable(work) else work
        if inspect.isawaitable(outcome):
            await outcome
    except Exception:  # the user's work
        logger.exception("deferred work failed")


chat = Chat()
"""Definitions of agents, and what user code calls while a run is on."""
