"""What surroundings may see of a run while it works: hook calls, turns, waits. The harness listens here; so may you.

An observer is told; it cannot change anything, and its own failures are its own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from chatagent.agent.work import Work
    from chatagent.clock import Clock
    from chatagent.model import LanguageModelUsage
    from chatagent.ui import UIMessage

__all__ = [
    "BootReport",
    "HookCall",
    "NullObserver",
    "Observers",
    "RunInfo",
    "RunObserver",
    "Telemetry",
    "TurnReport",
]


@dataclass(slots=True, kw_only=True, repr=False)
class HookCall:
    """One call of one hook (or of `run`, or of a `tools` function)."""

    name: str
    event: Any
    """What the hook received."""
    turn: int | None
    """Zero-based within the run; `None` before the first turn."""
    started_at: float
    """Instant on the run's clock."""
    ended_at: float | None = None
    """Instant on the run's clock; `None` while the hook is at work."""
    outcome: Literal["returned", "raised", "cancelled"] | None = None
    """`cancelled`: the run ended while the hook was at work. `None` while it is."""
    error: BaseException | None = None
    """What it raised."""

    def __repr__(self) -> str:
        how = self.outcome or "at work"
        return (
            f"HookCall({self.name}, turn={self.turn}, {how})"
            if self.error is None
            else (f"HookCall({self.name}, turn={self.turn}, {how} {self.error!r})")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """How one turn (or action) went, told once it has settled."""

    turn: int
    """Zero-based within the run; of an action, the number of the turn that comes next."""
    is_action: bool
    in_seq: int | None
    """Number of the `.in` record that it answers; `None` for the boot payload's."""
    out_seq: int | None
    """Number of its turn-complete record; `None` if it had none."""
    response: UIMessage | None
    error: BaseException | None
    """What failed the turn."""
    stream_error: object
    """What went wrong inside the model's stream, which told the client of it and went on to its end."""
    finish_reason: str | None
    stopped: bool
    injected_seqs: tuple[int, ...] = ()
    """Numbers of the `.in` records whose messages reached the model inside this turn; no turn of their own comes."""
    usage: LanguageModelUsage | None = None
    """What the turn took, if the model told."""
    total_usage: LanguageModelUsage | None = None
    """What all turns of the run so far took."""
    chain: Sequence[UIMessage] = ()
    """The conversation as it stands, as the run has it: the run's own messages, shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootReport:
    """What a run found when it booted."""

    snapshot_found: bool = False
    settled_messages: tuple[UIMessage, ...] = ()
    """The chain before any recovery."""
    in_flight_users: tuple[UIMessage, ...] = ()
    partial_assistant: UIMessage | None = None
    recovered_turns: tuple[UIMessage, ...] = ()
    """User messages that the boot dispatches again, in order."""
    suppressed: tuple[UIMessage, ...] = ()
    """In-flight user messages that the recovery hook left out (G-36)."""


class RunObserver(Protocol):
    """Sees a run at work."""

    def booted(self, report: BootReport) -> None:
        """The past was read; told once more when what becomes of it is decided."""
        ...

    def hook_started(self, call: HookCall) -> None:
        """A hook is about to be called."""
        ...

    def hook_ended(self, call: HookCall) -> None:
        """It returned, raised, or was cancelled."""
        ...

    def turn_started(self, turn: int, in_seq: int | None) -> None:
        """A payload was taken, and work on it begins."""
        ...

    def turn_completed(self, report: TurnReport) -> None:
        """The turn-complete record is written; hooks and the snapshot are still to come."""
        ...

    def turn_settled(self, report: TurnReport) -> None:
        """All of the turn is done: hooks, overrides, snapshot."""
        ...

    def waiting(self, *, suspended: bool) -> None:
        """Nothing is left to do; the run waits for input, warm or suspended."""
        ...

    def upgrade_requested(self) -> None:
        """The run asks to be continued by a newer version."""
        ...

    def model_called(self, model: Any, options: Any) -> None:
        """A `LanguageModel` is about to be asked with these `CallOptions`; each try of a retry counts."""
        ...

    def noted(self, facts: Mapping[str, object]) -> None:
        """Something is known of the turn that is on, such as the prompt that its model is asked with."""
        ...

    def during(self, work: Work | HookCall) -> AbstractContextManager[object]:
        """Return what is entered as a piece of work begins, and left, with its exception if it has one, as it ends.

        Both happen in the task that does the work, so context variables may be set and reset; only a turn that
        `is_open_ended` is left elsewhere. A hook call is entered for as long as user code runs: between `hook_started`
        and `hook_ended`, and once more if what it returned is awaited in another task. The exception must pass on.
        """
        ...


_NOTHING = nullcontext()


class NullObserver:
    """Sees nothing; the default, and a base for observers that care about a few things."""

    def booted(self, report: BootReport) -> None:
        """See `RunObserver.booted`."""

    def hook_started(self, call: HookCall) -> None:
        """See `RunObserver.hook_started`."""

    def hook_ended(self, call: HookCall) -> None:
        """See `RunObserver.hook_ended`."""

    def turn_started(self, turn: int, in_seq: int | None) -> None:
        """See `RunObserver.turn_started`."""

    def turn_completed(self, report: TurnReport) -> None:
        """See `RunObserver.turn_completed`."""

    def turn_settled(self, report: TurnReport) -> None:
        """See `RunObserver.turn_settled`."""

    def waiting(self, *, suspended: bool) -> None:
        """See `RunObserver.waiting`."""

    def upgrade_requested(self) -> None:
        """See `RunObserver.upgrade_requested`."""

    def model_called(self, model: Any, options: Any) -> None:
        """See `RunObserver.model_called`."""

    def noted(self, facts: Mapping[str, object]) -> None:
        """See `RunObserver.noted`."""

    def during(self, work: Work | HookCall) -> AbstractContextManager[object]:
        """See `RunObserver.during`."""
        return _NOTHING


class Observers:
    """Several observers as one; each is told in the order given.

    Args:
        observers: those that are told.
    """

    def __init__(self, *observers: RunObserver) -> None:
        self._observers = observers

    def booted(self, report: BootReport) -> None:
        """See `RunObserver.booted`."""
        for each in self._observers:
            each.booted(report)

    def hook_started(self, call: HookCall) -> None:
        """See `RunObserver.hook_started`."""
        for each in self._observers:
            each.hook_started(call)

    def hook_ended(self, call: HookCall) -> None:
        """See `RunObserver.hook_ended`."""
        for each in self._observers:
            each.hook_ended(call)

    def turn_started(self, turn: int, in_seq: int | None) -> None:
        """See `RunObserver.turn_started`."""
        for each in self._observers:
            each.turn_started(turn, in_seq)

    def turn_completed(self, report: TurnReport) -> None:
        """See `RunObserver.turn_completed`."""
        for each in self._observers:
            each.turn_completed(report)

    def turn_settled(self, report: TurnReport) -> None:
        """See `RunObserver.turn_settled`."""
        for each in self._observers:
            each.turn_settled(report)

    def waiting(self, *, suspended: bool) -> None:
        """See `RunObserver.waiting`."""
        for each in self._observers:
            each.waiting(suspended=suspended)

    def upgrade_requested(self) -> None:
        """See `RunObserver.upgrade_requested`."""
        for each in self._observers:
            each.upgrade_requested()

    def model_called(self, model: Any, options: Any) -> None:
        """See `RunObserver.model_called`."""
        for each in self._observers:
            each.model_called(model, options)

    def noted(self, facts: Mapping[str, object]) -> None:
        """See `RunObserver.noted`."""
        for each in self._observers:
            each.noted(facts)

    @contextmanager
    def during(self, work: Work | HookCall) -> Generator[None]:
        """See `RunObserver.during`."""
        with ExitStack() as stack:
            for each in self._observers:
                stack.enter_context(each.during(work))
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What is known of a run before it boots."""

    agent_id: str
    chat_id: str
    run_id: str
    clock: Clock
    """The run's clock, on which all its instants lie."""


class Telemetry(Protocol):
    """Watches runs for those who operate them; `chatagent.telemetry.OpenTelemetry` is one."""

    def observe(self, run: RunInfo) -> RunObserver:
        """Return what sees this run at work, beside the observer of its surroundings."""
        ...
