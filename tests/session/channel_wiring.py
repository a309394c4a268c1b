"""A channel over a session in memory, a run that it belongs to, and a client's end of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatagent.session import (
    InMemorySessionStore,
    NewRecord,
    Record,
    SessionSpec,
)
from chatagent.session.channel import Channel, WaitResult
from chatagent_test.clock import VirtualClock
from ground.fake_run import FakeRun, a_run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from chatagent.tasks import OwnedTask


@dataclass
class Wiring:
    """A channel, what it stands on, and a client's end of it."""

    channel: Channel
    run: FakeRun
    store: InMemorySessionStore
    clock: VirtualClock

    def send(self, *kinds: str) -> None:
        """Append records of these kinds, as a client does."""
        self.store.append_nowait("c", "in", [NewRecord({"kind": kind}) for kind in kinds])

    async def deliver(self, *kinds: str) -> None:
        """Append records of these kinds and wait until the channel has dispatched them."""
        self.send(*kinds)
        await self.run.settled()

    async def start(self, work: Callable[[], Awaitable[Any]]) -> OwnedTask:
        """Let a task of the run begin a wait."""
        task = self.run.start(work)
        await self.run.settled()
        return task

    @property
    def cursors(self) -> tuple[int | None, int | None]:
        """What was received, and what was consumed."""
        return self.channel.last_seq_num, self.channel.last_dispatched_seq_num


@asynccontextmanager
async def wired(*kinds: str) -> AsyncGenerator[Wiring]:
    """Make a channel over a session whose log holds records of these kinds already."""
    clock = VirtualClock()
    async with InMemorySessionStore(clock=clock) as store, a_run(clock) as run:
        await store.create_session(SessionSpec(session_id="c", task="agent"))
        wiring = Wiring(Channel("c", store=store, clock=clock, tasks=run.tasks), run, store, clock)
        if kinds:
            wiring.send(*kinds)
        yield wiring


def kind_of(record: Record) -> str:
    data: Any = record.data
    return data["kind"]


def is_message(record: Record) -> bool:
    return kind_of(record) == "message"


def seq_of(result: WaitResult) -> int | None:
    return None if result.output is None else result.output.seq


class Handler:
    """Remembers what it was shown, and consumes records of one kind."""

    def __init__(self, consumes: str | None = None) -> None:
        self.consumes = consumes
        self.seen: list[int] = []

    def __call__(self, record: Record) -> object:
        self.seen.append(record.seq)
        return kind_of(record) == self.consumes
