"""What each step of a scenario returned, and the rule for sends that overlap.

The reference lets every waiting send go at the first turn-complete that comes along. Here a send returns its own turn,
so where sends overlap the recorded windows do not count, and each window must be one whole turn, in the order of
sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from conformance.chat_agent.values import Wire

    Differences = Callable[[Any, Any, str], Iterable[str]]

SENDS = frozenset({"sendMessage", "sendRegenerate", "sendAction", "sendHandover", "sendHeadStart"})
"""Steps that return a turn."""
INPUTS = SENDS | {"sendPendingMessage"}
"""Steps that bring about a turn."""
TURN_COMPLETE = "trigger:turn-complete"


def out_of(steps: Iterable[Wire]) -> list[Wire]:
    """Return the records that steps saw, in a row."""
    return [chunk for step in steps for chunk in step.get("rawChunks", ())]


def overlapping(steps: list[Wire]) -> set[int]:
    """Return the indexes of the sends during which another input came, or that came during another send."""
    found: set[int] = set()
    waiting: dict[str, int] = {}
    for index, step in enumerate(steps):
        if step["do"] == "join":
            waiting.pop(step["name"], None)
        if step["do"] not in INPUTS:
            continue
        if waiting:
            found |= {*waiting.values(), index}
        if step["do"] == "sendPendingMessage":
            waiting["a pending message, whose end no step waits for"] = index
        elif step.get("await") is False:
            waiting[step["as"]] = index
    return {index for index in found if steps[index]["do"] in SENDS}


def differing_windows(steps: list[Wire], expected: Wire, actual: Wire, differences: Differences) -> Iterator[str]:
    """Yield how the results of the steps differ from the recorded ones.

    Args:
        steps: the steps of the scenario.
        expected: the recorded observation, numbered.
        actual: what was observed, numbered.
        differences: the deep comparison.
    """
    together = overlapping(steps)
    alike = True
    for index, (one, other) in enumerate(zip(expected["steps"], actual["steps"], strict=True)):
        found = list(differences(one, other, f"steps[{index}]"))
        if index in together:
            alike = alike and not found
        else:
            yield from found
    if not alike:
        yield from _turns_apart(sorted(together), expected, actual, differences)


def _turns_apart(indexes: list[int], expected: Wire, actual: Wire, differences: Differences) -> Iterator[str]:
    """Yield which overlapping sends did not return a turn of their own, whole and in order."""
    turns = split_turns(expected["out"])
    position = 0
    for index in indexes:
        step = actual["steps"][index]
        if set(step) != {"do", "chunks", "rawChunks"}:
            yield f"steps[{index}]: expected a turn of its own, got {step}"
            continue
        window = step["rawChunks"]
        while position < len(turns) and not _is_turn(turns[position], window, differences):
            position += 1
        if position == len(turns):
            yield f"steps[{index}]: its window is no turn of its own, or not in order: {window}"
            return
        position += 1
        yield from differences(without_control(window), step["chunks"], f"steps[{index}].chunks")


def _is_turn(records: list[Wire], window: list[Wire], differences: Differences) -> bool:
    """Return whether a window is a whole turn; parts that hooks wrote before it was taken up may be missing."""
    before, turn = records[: len(records) - len(window)], records[len(records) - len(window) :]
    return all(each["type"].startswith("data-") for each in before) and not list(differences(turn, window, ""))


def split_turns(out: list[Wire]) -> list[list[Wire]]:
    """Cut `.out` behind each turn-complete; what follows the last is left out."""
    turns: list[list[Wire]] = [[]]
    for chunk in out:
        turns[-1].append(chunk)
        if chunk["type"] == TURN_COMPLETE:
            turns.append([])
    return turns[:-1]


def without_control(chunks: Iterable[Wire]) -> list[Wire]:
    """Return the chunks that are no control records."""
    return [chunk for chunk in chunks if not str(chunk["type"]).startswith("trigger:")]
