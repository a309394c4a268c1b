"""JSON that is still being written: the value of what has come so far (rule 13.4).

The text is scanned once, also when it comes in pieces; a value is made only when asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from chatagent.ui.kinds import UNSET, Unset
from chatagent.ui.strict_json import parse_json
from chatagent.ui.surrogates import join_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PartialJson", "PartialJsonScanner", "parse_partial_json"]


@dataclass(frozen=True, slots=True)
class PartialJson:
    """What an unfinished JSON text says so far."""

    value: object | Unset
    """The value; `UNSET` if the text could not be repaired."""
    state: Literal["successful-parse", "repaired-parse", "failed-parse"]
    """Whether the text was JSON as it is, after a repair, or not at all."""


def parse_partial_json(text: str) -> PartialJson:
    """Return the value of a JSON text that may break off anywhere.

    What is not complete is completed (a string, a literal, a list, an object) or left out (a key without value, a lone
    sign, a trailing comma).
    """
    scanner = PartialJsonScanner()
    scanner.feed(text)
    return scanner.result()


_Mode: TypeAlias = Literal[
    "value",
    "array-start",
    "object-start",
    "object-comma",
    "key",
    "key-escape",
    "colon",
    "string",
    "escape",
    "hex",
    "number",
    "literal",
    "after",
    "done",
]
"""What the scanner expects next; `after` is behind a value inside a structure, `done` behind the whole one."""

_STRING_STOP: Final = re.compile(r'["\\]')
_DIGITS: Final = frozenset("0123456789")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}


class PartialJsonScanner:
    """Scans a growing JSON text: each character once.

    It keeps the open structures and the *last good position*: where the text can be cut and closed to become JSON.
    """

    __slots__ = ("_good", "_hex_left", "_length", "_literal", "_mode", "_open", "_pieces", "_seen")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        """How much was scanned before the piece at hand."""
        self._good = -1
        """Index of the last character that belongs to the repaired text."""
        self._open: list[str] = []
        """The open `{` and `[`, outermost first; an open string or literal is told by the mode."""
        self._mode: _Mode = "value"
        self._literal = ""
        self._seen = 0
        """How much of the literal has come."""
        self._hex_left = 0

    def feed(self, text: str) -> None:
        """Scan the next piece of the text."""
        index, end = 0, len(text)
        while index < end:
            index = self._SCAN[self._mode](self, text, index)
        self._pieces.append(text)
        self._length += end

    @property
    def text(self) -> str:
        """The text so far."""
        return join_surrogates(self._joined())

    def result(self) -> PartialJson:
        """Return the value of the text so far; the cost is that of parsing it, and nothing is scanned again."""
        text = self._joined()
        if not self._open:  # inside a structure the text cannot be whole
            try:
                return PartialJson(parse_json(join_surrogates(text)), "successful-parse")
            except ValueError:
                pass
        repaired = text[: self._good + 1] + self._closing()
        try:
            return PartialJson(parse_json(join_surrogates(repaired)), "repaired-parse")
        except ValueError:
            return PartialJson(UNSET, "failed-parse")

    def _joined(self) -> str:
        if len(self._pieces) != 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def _closing(self) -> str:
        """Return what closes the open structures, from the innermost outwards."""
        first = ""
        if self._mode in ("string", "escape", "hex"):
            first = '"'
        elif self._mode == "literal":
            first = self._literal[self._seen :]
        return first + "".join("}" if opened == "{" else "]" for opened in reversed(self._open))

    def _mark(self, index: int) -> None:
        self._good = self._length + index

    def _end_value(self) -> None:
        self._mode = "after" if self._open else "done"

    # Each of the following takes the piece and the index of a character in it, and returns the index of the next one.

    def _scan_value(self, text: str, index: int) -> int:
        char = text[index]
        if char == '"':
            self._mode = "string"
        elif char in "{[":
            self._open.append(char)
            self._mode = "object-start" if char == "{" else "array-start"
        elif char in _LITERALS:
            self._literal, self._seen, self._mode = _LITERALS[char], 1, "literal"
        elif char in _DIGITS or char == "-":
            self._mode = "number"
        else:
            return index + 1
        if char != "-":
            self._mark(index)
        return index + 1

    def _scan_array_start(self, text: str, index: int) -> int:
        return self._scan_after(text, index) if text[index] == "]" else self._scan_value(text, index)

    def _scan_object_start(self, text: str, index: int) -> int:
        return self._scan_after(text, index) if text[index] == "}" else self._scan_object_comma(text, index)

    def _scan_object_comma(self, text: str, index: int) -> int:
        if text[index] == '"':
            self._mode = "key"
        return index + 1

    def _scan_key(self, text: str, index: int) -> int:
        stop = _STRING_STOP.search(text, index)
        if stop is None:
            return len(text)
        self._mode = "colon" if stop[0] == '"' else "key-escape"
        return stop.end()

    def _scan_key_escape(self, _text: str, index: int) -> int:
        self._mode = "key"
        return index + 1

    def _scan_colon(self, text: str, index: int) -> int:
        if text[index] == ":":
            self._mode = "value"
        return index + 1

    def _scan_string(self, text: str, index: int) -> int:
        stop = _STRING_STOP.search(text, index)
        if stop is None:
            self._mark(len(text) - 1)
            return len(text)
        if stop[0] == '"':
            self._mark(stop.start())
            self._end_value()
        else:
            if stop.start() > index:
                self._mark(stop.start() - 1)
            self._mode = "escape"
        return stop.end()

    def _scan_escape(self, text: str, index: int) -> int:
        if text[index] == "u":
            self._mode, self._hex_left = "hex", 4
        else:
            self._mark(index)
            self._mode = "string"
        return index + 1

    def _scan_hex(self, text: str, index: int) -> int:
        self._hex_left -= text[index] in _HEX_DIGITS
        if self._hex_left == 0:
            self._mark(index)
            self._mode = "string"
        return index + 1

    def _scan_number(self, text: str, index: int) -> int:
        char = text[index]
        if char in _DIGITS:
            self._mark(index)
        elif char not in "-.eE":
            return self._end_scalar(text, index)
        return index + 1

    def _scan_literal(self, text: str, index: int) -> int:
        if self._literal.startswith(text[index], self._seen):
            self._seen += 1
            self._mark(index)
            return index + 1
        return self._end_scalar(text, index)

    def _end_scalar(self, text: str, index: int) -> int:
        """End a number or literal at the character behind it, which acts where it belongs and else is passed over."""
        self._end_value()
        char = text[index]
        if self._open and (char == "," or char == ("}" if self._open[-1] == "{" else "]")):
            return self._scan_after(text, index)
        return index + 1

    def _scan_after(self, text: str, index: int) -> int:
        char, inside = text[index], self._open[-1]
        if char == ",":
            self._mode = "object-comma" if inside == "{" else "value"
        elif char == ("}" if inside == "{" else "]"):
            self._mark(index)
            self._open.pop()
            self._end_value()
        elif inside == "[":
            self._mark(index)
        return index + 1

    def _scan_done(self, text: str, _index: int) -> int:
        return len(text)

    _SCAN: ClassVar[dict[_Mode, Callable[[PartialJsonScanner, str, int], int]]] = {
        "value": _scan_value,
        "array-start": _scan_array_start,
        "object-start": _scan_object_start,
        "object-comma": _scan_object_comma,
        "key": _scan_key,
        "key-escape": _scan_key_escape,
        "colon": _scan_colon,
        "string": _scan_string,
        "escape": _scan_escape,
        "hex": _scan_hex,
        "number": _scan_number,
        "literal": _scan_literal,
        "after": _scan_after,
        "done": _scan_done,
    }
