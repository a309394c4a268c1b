"""The harnesses of a scenario: made from its options, booted when the format says so, watched until their runs end."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from chatagent import locals
from chatagent.errors import HarnessClosedError, HarnessError
from chatagent.task import RunContext
from chatagent_test import mock_chat_agent
from conformance.chat_agent.values import snake
from conformance.chat_agent.wire import value_to_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent import ChatAgent
    from chatagent_test import ChatAgentHarness
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire

PREVIOUS = "<previous>"
COMMITTED = "session-in-event-id"
PATIENCE = 5.0
"""Real seconds after which something that should take none is given up."""


class Harnesses:
    """Makes one harness after another for the same agent.

    Args:
        agent: the agent under test.
        new_id: makes the ids of all harnesses.
        recorder: where `.out` and the ends of runs are recorded.
    """

    def __init__(self, agent: ChatAgent[Any], new_id: Callable[[], str], recorder: Recorder) -> None:
        self._agent, self._new_id, self._recorder = agent, new_id, recorder
        self._all: list[ChatAgentHarness] = []
        self._end_noted = True
        self._booted = False
        self.failure: Exception | None = None
        """Why the present harness could not be made or booted, until a step has told it."""

    @property
    def present(self) -> ChatAgentHarness:
        if not self._all:
            raise RuntimeError("there is no harness")
        return self._all[-1]

    def open(self, options: Wire) -> None:
        """Make a harness; what it raises is the failure of the next step."""
        self._booted, self.failure = False, None
        try:
            made = mock_chat_agent(self._agent, ids=self._new_id, **self._arguments(options))
        except Exception as error:  # noqa: BLE001 - told by the next step
            self.failure = error
            return
        self._all.append(made)
        self._end_noted = False
        self._recorder.begin_harness()
        made.on_out(self._recorder.record)

    async def boot(self, *, settle: bool = True) -> None:
        """Let the boot of the present harness happen and settle, if that has not been done."""
        if self._booted or self.failure is not None:
            return
        self._booted = True
        if not settle:
            return
        try:
            await self.present.start()
        except Exception as error:  # noqa: BLE001 - told by the next step
            self.failure = error
        await self.settle()

    def take_failure(self) -> Exception | None:
        """Return the failure that no step has told yet."""
        failure, self.failure = self.failure, None
        return failure

    async def settle(self) -> None:
        """Let the run go on until it waits for input, a gate or a timer."""
        if not self._all:
            return
        with anyio.move_on_after(PATIENCE) as patience, suppress(HarnessClosedError):
            await self.present.settle()
        if patience.cancelled_caught:
            self._recorder.notes.append("the run did not settle")
        self.note_end()

    async def while_time_moves(self, waiting: Awaitable[None]) -> None:
        """Wait for something; meanwhile what sleeps on the clock wakes, as it does while a send waits."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._move_time)
            await waiting
            tasks.cancel_scope.cancel()

    async def _move_time(self) -> None:
        with suppress(HarnessError):
            await self.present.wait_for(lambda harness: harness.run_ended)

    def note_end(self) -> None:
        """Log the end of the present run, once."""
        if self._end_noted or not self.present.run_ended:
            return
        self._end_noted = True
        error = self.present.run_error
        ending = {"outcome": "returned"} if error is None else {"outcome": "threw", "error": str(error)}
        self._recorder.event("runEnd", ending)

    def snapshot(self) -> Wire | None:
        """Return the present harness's snapshot as the format shows it."""
        taken = self.present.get_snapshot() if self._all else None
        if taken is None:
            return None
        wire = value_to_wire(taken)
        wire.pop("lastInEventId", None)
        if isinstance(wire.get("savedAt"), (int, float)):
            wire["savedAt"] = "<time>"
        if "lastOutEventId" in wire:
            wire["lastOutEventId"] = self._recorder.count_of(wire["lastOutEventId"])
        return wire

    def committed(self) -> list[str]:
        """Return the number of `.in` that each turn-complete of the present harness has committed, in order."""
        records = self._all[-1].out_records if self._all else ()
        return [value for record in records for name, value in record.headers if name == COMMITTED]

    def suppressed(self) -> list[str]:
        """Return the ids of the users that the present harness's boot has dropped."""
        return [each.id for each in self._all[-1].boot.suppressed] if self._all else []

    async def close_all(self) -> None:
        """Tidy up: close every harness; what goes wrong now is nobody's business."""
        for harness in reversed(self._all):
            with anyio.move_on_after(PATIENCE):
                try:
                    await harness.close()
                except Exception as error:  # noqa: BLE001 - the scenario is over
                    self._recorder.notes.append(f"closing raised {error!r}")

    def _arguments(self, options: Wire) -> dict[str, Any]:
        arguments: dict[str, Any] = {"chat_id": "chat-1", **{snake(name): value for name, value in options.items()}}
        values = arguments.pop("locals", None)
        if values is not None:
            arguments["setup_locals"] = lambda target: [
                target.set(locals.create(name), value) for name, value in values.items()
            ]
        if "task_context" in arguments:
            arguments["task_context"] = _known_context(arguments["task_context"])
        if arguments.get("snapshot") == PREVIOUS:
            arguments["snapshot"] = self.present.get_snapshot()
        return arguments


def _known_context(given: Wire) -> Wire:
    """Return context overrides without the fields that only the reference's context has."""
    sections = {section.name: section.default_factory for section in dataclasses.fields(RunContext)}
    known: Wire = {}
    for name, values in given.get("ctx", given).items():
        factory: Any = sections.get(snake(name))
        if isinstance(values, dict) and isinstance(factory, type):
            fields = {each.name for each in dataclasses.fields(factory)}
            known[snake(name)] = {snake(key): value for key, value in values.items() if snake(key) in fields}
    return known
