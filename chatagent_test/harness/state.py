"""What the parts of a harness share: its state, and the checks that stand in front of its calls.

A harness is one object in several files, by what a test does with it: `sending.py`, `waits.py`, `run_control.py`,
`closing.py` and `inspection.py`; `harness.py` puts them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from chatagent.errors import AgentRunEndedError, HarnessClosedError, HarnessStateError
from chatagent_test.harness.where import describe_past

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.agent import ChatAgent
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.session import Session
    from chatagent_test.harness.driven_run import DrivenRun
    from chatagent_test.harness.driver import Driver
    from chatagent_test.harness.failures import Failures
    from chatagent_test.harness.ids import CountedIds
    from chatagent_test.harness.platform import Platform
    from chatagent_test.harness.watch import RunWatch, Sent

__all__ = ["ELSEWHERE", "HarnessState", "Mode"]

ELSEWHERE = "the harness lives in the event loop in which it was first used, and that is not the one that runs here"

Mode = Literal["preload", "submit-message", "continuation", "handover-prepare"]
"""How the run boots."""


class HarnessState:
    """The state of a harness; `ChatAgentHarness` fills it."""

    chat_id: str
    clock: Clock
    wait_timeout: float
    _agent: ChatAgent[Any]
    _mode: Mode
    _client_data: Any
    _task_context: Mapping[str, Any] | None
    _boot_payload: dict[str, Any]
    _boot_of_run: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """What the run was booted with, unless it is the first."""
    _counted: CountedIds
    _new_id: IdGenerator
    _watch: RunWatch
    _driver: Driver
    _platform: Platform
    _run: DrivenRun
    _failures: Failures
    _sent: list[Sent]
    """What was sent and may not be answered yet."""
    _session: Session | None = None
    _state: Literal["open", "closing", "closed"] = "open"

    def _boot(self) -> None:
        if self._mode != "submit-message":
            self._run.start(self._boot_payload)

    def _begin_waiting(self) -> None:
        self._check_open()
        self._boot()

    @property
    def _so_far(self) -> str:
        """What came so far, for the errors of misuse; nothing before the run was started."""
        return f"\n{describe_past(self._watch)}" if self._run.started else ""

    def _check_open(self) -> None:
        if self._state != "open":
            raise HarnessClosedError(f"the harness is closed; make a new one{self._so_far}")
        if self._is_elsewhere():
            raise HarnessStateError(f"{ELSEWHERE}; make a harness in each loop, in a fixture no wider than its loop")

    def _is_elsewhere(self) -> bool:
        """Return whether the caller works in another event loop than the run, or in none."""
        return self._run.task is not None and not self._run.task.loop_is_here

    def _check_running(self) -> None:
        if self._watch.ended:
            self._raise_ended("send")

    def _check_sendable(self) -> None:
        self._check_open()
        self._check_running()

    def _check_outside(self, name: str) -> None:
        if self._driver.ledger.has_current_task():
            problem = "a run cannot do this to itself; call it in the test"
            raise HarnessStateError(f"{name}: {problem}{self._so_far}")

    def _raise_ended(self, name: str) -> None:
        self._failures.raise_run_error()
        if self._state != "open":
            raise HarnessClosedError(
                f"{name}: the harness was closed before it was answered\n{describe_past(self._watch)}"
            )
        problem = f"the run of agent {self._agent.id!r} has ended, nobody is left to answer"
        raise AgentRunEndedError(f"{name}: {problem}\n{describe_past(self._watch)}") from self._run.error
