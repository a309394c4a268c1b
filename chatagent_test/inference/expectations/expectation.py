"""The handle of an expectation: waits for its phases, its barrier, and what to say when it was not met."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.errors import ExpectationError, InferenceTimeoutError, ServerClosedError
from chatagent_test.inference.expectations.calls import ExpectationPhase, Expected
from chatagent_test.inference.waiting import DEFAULT_TIMEOUT, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from chatagent_test.inference.waiting import Board

__all__ = ["Expectation", "PhaseWaits", "Surroundings"]

_LATE = (ExpectationPhase.BLOCKED, ExpectationPhase.SATISFIED)


class Surroundings:
    """What a handle has to know of the server that it belongs to."""

    def __init__(self, board: Board, is_closed: Callable[[], bool], summary: Callable[[], str]) -> None:
        self.board, self.is_closed, self.summary = board, is_closed, summary


class PhaseWaits:
    """Waits for how far one expectation, or the quickest of several, has come."""

    def __init__(self, surroundings: Surroundings, expected: Sequence[Expected]) -> None:
        self._surroundings = surroundings
        self._expected = tuple(expected)

    def diagnostic(self) -> str:
        """Return name and phase."""
        return "; ".join(each.diagnostic for each in self._expected)

    @property
    def is_satisfied(self) -> bool:
        """Whether it was answered to the end."""
        return any(each.is_satisfied for each in self._expected)

    async def wait_received(self, timeout: float = DEFAULT_TIMEOUT) -> None:  # noqa: ASYNC109 - as its sync twin
        """Wait until a request has claimed it.

        Args:
            timeout: real seconds, times `CHATAGENT_TEST_TIMEOUT_SCALE`.

        Raises:
            InferenceTimeoutError: none did in time.
            ExpectationError: the request that did has been cancelled, so that the phase never comes.
            ServerClosedError: the server was closed first.
        """
        await self._wait(_is_received, timeout)

    async def wait_blocked(self, timeout: float = DEFAULT_TIMEOUT) -> None:  # noqa: ASYNC109 - as its sync twin
        """Wait until its answer has come to the barrier, or is through; otherwise as `wait_received`."""
        await self._wait(_is_blocked, timeout)

    async def wait_satisfied(self, timeout: float = DEFAULT_TIMEOUT) -> None:  # noqa: ASYNC109 - as its sync twin
        """Wait until it has been answered to the end; otherwise as `wait_received`."""
        await self._wait(_is_satisfied, timeout)

    def wait_received_sync(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Block until a request has claimed it; as `wait_received`."""
        self._wait_sync(_is_received, timeout)

    def wait_blocked_sync(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Block until its answer has come to the barrier, or is through; as `wait_received`."""
        self._wait_sync(_is_blocked, timeout)

    def wait_satisfied_sync(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Block until it has been answered to the end; as `wait_received`."""
        self._wait_sync(_is_satisfied, timeout)

    def release(self) -> None:
        """Open the barrier; harmless if there is none, if it is open, or if nothing has come to it yet."""
        for each in self._expected:
            if each.barrier is not None:
                each.barrier.open()

    def assert_satisfied(self) -> None:
        """Raise `ExpectationError`, with name and phase, unless it was answered to the end."""
        if not self.is_satisfied:
            names = "; ".join(
                f"inference expectation `{each.name}` was not satisfied (state: {each.phase.value})"
                for each in self._expected
            )
            raise ExpectationError(names)

    async def _wait(self, reached: Callable[[Expected], bool], timeout: float) -> None:  # noqa: ASYNC109
        limit = scaled(timeout)
        in_time = await self._surroundings.board.wait(self._condition(reached), limit)
        self._check(reached, limit, in_time=in_time)

    def _wait_sync(self, reached: Callable[[Expected], bool], timeout: float) -> None:
        limit = scaled(timeout)
        in_time = self._surroundings.board.wait_sync(self._condition(reached), limit)
        self._check(reached, limit, in_time=in_time)

    def _condition(self, reached: Callable[[Expected], bool]) -> Callable[[], bool]:
        def is_over() -> bool:
            return self._is_reached(reached) or self._surroundings.is_closed() or self._is_hopeless()

        return is_over

    def _is_reached(self, reached: Callable[[Expected], bool]) -> bool:
        return any(reached(each) for each in self._expected)

    def _is_hopeless(self) -> bool:
        return all(each.cancelled or each.withdrawn for each in self._expected)

    def _check(self, reached: Callable[[Expected], bool], limit: float, *, in_time: bool) -> None:
        if self._is_reached(reached):
            return
        if not in_time:
            held = [line for each in self._expected for line in each.held()]
            log = self._surroundings.summary()
            raise InferenceTimeoutError(waited_for=self.diagnostic(), timeout=limit, log=log, held=held)
        if self._surroundings.is_closed():
            raise ServerClosedError(waited_for=self.diagnostic())
        raise ExpectationError(f"{self.diagnostic()}: cancelled, its client went away before the answer was through")


class Expectation(PhaseWaits):
    """One registered answer. Keep the handle: one that is collected opens its barrier.

    `with expectation:` and `close()` open the barrier, too. None of them takes the registration back.
    """

    def __init__(self, surroundings: Surroundings, expected: Expected) -> None:
        super().__init__(surroundings, [expected])
        self._one = expected
        if expected.barrier is not None:
            weakref.finalize(self, expected.barrier.open).atexit = False

    @property
    def name(self) -> str:
        """The name that it was registered under."""
        return self._one.name

    @property
    def phase(self) -> ExpectationPhase:
        """How far it has come."""
        return self._one.phase

    @property
    def claims(self) -> int:
        """How many requests got its answer, duplicates included."""
        return self._one.claims

    def times(self, count: int) -> Expectation:
        """Answer so many calls; it is satisfied when all have been answered.

        Raises:
            InvalidArgumentError: the count is no positive number, smaller than the sequence of answers, or comes too
                late, since the expectation has been claimed already.
        """
        if isinstance(count, bool) or count < 1:
            raise InvalidArgumentError(argument="count", value=count, problem="an expectation answers 1 call or more")
        return self._answer(count)

    def always(self) -> Expectation:
        """Answer every call that matches; it is satisfied by the first. Errors as for `times`."""
        return self._answer(None)

    def close(self) -> None:
        """Open the barrier."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.diagnostic()}>"

    def _answer(self, count: int | None) -> Expectation:
        with self._surroundings.board.lock:
            if self._one.calls:
                problem = f"`{self.name}` has been claimed already; say so where it is registered"
                raise InvalidArgumentError(argument="count", value=count, problem=problem)
            answers = len(self._one.answers)
            if count is not None and count < answers:
                raise InvalidArgumentError(argument="count", value=count, problem=f"there are {answers} answers")
            self._one.wanted = count
        return self


def _is_received(expected: Expected) -> bool:
    return expected.phase is not ExpectationPhase.PENDING


def _is_blocked(expected: Expected) -> bool:
    return expected.phase in _LATE


def _is_satisfied(expected: Expected) -> bool:
    return expected.is_satisfied
