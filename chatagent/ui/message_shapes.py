"""What a message may hold, strictly: one shape for each type of part, and for a tool part one for each state.

Rules 11.1 to 11.3 and 14.9, in wire form. Schemas of the application, and tools, are `validate.py`'s business.
"""

from __future__ import annotations

from typing import Final, cast

from chatagent.errors import MessageValidationError
from chatagent.ui.kinds import UNSET
from chatagent.ui.shapes import (
    FORBIDDEN,
    Check,
    Field,
    Optional,
    Shape,
    anything,
    as_object,
    boolean,
    exactly,
    index,
    json_object,
    list_of,
    object_of,
    one_of,
    string,
)

__all__ = ["check_message"]

_PROVIDER_METADATA: Final = object_of(json_object)
_METADATA: Final[dict[str, Field]] = {"providerMetadata": Optional(_PROVIDER_METADATA)}
_BLOCK_STATE: Final = Optional(one_of("streaming", "done"))
_TITLE: Final = Optional(string)
_FILENAME: Final = Optional(string)
_ANYTHING: Final = Optional(anything)

_STEERING_TEXT: Final = Shape({"type": string, "text": string, **_METADATA})
_FILE: Final = Shape(
    {
        "type": string,
        "mediaType": string,
        "filename": _FILENAME,
        "url": string,
        "providerReference": Optional(object_of(string)),
        **_METADATA,
    }
)


def _by_type(value: object, path: str, shapes: dict[str, Check]) -> object:
    kind = as_object(value, path).get("type", UNSET)
    if not isinstance(kind, str):
        raise MessageValidationError(
            field=f"{path}.type", value=kind, problem="a part is an object with a string `type`"
        )
    shape = shapes.get(kind) or shapes.get(f"{kind.partition('-')[0]}-")
    if shape is None:
        raise MessageValidationError(
            field=f"{path}.type",
            value=kind,
            problem="no part has this type here; data of your own goes into a `data-NAME` part",
        )
    return shape(value, path)


_STEERING_SHAPES: Final[dict[str, Check]] = {"text": _STEERING_TEXT, "file": _FILE}


def _steering_part(value: object, path: str) -> object:
    return _by_type(value, path, _STEERING_SHAPES)


# Citations ----------------------------------------------------------------------------------------------------------

_SOURCES: Final = {
    "url": Shape({"type": string, "sourceType": string, "id": string, "url": string, "title": _TITLE, **_METADATA}),
    "document": Shape(
        {
            "type": string,
            "sourceType": string,
            "id": string,
            "mediaType": string,
            "title": string,
            "filename": _FILENAME,
            **_METADATA,
        }
    ),
}
_SOURCE_TYPE: Final = one_of(*_SOURCES)


def _source(value: object, path: str) -> object:
    kind = as_object(value, path).get("sourceType", UNSET)
    return _SOURCES[cast("str", _SOURCE_TYPE(kind, f"{path}.sourceType"))](value, path)


_CITATION: Final = Shape(
    {"source": _source, "startIndex": Optional(index), "endIndex": Optional(index), "citedText": Optional(string)}
)

# Tool parts ---------------------------------------------------------------------------------------------------------


def _approval(approved: Field, reason: Field) -> Shape:
    return Shape(
        {
            "id": string,
            "approved": approved,
            "descriptor": _ANYTHING,
            "requestReason": Optional(string),
            "reason": reason,
            "isAutomatic": Optional(boolean),
            "signature": Optional(string),
            "inputSchemaInput": _ANYTHING,
        }
    )


_ASKED: Final = _approval(FORBIDDEN, FORBIDDEN)
_ANSWERED: Final = _approval(boolean, Optional(string))
_GRANTED: Final = _approval(exactly(value=True), Optional(string))
_DENIED: Final = _approval(exactly(value=False), Optional(string))

_CALL: Final[dict[str, Field]] = {
    "type": string,
    "toolCallId": string,
    "title": _TITLE,
    "toolMetadata": Optional(json_object),
    "state": string,
    "input": anything,
    "providerExecuted": Optional(boolean),
    "output": FORBIDDEN,
    "errorText": FORBIDDEN,
    "callProviderMetadata": Optional(_PROVIDER_METADATA),
    "approval": FORBIDDEN,
}
"""What is said of a call, unless its state says otherwise."""

_RESULT: Final[dict[str, Field]] = {
    "resultProviderMetadata": Optional(_PROVIDER_METADATA),
    "approval": Optional(_GRANTED),
}
_STATES: Final[dict[str, dict[str, Field]]] = {
    "input-streaming": {
        "input": _ANYTHING,
        "rawInput": Optional(string),
        "inputEncoding": Optional(one_of("json", "text")),
    },
    "input-available": {},
    "approval-requested": {"approval": _ASKED},
    "approval-responded": {"approval": _ANSWERED},
    "output-available": {"output": anything, "preliminary": Optional(boolean), **_RESULT},
    "output-error": {"input": _ANYTHING, "rawInput": _ANYTHING, "errorText": string, **_RESULT},
    "output-denied": {"approval": _DENIED},
}
_ORDER: Final = (
    "type",
    "dynamic",
    "toolName",
    "toolCallId",
    "title",
    "toolMetadata",
    "state",
    "input",
    "rawInput",
    "inputEncoding",
    "providerExecuted",
    "output",
    "errorText",
    "callProviderMetadata",
    "resultProviderMetadata",
    "preliminary",
    "approval",
)
"""In which order the keys of a tool part are checked: the first one that is wrong is the error."""


def _tool_shapes(names: dict[str, Field]) -> dict[str, Shape]:
    """Return the shape of each state, with the keys that name the tool."""
    rules = {state: {**_CALL, **names, **own} for state, own in _STATES.items()}
    return {state: Shape({key: own[key] for key in _ORDER if key in own}) for state, own in rules.items()}


_STATIC_SHAPES: Final = _tool_shapes({})
_DYNAMIC_SHAPES: Final = _tool_shapes({"dynamic": Optional(exactly(value=False)), "toolName": string})
_STATE: Final = one_of(*_STATES)


def _by_state(value: object, path: str, shapes: dict[str, Shape]) -> object:
    state = as_object(value, path).get("state", UNSET)
    return shapes[cast("str", _STATE(state, f"{path}.state"))](value, path)


def _static_tool(value: object, path: str) -> object:
    return _by_state(value, path, _STATIC_SHAPES)


def _dynamic_tool(value: object, path: str) -> object:
    return _by_state(value, path, _DYNAMIC_SHAPES)


# All parts ----------------------------------------------------------------------------------------------------------

_PART_SHAPES: Final[dict[str, Check]] = {
    "text": Shape(
        {
            "type": string,
            "text": string,
            "citations": Optional(list_of(_CITATION)),
            "state": _BLOCK_STATE,
            **_METADATA,
        }
    ),
    "reasoning": Shape({"type": string, "id": Optional(string), "text": string, "state": _BLOCK_STATE, **_METADATA}),
    "file": _FILE,
    "reasoning-file": Shape({"type": string, "mediaType": string, "url": string, **_METADATA}),
    "source-url": Shape({"type": string, "sourceId": string, "url": string, "title": _TITLE, **_METADATA}),
    "source-document": Shape(
        {
            "type": string,
            "sourceId": string,
            "mediaType": string,
            "title": string,
            "filename": _FILENAME,
            **_METADATA,
        }
    ),
    "custom": Shape({"type": string, "kind": string, **_METADATA}),
    "step-start": Shape({"type": string}),
    "steering-message": Shape({"type": string, "id": string, "parts": list_of(_steering_part)}),
    "dynamic-tool": _dynamic_tool,
    "tool-": _static_tool,
    "data-": Shape({"type": string, "id": Optional(string), "data": anything}),
}
"""The shape of each type; one that ends with a dash is for all types that begin so."""


def _part(value: object, path: str) -> object:
    return _by_type(value, path, _PART_SHAPES)


_MESSAGE: Final = Shape(
    {
        "id": string,
        "role": one_of("system", "user", "assistant"),
        "metadata": _ANYTHING,
        "parts": list_of(_part),
    }
)


def check_message(value: object, path: str) -> dict[str, object]:
    """Return a message in wire form without the keys that no rule names.

    Raises:
        MessageValidationError: the first thing that is wrong, with its path.
    """
    message = _MESSAGE(value, path)
    if message["role"] != "assistant" and not message["parts"]:
        raise MessageValidationError(
            field=f"{path}.parts", value=[], problem=f"a message of the {message['role']} has one part at least"
        )
    return message
