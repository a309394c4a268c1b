"""What an answer consists of, before it is put into any format, and how texts are cut into deltas (4.0.4, 4.0.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.compact import compact_json

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CREATED",
    "Call",
    "Calls",
    "Fragments",
    "Reasoning",
    "Refusal",
    "Said",
    "Source",
    "Text",
    "as_items",
    "spaces_behind",
    "spaces_in_front",
    "words_behind",
    "words_in_front",
]

CREATED = 1234567890
"""When every answer was made, unless a test says otherwise: builders give the same bytes for the same arguments."""


@dataclass(frozen=True, slots=True)
class Source:
    """A web page that a text draws on."""

    url: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A text; in echo mode its deltas are collapsed, and do not make it up."""

    text: str
    deltas: Sequence[str]
    sources: Sequence[Source] = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A thought."""

    text: str
    deltas: Sequence[str]
    signature: str = "c2ln"
    """Of Messages alone, where a thought without one cannot be sent back."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a model says that does not want to."""

    text: str
    deltas: Sequence[str]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, as the model makes it.

    Args:
        call_id: id of the call.
        name: the tool's name.
        arguments: JSON text, which may be broken on purpose, or a value that becomes one.
        fragments: the deltas in which the arguments come; together they are the arguments. One by default.

    Raises:
        InvalidArgumentError: the fragments are not the arguments, or those are no JSON value.
    """

    call_id: str
    name: str
    arguments: object = "{}"
    fragments: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, str):
            object.__setattr__(self, "arguments", compact_json(self.arguments, argument="arguments"))
        if self.fragments is not None and "".join(self.fragments) != self.arguments:
            problem = f"together they are the arguments {self.arguments!r}"
            raise InvalidArgumentError(argument="fragments", value=self.fragments, problem=problem)

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        return cast("str", self.arguments)

    @property
    def deltas(self) -> Sequence[str]:
        """The deltas in which the arguments come."""
        if self.fragments is None:
            return (self.text,) if self.text else ()
        return self.fragments


Said: TypeAlias = Text | Reasoning | Refusal | Call

Calls: TypeAlias = Sequence[Call | tuple[str, str, object]]
"""Tool calls, or id, name and arguments of each."""

Fragments: TypeAlias = int | Sequence[Sequence[str]] | None
"""In what deltas arguments come: so many characters each, or a list for each call; `None`: as the calls say."""


def as_items(calls: Calls, fragments: Fragments = None) -> list[Call]:
    """Return calls with their fragments.

    Raises:
        InvalidArgumentError: there is no call, or there are fragments that do not belong to the calls.
    """
    made = [call if isinstance(call, Call) else Call(*call) for call in calls]
    if not made:
        raise InvalidArgumentError(argument="calls", value=calls, problem="give one at least")
    if fragments is None:
        return made
    pieces = [_cut(call.text, fragments) for call in made] if isinstance(fragments, int) else fragments
    if len(pieces) != len(made) or any(isinstance(each, str) for each in pieces):
        problem = f"give one list of strings for each of the {len(made)} calls"
        raise InvalidArgumentError(argument="fragments", value=fragments, problem=problem)
    return [Call(call.call_id, call.name, call.text, each) for call, each in zip(made, pieces, strict=True)]


def _cut(text: str, size: int) -> Sequence[str]:
    if size < 1:
        raise InvalidArgumentError(argument="fragments", value=size, problem="a fragment has 1 character or more")
    return [text[start : start + size] for start in range(0, len(text), size)]


# Deltas -----------------------------------------------------------------------------------------------------------


def words_in_front(text: str) -> list[str]:
    """Cut as chat echoes: words, joined by single spaces, which lead."""
    return _lead(text.split())


def spaces_in_front(text: str) -> list[str]:
    """Cut as chat is exact: at every space, which leads; an empty text is one empty delta."""
    return _lead(text.split(" "))


def words_behind(text: str) -> list[str]:
    """Cut as Responses echoes, and as thoughts are always cut: words, each with a space behind it."""
    return [f"{word} " for word in text.split()]


def spaces_behind(text: str) -> list[str]:
    """Cut as Responses is exact: behind every space; an empty text has no delta."""
    return [piece for piece in _BEHIND_A_SPACE.split(text) if piece]


_BEHIND_A_SPACE = re.compile(r"(?<= )")


def _lead(pieces: Iterable[str]) -> list[str]:
    first, *rest = pieces if isinstance(pieces, list) and pieces else [None]
    return [] if first is None else [first, *(f" {piece}" for piece in rest)]
