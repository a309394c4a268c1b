"""What the harness sees of a run: hook calls, turns, records, and news for whoever waits.

A `RunObserver` and an observer of the store in one. It decides nothing; drivers look at it and wait for its news.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.agent import BootReport, HookCall, NullObserver, TurnReport
from chatagent.session import is_command
from chatagent.ui import TextDelta
from chatagent_test.harness.blocking import BlockingWatch
from chatagent_test.harness.news import News
from chatagent_test.harness.story import (
    Beat,
    ClientSent,
    ModelAsked,
    RunBegun,
    RunOver,
    RunSuspended,
    TurnBegun,
    TurnDone,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.session import Direction, Record
    from chatagent_test.harness.driven_run import DrivenRun
    from chatagent_test.harness.story import Happening, RunFate

__all__ = ["RunWatch", "SeenTurn", "Sent", "Streaming"]


@dataclass(slots=True)
class SeenTurn:
    """One turn or action, as far as it has come."""

    in_seq: int | None
    """Number of the `.in` record that it answers; `None` for the boot payload's."""
    first_out: int
    """Position on `.out` (among all records so far) at which it began."""
    report: TurnReport | None = None
    """From its turn-complete on; brought up to date when it has settled."""
    complete_at: int | None = None
    """Position on `.out` behind its turn-complete record."""
    settled_at: int | None = None
    """Position on `.out` at which it had settled."""
    hooks: list[HookCall] = field(default_factory=list[HookCall])
    died: bool = False
    """Whether its run ended before it was complete."""
    was_cut_off: bool = False
    """Whether its run ended behind its turn-complete, before it had settled by itself."""
    left: bool = False
    """Whether the run has gone on from it: waits, works on another, or has ended."""
    told: bool = False
    """Whether the test knows how it went: a driver has returned it, or its error was read."""


class RunWatch(NullObserver, News):
    """Sees the runs of one harness."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []
        """Everything on `.out` since the harness began, trim commands left out."""
        self.hooks: list[HookCall] = []
        self.turns: list[SeenTurn] = []
        self.story: list[Beat] = []
        """All of it in order, but for the records of `.out`."""
        self.blocking = BlockingWatch()
        self.boot = BootReport()
        self.has_booted = False
        self.is_waiting = False
        self.is_suspended = False
        self.upgrade = False
        self.ended = False
        self.on_boot: Callable[[], None] | None = None
        self._listeners: tuple[Callable[[Record], None], ...] = ()

    def listen(self, callback: Callable[[Record], None]) -> Callable[[], None]:
        """Call back with each record of `.out` as it is written; returns what ends that."""
        self._listeners = (*self._listeners, callback)

        def unsubscribe() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not callback)

        return unsubscribe

    def appended(self, session_id: str, direction: Direction, records: tuple[Record, ...]) -> None:
        """Take records that were appended to a channel of the session."""
        if direction == "out":
            for record in records:
                if record.headers and is_command(record):
                    continue
                self.records.append(record)
                for callback in self._listeners:
                    callback(record)
            if self._waiting:
                self.stir()
        else:
            for record in records:
                self._tell(ClientSent(record))

    def booted(self, report: BootReport) -> None:
        """See `RunObserver.booted`."""
        self.boot = report
        self.has_booted = True
        if self.on_boot is not None:
            on_boot, self.on_boot = self.on_boot, None
            on_boot()
        self.stir()

    def hook_started(self, call: HookCall) -> None:
        """See `RunObserver.hook_started`."""
        self.hooks.append(call)
        self.blocking.hook_started(call)
        self._tell(call)
        if call.turn is not None and self.turns:
            self.turns[-1].hooks.append(call)
        self.stir()

    def hook_ended(self, call: HookCall) -> None:
        """See `RunObserver.hook_ended`."""
        self.blocking.hook_ended(call)
        self.stir()

    def turn_started(self, turn: int, in_seq: int | None) -> None:
        """See `RunObserver.turn_started`."""
        self._leave_turn()
        self.turns.append(SeenTurn(in_seq, len(self.records)))
        self._tell(TurnBegun(turn))
        self.stir()

    def turn_completed(self, report: TurnReport) -> None:
        """See `RunObserver.turn_completed`."""
        turn = self.turns[-1]
        turn.report = report
        if turn.complete_at is None:
            turn.complete_at = len(self.records)
        self.stir()

    def turn_settled(self, report: TurnReport) -> None:
        """See `RunObserver.turn_settled`."""
        turn = self.turns[-1]
        turn.report, turn.settled_at = report, len(self.records)
        self._tell(TurnDone(report))

    def waiting(self, *, suspended: bool) -> None:
        """See `RunObserver.waiting`."""
        self._leave_turn()
        self.is_waiting, self.is_suspended = True, suspended
        if suspended:
            self._tell(RunSuspended())
        self.stir()

    def upgrade_requested(self) -> None:
        """See `RunObserver.upgrade_requested`."""
        self.upgrade = True

    def model_called(self, model: Any, options: Any) -> None:
        """See `RunObserver.model_called`."""
        self._tell(ModelAsked(model, options))

    def run_started(self, payload: Mapping[str, Any], fate: RunFate) -> None:
        """Take it that a run was started with this boot payload."""
        self._tell(RunBegun(payload, fate))

    def run_begins(self) -> None:
        """Take it that another run begins on the session."""
        self.has_booted = self.is_waiting = self.is_suspended = self.ended = False

    def run_ended(self) -> None:
        """Take it that the run is over."""
        is_on = bool(self.turns) and self.turns[-1].settled_at is None
        self._leave_turn()
        if self.turns:
            turn = self.turns[-1]
            turn.died = turn.complete_at is None and turn.settled_at is None
            turn.was_cut_off = is_on and turn.complete_at is not None
        self.ended = True
        self._tell(RunOver())
        self.stir()

    def _tell(self, what: Happening) -> None:
        self.story.append(Beat(len(self.records), what))

    def _leave_turn(self) -> None:
        self.is_waiting = self.is_suspended = False
        if self.turns:
            turn = self.turns[-1]
            turn.left = True
            if turn.settled_at is None and turn.report is not None:
                turn.settled_at = len(self.records)


class Sent:
    """A record that was sent, or is about to be, and the turn that answers it."""

    __slots__ = ("_position", "_turn", "_turns_before", "died", "refusal", "seq", "was_put")

    def __init__(self) -> None:
        self.was_put = False
        self.refusal: Exception | None = None
        """Why the log would not take the record; nothing was queued then."""
        self.died = False
        """Whether a turn had begun to answer it and died with its run."""
        self.seq: int | None = None
        """Its number; `None` for the message of the boot payload."""
        self._position = 0
        self._turns_before = 0
        self._turn: SeenTurn | None = None

    def put(self, seq: int | None, watch: RunWatch) -> None:
        """Take it that the record is on its channel under this number."""
        self.was_put, self.seq = True, seq
        self._position, self._turns_before = len(watch.records), len(watch.turns)

    @property
    def was_tried(self) -> bool:
        """Whether the record is on its channel, or was refused."""
        return self.was_put or self.refusal is not None

    def turn_in(self, watch: RunWatch) -> SeenTurn | None:
        """Return the turn that answers the record, once it has begun."""
        if self._turn is not None and self._turn.died:
            self.died, self._turn = True, None
        if self._turn is None and self.was_put:
            # From the turn on that was on when the record was put: its message may have been injected into that one.
            turns = watch.turns[max(self._turns_before - 1, 0) :]
            self._turn = next((turn for turn in turns if self._is_answered_by(turn)), None)
        return self._turn

    def _is_answered_by(self, turn: SeenTurn) -> bool:
        if turn.in_seq == self.seq:
            self.died = self.died or turn.died
            return turn.first_out >= self._position and not turn.died
        return turn.report is not None and self.seq in turn.report.injected_seqs

    def is_answered(self, watch: RunWatch, *, settled: bool) -> bool:
        """Return whether that turn is complete, or has settled too."""
        turn = self.turn_in(watch)
        if turn is None:
            return False
        return turn.settled_at is not None and turn.left if settled else turn.complete_at is not None

    def is_dropped(self, watch: RunWatch, run: DrivenRun) -> bool:
        """Return whether no turn will come of the record: the run needs it no more, and waits (G-25)."""
        is_done = watch.is_waiting and self.seq is not None and run.is_done_with(self.seq)
        return is_done and self.turn_in(watch) is None

    def is_abandoned(self, watch: RunWatch) -> bool:
        """Return whether the code of a custom agent has taken the record, and goes on without completing its turn."""
        turn = self.turn_in(watch)
        return turn is not None and turn.left and turn.complete_at is None and not watch.ended

    def is_over(self, watch: RunWatch, run: DrivenRun, *, settled: bool) -> bool:
        """Return whether there is nothing left to wait for."""
        if self.refusal is not None:
            return True
        return self.is_answered(watch, settled=settled) or self.is_dropped(watch, run) or self.is_abandoned(watch)

    def window_start(self, watch: RunWatch, turn: SeenTurn) -> int:
        """Return where the turn's chunks begin: at the send, or with the turn if another one was still on then."""
        position = watch.turns.index(turn)
        before = watch.turns[position - 1] if position else None
        overlapped = before is not None and (before.settled_at is None or before.settled_at > self._position)
        return turn.first_out if overlapped or turn.first_out < self._position else self._position


class Streaming:
    """Looks for text in what the turn that is on has streamed.

    Args:
        watch: sees the run.
        text: what the turn's text must contain; without it any chunk will do.
    """

    __slots__ = ("_pieces", "_text", "seen")

    def __init__(self, watch: RunWatch, text: str | None) -> None:
        self._text = text
        self._pieces: list[str] = []
        self.seen = False
        turn = watch.turns[-1] if watch.turns else None
        if turn is not None and not turn.left:
            for record in watch.records[turn.first_out :]:
                self.see(record)

    def see(self, record: Record) -> None:
        """Take one record."""
        if self.seen or record.data is None:
            return
        if self._text is None:
            self.seen = True
        elif isinstance(record.data, TextDelta):
            self._pieces.append(record.data.delta)
            self.seen = self._text in "".join(self._pieces)
