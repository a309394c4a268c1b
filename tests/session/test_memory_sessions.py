"""Creating, changing, listing, closing and deleting sessions in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from chatagent.errors import InvalidArgumentError, LeaseLostError, SessionClosedError, SessionNotFoundError
from chatagent.session import (
    InMemorySessionStore,
    InMemorySnapshotStore,
    NewRecord,
    RunRequest,
    SessionChange,
    SessionSpec,
    Snapshot,
    Worker,
)
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

WORKER = Worker("w", ["agent"])
X = [NewRecord("x")]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(clock: VirtualClock) -> AsyncIterator[InMemorySessionStore]:
    async with InMemorySessionStore(clock=clock) as opened:
        yield opened


def spec(session_id: str = "c", *, task: str = "agent", tags: tuple[str, ...] = ()) -> SessionSpec:
    return SessionSpec(session_id=session_id, task=task, tags=tags)


async def test_creating_twice_gives_one_session_and_one_run(store: InMemorySessionStore, clock: VirtualClock) -> None:
    first = await store.create_session(spec(), run=RunRequest("initial"))
    clock.advance(5)
    again = await store.create_session(spec(tags=("t",)), run=RunRequest("initial"))

    assert (first.created, again.created) == (True, False)
    assert first.run is not None
    assert again.run is not None
    assert (first.run.epoch, first.run.state, first.run.created) == (1, "pending", True)
    assert (again.run.run_id, again.run.created) == (first.run.run_id, False)
    assert again.session.friendly_id == first.session.friendly_id
    assert (again.session.tags, again.session.updated_at - again.session.created_at) == (("t",), 5)


async def test_of_concurrent_creations_one_creates(store: InMemorySessionStore) -> None:
    created: list[bool] = []

    async def create() -> None:
        await anyio.lowlevel.checkpoint()
        created.append((await store.create_session(spec(), run=RunRequest("initial"))).created)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(create)

    assert sorted(created) == [False] * 19 + [True]
    assert len(await store.claim_runs(WORKER, limit=10)) == 1


async def test_a_new_session_shows_where_it_stands(store: InMemorySessionStore, clock: VirtualClock) -> None:
    info = (await store.create_session(spec())).session

    assert (info.type, info.task, info.current_run) == ("chat.agent", "agent", None)
    assert (info.in_next, info.in_work, info.in_committed) == (0, -1, -1)
    assert (info.created_at, info.closed_at) == (clock.now(), None)
    assert info.friendly_id.startswith("session_")
    assert await store.get_session("c") == await store.get_session(info.friendly_id) == info
    assert await store.get_session("unknown") is None


async def test_the_id_of_another_task_is_refused(store: InMemorySessionStore) -> None:
    await store.create_session(spec())

    with pytest.raises(InvalidArgumentError, match="`task` is 'other': session 'c' belongs to the task 'agent'"):
        await store.create_session(spec(task="other"))


@pytest.mark.parametrize("session_id", ["", "x" * 257, "session_1", "a\nb"])
async def test_what_is_no_external_id_is_refused(store: InMemorySessionStore, session_id: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`session_id` is"):
        await store.create_session(spec(session_id))


async def test_an_update_changes_what_it_names(store: InMemorySessionStore) -> None:
    await store.create_session(SessionSpec(session_id="c", task="agent", tags=("a",), metadata={"k": 1}))

    changed = await store.update_session("c", SessionChange(metadata=None))
    with pytest.raises(SessionNotFoundError):
        await store.update_session("x", SessionChange())

    assert (changed.tags, changed.metadata) == (("a",), None)


async def test_a_closed_session_takes_no_input_and_lets_its_run_finish(
    store: InMemorySessionStore, clock: VirtualClock
) -> None:
    await store.create_session(spec(), run=RunRequest("initial"))
    [lease] = await store.claim_runs(WORKER, limit=1)
    await store.append("c", "in", X, key="k")

    closed = await store.close_session("c", reason="done")
    clock.advance(1)
    again = await store.close_session("c", reason="other")

    assert (closed.closed_reason, closed) == ("done", again)
    for refused in (store.append("c", "in", X), store.create_session(spec())):
        with pytest.raises(SessionClosedError):
            await refused
    assert (await store.append("c", "in", X, key="k")).duplicate
    assert (await store.append("c", "out", X, epoch=1)).first == 0
    assert (await store.end_run(lease, "closed", input_seen=-1)).ended
    with pytest.raises(SessionClosedError):
        await store.ensure_run("c", RunRequest("continuation"))


async def test_an_expired_session_is_closed_for_good(store: InMemorySessionStore, clock: VirtualClock) -> None:
    await store.create_session(SessionSpec(session_id="c", task="agent", expires_at=clock.now() + 10))
    await store.append("c", "in", X)
    clock.advance(10)

    with pytest.raises(SessionClosedError):
        await store.append("c", "in", X)
    info = await store.update_session("c", SessionChange(expires_at=None))

    assert (info.closed_at, info.closed_reason) == (clock.now(), "expired")


async def test_a_deleted_session_leaves_only_its_epochs(store: InMemorySessionStore) -> None:
    snapshots = InMemorySnapshotStore(sessions=store)
    await store.create_session(spec(), run=RunRequest("initial"))
    [lease] = await store.claim_runs(WORKER, limit=1)
    await store.append("c", "in", X, key="k")
    await snapshots.save("c", Snapshot(saved_at=1, messages=[]), epoch=1)

    assert await store.delete_session("c")
    assert not await store.delete_session("c")
    assert await store.get_session(lease.session.friendly_id) is None
    assert await snapshots.load("c") is None
    await assert_fenced(store, snapshots, lease=lease)

    created = await store.create_session(spec(), run=RunRequest("initial"))
    assert created.run is not None
    assert created.run.epoch == 2
    await assert_fenced(store, snapshots, lease=lease)
    assert not (await store.append("c", "in", X, key="k")).duplicate
    assert (await store.append("c", "out", X, epoch=2)).first == 0


async def assert_fenced(store: InMemorySessionStore, snapshots: InMemorySnapshotStore, *, lease: object) -> None:
    for refused in (
        store.append("c", "out", X, epoch=1),
        store.end_run(lease, "idle"),  # type: ignore[arg-type]
        snapshots.save("c", Snapshot(saved_at=1, messages=[]), epoch=1),
    ):
        with pytest.raises(LeaseLostError):
            await refused
    assert await store.renew([lease]) == [None]  # type: ignore[list-item]


async def test_a_list_shows_each_session_once_while_others_come_and_go(store: InMemorySessionStore) -> None:
    for each in range(25):
        await store.create_session(spec(f"s{each}", tags=("even",) if each % 2 == 0 else ()))
    seen: list[str] = []
    after: str | None = None

    for round_ in range(10):
        page = await store.list_sessions(after=after, limit=4)
        seen += [info.session_id for info in page.sessions]
        await store.create_session(spec(f"new{round_}"))
        await store.delete_session(f"s{round_ * 2}")
        after = page.next
        if after is None:
            break
    even = await store.list_sessions(tag="even", limit=50)

    assert len(seen) == len(set(seen))
    assert {f"s{each}" for each in range(1, 25, 2)} <= set(seen)
    assert [info.session_id for info in even.sessions] == ["s20", "s22", "s24"] or even.next is None
    with pytest.raises(InvalidArgumentError, match="give the `next` of a page"):
        await store.list_sessions(after="s1")
