"""Compares what was observed with what was recorded, by the rules of the format and strictly beyond them.

What may differ: texts that nobody wrote in the scenario (presence counts), the place of a model or tool call among the
chunks of its turn, and the windows of sends that overlap, of which each must be a whole turn of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.chat_agent.placeholders import Authored, is_placeholder, number_ids
from conformance.chat_agent.windows import differing_windows, out_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.chat_agent.values import Wire

SCHEMA_ERROR = "<schema error>"
CONSTANT_TEXTS = frozenset({"An error occurred.", "stopped"})
"""Texts of the runtime's own that clients may rely on."""
TEXT_KEYS = frozenset({"errorText", "$error"})
"""Where the text of an error stands, besides `value` of an `error-text` and `error` of a `runEnd`."""
FLOATING = frozenset({"modelCall", "tool"})
"""Log entries that may stand on either side of a chunk of their turn."""


def problems_of(golden: Wire, actual: Wire) -> list[str]:
    """Return how an observation differs from the recorded one; empty if it does not.

    Args:
        golden: the golden file.
        actual: what was observed, in the form of `observed`, with `out` in the place of `allRawChunks`.
    """
    return problems_between(golden, recorded(golden["observed"]), actual)


def problems_between(golden: Wire, expected: Wire, actual: Wire, *, exact_windows: bool = False) -> list[str]:
    """Return how an observation differs from an expected one; empty if it does not.

    Args:
        golden: the golden file; what it has observed is not looked at.
        expected: what should have been observed, in the form that `recorded` gives.
        actual: what was observed.
        exact_windows: what sends return counts also where they overlap.
    """
    authored = Authored(golden)
    expected = number_ids(expected, is_placeholder)
    actual = number_ids(actual, lambda text: text not in authored)
    texts = Texts(authored)
    if exact_windows:
        windows = texts.differences(expected["steps"], actual["steps"], "steps")
    else:
        windows = differing_windows(golden["steps"], expected, actual, texts.differences)
    return [
        *texts.differences(expected["out"], actual["out"], "out"),
        *windows,
        *_log_problems(expected["log"], actual["log"], texts),
        *texts.differences(expected["modelCalls"], actual["modelCalls"], "modelCalls"),
        *texts.differences(expected["snapshot"], actual["snapshot"], "snapshot"),
    ]


def recorded(observed: Wire) -> Wire:
    """Return the recorded observation with `.out` as a whole, without what only a reference harness could number."""
    snapshot = _without_input_cursor(observed["snapshot"])
    steps = [
        {**step, "snapshot": _without_input_cursor(step["snapshot"])} if "snapshot" in step else step
        for step in observed["steps"]
    ]
    return {
        "out": observed["allRawChunks"] if "allRawChunks" in observed else out_of(observed["steps"]),
        "log": observed["log"],
        "steps": steps,
        "modelCalls": observed["modelCalls"],
        "snapshot": snapshot,
    }


def _without_input_cursor(snapshot: Wire | None) -> Wire | None:
    return snapshot and {key: value for key, value in snapshot.items() if key != "lastInEventId"}


@dataclass(frozen=True)
class Texts:
    """Deep comparison that knows which texts count by their presence only."""

    authored: Authored

    def differences(self, expected: Any, actual: Any, path: str) -> Iterator[str]:
        """Yield what differs, each with its path."""
        if isinstance(expected, dict) and isinstance(actual, dict):
            yield from self._in_objects(expected, actual, path)
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self._in_lists(expected, actual, path)
        elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
            yield f"{path}: expected {_short(expected)}, got {_short(actual)}"

    def _in_objects(self, expected: Wire, actual: Wire, path: str) -> Iterator[str]:
        for key in sorted({*expected, *actual}):
            where = f"{path}.{key}"
            if key not in actual:
                yield f"{where}: expected {_short(expected[key])}, got nothing"
            elif key not in expected:
                yield f"{where}: expected nothing, got {_short(actual[key])}"
            elif not (_is_text(expected, key) and self._text_is_alike(expected[key], actual[key])):
                yield from self.differences(expected[key], actual[key], where)

    def _in_lists(self, expected: list[Any], actual: list[Any], path: str) -> Iterator[str]:
        for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from self.differences(one, other, f"{path}[{index}]")
        for index in range(len(actual), len(expected)):
            yield f"{path}[{index}]: expected {_short(expected[index])}, got nothing"
        for index in range(len(expected), len(actual)):
            yield f"{path}[{index}]: expected nothing, got {_short(actual[index])}"

    def _text_is_alike(self, expected: object, actual: object) -> bool:
        """Return whether a text is near enough; `False` leaves it to exact comparison."""
        if not (isinstance(expected, str) and isinstance(actual, str) and actual):
            return False
        if expected == SCHEMA_ERROR:
            return True
        if expected in CONSTANT_TEXTS or expected in self.authored:
            return expected == actual
        inside = [text for text in self.authored.error_texts if text in expected]
        return all(text in actual for text in inside)


def _is_text(holder: Wire, key: str) -> bool:
    return (
        key in TEXT_KEYS
        or (key == "error" and holder.get("event") == "runEnd")
        or (key == "value" and holder.get("type") == "error-text")
    )


def _log_problems(expected: list[Wire], actual: list[Wire], texts: Texts) -> Iterator[str]:
    """Compare two logs: once without the entries that may float, once without the chunks among which they may."""
    expected, actual = [_without_none(each) for each in expected], [_without_none(each) for each in actual]
    settled = _first_difference((expected, actual), "log", texts, _is_settled)
    yield from settled or _first_difference((expected, actual), "log without chunks", texts, _is_no_chunk)


def _without_none(entry: Wire) -> Wire:
    return {key: value for key, value in entry.items() if value is not None}


def _is_settled(entry: Wire) -> bool:
    return entry["event"] not in FLOATING


def _is_no_chunk(entry: Wire) -> bool:
    return entry["event"] != "out" or entry["chunk"]["type"].startswith("trigger:")


def _first_difference(
    logs: tuple[list[Wire], list[Wire]], name: str, texts: Texts, kept: Callable[[Wire], bool]
) -> list[str]:
    """Compare the kept entries of two logs up to the first place where they are of different events."""
    expected, actual = ([each for each in log if kept(each)] for log in logs)
    found: list[str] = []
    for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
        if one["event"] != other["event"]:
            return [*found, f"{name}[{index}]: expected {_short(one)}, got {_short(other)}"]
        found += texts.differences(one, other, f"{name}[{index}] {one['event']}")
    for index in range(len(actual), len(expected)):
        return [*found, f"{name}[{index}]: expected {_short(expected[index])}, got nothing more"]
    for index in range(len(expected), len(actual)):
        return [*found, f"{name}[{index}]: expected nothing more, got {_short(actual[index])}"]
    return found


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    return text if len(text) <= 300 else text[:297] + "…"
