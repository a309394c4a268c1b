"""Watches of the mock: cursors into its logs, opened like any other call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.protocol import EventLog, EventStream, LogCursor
    from chatagent_test.transport.inspection import CallRecorder

__all__ = ["MockWatch"]


class MockWatch:
    """A watch to be opened. It holds nothing of the task that opens it."""

    def __init__(
        self,
        calls: CallRecorder,
        check_call: Callable[[str], None],
        operation: str,
        arguments: Mapping[str, object],
        log: Callable[[], EventLog[Any]],
        after: int | None,
    ) -> None:
        self._calls, self._check_call = calls, check_call
        self._operation, self._arguments = operation, arguments
        self._log, self._after = log, after
        self._cursor: LogCursor[Any] | None = None

    async def __aenter__(self) -> EventStream[Any]:
        await checkpoint()
        logged = self._calls.add(self._operation, dict(self._arguments))
        try:
            self._check_call(self._operation)
        except Exception as error:
            logged.error = error
            raise
        self._cursor = self._log().watch(self._after)
        return self._cursor

    async def __aexit__(self, *_: object) -> None:
        if self._cursor is not None:
            self._cursor.close()
