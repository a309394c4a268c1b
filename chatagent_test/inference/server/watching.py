"""What a test asks a server about the requests that it got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.errors import InferenceTimeoutError, ServerClosedError
from chatagent_test.inference.server.comparing import check_bodies
from chatagent_test.inference.waiting import DEFAULT_TIMEOUT, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.models import StorageUpload

__all__ = ["Watching"]


class Watching:
    """Reads the log. Safe to call from any thread."""

    _core: Core

    def requests(self) -> list[LogEntry]:
        """Return the newest 1,024 requests in the order of arrival, refused ones included."""
        return self._core.log.entries()

    def request_count(self) -> int:
        """Return how many requests there were, forgotten ones included, refused ones not."""
        return self._core.log.count

    def rejected_count(self) -> int:
        """Return how many requests were refused unread: unknown path, wrong method, no JSON, too large."""
        return self._core.log.rejected_count

    def request_bodies(self) -> list[Any]:
        """Return the JSON bodies in the order of arrival; requests without one are left out."""
        return [entry.body for entry in self._core.log.entries() if entry.body is not None]

    def clear_requests(self) -> None:
        """Forget all requests, counts included."""
        self._core.log.clear()

    def has_chat_completion_request(self) -> bool:
        """Whether a request asked for a chat completion."""
        return self._core.log.has_path("chat/completions")

    def has_responses_request(self) -> bool:
        """Whether a request asked for a response."""
        return self._core.log.has_path("responses")

    def messages_request_count(self) -> int:
        """Return how many of the kept requests asked for a message."""
        path = InferenceEndpoint.MESSAGES.path
        return sum(1 for entry in self._core.log.accepted() if entry.path == path)

    def last_system_prompt(self) -> str | None:
        """Return what the newest inference request told the model beforehand.

        That is the content of the first message, whatever its role, else `instructions`; for Messages, `system`.
        """
        return self._core.log.last_system_prompt()

    def request_log_summary(self) -> str:
        """Return a line a request, for messages of failing tests."""
        return self._core.log.summary()

    def storage_uploads(self) -> list[StorageUpload]:
        """Return the uploads that were taken."""
        return self._core.storage.uploads()

    def storage_request_count(self) -> int:
        """Return how many uploads were tried, refused ones included."""
        return self._core.storage.attempts

    def assert_requests(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Check that the inference requests are exactly so many, and say at least this, in this order.

        Args:
            bodies: for each request, members that its body must have; objects in them may have more members, lists and
                all else must be equal.

        Raises:
            UnexpectedBodiesError: they are not; it shows each difference.
        """
        check_bodies(bodies, [entry for entry in self._core.log.accepted() if entry.kind is not None])

    async def wait_for_requests(self, count: int, timeout: float = DEFAULT_TIMEOUT) -> None:  # noqa: ASYNC109
        """Wait until there have been so many requests.

        Args:
            count: as `request_count` counts.
            timeout: real seconds, times `CHATAGENT_TEST_TIMEOUT_SCALE`.

        Raises:
            InferenceTimeoutError: there were not so many in time.
            ServerClosedError: the server was closed first.
        """
        await self._core.board.wait(self._has_or_closed(count), scaled(timeout))
        self._check_count(count, scaled(timeout))

    def wait_for_requests_sync(self, count: int, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Block until there have been so many requests; as `wait_for_requests`."""
        self._core.board.wait_sync(self._has_or_closed(count), scaled(timeout))
        self._check_count(count, scaled(timeout))

    async def wait_idle(self, timeout: float = DEFAULT_TIMEOUT, *, but: int = 0) -> None:  # noqa: ASYNC109
        """Wait until no answer is under way: each has been sent, or its client has gone.

        Args:
            but: so many may be under way still.
            timeout: real seconds, times `CHATAGENT_TEST_TIMEOUT_SCALE`.

        Raises:
            InferenceTimeoutError: one is still under way.
        """
        in_time = await self._core.board.wait(lambda: self._core.under_way <= but, scaled(timeout))
        self._check_idle(scaled(timeout), in_time=in_time)

    def wait_idle_sync(self, timeout: float = DEFAULT_TIMEOUT, *, but: int = 0) -> None:
        """Block until no answer is under way; as `wait_idle`."""
        in_time = self._core.board.wait_sync(lambda: self._core.under_way <= but, scaled(timeout))
        self._check_idle(scaled(timeout), in_time=in_time)

    def _check_idle(self, limit: float, *, in_time: bool) -> None:
        if not in_time:
            held = [line for each in self._core.book.registered for line in each.held()]
            waited_for = f"{self._core.under_way} answers are still under way"
            log = self._core.log.summary()
            raise InferenceTimeoutError(waited_for=waited_for, timeout=limit, log=log, held=held)

    def _has_or_closed(self, count: int) -> Callable[[], bool]:
        return lambda: self._core.log.count >= count or self._core.is_closed

    def _check_count(self, count: int, limit: float) -> None:
        if self._core.log.count >= count:
            return
        waited_for = f"{self._core.log.count} of {count} requests have come"
        if self._core.is_closed:
            raise ServerClosedError(waited_for=waited_for)
        raise InferenceTimeoutError(waited_for=waited_for, timeout=limit, log=self._core.log.summary())
