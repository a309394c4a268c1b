"""What the server is told to answer: expectations, queues, turns, and the holds of scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.answers import Answer, checked_answers
from chatagent_test.inference.checks import need
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.errors import ExpectationError, InferenceTimeoutError, ServerClosedError
from chatagent_test.inference.expectations.agent_turn import AgentTurnExpectation
from chatagent_test.inference.expectations.calls import BlockBefore, Expected
from chatagent_test.inference.expectations.expectation import Expectation, Surroundings
from chatagent_test.inference.expectations.matchers import RequestMatcher
from chatagent_test.inference.faults import Fault
from chatagent_test.inference.formats import text_response
from chatagent_test.inference.timing import TimingProfile
from chatagent_test.inference.waiting import DEFAULT_TIMEOUT, Latch, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent_test.inference.server.core import Core

__all__ = ["Expecting"]

_SIDES = {
    InferenceEndpoint.RESPONSES: "responses",
    InferenceEndpoint.CHAT_COMPLETIONS: "chat completions",
    InferenceEndpoint.MESSAGES: "messages",
}
_BOTH = (InferenceEndpoint.RESPONSES, InferenceEndpoint.CHAT_COMPLETIONS)


class Expecting:
    """Registers answers. All of it is checked at once, and safe to call from any thread."""

    _core: Core

    def expect_response(
        self,
        name: str,
        matcher: RequestMatcher,
        response: Answer | Sequence[Answer],
        *,
        timing: TimingProfile | None = None,
        fault: Fault | None = None,
    ) -> Expectation:
        """Answer the first request that matches with this response.

        Args:
            name: for messages; it must not be that of an expectation that is pending or being answered.
            matcher: which requests are meant.
            response: a `ScriptedResponse`, a script of what the model says, a function of the log entry that returns
                one of them (sync, or async and run on the server's own asyncio loop), or a list of these, one a call.
            timing: the pace of a stream.
            fault: what breaks the answer.

        Returns:
            The handle. Keep it if it has a barrier: a collected handle opens it.

        Raises:
            InvalidArgumentError: the response or the matcher is none; the name stays free.
            DuplicateExpectationError: the name is in use.
            ServerClosedError: the server is closed.
        """
        expected = self._expected(name, matcher, response, timing, fault)
        return self._registered(expected)

    def expect_response_blocked(
        self,
        name: str,
        matcher: RequestMatcher,
        response: Answer | Sequence[Answer],
        *,
        block_before: BlockBefore = "last",
        timing: TimingProfile | None = None,
        fault: Fault | None = None,
    ) -> Expectation:
        """Do the same, and hold the answer at a barrier until `release()`.

        A stream waits in front of its last frame, all else before its head.

        Args:
            name: as for `expect_response`.
            matcher: as for `expect_response`.
            response: as for `expect_response`.
            block_before: `"terminal"` holds a stream before the frame that ends the answer in meaning, a number before
                the frame of that index.
            timing: as for `expect_response`.
            fault: as for `expect_response`.
        """
        is_index = isinstance(block_before, int) and not isinstance(block_before, bool) and block_before >= 0
        if not is_index and block_before not in ("last", "terminal"):
            problem = "it is 'last', 'terminal' or the index of a frame"
            raise InvalidArgumentError(argument="block_before", value=block_before, problem=problem)
        expected = self._expected(name, matcher, response, timing, fault)
        expected.barrier, expected.block_before = Latch(), block_before
        return self._registered(expected)

    def expect_agent_turn(
        self,
        name: str,
        text: str,
        *,
        endpoints: Sequence[InferenceEndpoint] = _BOTH,
        blocked: bool = False,
    ) -> AgentTurnExpectation:
        """Expect one foreground turn at whichever of several endpoints the agent uses.

        Args:
            name: the sides are called `NAME (responses)`, `NAME (chat completions)` and `NAME (messages)`.
            text: what the model says, byte for byte, as a stream.
            endpoints: where the turn may come.
            blocked: hold the last frame until `release()`.
        """
        need("name", name, str, "a text")
        need("text", text, str, "a text")
        barrier = Latch() if blocked else None
        for endpoint in endpoints:
            need("endpoints", endpoint, InferenceEndpoint, "a list of InferenceEndpoint")
        if not endpoints or len(set(endpoints)) < len(endpoints):
            raise InvalidArgumentError(argument="endpoints", value=endpoints, problem="name one at least, each once")
        sides = [
            Expected(
                f"{name} ({_SIDES[endpoint]})",
                RequestMatcher.foreground(endpoint),
                (text_response(endpoint, text, {}, streams=True, profile=self._core.knobs.profile),),
                barrier,
                registered_after=self._core.log.arrived,
            )
            for endpoint in endpoints
        ]
        for side in sides:
            side.on_satisfied = self._withdrawing([other for other in sides if other is not side])
        self._register(*sides)
        return AgentTurnExpectation(self._surroundings(), sides)

    def enqueue_response(self, path: str, response: Answer) -> None:
        """Answer the next request to a path with this response, whoever asks and whatever for.

        Prefer expectations: a queue is also emptied by side work such as titles.

        Args:
            path: that of an inference route, `/v1/models`, `/v1/settings` or `/v1/user`.
            response: as for `expect_response`, but no list.

        Raises:
            UnservedPathError: no queue is served at that path.
            InvalidArgumentError: the response is none; the queue is unchanged.
        """
        self._check_open()
        self._core.queues.enqueue(path, response)

    def assert_all_satisfied(self) -> None:
        """Raise `ExpectationError` unless every expectation was met.

        The error lists those that were not, in the order of registration, and for each request that none of them
        answered, why.
        """
        lines = self._core.book.explain(self._core.log.accepted())
        if lines:
            raise ExpectationError("\n".join(lines))

    # Holds of scripts --------------------------------------------------------------------------------------------

    def release(self, name: str) -> None:
        """Let answers go on that wait at `script.hold(name)`, and those that will come there."""
        self._core.holds.release(name)

    async def reached(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> None:  # noqa: ASYNC109 - as its sync twin
        """Wait until an answer has come to `script.hold(name)`.

        Args:
            name: of the hold.
            timeout: real seconds, times `CHATAGENT_TEST_TIMEOUT_SCALE`.

        Raises:
            InferenceTimeoutError: none did in time.
            ServerClosedError: the server was closed first.
        """
        await self._core.board.wait(self._is_reached_or_closed(name), scaled(timeout))
        self._check_reached(name, scaled(timeout))

    def reached_sync(self, name: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Block until an answer has come to `script.hold(name)`; as `reached`."""
        self._core.board.wait_sync(self._is_reached_or_closed(name), scaled(timeout))
        self._check_reached(name, scaled(timeout))

    def _is_reached_or_closed(self, name: str) -> Callable[[], bool]:
        return lambda: self._core.holds.is_reached(name) or self._core.is_closed

    def _check_reached(self, name: str, limit: float) -> None:
        if self._core.holds.is_reached(name):
            return
        waited_for = f"no answer has come to the hold `{name}`"
        if self._core.is_closed:
            raise ServerClosedError(waited_for=waited_for)
        raise InferenceTimeoutError(waited_for=waited_for, timeout=limit, log=self._core.log.summary())

    # Registering -------------------------------------------------------------------------------------------------

    def _expected(
        self,
        name: str,
        matcher: RequestMatcher,
        response: Answer | Sequence[Answer],
        timing: TimingProfile | None,
        fault: Fault | None,
    ) -> Expected:
        if not isinstance(cast("object", matcher), RequestMatcher):
            problem = "give a RequestMatcher, such as `RequestMatcher.any(InferenceEndpoint.MESSAGES)`"
            raise InvalidArgumentError(argument="matcher", value=matcher, problem=problem)
        answers = checked_answers(response, matcher.endpoints)
        need("name", name, str, "a text")
        need("timing", timing, TimingProfile | None, "a TimingProfile, or `None`")
        need("fault", fault, Fault | None, "a Fault, or `None`")
        arrived, count = self._core.log.arrived, len(answers)
        return Expected(name, matcher, answers, registered_after=arrived, wanted=count, timing=timing, fault=fault)

    def _registered(self, expected: Expected) -> Expectation:
        self._register(expected)
        return Expectation(self._surroundings(), expected)

    def _register(self, *expected: Expected) -> None:
        self._check_open()
        self._core.book.register(*expected)

    def _withdrawing(self, others: list[Expected]) -> Callable[[], None]:
        def withdraw() -> None:
            for other in others:
                self._core.book.withdraw(other)

        return withdraw

    def _surroundings(self) -> Surroundings:
        core = self._core
        return Surroundings(core.board, lambda: core.is_closed, core.log.summary)

    def _check_open(self) -> None:
        if self._core.is_closed:
            raise ServerClosedError
