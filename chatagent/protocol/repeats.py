"""Requests whose answer is a value of their own: the same one a second time gets the first answer (rule TP-22).

What is admitted to a thread has its receipt there (`backend.py`). A command changes no thread, so its answers are kept
here, in memory, as many for each thread as there are receipts. Threads come and go for as long as a backend lives, so
only those that were asked last have answers here.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final

from chatagent.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["REMEMBERED_REQUESTS", "Repeats"]

REMEMBERED_REQUESTS: Final = 1_000
"""So many answers of a thread are known."""

REMEMBERED_THREADS: Final = 1_000
"""Of so many threads answers are known."""


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
        self._threads: OrderedDict[str, OrderedDict[str, _Answer]] = OrderedDict()
        """What was asked last comes last."""

    async def once(self, thread_id: str, request_id: str, ask: Callable[[], Awaitable[object]]) -> object:
        """Return the answer to a request, and ask for it only if it is not known; who comes meanwhile waits.

        Args:
            thread_id: the thread.
            request_id: names the request.
            ask: gets the answer; what it raises is raised, and nothing is kept.

        Returns:
            The answer: JSON, and each caller's own.
        """
        while (known := self._known(thread_id, request_id)) is not None:
            await known.gate.wait()
            if known.is_there:
                return copy.deepcopy(known.value)
        answers = self._threads.setdefault(thread_id, OrderedDict())
        self._threads.move_to_end(thread_id)
        answer = answers[request_id] = _Answer()
        try:
            answer.value = await ask()
            answer.is_there = True
        finally:
            if not answer.is_there:
                answers.pop(request_id, None)
                if not answers and self._threads.get(thread_id) is answers:
                    del self._threads[thread_id]
            answer.gate.open()
        excess = len(answers) - REMEMBERED_REQUESTS
        if excess > 0:  # what is still waited for stays, or it would be asked for twice
            for oldest in list(islice((name for name, each in answers.items() if each.is_there), excess)):
                del answers[oldest]
        while len(self._threads) > REMEMBERED_THREADS:
            self._threads.popitem(last=False)
        return copy.deepcopy(answer.value)

    def forget(self, thread_id: str) -> None:
        """Forget the answers of a thread."""
        self._threads.pop(thread_id, None)

    def clear(self) -> None:
        """Forget all answers."""
        self._threads.clear()

    def _known(self, thread_id: str, request_id: str) -> _Answer | None:
        answers = self._threads.get(thread_id)
        return None if answers is None else answers.get(request_id)
