"""Runs a scenario from beginning to end and gives what was observed, in the form of `observed`."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

from conformance.chat_agent.agent import build_agent
from conformance.chat_agent.directives import DIRECTIVES, Performer
from conformance.chat_agent.driver import ACTIONS, Driver
from conformance.chat_agent.errors import UnsupportedScenarioError
from conformance.chat_agent.gates import Gates
from conformance.chat_agent.harnesses import Harnesses
from conformance.chat_agent.model import ScriptedModel
from conformance.chat_agent.placeholders import Authored
from conformance.chat_agent.recording import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.chat_agent.values import Wire


async def observe(golden: Wire) -> Wire:
    """Run the scenario of a golden file.

    Args:
        golden: the file; what it has observed is not looked at.

    Returns:
        `log`, `steps`, `modelCalls` and `snapshot` as in `observed`, `out` for everything on `.out`, with ids as they
        were made; `notes`, texts that may explain a difference; and `beyond`, what the format has no place for: what
        steps `raised`, by their indexes, which numbers of `.in` were `committed`, and the users `suppressed` at boot.

    Raises:
        UnsupportedScenarioError: it asks for something that the interpreter or the runtime does not have.
    """
    check_words(golden)
    recorder, gates = Recorder(), Gates()
    model = ScriptedModel(golden["model"], gates, recorder)
    performer = Performer(golden["agent"], model, gates, recorder)
    agent = build_agent(golden["agent"], performer, gates, recorder)
    prefix, numbers = Authored(golden).fresh_prefix(), itertools.count(1)
    harnesses = Harnesses(agent, lambda: f"{prefix}{next(numbers)}", recorder)
    driver = Driver(golden, harnesses, gates, recorder)
    with warnings.catch_warnings():
        # Scenarios do what the runtime warns about, such as sending actions that nobody handles.
        warnings.filterwarnings("ignore", message=r"(?!coroutine)", category=RuntimeWarning)
        await driver.drive()
        snapshot = harnesses.snapshot()
        beyond = {"committed": harnesses.committed(), "suppressed": harnesses.suppressed(), "raised": driver.errors}
        recorder.close()
        await harnesses.close_all()
    return {
        "out": recorder.out,
        "log": recorder.log,
        "steps": driver.results,
        "modelCalls": recorder.model_calls,
        "snapshot": snapshot,
        "notes": recorder.notes,
        "beyond": beyond,
    }


def throws_plain_value(golden: Wire) -> bool:
    """Return whether a scenario throws a bare string, which Python cannot."""
    return any(each.get("plain") for each in directives_of(golden["agent"]))


def check_words(golden: Wire) -> None:
    """Refuse a scenario with a directive or a step that nobody has taught the interpreter.

    Raises:
        UnsupportedScenarioError: it names them.
    """
    unknown = {f"directive {each['do']}" for each in directives_of(golden["agent"]) if each["do"] not in DIRECTIVES}
    unknown |= {f"step {step['do']}" for step in golden["steps"] if step["do"] not in ACTIONS}
    if unknown:
        raise UnsupportedScenarioError(", ".join(sorted(unknown)))


def directives_of(agent: Wire) -> Iterator[Wire]:
    """Yield all directives of an agent, nested ones included."""
    yield from _flat(agent.get("run", []))
    yield from _flat(agent.get("toolsDo", []))
    for directives in agent.get("hooks", {}).values():
        yield from _flat(directives)
    for declared in agent.get("tools", {}).values():
        yield from _flat(declared.get("then", []))


def _flat(directives: list[Wire]) -> Iterator[Wire]:
    for each in directives:
        yield each
        for nested in ("then", "beforeBoot"):
            inside: Any = each.get(nested, [])
            yield from _flat(inside)
