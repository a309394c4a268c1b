"""A session in memory and the runs on it, one after the other, without the harness: what a server does.

Each run takes what is on `.in`, and ends by itself once it would have to wait.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chatagent.agent import AgentRun, NullObserver, RunEnvironment, parse_payload, run_agent
from chatagent.current import current_run
from chatagent.session import (
    InMemorySessionStore,
    InMemorySnapshotStore,
    NewRecord,
    Record,
    RunRequest,
    SessionSpec,
    SnapshotStore,
    Worker,
)
from chatagent.task import make_run_context
from chatagent.tasks import OwnedTask
from chatagent.ui import UIMessage, to_wire
from chatagent.waiting import Ledger
from chatagent_test import VirtualClock, mock_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from chatagent import ChatAgent
    from chatagent.agent import BootReport, TurnReport
    from chatagent.session import Lease

__all__ = ["LiveSession", "live_session"]


class Seen(NullObserver):
    """What one run did."""

    def __init__(self) -> None:
        self.boot: BootReport | None = None
        self.turns: list[TurnReport] = []
        self.is_waiting = False
        self.is_suspended = False

    def booted(self, report: BootReport) -> None:
        self.boot = report

    def turn_started(self, turn: int, in_seq: int | None) -> None:
        self.is_waiting = False

    def turn_settled(self, report: TurnReport) -> None:
        self.turns.append(report)

    def waiting(self, *, suspended: bool) -> None:
        self.is_waiting, self.is_suspended = True, suspended


class LiveSession:
    """One session, `c-1`, and what lies around it."""

    def __init__(self, store: type[InMemorySessionStore] = InMemorySessionStore) -> None:
        self.clock = VirtualClock()
        self.store = store(clock=self.clock)
        self.snapshots: SnapshotStore = InMemorySnapshotStore(sessions=self.store)
        self.out: list[Record] = []
        """Everything that was ever written to `.out`, also what was trimmed meanwhile."""
        self.new_id = mock_id("made")
        self.lease: Lease | None = None
        self.mint_token: Callable[[], str] = str
        """Makes the access tokens of the turns."""

    def put(self, data: Any) -> int:
        """Put a record on `.in`; returns its number."""
        return self.store.append_nowait("c-1", "in", [NewRecord(data)]).last

    def submit(self, message: UIMessage, *, trigger: str = "submit-message", **payload: Any) -> int:
        """Send a message, as a client does."""
        return self.put(
            {
                "kind": "message",
                "payload": {"chatId": "c-1", "trigger": trigger, "message": to_wire(message), **payload},
            }
        )

    def crash(self) -> None:
        """Take the lease from the run that is on: from now on it can write nothing."""
        self.store.revoke("c-1")

    async def run(self, agent: ChatAgent[Any], *, attempt: int = 1, **payload: Any) -> Seen:
        """Boot a run and let it work until it would wait for input.

        Args:
            agent: what runs.
            attempt: the number of the try.
            payload: the boot payload in wire form; by default that of a continuation.

        Raises:
            BaseException: what ended the run.
        """
        return await self._run(agent, attempt, payload, waits=False)

    async def run_idle(self, agent: ChatAgent[Any], **payload: Any) -> Seen:
        """Boot a run that waits for input, warm and then suspended; ends it once it is suspended."""
        return await self._run(agent, 1, payload, waits=True)

    async def _run(self, agent: ChatAgent[Any], attempt: int, payload: dict[str, Any], *, waits: bool) -> Seen:
        await self.store.ensure_run("c-1", RunRequest("continuation"))
        (self.lease,) = await self.store.claim_runs(Worker("tests", (agent.id,), ttl=1e9), limit=1)
        seen = Seen()
        wire = {"chatId": "c-1", **(payload or {"continuation": True, "previousRunId": "run_prior"})}
        env = RunEnvironment(
            payload=parse_payload(wire, new_id=self.new_id, allow_system=False),
            lease=self.lease,
            store=self.store,
            snapshots=self.snapshots,
            clock=self.clock,
            context=make_run_context({"attempt": {"number": attempt}}, now=self.clock.now()),
            new_id=self.new_id,
            observer=seen,
            ledger=Ledger(),
            mint_token=self.mint_token,
        )

        def go_on() -> None:
            if seen.is_waiting and (seen.is_suspended or not waits):
                env.cancel.abort("nothing is left")
            elif seen.is_waiting and (deadline := self.clock.next_deadline()) is not None:
                self.clock.move_to(deadline)

        env.ledger.watch(go_on)

        async def main() -> None:
            run = AgentRun(agent, env)
            current_run.set(run)
            await run_agent(run)

        try:
            await OwnedTask(main, name="a run", ledger=env.ledger).wait()
        finally:
            self.crash()
        return seen


@asynccontextmanager
async def live_session(store: type[InMemorySessionStore] = InMemorySessionStore) -> AsyncGenerator[LiveSession]:
    """Open a session that no run has worked on yet, in a store of this kind."""
    session = LiveSession(store)
    async with session.store as store:
        await store.create_session(SessionSpec(session_id="c-1", task="tester"))
        store.observe(lambda _id, direction, records: session.out.extend(records) if direction == "out" else None)
        yield session
