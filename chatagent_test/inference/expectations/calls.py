"""What was expected, which calls have claimed it, and where each of them stands. All of it under the server's lock.

A *call* is one logical call of the code under test: its first request, and the duplicates that overlap with it and get
the same answer. It is settled when none of its requests is being answered any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from chatagent_test.inference.steps import last_index
from chatagent_test.inference.waiting import Latch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent_test.inference.answers import Answer
    from chatagent_test.inference.expectations.matchers import RequestMatcher
    from chatagent_test.inference.faults import Fault
    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.scripted import ScriptedResponse, SseBody
    from chatagent_test.inference.timing import TimingProfile
    from chatagent_test.inference.waiting import Board

__all__ = ["BlockBefore", "Call", "Claim", "ExpectationPhase", "Expected", "Fingerprint"]

BlockBefore: TypeAlias = Literal["last", "terminal"] | int
"""The frame in front of which a stream waits: the last, the one that ends the answer in meaning, or one by index."""

Fingerprint: TypeAlias = tuple[object, ...]


class ExpectationPhase(Enum):
    """How far an expectation has come."""

    PENDING = "Pending"
    RECEIVED = "Received"
    BLOCKED = "Blocked"
    SATISFIED = "Satisfied"


@dataclass(eq=False)
class Expected:
    """One registration."""

    name: str
    matcher: RequestMatcher
    answers: Sequence[Answer]
    barrier: Latch | None = None
    block_before: BlockBefore = "last"
    registered_after: int = 0
    """How many requests had arrived before."""
    wanted: int | None = 1
    """How many calls it answers; `None` answers any number, and wants one."""
    phase: ExpectationPhase = ExpectationPhase.PENDING
    calls: int = 0
    claims: int = 0
    done: int = 0
    """Calls that have been answered to the end."""
    active: int = 0
    """Requests being answered."""
    cancelled: bool = False
    """A client went away before its answer was through, so that this can never be satisfied."""
    withdrawn: bool = False
    waiting: list[LogEntry] = field(default_factory=list["LogEntry"])
    """Requests that wait at the barrier."""
    on_satisfied: Callable[[], None] | None = None
    timing: TimingProfile | None = None
    fault: Fault | None = None

    @property
    def is_pending(self) -> bool:
        """Whether another call may claim it."""
        return not self.withdrawn and (self.wanted is None or self.calls < self.wanted)

    @property
    def is_in_use(self) -> bool:
        """Whether its name is taken."""
        return self.is_pending or self.active > 0

    @property
    def is_satisfied(self) -> bool:
        """Whether all calls that it wants have been answered."""
        return self.phase is ExpectationPhase.SATISFIED

    @property
    def diagnostic(self) -> str:
        """Name and phase."""
        return f"inference expectation `{self.name}` (state: {self.phase.value})"

    def altered(self, response: ScriptedResponse) -> ScriptedResponse:
        """Return an answer at this expectation's pace, and with its fault."""
        if self.timing is not None:
            response = self.timing.apply(response)
        return response if self.fault is None else self.fault.apply(response)

    def held(self) -> list[str]:
        """Return a line for each request that waits at the barrier."""
        return [
            f"request [{entry.index}] {entry.line} waits at the barrier of `{self.name}`, which `release()` opens"
            for entry in self.waiting
        ]

    def call_done(self) -> None:
        """Count one call as answered."""
        self.done += 1
        if self.done >= (self.wanted or 1) and not self.is_satisfied:
            self.phase = ExpectationPhase.SATISFIED
            if self.on_satisfied is not None:
                self.on_satisfied()


@dataclass(eq=False)
class Call:
    """One claimed call."""

    expected: Expected
    number: int
    fingerprint: Fingerprint | None
    active: int = 0
    crossed: bool = False
    counted: bool = False
    response: ScriptedResponse | None = None
    """What the first request was answered with; its duplicates get the same."""
    answered: Latch = field(default_factory=Latch)
    """Opens when `response` is there, or never will be."""


class Claim:
    """One request's part in a call; the gate that its answer goes through."""

    def __init__(self, call: Call, entry: LogEntry, board: Board, settled: Callable[[Call], None]) -> None:
        self.call = call
        self.is_primary = call.active == 0 and not call.crossed
        self._entry, self._board, self._settled = entry, board, settled
        call.active += 1
        call.expected.claims += 1
        call.expected.active += 1

    @property
    def name(self) -> str:
        """How the log names what answers."""
        return f"{'expectation' if self.is_primary else 'replay'}:{self.call.expected.name}"

    @property
    def may_hold(self) -> bool:
        """Whether there is a barrier."""
        return self.call.expected.barrier is not None

    def hold_index(self, body: SseBody) -> int:
        """Return the frame in front of which the barrier stands."""
        before = self.call.expected.block_before
        last = last_index(body)
        if before == "last":
            return last
        if before == "terminal":
            found = body.terminal_index
            return last if found is None else found
        return min(before, len(body.frames))

    def arrive(self) -> Latch | None:
        """Come to the barrier; only the first request of a call blocks its expectation."""
        expected = self.call.expected
        with self._board.lock:
            if expected.barrier is None or expected.barrier.is_open:
                return None
            expected.waiting.append(self._entry)
            if self.is_primary and not expected.is_satisfied:
                expected.phase = ExpectationPhase.BLOCKED
            self._board.changed()
            return expected.barrier

    def cross(self) -> None:
        """Pass the barrier: the end of the answer is on its way."""
        with self._board.lock:
            self._leave_barrier()
            if not self.is_primary:
                return
            self.call.crossed = True
            if self.call.fingerprint is None:
                self._count()

    def leave(self) -> None:
        """End this request's answer, however it ended."""
        call, expected = self.call, self.call.expected
        with self._board.lock:
            self._leave_barrier()
            call.active -= 1
            expected.active -= 1
            if self.is_primary and not call.crossed and expected.wanted is not None:
                expected.cancelled = True
            if call.active == 0:
                self._settled(call)
                if call.crossed:
                    self._count()
            self._board.changed()

    def _leave_barrier(self) -> None:
        if self._entry in self.call.expected.waiting:
            self.call.expected.waiting.remove(self._entry)

    def _count(self) -> None:
        if not self.call.counted:
            self.call.counted = True
            self.call.expected.call_done()
            self._board.changed()
