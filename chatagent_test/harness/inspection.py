"""What a test may look at: turns, chunks, records, hook calls, the boot, the session, the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.session import Session
from chatagent_test.harness.leaks import leaked_tasks
from chatagent_test.harness.state import HarnessState
from chatagent_test.harness.turn import Turn, chunks_of, raw_chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.agent import BootReport, HookCall
    from chatagent.session import Record, Snapshot
    from chatagent.ui import Chunk
    from chatagent_test.harness.story import Beat

__all__ = ["Inspection"]


class Inspection(HarnessState):
    """The part of a harness that is looked at; it changes nothing."""

    def __repr__(self) -> str:
        run = "not started" if not self._run.started else "ended" if self.run_ended else "on"
        return (
            f"<ChatAgentHarness of agent {self.agent_id!r}, chat {self.chat_id!r}: run {run}, {len(self.turns)} turns>"
        )

    @property
    def agent_id(self) -> str:
        """The id of the agent that is driven."""
        return self._platform.agent.id

    @property
    def turns(self) -> list[Turn]:
        """Every turn and action so far that has begun to complete, in order."""
        seen = [turn for turn in self._watch.turns if turn.complete_at is not None]
        return [Turn(turn, self._watch.records[turn.first_out : turn.settled_at or turn.complete_at]) for turn in seen]

    @property
    def all_chunks(self) -> list[Chunk]:
        """Every UI chunk since the harness began, in order."""
        return chunks_of(self._watch.records)

    @property
    def all_raw_chunks(self) -> list[dict[str, Any]]:
        """The same as wire dicts, with control records as `{"type": "trigger:…"}`."""
        return raw_chunks_of(self._watch.records)

    @property
    def out_records(self) -> list[Record]:
        """Every record on `.out` since the harness began, those trimmed meanwhile included; no trim commands."""
        return list(self._watch.records)

    @property
    def hooks(self) -> list[HookCall]:
        """Every hook call so far, in order."""
        return list(self._watch.hooks)

    @property
    def story(self) -> list[Beat]:
        """What happened so far, in order, but for the records of `.out`; see `transcript` for it in words."""
        return list(self._watch.story)

    @property
    def boot(self) -> BootReport:
        """What the run found when it booted."""
        return self._watch.boot

    @property
    def session(self) -> Session:
        """The session's two channels, as a client or a tool holds them; readable while the harness is open."""
        if self._session is None:
            self._session = Session(self.chat_id, store=self._platform.store, clock=self.clock)
        return self._session

    @property
    def run_ended(self) -> bool:
        """Whether the agent's run is over."""
        return self._watch.ended

    @property
    def run_error(self) -> BaseException | None:
        """What ended the run, if it failed."""
        return self._run.error

    @property
    def upgrade_requested(self) -> bool:
        """Whether the run asked for a newer version of the agent before it asked the model."""
        return self._watch.upgrade

    def get_snapshot(self) -> Snapshot | None:
        """Return the last snapshot that the run has saved; `None` before any, and never a seeded one."""
        return self._platform.saved

    def leaked_tasks(self) -> list[str]:
        """Return a line for each task of the run that is alive: behind `close`, for each that has outlived it.

        On asyncio tasks count that hooks and tools have started themselves; on trio nobody can outlive who started it.
        """
        return leaked_tasks(self._run.task, self._run.other_tasks, self._driver.ledger)

    def on_out(self, callback: Callable[[Record], None]) -> Callable[[], None]:
        """Call back with each record of `.out` as it is written; returns what ends that."""
        return self._watch.listen(callback)
