"""Does the steps of a scenario, in order, and keeps what each of them returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from conformance.chat_agent.gates import first_steps
from conformance.chat_agent.harnesses import PATIENCE, Harnesses
from conformance.chat_agent.placeholders import PLACEHOLDER, Authored, generated_ids, replace_strings
from conformance.chat_agent.recording import chunk_to_wire
from conformance.chat_agent.windows import SENDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from conformance.chat_agent.gates import Gates
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire

SEEDS = frozenset({"seedSnapshot", "seedSessionOutTail", "seedSessionOutPartial", "seedSessionInTail"})
UNSETTLED = frozenset({"openGate", "waitForChunk", "waitForLog"})
"""Steps behind which the run is not waited for."""
GIVEN_UP = {"outcome": "never resolves"}


class Driver:
    """Does the steps of one scenario.

    Args:
        golden: the golden file.
        harnesses: the harnesses that the steps drive.
        gates: the gates that they open.
        recorder: what they wait for.
    """

    def __init__(self, golden: Wire, harnesses: Harnesses, gates: Gates, recorder: Recorder) -> None:
        self._steps: list[Wire] = golden["steps"]
        self._options: Wire = golden["options"]
        self._at_once: bool = golden.get("startAtOnce", False)
        self._authored = Authored(golden)
        self._harnesses, self._gates, self._recorder = harnesses, gates, recorder
        self.results: list[Wire] = [{"do": step["do"], **GIVEN_UP} for step in self._steps]
        self.errors: dict[int, Exception] = {}
        """What steps raised, by their indexes."""
        self._ended: dict[str, anyio.Event] = {}

    async def drive(self) -> None:
        """Do all steps; return when those that were not awaited have ended, too."""
        self._harnesses.open(self._options)
        async with anyio.create_task_group() as tasks:
            for index, step in enumerate(self._steps):
                await self._do(index, step, tasks)
            await self._boot()

    async def _do(self, index: int, step: Wire, tasks: TaskGroup) -> None:
        if step["do"] not in SEEDS:
            await self._boot(at_once=self._at_once and index == 0)
        failure = self._harnesses.take_failure()
        if failure is not None:
            self._note_failure(index, step, failure)
        elif step.get("await") is False:
            self._ended[step["as"]] = anyio.Event()
            tasks.start_soon(self._perform, index, step)
            await first_steps()
        else:
            await self._perform(index, step)
            if step["do"] not in UNSETTLED | SEEDS and step.get("settle", True):
                await self._harnesses.settle()
        self._harnesses.note_end()

    async def _boot(self, *, at_once: bool = False) -> None:
        await self._harnesses.boot(settle=not at_once)

    async def _perform(self, index: int, step: Wire) -> None:
        """Do one step within its limit and keep its result."""
        with anyio.move_on_after(max(PATIENCE, step.get("limitMs", 0) / 1000)):
            try:
                returned = await ACTIONS[step["do"]](self, replace_strings(step, self._generated))
            except Exception as error:  # noqa: BLE001 - it is the step's result
                self._note_failure(index, step, error)
            else:
                self.results[index] = {"do": step["do"], **_shown(step, returned)}
        if step.get("as") in self._ended:
            self._ended[step["as"]].set()

    def _note_failure(self, index: int, step: Wire, error: Exception) -> None:
        self._recorder.notes.append(f"{step['do']} raised {error!r}")
        self.results[index] = {"do": step["do"], "throws": str(error)}
        self.errors[index] = error

    def _generated(self, text: str) -> str | None:
        """Return the generated id for which a string of a step stands."""
        found = PLACEHOLDER.fullmatch(text)
        if found is None:
            return None
        seen = [*dict.fromkeys(generated_ids(self._recorder.out, lambda each: each not in self._authored))]
        if int(found[1]) > len(seen):
            raise LookupError(f"{text}: so far there are {len(seen)} generated ids on `.out`")
        return seen[int(found[1]) - 1]

    # --- the steps -----------------------------------------------------------------------------------------

    async def _seed_snapshot(self, step: Wire) -> None:
        self._harnesses.present.seed_snapshot(step["snapshot"])

    async def _seed_out_tail(self, step: Wire) -> None:
        self._harnesses.present.seed_session_out_tail(step.get("chunks"))

    async def _seed_out_partial(self, step: Wire) -> None:
        self._harnesses.present.seed_session_out_partial(step["message"])

    async def _seed_in_tail(self, step: Wire) -> None:
        self._harnesses.present.seed_session_in_tail(step["messages"])

    async def _send_message(self, step: Wire) -> Any:
        return await self._harnesses.present.send_message(step["message"], until="turn_complete")

    async def _send_pending(self, step: Wire) -> None:
        self._harnesses.present.begin_message(step["message"])

    async def _send_regenerate(self, step: Wire) -> Any:
        return await self._harnesses.present.send_regenerate(until="turn_complete")

    async def _send_action(self, step: Wire) -> Any:
        return await self._harnesses.present.send_action(step["action"], until="turn_complete")

    async def _send_handover(self, step: Wire) -> Any:
        return await self._harnesses.present.send_handover(
            partial_assistant_message=step["partialAssistantMessage"],
            is_final=step.get("isFinal", False),
            message_id=step.get("messageId"),
            until="turn_complete",
        )

    async def _send_handover_skip(self, step: Wire) -> None:
        await self._harnesses.present.send_handover_skip()

    async def _send_head_start(self, step: Wire) -> Any:
        return await self._harnesses.present.send_head_start(messages=step["messages"])

    async def _send_stop(self, step: Wire) -> None:
        await self._harnesses.present.send_stop(step.get("message"))

    async def _close(self, step: Wire) -> None:
        await self._harnesses.present.close()

    async def _new_harness(self, step: Wire) -> None:
        self._recorder.event("newHarness")
        self._harnesses.open(step.get("options", {}))

    async def _open_gate(self, step: Wire) -> None:
        self._gates.open(step["gate"])

    async def _wait_for_chunk(self, step: Wire) -> None:
        await self._harnesses.while_time_moves(self._recorder.until_written(step["match"], step.get("nth", 1)))

    async def _wait_for_log(self, step: Wire) -> None:
        await self._harnesses.while_time_moves(self._recorder.until_logged(step["match"], step.get("nth", 1)))

    async def _join(self, step: Wire) -> None:
        await self._ended[step["name"]].wait()

    async def _snapshot(self, step: Wire) -> Wire | None:
        return self._harnesses.snapshot()

    async def _settle(self, step: Wire) -> None:
        await self._harnesses.present.advance(step.get("ms", 0) / 1000)


def _shown(step: Wire, returned: Any) -> Wire:
    """Return what a step's result shows of what it returned."""
    if step["do"] == "snapshot":
        return {"snapshot": returned}
    if step["do"] in SENDS and returned is not None:
        return {
            "chunks": [chunk_to_wire(each) for each in returned.chunks],
            "rawChunks": [chunk_to_wire(each) for each in returned.raw_chunks],
        }
    return {}


ACTIONS: dict[str, Callable[[Driver, Wire], Awaitable[Any]]] = {
    "seedSnapshot": Driver._seed_snapshot,
    "seedSessionOutTail": Driver._seed_out_tail,
    "seedSessionOutPartial": Driver._seed_out_partial,
    "seedSessionInTail": Driver._seed_in_tail,
    "sendMessage": Driver._send_message,
    "sendPendingMessage": Driver._send_pending,
    "sendRegenerate": Driver._send_regenerate,
    "sendAction": Driver._send_action,
    "sendHandover": Driver._send_handover,
    "sendHandoverSkip": Driver._send_handover_skip,
    "sendHeadStart": Driver._send_head_start,
    "sendStop": Driver._send_stop,
    "close": Driver._close,
    "newHarness": Driver._new_harness,
    "openGate": Driver._open_gate,
    "waitForChunk": Driver._wait_for_chunk,
    "waitForLog": Driver._wait_for_log,
    "join": Driver._join,
    "snapshot": Driver._snapshot,
    "settle": Driver._settle,
}
