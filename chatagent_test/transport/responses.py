"""`mock.responses`: the queue of scripts (rules RQ-1 to RQ-14, BT-8, BT-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import check_thread_id
from chatagent_test.transport.engine import QueueEntry
from chatagent_test.transport.places import calling_place
from chatagent_test.transport.streamed import StreamedResponse

if TYPE_CHECKING:
    from chatagent_test.transport.engine import Engine, Responder
    from chatagent_test.transport.scripts import Script

__all__ = ["MockResponses"]


class MockResponses:
    """What the runs to come are answered with, first in, first out."""

    def __init__(self, engine: Engine, thread_id: str | None = None) -> None:
        self._engine, self._thread_id = engine, thread_id

    def queue(self, *scripts: Script) -> None:
        """Queue scripts; each answers one generation. A run that waits for a script claims it inside this call.

        Raises:
            ScriptError: the agent could not have said it; nothing was queued.
        """
        place = calling_place()
        self._engine.give([QueueEntry(script, place, self._thread_id) for script in scripts])

    def stream(self) -> StreamedResponse:
        """Queue an answer that the test plays by hand, and return it."""
        response = StreamedResponse(self._engine)
        self._engine.give([QueueEntry(response, calling_place(), self._thread_id)])
        return response

    def for_thread(self, thread_id: str) -> MockResponses:
        """Return the queue of one thread, which goes before the common one; size and clear are its own."""
        check_thread_id(thread_id)
        return MockResponses(self._engine, thread_id)

    def respond(self, responder: Responder) -> None:
        """Answer by a function of the request whenever no script is queued; another one takes its place."""
        self._engine.responders[self._thread_id] = responder
        self._engine.feed()

    def size(self) -> int:
        """Return how many scripts no run has claimed."""
        return len(self._own())

    def clear(self) -> int:
        """Drop the scripts that no run has claimed; returns how many."""
        return self._engine.drop(self._own())

    def _own(self) -> list[QueueEntry]:
        return [each for each in self._engine.entries if self._thread_id in (None, each.thread_id)]
