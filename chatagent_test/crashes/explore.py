"""`explore_crashes`: hold a conversation again and again, each time with its run dying at another point."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from chatagent.agent import ChatAgent
from chatagent.errors import AgentNotRegisteredError, InvalidArgumentError
from chatagent_test.clock import VirtualClock
from chatagent_test.crashes.chat import CrashingChat, CrashingHarness
from chatagent_test.crashes.invariants import Outcome, violations_of
from chatagent_test.crashes.report import CrashReport, CrashViolation
from chatagent_test.harness.crash_plan import CrashPlan
from chatagent_test.harness.given import check_client_data
from chatagent_test.harness.run_network import RunNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chatagent.task import LocalValues
    from chatagent.ui import UIMessage

__all__ = ["CrashPointKind", "Scenario", "explore_crashes"]

CrashPointKind = Literal["record", "suspension"]
"""Behind each record that is written or read and each saved snapshot, or at each real wait of a task of the run."""

Scenario = Callable[[CrashingChat], Awaitable[None]]
"""A conversation, from the client's side."""


async def explore_crashes(
    agent: ChatAgent[Any] | Callable[[], ChatAgent[Any]],
    scenario: Scenario,
    *,
    at: CrashPointKind = "record",
    crashes: int = 1,
    every: int = 1,
    client_data: Any = None,
    task_context: Mapping[str, Any] | None = None,
    setup_locals: Callable[[LocalValues], Any] | None = None,
    wait_timeout: float = 10.0,
) -> CrashReport:
    """Hold a conversation with a crash at each point of it, and check that no crash does harm.

    First it is held without a crash. Then the run dies behind the first record that is written to or read from its
    session, a continuation is booted, and the conversation is brought to its end; then the same with the second record,
    and so on. What must hold at each end: no user message is lost, doubled or out of order; none is answered twice, and
    none stays unanswered that is answered without a crash; no tool call with a result is run again; the history tells
    what the client saw; and a further run reads the same history from the store.

    Args:
        agent: the agent, or what makes a fresh one for each conversation. A model that is scripted by a list needs a
            fresh one; after a crash it is asked for fewer or more answers than without.
        scenario: holds the conversation; see `CrashingChat`.
        at: `"record"`, or `"suspension"` for each real wait of one of the run's tasks, tools included.
        crashes: how many crashes one conversation has; for 2, each point of the first run is combined with each of the
            run that continues it.
        every: only each so-manieth point is tried, of each run.
        client_data: what every payload carries as client data.
        task_context: overrides of the run context, by section.
        setup_locals: called with the locals of each run.
        wait_timeout: real seconds after which a conversation that does not come to rest counts as hanging.

    Returns:
        What was found, each violation with its crash points; `report.assert_ok()` fails with all of them.

    Raises:
        AgentNotRegisteredError: `agent` is no agent and makes none.
        InvalidArgumentError: an option with a value that it cannot have, or a scenario that is no async function.
        BaseException: what the scenario raises, or what ends a run of it, without a crash.
    """
    if at not in get_args(CrashPointKind):
        raise InvalidArgumentError(argument="at", value=at, problem=f"one of {', '.join(get_args(CrashPointKind))}")
    for name, value in (("crashes", crashes), ("every", every)):
        if value < 1:
            raise InvalidArgumentError(argument=name, value=value, problem="it is at least 1")

    check_client_data(client_data)

    def make_harness() -> CrashingHarness:
        made: Any = agent() if callable(agent) and not isinstance(agent, ChatAgent) else agent
        if not isinstance(made, ChatAgent):
            raise AgentNotRegisteredError(made)
        return CrashingHarness(
            cast("ChatAgent[Any]", made),
            boot_payload={"chatId": "test-chat", "trigger": "preload", **_metadata(client_data)},
            mode="preload",
            client_data=client_data,
            task_context=task_context,
            setup_locals=setup_locals,
            clock=VirtualClock(),
            auto_advance=True,
            ids=None,
            wait_timeout=wait_timeout,
            network=RunNetwork(None),
            strict=True,
        )

    report = CrashReport()
    reference = await _hold(make_harness(), scenario, CrashPlan())
    report.conversations += 1
    report.violations += [CrashViolation((), *found) for found in violations_of(reference, reference)]
    plans = _Plans(crashes, every)
    for points in plans:
        plan = CrashPlan(points, suspensions=at == "suspension")
        try:
            outcome = await _hold(make_harness(), scenario, plan)
        except Exception as error:  # noqa: BLE001 - without the crash it was not raised: that is what is looked for
            found = [("failed", f"{type(error).__name__}: {error}")]
        else:
            found = list(violations_of(outcome, reference))
        report.conversations += 1
        report.crash_points += len(plan.reached)
        plans.reached = len(plan.reached)
        if plan.is_over:
            report.violations += [CrashViolation(tuple(plan.reached), *each) for each in found]
    return report


def _metadata(client_data: Any) -> dict[str, Any]:
    return {} if client_data is None else {"metadata": client_data}


class _Plans:
    """The combinations of points, the last crash's running fastest; a point that was not reached ends its run."""

    def __init__(self, crashes: int, every: int) -> None:
        self._crashes, self._every = crashes, every
        self.reached = 0
        """How many points of the last plan were reached."""

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        points = [1] * self._crashes
        while True:
            yield tuple(points)
            if self.reached == self._crashes:
                points[-1] += self._every
                continue
            # What was not reached is over: on with the point before it.
            if self.reached == 0:
                return
            points[self.reached - 1] += self._every
            points[self.reached :] = [1] * (self._crashes - self.reached)


async def _hold(harness: CrashingHarness, scenario: Scenario, plan: CrashPlan) -> Outcome:
    """Hold the conversation once, and read its history once more by a further run."""
    chat = CrashingChat(harness)
    try:
        await harness.begin(plan)
        await _play(scenario, chat)
        await chat.wait_idle()
        plan.strike = None
        messages = tuple(harness.messages)
        records = tuple(harness.records)
        failed = tuple(harness.failed)
        reread = await _reread(harness)
    finally:
        await harness.close(raise_errors=False)
    return Outcome(
        sent=dict(chat.sent),
        stopped=frozenset(chat.stopped),
        answered_calls=frozenset(chat.answered_calls),
        last_rewrite=chat.last_rewrite,
        records=records,
        messages=messages,
        reread=reread,
        failed=failed,
        is_kept_by_agent=harness.is_kept_by_agent,
    )


async def _play(scenario: Scenario, chat: CrashingChat) -> None:
    playing: object = scenario(chat)
    if not inspect.isawaitable(playing):
        problem = "an async function of one `CrashingChat`, whose methods it awaits"
        raise InvalidArgumentError(argument="scenario", value=scenario, problem=problem)
    await playing


async def _reread(harness: CrashingHarness) -> Sequence[UIMessage] | str:
    """Return the conversation as one more run reads it, or how that run fails."""
    await harness.kill_run()
    try:
        await harness.continue_run()
    except Exception as error:  # noqa: BLE001 - that a run fails at its boot is what is looked for
        return f"{type(error).__name__}: {error}"
    return tuple(harness.messages)
