"""The spans of a run's boot, of its waits, and of what it saves (section 2.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.handing_over import GREETING
from agent.making import agent_of, assistant, user
from agent.sessions import live_session
from chatagent_test import mock_chat_agent
from telemetry.recording import Recorded

if TYPE_CHECKING:
    from chatagent.session import Snapshot, SnapshotStore
    from chatagent_test import VirtualClock

pytestmark = pytest.mark.anyio

PREFIX = "chat.boot."
SNAPSHOT = {
    "version": 1,
    "savedAt": 0,
    "messages": [{"id": "u-0", "role": "user", "parts": [{"type": "text", "text": "before"}]}],
    "lastOutEventId": "3",
}


def nothing(event: Any) -> None:
    return None


def read_facts(recorded: Recorded) -> dict[str, Any]:
    """What `chat.boot` says of the reads."""
    facts = recorded.attributes("chat.boot")
    return {name.removeprefix(PREFIX): value for name, value in facts.items() if name.startswith(PREFIX)}


class SlowSnapshots:
    """Snapshots that take their time, and can be made to fail."""

    def __init__(self, snapshots: SnapshotStore, clock: VirtualClock, *, broken: bool = False) -> None:
        self._snapshots, self._clock, self._broken = snapshots, clock, broken

    async def load(self, session_id: str) -> Snapshot | None:
        self._clock.advance(1.5)
        return await self._snapshots.load(session_id)

    async def save(self, session_id: str, snapshot: Snapshot, *, epoch: int) -> None:
        if self._broken:
            raise OSError("disk full")
        await self._snapshots.save(session_id, snapshot, epoch=epoch)

    async def delete(self, session_id: str) -> None:
        await self._snapshots.delete(session_id)


async def test_a_boot_with_a_past_says_what_it_read() -> None:
    recorded = Recorded()

    agent = agent_of(on_boot=nothing, on_recovery_boot=nothing)
    harness = mock_chat_agent(agent, continuation=True, snapshot=SNAPSHOT, telemetry=recorded.telemetry)
    harness.seed_session_out_tail([{"type": "start", "messageId": "a-1"}, {"type": "start-step"}])
    harness.seed_session_in_tail([user("u-1"), user("u-2"), user("u-3")])
    async with harness:
        await harness.start()

    counts = {name: value for name, value in read_facts(recorded).items() if not name.endswith("duration")}
    assert counts == {"snapshot.messages": 1, "out.records": 2, "in.records": 3}
    assert recorded.tree()[:2] == ["chat.boot", "  onBoot()"]


async def test_a_read_lasts_as_long_as_the_store_takes() -> None:
    recorded = Recorded()

    async with live_session() as session:
        session.snapshots = SlowSnapshots(session.snapshots, session.clock)
        await session.run(agent_of(telemetry=recorded.telemetry))

    facts = read_facts(recorded)
    assert facts["snapshot.duration"] == pytest.approx(1.5)
    assert facts["out.duration"] == facts["in.duration"] == 0


async def test_a_fresh_run_reads_nothing() -> None:
    recorded = Recorded()

    async with mock_chat_agent(agent_of(), telemetry=recorded.telemetry) as harness:
        await harness.start()

    assert read_facts(recorded) == {}


async def test_with_a_store_of_its_own_an_agent_reads_only_what_was_answered() -> None:
    recorded = Recorded()
    agent = agent_of(hydrate_messages=lambda event: event.incoming_messages)

    async with mock_chat_agent(agent, continuation=True, telemetry=recorded.telemetry) as harness:
        await harness.start()

    assert list(read_facts(recorded)) == ["out.duration", "out.records"]


async def test_recovery_belongs_to_the_boot() -> None:
    recorded = Recorded()

    harness = mock_chat_agent(agent_of(on_recovery_boot=nothing), continuation=True, telemetry=recorded.telemetry)
    harness.seed_session_out_partial(assistant("a-1", "half"))
    async with harness:
        await harness.start()

    assert recorded.parent("onRecoveryBoot()") == "chat.boot"


async def test_a_boot_that_fails_is_marked() -> None:
    recorded = Recorded()

    def fail(event: Any) -> None:
        raise LookupError("no tenant")

    harness = mock_chat_agent(agent_of(on_boot=fail), telemetry=recorded.telemetry)
    with pytest.raises(LookupError):
        await harness.start()
    await harness.close()

    assert recorded.failed == {"chat.boot": "no tenant", "onBoot()": "no tenant"}
    assert recorded.open == []


async def test_a_snapshot_that_cannot_be_saved_is_marked_and_the_turn_is_not() -> None:
    recorded = Recorded()

    async with live_session() as session:
        session.snapshots = SlowSnapshots(session.snapshots, session.clock, broken=True)
        session.submit(user("u-1"))
        seen = await session.run(agent_of(telemetry=recorded.telemetry))

    assert [report.error for report in seen.turns] == [None]
    assert recorded.failed == {"snapshot.write": "disk full"}
    assert recorded.attributes("snapshot.write")["chat.snapshot.messages"] == 2
    assert recorded.parent("snapshot.write") == "chat turn 1"


async def test_each_wait_has_its_name() -> None:
    recorded = Recorded()

    def fail_once(event: Any) -> None:
        if event.turn == 1:
            raise LookupError("no such customer")

    async with mock_chat_agent(agent_of(on_turn_start=fail_once), telemetry=recorded.telemetry) as harness:
        await harness.send_message("one")
        turn = await harness.send_message("two")
        assert turn.error is not None
        await harness.send_message("three")
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()

    assert [name for name in recorded.names if name.startswith("waiting")] == [
        "waiting for first message",
        "waiting for next message",
        "waiting for next message (after error)",
        "waiting for next message",
        "waiting for next message (continuation)",
    ]


async def test_the_wait_for_a_head_start_has_its_name() -> None:
    recorded = Recorded()

    async with mock_chat_agent(agent_of(), mode="handover-prepare", telemetry=recorded.telemetry) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True)

    assert recorded.tree() == [
        "chat.boot",
        "waiting for handover signal",
        "chat turn 1",
        "  snapshot.write",
        "waiting for next message",
    ]
