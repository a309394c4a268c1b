"""`ChatAgentHarness`: an agent's real run, with its ends tied off in memory.

The turn loop, the hooks, the stores and the replay are the runtime's own; only the clock, the ids and the client's side
are the harness's. A driver call returns when its turn has settled, raises when that can never happen, and never hangs.
What a harness is made of and finds at its boot is here; what it does is in its parts, which `state.py` names.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from chatagent.errors import HarnessStateError
from chatagent.waiting import Ledger
from chatagent_test.harness.closing import Closing
from chatagent_test.harness.driven_run import DrivenRun
from chatagent_test.harness.driver import Driver
from chatagent_test.harness.failures import Failures
from chatagent_test.harness.ids import CountedIds
from chatagent_test.harness.inspection import Inspection
from chatagent_test.harness.platform import Platform
from chatagent_test.harness.run_control import RunControl
from chatagent_test.harness.seeds import Seeds
from chatagent_test.harness.sending import Sending
from chatagent_test.harness.watch import RunWatch
from chatagent_test.harness.where import describe_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent.agent import ChatAgent, Telemetry
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.session import Snapshot
    from chatagent.task import LocalValues
    from chatagent.ui import Chunk, UIMessage
    from chatagent_test.harness.run_network import RunNetwork
    from chatagent_test.harness.state import Mode

__all__ = ["ChatAgentHarness"]


class ChatAgentHarness(Sending, RunControl, Closing, Inspection):
    """Drives one agent through a conversation. Made by `mock_chat_agent`; use it as `async with`."""

    def __init__(
        self,
        agent: ChatAgent[Any],
        *,
        boot_payload: Mapping[str, Any],
        mode: Mode,
        client_data: Any,
        task_context: Mapping[str, Any] | None,
        setup_locals: Callable[[LocalValues], Any] | None,
        clock: Clock,
        auto_advance: bool,
        ids: IdGenerator | None,
        wait_timeout: float,
        network: RunNetwork,
        strict: bool,
        telemetry: Telemetry | Literal["agent"] | None = None,
    ) -> None:
        self.chat_id: str = boot_payload["chatId"]
        """The conversation's id."""
        self.clock = clock
        """The clock of everything in this harness."""
        self.wait_timeout = wait_timeout
        """Real seconds after which a driver gives up."""
        self._agent, self._mode, self._client_data = agent, mode, client_data
        self._boot_payload = dict(boot_payload)
        self._counted = CountedIds()
        self._counted.take(boot_payload.get("headStartMessages") or ())
        self._new_id: IdGenerator = ids or self._counted
        self._watch = RunWatch()
        self._driver = Driver(
            Ledger(),
            self._watch,
            clock,
            auto_advance=auto_advance,
            wait_timeout=wait_timeout,
            describe=self._describe,
            afterwards=self._watch.blocking.warn,
        )
        self._platform = Platform(agent, self.chat_id, clock, self._new_id, self._watch, telemetry)
        seeds = partial(Seeds, agent, strict=strict, new_id=self._new_id)
        self._seeds = seeds(reads_past=_reads_past(boot_payload, task_context), taken=self._counted.take)
        self._task_context = task_context
        run = partial(
            DrivenRun, self._platform, self._driver, setup_locals=setup_locals, strict=strict, network=network
        )
        self._run = run(task_context=task_context, seeds=self._seeds)
        self._new_run = lambda context: run(
            task_context=context, seeds=seeds(reads_past=True, taken=lambda _messages: None)
        )
        self._failures = Failures(self._run, self._watch, network)
        self._sent = []

    def _describe(self) -> str:
        run = self._run
        return describe_run(self._watch, self._driver.ledger, self.clock, run.task, run.other_tasks)

    # --- seeds ---

    def seed_snapshot(self, snapshot: Snapshot | Mapping[str, Any] | None) -> None:
        """Let the boot find this snapshot.

        Raises:
            HarnessStateError: the run has booted, or this boot reads no snapshot.
        """
        self._check_not_started("seed")
        self._seeds.seed_snapshot(snapshot)

    def seed_session_out_tail(self, chunks: Sequence[Chunk | Mapping[str, Any]] | None = None) -> None:
        """Let the boot find these chunks on `.out`; an answer that is not finished counts as cut off.

        Raises:
            HarnessStateError: the run has booted, or this boot replays nothing.
        """
        self._check_not_started("seed")
        self._seeds.seed_out_tail(chunks)

    def seed_session_out_partial(
        self, message: UIMessage | Mapping[str, Any] | None, *, raw: UIMessage | Mapping[str, Any] | None = None
    ) -> None:
        """Let the boot find this answer cut off.

        Args:
            message: the answer as it is after clean-up.
            raw: the answer as it was streamed; the same by default.

        Raises:
            HarnessStateError: the run has booted, or this boot replays nothing.
        """
        self._check_not_started("seed")
        self._seeds.seed_partial(message, raw)

    def seed_session_in_tail(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Let the boot find these user messages unanswered on `.in`.

        Raises:
            HarnessStateError: the run has booted, or this boot replays nothing.
        """
        self._check_not_started("seed")
        self._seeds.seed_in_tail(messages)

    def _check_not_started(self, what: str) -> None:
        if self._run.started:
            raise HarnessStateError(f"{what}: the run has booted; {what} before the first driver call{self._so_far}")


def _reads_past(boot_payload: Mapping[str, Any], task_context: Mapping[str, Any] | None) -> bool:
    """Return whether a boot reads the past: it continues a run, or is a retry (C-53)."""
    sections = task_context or {}
    sections = sections.get("ctx", sections)
    return boot_payload.get("continuation") is True or sections.get("attempt", {}).get("number", 1) > 1
