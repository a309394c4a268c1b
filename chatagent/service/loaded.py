"""The threads that a service has in memory: those in use, and some of those that were used last.

All of a thread is in its store, so one that nobody uses can be let go, and is loaded again when it is asked for. A
service that lives long needs memory for what goes on, not for all that ever was.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from chatagent.service.thread import ServiceThread

__all__ = ["LoadedThreads"]


class LoadedThreads:
    """Threads by their ids.

    Args:
        load: reads one from the store.
        kept: about how many there are beside those in use.
    """

    def __init__(self, load: Callable[[str], ServiceThread], kept: int) -> None:
        self._load, self._kept = load, kept
        self._threads: OrderedDict[str, ServiceThread] = OrderedDict()
        """What was used last comes last."""
        self._sweep_at = kept

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._threads

    def ids(self) -> Collection[str]:
        """Return the ids of those in memory."""
        return self._threads.keys()

    def all(self) -> Collection[ServiceThread]:
        """Return those in memory."""
        return self._threads.values()

    def get(self, thread_id: str) -> ServiceThread:
        """Return a thread, loading it if need be."""
        thread = self._threads.get(thread_id)
        if thread is not None:
            self._threads.move_to_end(thread_id)
            return thread
        if len(self._threads) >= self._sweep_at:
            self._let_go()
        thread = self._threads[thread_id] = self._load(thread_id)
        return thread

    def _let_go(self) -> None:
        """Drop threads that nobody uses, what was used longest ago first."""
        for thread_id, thread in tuple(self._threads.items()):
            if len(self._threads) < self._kept:
                break
            if thread.is_at_rest:
                del self._threads[thread_id]
        in_use = len(self._threads)
        # Those in use stay, however many; but not every call may look at them all again.
        self._sweep_at = self._kept if in_use < self._kept else in_use + self._kept // 8 + 1
