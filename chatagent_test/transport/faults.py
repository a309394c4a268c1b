"""`mock.faults`: lost connections, lost and repeated events, slow admissions (rule BT-6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chatagent_test.transport.errors import MockConfigError, nearest
from chatagent_test.transport.places import calling_place

if TYPE_CHECKING:
    from chatagent.protocol import ThreadEvent
    from chatagent_test.transport.store import MockStore

__all__ = ["OPERATIONS", "MockFaults"]

OPERATIONS: Final = (
    "get_manifest",
    "get_thread",
    "send",
    "abort",
    "watch_thread",
    "list_threads",
    "watch_thread_heads",
    "rename_thread",
    "delete_thread",
    "retry",
    "regenerate",
    "submit_action",
    "send_action",
    "write_tool_data",
    "execute_command",
    "upload_file",
    "read_file",
    "create_file_url",
)
"""Everything that a client can ask of a transport."""


@dataclass(slots=True)
class _Fault:
    error: Exception
    times: int
    place: str


class MockFaults:
    """Faults to come. Those that no call meets count as unused scripts at the end of the test."""

    def __init__(self, store: MockStore) -> None:
        self._store = store
        self._failures: dict[str, list[_Fault]] = {}
        self._events: dict[str, list[tuple[str, str]]] = {}
        self._delay: tuple[float, str] | None = None

    def fail_next(self, operation: str, error: Exception, *, times: int = 1) -> None:
        """Let the next calls of an operation raise this, and change nothing.

        Args:
            operation: a method of the transport, such as `send`.
            error: what is raised.
            times: how many calls.

        Raises:
            MockConfigError: a transport has no such operation, or no call is meant.
        """
        if operation not in OPERATIONS:
            raise MockConfigError(
                f"faults.fail_next({operation!r}): no such operation; {nearest(operation, OPERATIONS)}"
            )
        if times < 1:
            raise MockConfigError(f"faults.fail_next({operation!r}, times={times}): at least one call fails")
        self._failures.setdefault(operation, []).append(_Fault(error, times, calling_place()))

    def lose_next_event(self, thread_id: str) -> None:
        """Let the next event of a thread happen without reaching any watch."""
        self._arm(thread_id, "lose")

    def repeat_next_event(self, thread_id: str) -> None:
        """Let the next event of a thread reach every watch twice."""
        self._arm(thread_id, "repeat")

    def delay_admission(self, seconds: float) -> None:
        """Let the next generation be admitted only when the clock has moved on by so many seconds.

        Raises:
            MockConfigError: it is no time that could pass.
        """
        if not 0 <= seconds < math.inf:
            raise MockConfigError(f"faults.delay_admission({seconds!r}): a delay is 0 seconds or more")
        self._delay = (seconds, calling_place())

    def unused(self) -> list[str]:
        """Return what no call has met."""
        found = [
            f"faults.fail_next({operation!r}, {fault.error!r}), {fault.times} left, said at {fault.place}"
            for operation, faults in self._failures.items()
            for fault in faults
        ]
        found += [
            f"faults.{kind}_next_event({thread_id!r}), said at {place}"
            for thread_id, armed in self._events.items()
            for kind, place in armed
        ]
        if self._delay is not None:
            found.append(f"faults.delay_admission({self._delay[0]:g}), said at {self._delay[1]}")
        return found

    def clear(self) -> None:
        """Forget every fault to come."""
        self._failures.clear()
        self._events.clear()
        self._delay = None

    # For the transport --------------------------------------------------------------------------------------------

    def meet(self, operation: str) -> None:
        """Raise what is armed for this call."""
        faults = self._failures.get(operation)
        if not faults:
            return
        fault = faults[0]
        fault.times -= 1
        if fault.times <= 0:
            del faults[0]
        raise fault.error

    def take_delay(self) -> float:
        """Return how long the admission of this call takes."""
        delay, self._delay = self._delay, None
        return 0.0 if delay is None else delay[0]

    def _arm(self, thread_id: str, kind: str) -> None:
        armed = self._events.setdefault(thread_id, [])
        armed.append((kind, calling_place()))
        thread = self._store.thread(thread_id)

        def publish(event: ThreadEvent) -> None:
            kind, _ = armed.pop(0)
            if not armed:
                thread.publish = thread.log.append
                self._events.pop(thread_id, None)
            if kind == "repeat":
                thread.log.append(event)
                thread.log.append(event)
            else:
                thread.log.seq = max(thread.log.seq, event.seq)

        thread.publish = publish
