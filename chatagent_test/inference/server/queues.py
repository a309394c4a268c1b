"""One-shot answers by path, first in, first out, whoever asks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.answers import Answer, checked_answers
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.errors import UnservedPathError

if TYPE_CHECKING:
    from chatagent_test.inference.waiting import Board

__all__ = ["ResponseQueues"]

QUEUED_PATHS = (
    *(endpoint.path for endpoint in InferenceEndpoint),
    "/v1/embeddings",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1/settings",
    "/v1/user",
)


class ResponseQueues:
    """The queue of each path that may have one."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._queues: dict[str, deque[Answer]] = {path: deque() for path in QUEUED_PATHS}

    def enqueue(self, path: str, answer: Answer) -> None:
        """Put an answer at the end of a path's queue.

        Raises:
            UnservedPathError: no request is ever answered from a queue of that path.
            InvalidArgumentError: it is no answer.
        """
        if path not in self._queues:
            raise UnservedPathError(path=path, served=QUEUED_PATHS)
        if isinstance(cast("object", answer), list | tuple):
            raise InvalidArgumentError(
                argument="response", value=cast("object", answer), problem="queue one response at a time"
            )
        (checked,) = checked_answers(answer, [endpoint for endpoint in InferenceEndpoint if endpoint.path == path])
        with self._board.lock:
            self._queues[path].append(checked)

    def pop(self, path: str) -> Answer | None:
        """Take the first answer, if there is one."""
        queue = self._queues.get(path)
        if not queue:
            return None
        with self._board.lock:
            return queue.popleft() if queue else None

    def leftovers(self) -> dict[str, int]:
        """Return how many answers nobody has asked for, by path."""
        with self._board.lock:
            return {path: len(queue) for path, queue in self._queues.items() if queue}
