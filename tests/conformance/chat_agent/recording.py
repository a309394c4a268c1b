"""What a scenario leaves behind: the log, everything on `.out`, the model calls; and waiting for any of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import anyio

from chatagent.model import prompt_to_wire
from conformance.chat_agent.errors import is_scenario_error
from conformance.chat_agent.values import matches
from conformance.chat_agent.wire import value_to_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.model import CallOptions
    from conformance.chat_agent.values import Wire

CONTROL = "trigger-control"
TOKEN = "public-access-token"


class Recorder:
    """Records one scenario over all its harnesses."""

    def __init__(self) -> None:
        self.log: list[Wire] = []
        self.out: list[Wire] = []
        self.model_calls: list[Wire] = []
        self.notes: list[str] = []
        """What may explain a difference: errors that nobody in the scenario asked for."""
        self._closed = False
        self._counts: dict[str, str] = {}
        self._watchers: list[Callable[[], None]] = []

    def close(self) -> None:
        """Record no more: what follows is tidying up."""
        self._closed = True

    def event(self, name: str, fields: Wire | None = None) -> None:
        """Log that something was called or done; the number of a record is counted as the reference counts."""
        entry = {"event": name, **(fields or {})}
        if "lastEventId" in entry:
            entry["lastEventId"] = self.count_of(entry["lastEventId"])
        self._add(self.log, entry)

    def model_call(self, options: CallOptions) -> int:
        """Record a call of the model and return its number, counted from 0."""
        number = len(self.model_calls)
        call: Wire = {"prompt": copy.deepcopy(prompt_to_wire(options.prompt))}
        if options.tools:
            call["tools"] = [each.name for each in options.tools]
        self.model_calls.append(call)
        self.event("modelCall", {"n": number})
        return number

    async def noting_errors(self, where: str, work: Awaitable[Any]) -> Any:
        """Await work of the scenario; note an error that no directive asked for, which may be a fault of ours."""
        try:
            return await work
        except Exception as error:
            if not is_scenario_error(error):
                self.notes.append(f"{where} raised {error!r}")
            raise

    def begin_harness(self) -> None:
        """Count the records on `.out` anew: another harness begins."""
        self._counts = {}

    def record(self, record: Any) -> None:
        """Take a record that was written to `.out`."""
        chunk = chunk_of(record)
        self._counts[str(record.seq)] = str(len(self._counts) + 1)
        if stands_in_log(chunk):
            self.event("out", {"chunk": copy.deepcopy(chunk)})
        self._add(self.out, chunk)

    def count_of(self, event_id: str) -> str:
        """Return the number that the reference's harness would have given to a record of the present harness."""
        return self._counts.get(event_id, f"unknown record {event_id}")

    async def until_logged(self, match: Wire, nth: int) -> None:
        """Return when so many log entries matched since the start of the scenario."""
        await self._until(self.log, match, nth)

    async def until_written(self, match: Wire, nth: int) -> None:
        """Return when so many chunks on `.out` matched since the start of the scenario."""
        await self._until(self.out, match, nth)

    async def _until(self, entries: list[Wire], match: Wire, nth: int) -> None:
        while sum(matches(match, each) for each in entries) < nth:
            changed = anyio.Event()
            self._watchers.append(changed.set)
            await changed.wait()

    def _add(self, entries: list[Wire], entry: Wire) -> None:
        if self._closed:
            return
        entries.append(entry)
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()


def chunk_to_wire(chunk: Any) -> Wire:
    """Return a chunk of a turn as the format shows it."""
    return value_to_wire(chunk)


def chunk_of(record: Any) -> Wire:
    """Return a record of `.out` as the format shows it: a control record as a chunk of a type of its own."""
    headers: dict[str, str] = {}
    for name, value in record.headers:
        headers.setdefault(name, value)
    if CONTROL not in headers:
        return value_to_wire(record.data)
    token = {"publicAccessToken": headers[TOKEN]} if TOKEN in headers else {}
    return {"type": f"trigger:{headers[CONTROL]}", **token}


def stands_in_log(chunk: Wire) -> bool:
    """Return whether the log has an entry for a chunk on `.out`."""
    return chunk["type"] == "error" or chunk["type"].startswith(("trigger:", "data-"))
