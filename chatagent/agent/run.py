"""One run of an agent: what it touches, what it remembers, and how it calls user code.

Everything comes from the run's environment, so that a harness, a server or a worker gives what it has, and nothing is
global (D1). The course of a run is in `boot.py` and `loop.py`.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio

from chatagent.agent.observer import HookCall, NullObserver, Observers, RunInfo, RunObserver, Telemetry
from chatagent.agent.questions import answers_in, question_chunk
from chatagent.agent.state import RunState, TurnState
from chatagent.agent.writer import ChunkWriter, response_part
from chatagent.current import current_run, working_on
from chatagent.errors import ChatContextError, ClientDataError
from chatagent.ids import IdGenerator, random_id
from chatagent.session.channel import Channel
from chatagent.session.output import RunOutput
from chatagent.session.writer import ChannelWriter
from chatagent.signals import AbortController
from chatagent.task.surroundings import TaskSurroundings
from chatagent.tasks import TaskSet, is_being_cancelled
from chatagent.timers import wait_until
from chatagent.ui import problem_of
from chatagent.waiting import Ledger, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chatagent.agent.definition import ChatAgent
    from chatagent.agent.stored_files import LoadFile
    from chatagent.agent.wire import Incoming, WirePayload
    from chatagent.clock import Clock
    from chatagent.session.store import Lease, SessionStore, SnapshotStore
    from chatagent.task import RunContext
    from chatagent.tasks import Around, OwnedTask
    from chatagent.ui import Chunk, UIMessage

__all__ = ["AgentRun", "RunEnvironment", "this_run", "this_turn"]

logger = logging.getLogger("chatagent")

DEFAULT_IDLE_TIMEOUT = 30.0
"""Seconds that a run waits warm for input, if neither agent nor payload say otherwise."""


@dataclass(kw_only=True)
class RunEnvironment:
    """Everything that a run touches. A harness, a transport and a server each make one."""

    payload: WirePayload
    """The boot payload."""
    lease: Lease
    """The right to be the session's live run; its epoch fences every write."""
    store: SessionStore
    snapshots: SnapshotStore
    clock: Clock
    context: RunContext
    """What hooks see as `event.ctx`."""
    new_id: IdGenerator = random_id
    local_values: dict[str, Any] = field(default_factory=dict[str, Any])
    observer: RunObserver = field(default_factory=NullObserver)
    telemetry: Telemetry | Literal["agent"] | None = "agent"
    """Watches the run beside `observer`: the agent's own, another in its place, or none."""
    cancel: AbortController = field(default_factory=AbortController)
    """Aborting it cancels the run: it ends by itself at the next place that looks."""
    ledger: Ledger = field(default_factory=Ledger)
    around_tasks: Around | None = None
    """Sees what the tasks of the run do, step by step."""
    mint_token: Callable[[], str] = str
    """Makes the access token that clients get with a turn; none by default."""
    partial_answer: UIMessage | None = None
    """A cut-off answer that the surroundings know of; instead of what the replay of `.out` finds."""
    partial_answer_raw: UIMessage | None = None
    """The same as it was streamed."""
    surroundings: TaskSurroundings | None = None
    """Those of the task that the run is a part of; its own by default."""
    load_file: LoadFile | None = None
    """Gives the bytes of a file that a message refers to by a `chatagent-file:` URL."""
    strict: bool = True
    """`False` restores what the reference does after a failing `on_turn_complete` (G-28), and makes deferring outside a
    turn a warning (G-41)."""


class AgentRun:
    """A run of an agent.

    Args:
        agent: what runs.
        env: what it touches.
    """

    def __init__(self, agent: ChatAgent[Any], env: RunEnvironment) -> None:
        self.agent, self.env, self.options = agent, env, agent.options
        self.clock, self.ledger, self.local_values = env.clock, env.ledger, env.local_values
        self.new_id, self.store = env.new_id, env.store
        self.surroundings = env.surroundings or TaskSurroundings(context=env.context)
        self.tasks = TaskSet(env.ledger, around=env.around_tasks)
        self.chat_id = env.payload.chat_id
        self.cancel_signal = env.cancel.signal
        self.observer = self._observer()
        self.in_ = Channel(self.chat_id, "in", store=env.store, clock=env.clock, tasks=self.tasks)
        writer = ChannelWriter(env.store, self.chat_id, "out", epoch=env.lease.epoch, tasks=self.tasks)
        self.out = RunOutput(writer)
        self.state = RunState()
        self.turn: TurnState | None = None
        self.turn_number = 0
        """The number of the turn that is on or comes next."""
        self.deferred: set[OwnedTask] = set()
        """Work that `chat.defer` has started in this run."""

    def _observer(self) -> RunObserver:
        """Return who sees the run: the observer of its surroundings, and telemetry if it is asked for."""
        telemetry = self.options.telemetry if self.env.telemetry == "agent" else self.env.telemetry
        if telemetry is None:
            return self.env.observer
        info = RunInfo(agent_id=self.agent.id, chat_id=self.chat_id, run_id=self.run_id, clock=self.clock)
        return Observers(self.env.observer, telemetry.observe(info))

    @property
    def load_file(self) -> LoadFile | None:
        """Gives the bytes of a stored file."""
        return self.env.load_file

    @property
    def in_turn(self) -> bool:
        """Whether a turn or action is on."""
        return self.turn is not None

    @property
    def continuation(self) -> bool:
        """Whether the run continues an earlier one (C-52)."""
        return self.env.payload.continuation is True

    @property
    def previous_run_id(self) -> str | None:
        """The run before, if the boot payload names one."""
        return self.env.payload.previous_run_id

    @property
    def preloaded(self) -> bool:
        """Whether the run was started ahead of the first message."""
        return self.env.payload.trigger == "preload"

    @property
    def run_id(self) -> str:
        """The run's id, as hooks see it."""
        return self.env.context.run.id

    @property
    def cancelled(self) -> bool:
        """Whether the run was asked to end."""
        return self.cancel_signal.aborted

    @property
    def idle_timeout(self) -> float:
        """Seconds to wait warm for input: what `chat.set_idle_timeout` said, the agent, the payload, or 30 (G-38)."""
        given = (self.state.idle_timeout, self.options.idle_timeout, self.env.payload.idle_timeout_in_seconds)
        return next((seconds for seconds in given if seconds is not None), DEFAULT_IDLE_TIMEOUT)

    @property
    def turn_timeout(self) -> float:
        """Seconds to wait suspended for input: what `chat.set_turn_timeout` said, or the agent."""
        return self.options.turn_timeout if self.state.turn_timeout is None else self.state.turn_timeout

    def new_turn(self, incoming: Incoming) -> TurnState:
        """Return the state of the turn that works a payload off, on the run's own lists and by the agent's options."""
        return TurnState(
            number=self.turn_number,
            incoming=incoming,
            messages=[],
            conversation=self.state.conversation,
            compaction_options=self.options.compaction,
            pending_options=self.options.pending_messages,
        )

    async def call(self, name: str, fn: Callable[[Any], Any], event: Any) -> Any:
        """Call user code with its event, sync or async, and let the observer see the call.

        Raises:
            RuntimeError: a cancellation came out of it that was not meant for the run.
            BaseException: what the user code raised.
        """
        call = self.begin_call(name, event)
        try:
            with self.observer.during(call), working_on(f"`{name}` of agent {self.agent.id!r}"):
                result = fn(event)
                if inspect.isawaitable(result):
                    result = await result
        except anyio.get_cancelled_exc_class() as exc:
            if is_being_cancelled():
                self.end_call(call, exc)
                raise
            problem = "nobody has cancelled the run; catch the cancellation of the task or future that it awaits"
            error = RuntimeError(f"`{name}` of agent {self.agent.id!r} ended by a cancellation: {problem}")
            self.end_call(call, error)
            raise error from exc
        except BaseException as exc:
            self.end_call(call, exc)
            raise
        self.end_call(call)
        return result

    def begin_call(self, name: str, event: Any) -> HookCall:
        """Let the observer see that user code is about to be called; `end_call` must follow."""
        turn = None if self.turn is None else self.turn.number
        call = HookCall(name=name, event=event, turn=turn, started_at=self.clock.now())
        self.observer.hook_started(call)
        return call

    def end_call(self, call: HookCall, error: BaseException | None = None) -> None:
        """Let the observer see that it has returned, or what it raised."""
        if error is None:
            call.outcome = "returned"
        elif isinstance(error, anyio.get_cancelled_exc_class()):
            call.outcome = "cancelled"
        else:
            call.outcome, call.error = "raised", error
        call.ended_at = self.clock.now()
        self.observer.hook_ended(call)

    def model_called(self, model: Any, options: Any) -> None:
        """See `CurrentRun.model_called`."""
        self.observer.model_called(model, options)

    async def hook(self, name: str, make_event: Callable[[], Any]) -> Any:
        """Call a hook if the agent has it; the event is made only then. Returns what the hook returned."""
        fn = self.agent.hook(name)
        return None if fn is None else await self.call(name, fn, make_event())

    async def writing_hook(
        self, name: str, make_event: Callable[[ChunkWriter], Any], *, joins_answer: bool = True
    ) -> Any:
        """Call a hook whose event has a writer; the writer is flushed behind it, also when it raised (E-10).

        Args:
            name: the hook.
            make_event: makes its event.
            joins_answer: whether data parts that it writes become parts of the stored answer (N-26).
        """
        fn = self.agent.hook(name)
        if fn is None:
            return None
        writer = ChunkWriter(self, joins_answer=joins_answer)
        try:
            return await self.call(name, fn, make_event(writer))
        finally:
            await writer.flush()

    def write_response_chunk(self, chunk: Chunk) -> None:
        """Write a chunk of user code's; a part that belongs into the answer is kept for it (N-22, N-26)."""
        part = response_part(chunk)
        self.out.write(chunk)  # first: a chunk that it refuses must not get into the answer
        if part is not None and self.turn is not None:
            self.turn.response_parts.append(part)

    def answers_of(self, tool_call_id: str) -> Mapping[str, object]:
        """Return the answers to the questions of a tool call, by the questions' names (MP-18)."""
        return answers_in(reversed(self.state.conversation.chain.items), tool_call_id)

    def ask_client(self, tool_call_id: str, name: str, shown: object) -> None:
        """Let a tool call wait for an answer of the client's (MP-17)."""
        self.out.write(question_chunk(tool_call_id, name, shown))

    def parse_client_data(self, payload: WirePayload) -> Any:
        """Return a payload's client data, parsed by the agent's schema (W-3).

        Raises:
            ClientDataError: it fails the schema.
        """
        try:
            return self.agent.parse_client_data(payload.metadata)
        except Exception as exc:  # a schema may be any function
            raise ClientDataError(agent_id=self.agent.id, value=payload.metadata, problem=problem_of(exc)) from exc

    async def settle_tasks(self, tasks: Iterable[OwnedTask], *, limit: float) -> None:
        """Wait until these tasks have ended, however they end, for at most `limit` seconds on the clock."""
        open_tasks = [task for task in tasks if not task.done]
        if not open_tasks:
            return
        waiter = Waiter("deferred work")

        async def join_all() -> None:
            for task in open_tasks:
                await task.join()
            waiter.wake()

        joiner = self.tasks.start(join_all, name="the wait for deferred work")
        try:
            if not await wait_until(waiter, self.clock, self.clock.now() + limit, kind="limit"):
                logger.warning(
                    "deferred work of agent %r took longer than %s s; the turn goes on", self.agent.id, limit
                )
        finally:
            await joiner.close()


def this_run(name: str) -> AgentRun:
    """Return the run that the caller works in.

    Args:
        name: what the caller called, for the error.

    Raises:
        ChatContextError: there is none.
    """
    run = current_run.get()
    if not isinstance(run, AgentRun):
        raise ChatContextError(name)
    return run


def this_turn(name: str) -> tuple[AgentRun, TurnState]:
    """Return the run and the turn that the caller works in.

    Raises:
        ChatContextError: there is no run, or no turn is on.
    """
    run = this_run(name)
    if run.turn is None:
        raise ChatContextError(name, needs="turn")
    return run, run.turn
