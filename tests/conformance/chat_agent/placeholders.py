"""Generated ids: which strings are some, and one numbering for both sides of a comparison.

An id counts as generated if it stands where ids stand and no author of the scenario wrote it. Both sides are walked in
the same order (`.out` first, then log, steps, model calls, snapshot; keys sorted), so equal observations get equal
numbers whatever the ids look like.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID_KEYS = frozenset({"id", "messageId", "approvalId", "toolCallId", "sourceId"})
PLACEHOLDER = re.compile(r"<id:(\d+)>")
ERROR_KEYS = ("message", "breakWith", "error", "throws", "errorText")
"""Where authors write the texts of errors."""
ORDER = ("out", "log", "steps", "modelCalls", "snapshot")
"""The order in which the parts of an observation are walked."""


class Authored:
    """Knows the strings that the author of a scenario wrote.

    Args:
        golden: the whole golden file; `observed` is not the author's.
    """

    def __init__(self, golden: dict[str, Any]) -> None:
        scenario = {key: golden.get(key) for key in ("agent", "model", "options", "steps")}
        self.strings = {"chat-1", "", *_strings_deep(scenario)}
        self.error_texts = {
            text for key in ERROR_KEYS for text in _values_of(scenario, key) if isinstance(text, str) and len(text) > 2
        }
        prefixes = {prefix for prefix in _values_of(scenario, "idPrefix") if isinstance(prefix, str)}
        self._numbered = [re.compile(re.escape(prefix) + r"\d+") for prefix in prefixes]

    def __contains__(self, text: object) -> bool:
        return text in self.strings or any(each.fullmatch(str(text)) for each in self._numbered)

    def fresh_prefix(self) -> str:
        """Return a prefix for generated ids with which nothing of the scenario begins."""
        prefix = "made-"
        while any(text.startswith(prefix) for text in self.strings):
            prefix = "un" + prefix
        return prefix


def is_placeholder(text: str) -> bool:
    return PLACEHOLDER.fullmatch(text) is not None


def generated_ids(value: object, is_generated: Callable[[str], bool]) -> Iterator[str]:
    """Yield the generated ids in a value, in walking order, repetitions included."""
    if isinstance(value, dict):
        for key in sorted(value):
            item = value[key]
            if key in ID_KEYS and isinstance(item, str):
                if is_generated(item):
                    yield item
            else:
                yield from generated_ids(item, is_generated)
    elif isinstance(value, list):
        for item in value:
            yield from generated_ids(item, is_generated)


def number_ids(observed: dict[str, Any], is_generated: Callable[[str], bool]) -> dict[str, Any]:
    """Return an observation with its generated ids replaced by `<id:n>`, numbered by first appearance."""
    numbers: dict[str, str] = {}
    for part in ORDER:
        for each in generated_ids(observed.get(part), is_generated):
            numbers.setdefault(each, f"<id:{len(numbers) + 1}>")
    return {key: replace_strings(value, numbers.get) for key, value in observed.items()}


def replace_strings(value: Any, replacement: Callable[[str], Any]) -> Any:
    """Return a copy of a JSON value; a whole string for which there is a replacement is replaced."""
    if isinstance(value, dict):
        return {key: replace_strings(item, replacement) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_strings(item, replacement) for item in value]
    if isinstance(value, str):
        found = replacement(value)
        return value if found is None else found
    return value


def _strings_deep(value: object) -> Iterator[str]:
    """Yield the strings in a value, and those in strings that are JSON themselves (the inputs of tool calls)."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _strings_deep(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings_deep(item)
    elif isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from _strings_deep(json.loads(value))
            except ValueError:
                return


def _values_of(value: object, wanted: str) -> Iterator[object]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == wanted:
                yield item
            yield from _values_of(item, wanted)
    elif isinstance(value, list):
        for item in value:
            yield from _values_of(item, wanted)
