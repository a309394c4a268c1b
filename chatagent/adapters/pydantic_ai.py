"""Agents of pydantic-ai: what they say and do becomes chunks, the conversation becomes their history.

The chunks are those that pydantic-ai makes for Vercel AI clients, brought into the contract of a `Streamable` (rule
1.16); how a stream begins, stops and ends is `driving.py`'s business. This is the one module that imports pydantic-ai,
which runs on asyncio only. Needs the extra `chatagent[pydantic-ai]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, cast

from chatagent.adapters.driving import DrivenStream, Feed
from chatagent.adapters.pydantic_ai_history import history_of
from chatagent.current import current_new_id
from chatagent.errors import AbortError, InvalidArgumentError, MissingExtraError
from chatagent.generate import Later
from chatagent.model import (
    InputTokenDetails,
    LanguageModelUsage,
    ModelMessage,
    OutputTokenDetails,
    convert_to_model_messages_async,
    parse_model_messages,
)
from chatagent.ui import (
    FinishStep,
    MessageMetadata,
    ReasoningDelta,
    StartStep,
    TextDelta,
    ToolInputDelta,
    UIMessage,
    parse_chunk,
)
from chatagent.waiting import Gate

try:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, sanitize_messages
    from pydantic_ai.tools import DeferredToolResults, ToolDenied
    from pydantic_ai.ui.vercel_ai import VercelAIEventStream
    from pydantic_ai.ui.vercel_ai import response_types as chunks
except ImportError as exc:
    raise MissingExtraError(package="pydantic-ai-slim", extra="pydantic-ai") from exc

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent, AgentRunEvents, AgentRunResult
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage as HistoryMessage
    from pydantic_ai.models import KnownModelName, Model
    from pydantic_ai.output import OutputSpec
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.usage import RunUsage, UsageLimits

    from chatagent.generate import UIMessageStreamOptions
    from chatagent.ids import IdGenerator
    from chatagent.signals import AbortSignal
    from chatagent.ui import JSONObject

__all__ = ["PydanticAIRunOptions", "PydanticAIStream", "TurnEvent"]

DepsT = TypeVar("DepsT")

Messages: TypeAlias = Sequence[UIMessage | ModelMessage | Mapping[str, object]]
"""UI messages, or messages for a model; dicts are in wire form."""


class TurnEvent(Protocol):
    """What is needed of the event that `run` receives."""

    @property
    def messages(self) -> Sequence[ModelMessage]:
        """The conversation, ready for the model."""
        ...

    @property
    def signal(self) -> AbortSignal:
        """Aborted when the turn is to end."""
        ...


class PydanticAIRunOptions(TypedDict, total=False):
    """What a run of an agent of pydantic-ai can be told beside the conversation; see its `Agent.run`."""

    model: Model | KnownModelName | str
    instructions: str | Sequence[str]
    """Beside the agent's own."""
    output_type: OutputSpec[Any]
    model_settings: ModelSettings
    usage_limits: UsageLimits
    toolsets: Sequence[AbstractToolset[Any]]
    capabilities: Sequence[AbstractCapability[Any]]
    metadata: dict[str, Any]
    conversation_id: str
    timeout: float
    """Real seconds that the whole run may take."""


class PydanticAIStream(Generic[DepsT]):
    """One run of an agent of pydantic-ai, as what `run` of a chat agent may return (a `Streamable`).

    The agent is run when the stream is read, with the conversation as its history, and only once. Its system prompts
    stand in front of the history, its tools are shown as tool calls. A tool that needs approval ends the run with an
    approval request, if the agent's output type has `DeferredToolRequests`; the answer begins the next one.

    Args:
        agent: the agent.
        event: the event that `run` received: its messages are answered, its signal stops the agent.
        deps: the agent's dependencies.
        messages: answered in place of the event's: messages for a model, or UI messages.
        abort_signal: stops the agent in place of the event's.
        allowed_file_url_schemes: schemes of the files by URL that stay in the history; others, such as `s3`, a provider
            may fetch with rights of the server that the client does not have.
        allow_uploaded_files: whether files by a provider's reference stay, which is fetched with such rights, too.
        **options: see `PydanticAIRunOptions`.

    Raises:
        InvalidArgumentError: there is neither an event nor messages.
    """

    def __init__(
        self,
        agent: AbstractAgent[DepsT, Any],
        event: TurnEvent | None = None,
        *,
        deps: DepsT = None,
        messages: Messages | None = None,
        abort_signal: AbortSignal | None = None,
        allowed_file_url_schemes: Collection[str] = ("http", "https"),
        allow_uploaded_files: bool = False,
        **options: Unpack[PydanticAIRunOptions],
    ) -> None:
        if messages is None and event is None:
            problem = "give the event that `run` received, or messages"
            raise InvalidArgumentError(argument="messages", value=None, problem=problem)
        self._agent, self._deps, self._options = agent, deps, options
        self._messages: Messages = event.messages if event is not None and messages is None else messages or ()
        self._signal = event.signal if event is not None and abort_signal is None else abort_signal
        self._allowed_schemes, self._allow_uploaded_files = allowed_file_url_schemes, allow_uploaded_files
        self._is_streamed = False
        self._outcome = _Outcome()

    def to_ui_message_stream(self, **options: Unpack[UIMessageStreamOptions]) -> DrivenStream:
        """Return the chunks of the run.

        Args:
            **options: see `UIMessageStreamOptions`. `message_metadata` is called for the start and the finish only, as
                there are no other parts.

        Returns:
            The stream, to be read once: with `async for`, or with its method `pump`. What goes wrong is shown in it, in
            an `error` chunk.

        Raises:
            RuntimeError: the run has been streamed already, or the event loop is not asyncio's.
        """
        if self._is_streamed:
            raise RuntimeError("a PydanticAIStream is one run of its agent, and can be streamed once; make another")
        _require_asyncio()
        stream = DrivenStream(
            self._drive,
            name="an agent of pydantic-ai",
            abort_signal=self._signal,
            on_settled=self._outcome.abandon,
            options=options,
        )
        self._is_streamed = True
        return stream

    @property
    def result(self) -> Later[AgentRunResult[Any]]:
        """What pydantic-ai gives as the result of the run: its output, its messages.

        Awaiting it runs the agent, if nobody streams it. It raises what kept the run from a result: an `AbortError`, or
        what went wrong in it.
        """
        return Later(lambda: self._settled().__await__())

    @property
    def total_usage(self) -> Later[LanguageModelUsage]:
        """The usage of all model calls of the run together; awaiting it is like awaiting `result`."""

        async def read() -> LanguageModelUsage:
            return _usage_of((await self._settled()).usage)

        return Later(lambda: read().__await__())

    async def _settled(self) -> AgentRunResult[Any]:
        if not self._is_streamed:
            async with aclosing(self.to_ui_message_stream()) as stream:
                async for _ in stream:
                    pass
        return await self._outcome.wait()

    async def _drive(self, feed: Feed) -> None:
        try:
            await self._run(feed)
        except Exception as exc:
            self._outcome.reject(exc)
            raise

    async def _run(self, feed: Feed) -> None:
        """Run the agent, and hand over what comes of it."""
        history, answers = await self._history()
        events = self._agent.run_stream_events(
            message_history=history, deferred_tool_results=answers, deps=self._deps, infer_name=False, **self._options
        )
        source = _EventStream(current_new_id())
        async with events as run:
            take = _Translation(feed, source, run).take
            made = cast("AsyncGenerator[chunks.BaseChunk]", source.transform_stream(run))  # annotated as an iterator
            async with aclosing(made):
                async for chunk in made:
                    take(chunk)
        if source.error is not None:
            self._outcome.reject(source.error)
        elif run.result is not None:
            self._outcome.resolve(run.result)

    async def _history(self) -> tuple[list[HistoryMessage], DeferredToolResults | None]:
        """Return the conversation as pydantic-ai keeps it, and the answers to its questions that are new."""
        history = history_of(await _model_messages(self._messages))
        messages = sanitize_messages(
            ModelMessagesTypeAdapter.validate_python(history.messages),
            strip_system_prompts=False,  # those that are there are the server's (D13)
            allowed_file_url_schemes=self._allowed_schemes,
            allow_uploaded_files=self._allow_uploaded_files,
            resolved_tool_call_ids=history.approvals,
        )
        # With a history, an agent takes its system prompts to be in there already.
        prompts = await self._agent.system_prompt_parts(
            deps=self._deps, model=self._options.get("model"), message_history=messages
        )
        if prompts:
            messages.insert(0, ModelRequest(parts=prompts))
        if not history.approvals:
            return messages, None
        return messages, DeferredToolResults(
            approvals={
                call_id: ToolDenied(answer) if isinstance(answer, str) else answer
                for call_id, answer in history.approvals.items()
            }
        )


class _Outcome:
    """What a run has come to, for everybody who awaits it."""

    def __init__(self) -> None:
        self._gate = Gate("the end of an agent of pydantic-ai")
        self._result: AgentRunResult[Any] | None = None
        self._error: Exception | None = None

    def resolve(self, result: AgentRunResult[Any]) -> None:
        if not self._gate.is_open:
            self._result = result
            self._gate.open()

    def reject(self, error: Exception) -> None:
        if not self._gate.is_open:
            self._error = error
            self._gate.open()

    def abandon(self, reason: object) -> None:
        """Settle a run that was stopped before it came to anything."""
        self.reject(AbortError(reason))

    async def wait(self) -> AgentRunResult[Any]:
        await self._gate.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


class _EventStream(VercelAIEventStream[Any, Any]):
    """What pydantic-ai makes of a run for Vercel AI clients, with ids of ours, and the error itself beside its text."""

    def __init__(self, new_id: IdGenerator) -> None:
        super().__init__(sdk_version=7)
        self._new_id = new_id
        self.error: Exception | None = None

    def new_message_id(self) -> str:
        self.message_id = self._new_id()
        return self.message_id

    async def on_error(self, error: Exception) -> AsyncIterator[chunks.BaseChunk]:
        self.error = error
        async for chunk in super().on_error(error):
            yield chunk


class _Translation:
    """Hands the chunks of pydantic-ai over, as chunks of ours.

    Args:
        feed: takes them.
        source: makes them.
        run: the run that they are made of.
    """

    def __init__(self, feed: Feed, source: _EventStream, run: AgentRunEvents[Any]) -> None:
        self._feed, self._source, self._run = feed, source, run
        self._has_steps = False

    def take(self, chunk: chunks.BaseChunk) -> None:
        """Hand over a chunk. Dispatch by type costs a text delta one look-up."""
        take = self._TABLE.get(type(chunk))
        if take is None:
            self._feed.write(parse_chunk(_wire_of(chunk), allow_unknown=True))
        else:
            take(self, chunk)

    def _nothing(self, _chunk: chunks.BaseChunk) -> None:
        return None

    def _start_step(self, _chunk: chunks.StartStepChunk) -> None:
        self._has_steps = True
        self._feed.write(StartStep())

    def _finish_step(self, _chunk: chunks.FinishStepChunk) -> None:
        if self._has_steps:
            self._feed.write(FinishStep())

    def _text_delta(self, chunk: chunks.TextDeltaChunk) -> None:
        self._feed.write(TextDelta(chunk.id, chunk.delta))

    def _reasoning_delta(self, chunk: chunks.ReasoningDeltaChunk) -> None:
        # Without its metadata: half a signature would be taken for a whole one if the stream ended here.
        self._feed.write(ReasoningDelta(chunk.id, chunk.delta))

    def _tool_input_delta(self, chunk: chunks.ToolInputDeltaChunk) -> None:
        self._feed.write(ToolInputDelta(chunk.tool_call_id, chunk.input_text_delta))

    def _metadata(self, chunk: chunks.MessageMetadataChunk) -> None:
        """Hand over what the application has noted; the time of pydantic-ai's own clock is nobody's business."""
        noted = {key: value for key, value in chunk.message_metadata.items() if key != "pydantic_ai"}
        if noted:
            self._feed.write(MessageMetadata(noted))

    def _error(self, chunk: chunks.ErrorChunk) -> None:
        self._feed.fail(self._source.error or RuntimeError(chunk.error_text))

    def _abort(self, chunk: chunks.AbortChunk) -> None:
        self._feed.abort(chunk.reason)

    def _finish(self, chunk: chunks.FinishChunk) -> None:
        result = self._run.result
        if result is not None or self._has_steps:
            usage = LanguageModelUsage() if result is None else _usage_of(result.usage)
            self._feed.finish(chunk.finish_reason, usage)

    _TABLE: ClassVar[dict[type, Callable[[_Translation, Any], None]]] = {
        chunks.StartChunk: _nothing,
        chunks.StartStepChunk: _start_step,
        chunks.FinishStepChunk: _finish_step,
        chunks.TextDeltaChunk: _text_delta,
        chunks.ReasoningDeltaChunk: _reasoning_delta,
        chunks.ToolInputDeltaChunk: _tool_input_delta,
        chunks.MessageMetadataChunk: _metadata,
        chunks.ErrorChunk: _error,
        chunks.AbortChunk: _abort,
        chunks.FinishChunk: _finish,
        chunks.DoneChunk: _nothing,
    }
    """What takes a chunk, by its type; all others keep their wire form."""


_NULL_IS_A_VALUE = frozenset({"input", "output", "data"})


def _wire_of(chunk: chunks.BaseChunk) -> JSONObject:
    """Return a chunk's wire form: there is no telling there `null` from absent, and clients want the latter."""
    wire = cast("JSONObject", chunk.model_dump(mode="json", by_alias=True))
    return {key: value for key, value in wire.items() if value is not None or key in _NULL_IS_A_VALUE}


def _usage_of(usage: RunUsage) -> LanguageModelUsage:
    cached, thought = usage.cache_read_tokens + usage.cache_write_tokens, usage.output_reasoning_tokens
    return LanguageModelUsage(
        input_tokens=usage.input_tokens,
        input_token_details=InputTokenDetails(
            no_cache_tokens=usage.input_tokens - cached,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        ),
        output_tokens=usage.output_tokens,
        output_token_details=OutputTokenDetails(text_tokens=usage.output_tokens - thought, reasoning_tokens=thought),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )


async def _model_messages(messages: Messages) -> list[ModelMessage]:
    if any(_is_ui_message(message) for message in messages):
        given = cast("Sequence[UIMessage | Mapping[str, object]]", messages)
        return await convert_to_model_messages_async(given, ignore_incomplete_tool_calls=True)
    return parse_model_messages(messages)


def _is_ui_message(message: object) -> bool:
    return isinstance(message, UIMessage) or (isinstance(message, Mapping) and "parts" in message)


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("pydantic-ai runs on asyncio only, and the running event loop is another") from None
