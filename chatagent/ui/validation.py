"""Messages from outside: checked once, where they enter, with errors that name the field and the way out.

Looser than the strict check of stored messages: unknown part types and fields stay, and the fields of a tool part need
not fit its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from chatagent.errors import InvalidMessageError
from chatagent.ui.messages import UIMessage
from chatagent.ui.slots import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.ids import IdGenerator

__all__ = ["first_problem", "parse_ui_message"]


def parse_ui_message(wire: object, *, generate_id: IdGenerator | None = None) -> UIMessage:
    """Make a message of its wire form.

    Args:
        wire: a dict with camelCase keys; a `UIMessage` is returned as it is.
        generate_id: called for a message without `id`; without it, such a message is an error.

    Raises:
        InvalidMessageError: a field is missing or of the wrong kind. A part of an unknown type is none: it is kept as
            an `UnknownUIPart`.
    """
    if isinstance(wire, UIMessage):
        return wire
    if not isinstance(wire, Mapping):
        raise InvalidMessageError(
            field="message", value=wire, problem="give a UIMessage, or a dict with `role` and `parts`"
        )
    fields = dict(cast("Mapping[str, object]", wire))
    if "id" not in fields and generate_id is not None:
        fields = {"id": generate_id(), **fields}
    try:
        return UIMessage.model_validate(fields)
    except ValidationError as error:
        field, value, problem = first_problem(error)
        raise InvalidMessageError(field=field, value=value, problem=problem) from None


def first_problem(error: ValidationError) -> tuple[str, object, str]:
    """Return the first problem of a failed validation: path of the field, what stood there, and what is wrong."""
    detail = error.errors(include_url=False)[0]
    path, value = _path_of(detail["loc"]), detail["input"]
    match detail["type"]:
        case "missing":
            return path, UNSET, f"the key is required{_way_out(path)}"
        case "union_tag_not_found":
            return f"{path}.type", _type_in(value), "a part is an object with a string `type`"
        case _:
            return path, value, _lower_first(detail["msg"].replace("valid tuple", "valid list"))


def _path_of(location: Sequence[str | int]) -> str:
    """Join a location such as `("parts", 0, "text", "text")` into `parts[0].text`: the tag of a part is no field."""
    path = ""
    skip_tag = False
    for item in location:
        if isinstance(item, int):
            path += f"[{item}]"
            skip_tag = path.rpartition(".")[2].startswith("parts[")
        elif skip_tag:
            skip_tag = False
        else:
            path += f".{item}" if path else item
    return path


def _way_out(path: str) -> str:
    known = {
        "id": ": give the message an id that is unique in its conversation",
        "role": ": give `system`, `user` or `assistant`",
        "parts": ": give a list of parts, such as [{'type': 'text', 'text': '…'}]",
    }
    return known.get(path, "")


def _type_in(part: object) -> object:
    return cast("dict[str, object]", part).get("type", UNSET) if isinstance(part, dict) else part


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
