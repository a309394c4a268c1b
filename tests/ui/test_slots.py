from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - annotations are read at run time
from typing import Annotated, Any, ClassVar, Literal

import pytest

from chatagent.ui import UNSET, Kind, Unset, WireObject, codec_of, wire_class, write_wire


@wire_class
class Usage(WireObject):
    """A class without type, held by another one."""

    input_tokens: int | None = None
    raw: object | Unset = UNSET


@wire_class
class Answer(WireObject):
    """A class with every sort of field."""

    type: ClassVar[Literal["answer"]] = "answer"
    usage: Usage
    limit: float | Unset | None = UNSET
    steps: Sequence[Usage] | None = None
    stamp: (
        Annotated[str, Kind("a stamp", decode=lambda value, *_: f"<{value}>", encode=lambda value: value[1:-1])] | None
    ) = None


class RefusedError(Exception):
    """What these tests ask the reader to raise."""


def fail(_wire: object, field: str, value: object, problem: str) -> Exception:
    return RefusedError(f"{field}={value!r}: {problem}")


def read(wire: dict[str, Any]) -> Any:
    return codec_of(Answer).read(wire, fail, wire, "")


def test_objects_hold_objects() -> None:
    wire = {
        "type": "answer",
        "usage": {"inputTokens": 1, "raw": None, "more": 2},
        "limit": None,
        "steps": [{"inputTokens": 2}, {}],
        "stamp": "now",
    }

    answer = read(wire)

    assert answer == Answer(
        usage=Usage(1, None, extra={"more": 2}), limit=None, steps=[Usage(2), Usage()], stamp="<now>"
    )
    assert write_wire(answer) == wire


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ({"type": "answer"}, r"^usage=<absent>: the key is required: give an object$"),
        ({"type": "answer", "usage": {"inputTokens": True}}, r"^usage\.inputTokens=True: it must be an integer;"),
        ({"type": "answer", "usage": {}, "limit": "1"}, r"^limit='1': it must be a number or null;"),
        (
            {"type": "answer", "usage": {}, "steps": [{}, {"inputTokens": "x"}]},
            r"^steps\[1\]\.inputTokens='x': it must be an integer;",
        ),
    ],
)
def test_an_error_names_the_path_of_the_field(wire: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        read(wire)


def test_an_optional_field_needs_a_marker_of_absence() -> None:
    @wire_class
    class Loose(WireObject):
        name: str = "x"

    with pytest.raises(
        TypeError, match=r"^Loose\.name: an optional field is `X \| None = None` or `X \| Unset = UNSET`$"
    ):
        codec_of(Loose)


def test_an_annotation_without_a_kind_is_an_error() -> None:
    @wire_class
    class Odd(WireObject):
        when: complex

    with pytest.raises(TypeError, match=r"^Odd\.when: no wire kind for the annotation <class 'complex'>"):
        codec_of(Odd)
