"""Requests whose answer is a value of their own: the same one a second time gets the first answer (rule TP-22).

What is admitted to a thread has its receipt there (`backend.py`). A command changes no thread, so its answers are kept
here, in memory, as many for each thread as there are receipts.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from chatagent.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["REMEMBERED_REQUESTS", "Repeats"]

REMEMBERED_REQUESTS: Final = 1_000
"""So many answers of a thread are known."""


class _Answer:
    """An answer that is there, or is waited for."""

    __slots__ = ("gate", "is_there", "value")

    def __init__(self) -> None:
        self.gate = Gate("the answer to the same request")
        self.is_there = False
        self.value: object = None


class Repeats:
    """Knows answers by thread and request. A request that failed has none, so it may be tried again."""

    def __init__(self) -> None:
        self._threads: dict[str, OrderedDict[str, _Answer]] = {}

    async def once(self, thread_id: str, request_id: str, ask: Callable[[], Awaitable[object]]) -> object:
        """Return the answer to a request, and ask for it only if it is not known; who comes meanwhile waits.

        Args:
            thread_id: the thread.
            request_id: names the request.
            ask: gets the answer; what it raises is raised, and nothing is kept.

        Returns:
            The answer: JSON, and each caller's own.
        """
        answers = self._threads.setdefault(thread_id, OrderedDict())
        while (known := answers.get(request_id)) is not None:
            await known.gate.wait()
            if known.is_there:
                return copy.deepcopy(known.value)
        answer = answers[request_id] = _Answer()
        try:
            answer.value = await ask()
            answer.is_there = True
        finally:
            if not answer.is_there:
                answers.pop(request_id, None)
            answer.gate.open()
        while len(answers) > REMEMBERED_REQUESTS:
            answers.popitem(last=False)
        return copy.deepcopy(answer.value)

    def forget(self, thread_id: str) -> None:
        """Forget the answers of a thread."""
        self._threads.pop(thread_id, None)

    def clear(self) -> None:
        """Forget all answers."""
        self._threads.clear()
