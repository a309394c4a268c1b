"""Runs in memory: who may write, who gets a run, how it ends, and that no work is left behind."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from chatagent.errors import LeaseLostError, SessionNotFoundError, StoreClosedError
from chatagent.session import (
    InMemorySessionStore,
    InMemorySnapshotStore,
    Lease,
    NewRecord,
    RunRef,
    RunRequest,
    SessionSpec,
    Snapshot,
    Worker,
    boot_payload,
    control_record,
    trim_record,
)
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.session import RunReason

pytestmark = pytest.mark.anyio

WORKER = Worker("w", ["agent"])
MORE = RunRequest("continuation")
X = [NewRecord("x")]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(clock: VirtualClock) -> AsyncIterator[InMemorySessionStore]:
    """A store with the session `c`, which has no run."""
    async with InMemorySessionStore(clock=clock) as opened:
        await opened.create_session(SessionSpec(session_id="c", task="agent"))
        yield opened


async def claim(store: InMemorySessionStore, worker: Worker = WORKER) -> Lease:
    [lease] = await store.claim_runs(worker, limit=1)
    return lease


async def current(store: InMemorySessionStore) -> RunRef | None:
    info = await store.get_session("c")
    assert info is not None
    return info.current_run


async def test_a_run_is_created_once(store: InMemorySessionStore) -> None:
    refs: list[RunRef] = []

    async def ensure() -> None:
        await anyio.lowlevel.checkpoint()
        refs.append(await store.ensure_run("c", MORE))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ensure)

    assert {(ref.run_id, ref.epoch, ref.state) for ref in refs} == {(refs[0].run_id, 1, "pending")}
    assert [ref.created for ref in refs] == [True] + [False] * 19
    with pytest.raises(SessionNotFoundError):
        await store.ensure_run("x", MORE)


async def test_each_run_is_claimed_by_one_worker_oldest_first(store: InMemorySessionStore) -> None:
    for each in range(50):
        task = "other" if each % 10 == 9 else "agent"
        await store.create_session(SessionSpec(session_id=f"s{each}", task=task), run=RunRequest("initial"))
    claimed: dict[str, list[str]] = {}

    async def work(handle: InMemorySessionStore, name: str) -> None:
        while leases := await handle.claim_runs(Worker(name, ["agent"]), limit=3):
            claimed.setdefault(name, []).extend(lease.session.session_id for lease in leases)
            await anyio.lowlevel.checkpoint()

    async with store.handle() as other, anyio.create_task_group() as tasks:
        for each in range(4):
            tasks.start_soon(work, other if each % 2 else store, f"w{each}")

    everything = [session for sessions in claimed.values() for session in sessions]
    assert sorted(everything) == sorted(f"s{each}" for each in range(50) if each % 10 != 9)
    assert all(sessions == sorted(sessions, key=lambda name: int(name[1:])) for sessions in claimed.values())


async def test_an_append_of_work_names_the_run_that_will_see_it(store: InMemorySessionStore) -> None:
    none = await store.append("c", "in", X)
    created = await store.append("c", "in", X, run=MORE)
    pending = await store.append("c", "in", X, run=MORE)
    lease = await claim(store)
    live = await store.append("c", "in", X, run=MORE)

    runs = [ack.run for ack in (created, pending, live)]
    assert none.run is None
    assert [(run.run_id, run.state, run.created) for run in runs if run] == [
        (lease.run_id, "pending", True),
        (lease.run_id, "pending", False),
        (lease.run_id, "live", False),
    ]
    assert lease.session.in_work == 2


async def test_a_repeated_append_makes_sure_of_a_run_while_its_record_waits(store: InMemorySessionStore) -> None:
    await store.append("c", "in", X, key="k", run=MORE)
    lease = await claim(store)
    await store.end_run(lease, "failed")

    waiting = await store.append("c", "in", X, key="k", run=MORE)
    assert waiting.run is not None
    assert (waiting.duplicate, waiting.run.epoch, waiting.run.created) == (True, 2, True)

    await store.append("c", "out", [control_record("turn-complete")], epoch=2, commit_in=0)
    await store.end_run(await claim(store), "idle", input_seen=0)
    done = await store.append("c", "in", X, key="k", run=MORE)
    assert (done.duplicate, done.run) == (True, None)


async def test_the_committed_cursor_only_moves_up_and_not_past_the_log(store: InMemorySessionStore) -> None:
    await store.ensure_run("c", MORE)
    await store.append("c", "in", [NewRecord(each) for each in range(5)])
    cursors: list[int] = []

    for number in (1, 3, 2, 99):
        await store.append("c", "out", X, epoch=1, commit_in=number)
        info = await store.get_session("c")
        assert info is not None
        cursors.append(info.in_committed)

    assert cursors == [1, 3, 3, 4]


async def test_a_pending_runs_epoch_writes_beside_its_worker(store: InMemorySessionStore) -> None:
    ref = await store.ensure_run("c", MORE)

    await store.append("c", "out", X, epoch=ref.epoch)
    lease = await claim(store)
    await store.append("c", "out", X, epoch=ref.epoch)
    await store.append("c", "out", X, epoch=lease.epoch)
    store.revoke("c")
    await store.ensure_run("c", MORE)

    with pytest.raises(LeaseLostError):
        await store.append("c", "out", X, epoch=ref.epoch)
    assert (await store.read("c", "out")).next == 3


async def test_a_lease_is_renewed_until_somebody_takes_the_run(
    store: InMemorySessionStore, clock: VirtualClock
) -> None:
    for each in range(10):
        await store.create_session(SessionSpec(session_id=f"s{each}", task="agent"), run=RunRequest("initial"))
    leases = await store.claim_runs(Worker("w", ["agent"], ttl=10), limit=50)
    clock.advance(11)
    late = await store.renew(leases)
    for each in (1, 4, 5):
        store.revoke(f"s{each}")

    renewed = await store.renew(leases)

    assert [lease.expires_at for lease in late if lease] == [clock.now() + 10] * 10
    assert [each for each, lease in enumerate(renewed) if lease is None] == [1, 4, 5]


async def test_a_run_stays_if_work_has_come_that_it_has_not_seen(store: InMemorySessionStore) -> None:
    await store.append("c", "in", X, run=MORE)
    lease = await claim(store)
    await store.append("c", "in", X, run=MORE)

    stays = await store.end_run(lease, "idle", input_seen=0)
    assert (stays.ended, stays.in_work) == (False, 1)
    assert (await store.append("c", "out", X, epoch=1)).first == 0

    leaves = await store.end_run(lease, "idle", input_seen=1)
    assert (leaves.ended, await current(store)) == (True, None)
    with pytest.raises(LeaseLostError):
        await store.end_run(lease, "idle")


@pytest.mark.parametrize("seed", range(200))
async def test_no_message_falls_between_a_run_that_leaves_and_the_next(seed: int) -> None:
    chance = random.Random(seed)
    async with InMemorySessionStore() as store:
        await store.create_session(SessionSpec(session_id="c", task="agent"), run=RunRequest("initial"))
        lease = await claim(store)
        left: list[bool] = []

        async def wait_a_little() -> None:
            for _ in range(chance.randrange(4)):
                await anyio.lowlevel.checkpoint()

        async def leave() -> None:
            await wait_a_little()
            page = await store.read("c", "in")
            await wait_a_little()
            left.append((await store.end_run(lease, "idle", input_seen=page.next - 1)).ended)

        async def send() -> None:
            await wait_a_little()
            await store.append("c", "in", X, run=MORE)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            tasks.start_soon(send)
        run = await current(store)

    seen_it = left == [True] and run is None
    stayed = left == [False] and run is not None and run.epoch == 1
    followed = left == [True] and run is not None and (run.epoch, run.state) == (2, "pending")
    assert [seen_it, stayed, followed].count(True) == 1


async def test_a_run_that_leaves_may_name_the_next_in_the_same_step(store: InMemorySessionStore) -> None:
    await store.ensure_run("c", MORE)
    lease = await claim(store)
    await store.append("c", "in", X, run=MORE)

    ended = await store.end_run(lease, "upgraded", input_seen=-1, next_run=RunRequest("upgrade"))

    assert ended.ended
    assert ended.next_run == RunRef("c", ended.next_run.run_id if ended.next_run else "", 2, "pending", created=True)
    following = await claim(store)
    assert (following.epoch, following.reason, following.previous_run_id) == (2, "upgrade", lease.run_id)


async def test_an_expired_lease_is_a_crash_and_waiting_work_gets_a_run(
    store: InMemorySessionStore, clock: VirtualClock
) -> None:
    await store.append("c", "in", X, run=MORE)
    lease = await claim(store)
    clock.advance(14)
    nothing = await store.recover()
    clock.advance(2)

    found: list[RunRef] = []
    async with store.handle() as other, anyio.create_task_group() as tasks:

        async def recover(handle: InMemorySessionStore) -> None:
            found.extend(await handle.recover())

        for each in range(5):
            tasks.start_soon(recover, other if each % 2 else store)

    assert nothing == []
    assert [(ref.run_id, ref.state) for ref in found] == [(lease.run_id, "ended")]
    following = await claim(store)
    assert (following.epoch, following.reason, following.crashes) == (2, "crash", 1)


async def test_a_crashed_session_without_work_rests(store: InMemorySessionStore, clock: VirtualClock) -> None:
    await store.append("c", "in", X, run=MORE)
    await claim(store)
    await store.append("c", "out", [control_record("turn-complete")], epoch=1, commit_in=0)
    clock.advance(20)

    assert len(await store.recover()) == 1
    assert await current(store) is None


async def test_crashes_without_progress_are_retried_later_and_later(
    store: InMemorySessionStore, clock: VirtualClock
) -> None:
    await store.append("c", "in", X, run=MORE)
    waits: list[float] = []
    crashes: list[int] = []

    for _ in range(6):
        lease = await claim(store)
        crashes.append(lease.crashes)
        clock.advance(15)
        await store.recover()
        crashed_at = clock.now()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.wait_for_runs, WORKER)
            await anyio.wait_all_tasks_blocked()
            if (deadline := clock.next_deadline()) is not None:
                assert await store.claim_runs(WORKER, limit=1) == []
                clock.move_to(deadline)
        waits.append(clock.now() - crashed_at)
    lease = await claim(store)
    await store.append("c", "out", X, epoch=lease.epoch, commit_in=0)
    [renewed] = await store.renew([lease])

    assert waits == [0, 1, 5, 30, 30, 30]
    assert crashes == [0, 1, 2, 3, 4, 5]
    assert renewed is not None
    assert renewed.crashes == 0


async def test_a_zombie_can_do_nothing(store: InMemorySessionStore, clock: VirtualClock) -> None:
    snapshots = InMemorySnapshotStore(sessions=store)
    await store.append("c", "in", X, run=MORE)
    zombie = await claim(store)
    await store.append("c", "out", X, epoch=1)
    clock.advance(20)
    await store.recover()
    lease = await claim(store)
    before = (await store.get_session("c"), await store.read("c", "out"))

    for refused in (
        store.append("c", "out", X, epoch=1),
        store.append("c", "out", [trim_record(before=1)], epoch=1),
        store.append("c", "out", X, epoch=1, commit_in=0),
        store.end_run(zombie, "idle"),
        snapshots.save("c", Snapshot(saved_at=1, messages=[], last_out_event_id="5"), epoch=1),
    ):
        with pytest.raises(LeaseLostError):
            await refused

    assert await store.renew([zombie]) == [None]
    assert before == (await store.get_session("c"), await store.read("c", "out"))
    assert await snapshots.load("c") is None
    assert (await store.append("c", "out", X, epoch=lease.epoch)).first == 1


async def test_a_revoked_run_writes_nothing_more_and_recovery_sees_to_its_work(store: InMemorySessionStore) -> None:
    await store.append("c", "in", X, run=MORE)
    lease = await claim(store)

    ref = store.revoke("c")
    with pytest.raises(LeaseLostError, match="epoch 1 may not write, the current one is None"):
        await store.append("c", "out", X, epoch=1)
    rested = await current(store)
    crashed = await store.recover()

    assert ref == RunRef("c", lease.run_id, 1, "ended")
    assert (rested, crashed) == (None, [])
    following = await claim(store)
    assert (following.epoch, following.reason, following.previous_run_id) == (2, "crash", lease.run_id)
    assert store.revoke("c") is not None
    assert store.revoke("c") is None


async def test_a_revoked_run_that_was_followed_is_no_matter_for_recovery(store: InMemorySessionStore) -> None:
    await store.append("c", "in", X, run=MORE)
    store.revoke("c")
    await store.ensure_run("c", MORE)
    await store.end_run(await claim(store), "failed")

    await store.recover()

    assert await current(store) is None


async def test_a_worker_wakes_when_there_is_something_for_it(store: InMemorySessionStore) -> None:
    woken: list[str] = []

    async def wait(handle: InMemorySessionStore, name: str, task: str) -> None:
        await handle.wait_for_runs(Worker(name, [task]))
        woken.append(name)

    async with store.handle() as other, anyio.create_task_group() as tasks:
        tasks.start_soon(wait, store, "a", "agent")
        tasks.start_soon(wait, other, "b", "agent")
        tasks.start_soon(wait, other, "c", "other task")
        await anyio.wait_all_tasks_blocked()
        await store.append("c", "in", X, run=MORE)
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
        await store.wait_for_runs(WORKER)
        tasks.cancel_scope.cancel()


async def test_closing_the_store_ends_a_worker_that_waits(store: InMemorySessionStore) -> None:
    other = store.handle()

    async def wait() -> None:
        with pytest.raises(StoreClosedError):
            await other.wait_for_runs(WORKER)

    async with anyio.create_task_group() as tasks, other:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()


# --- what a run boots with ---

BASE = {"chatId": "c", "trigger": "submit-message", "message": {"id": "m"}, "metadata": {"user": 1}, "sessionId": "s"}


async def run_after_run(store: InMemorySessionStore, *reasons: RunReason) -> list[Lease]:
    spec = SessionSpec(session_id="d", task="agent", trigger_config={"basePayload": BASE})
    await store.create_session(spec, run=RunRequest("initial", {"idleTimeoutInSeconds": 9}))
    leases = [await claim(store)]
    for reason in reasons:
        await store.end_run(leases[-1], "failed", next_run=RunRequest(reason))
        leases.append(await claim(store))
    return leases


async def test_the_first_run_boots_with_the_base_payload_and_later_ones_with_what_lasts(
    store: InMemorySessionStore,
) -> None:
    """C-3, F-20."""
    first, second = await run_after_run(store, "continuation")

    assert boot_payload(first) == {**BASE, "idleTimeoutInSeconds": 9}
    assert boot_payload(second) == {
        "chatId": "c",
        "metadata": {"user": 1},
        "sessionId": "s",
        "continuation": True,
        "previousRunId": first.run_id,
    }


async def test_a_retry_boots_with_what_the_run_before_it_got(store: InMemorySessionStore) -> None:
    first, retry, second, again = await run_after_run(store, "out_of_memory", "upgrade", "out_of_memory")

    assert boot_payload(retry) == boot_payload(first)
    assert boot_payload(again) == boot_payload(second)
    assert [lease.attempt for lease in (first, retry, second, again)] == [1, 2, 1, 2]
    assert second.previous_run_id == retry.run_id
