"""What a message may hold, strictly: one shape for each type of part, and for a tool part one for each state.

Rules 11.1 to 11.3 and 14.9, in wire form. Schemas of the application, and tools, are `validate.py`'s business.
"""

from __future__ import annotations

from typing import Final, cast

from chatagent.errors import MessageValidationError
from chatagent.ui.kinds import UNSET
from chatagent.ui.shapes import (
    Check,
    Shape,
    anything,
    as_object,
    boolean,
    exactly,
    json_object,
    list_of,
    object_of,
    one_of,
    string,
)

__all__ = ["check_message"]

_PROVIDER_METADATA: Final = object_of(json_object)
_METADATA: Final[dict[str, Check]] = {"providerMetadata": _PROVIDER_METADATA}
_BLOCK_STATE: Final = one_of("streaming", "done")
_TYPE: Final[dict[str, Check]] = {"type": string}

_TEXT: Final = Shape(
    required={**_TYPE, "text": string},
    optional={"state": _BLOCK_STATE, "citations": list_of(anything), **_METADATA},
)
_FILE: Final = Shape(
    required={**_TYPE, "mediaType": string, "url": string},
    optional={"filename": string, "providerReference": object_of(string), **_METADATA},
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


_STEERING_SHAPES: Final[dict[str, Check]] = {"text": _TEXT, "file": _FILE}


def _steering_part(value: object, path: str) -> object:
    return _by_type(value, path, _STEERING_SHAPES)


# Tool parts ---------------------------------------------------------------------------------------------------------

_ASKED: Final[dict[str, Check]] = {
    "requestReason": string,
    "descriptor": anything,
    "isAutomatic": boolean,
    "signature": string,
    "inputSchemaInput": anything,
}
"""What the question holds, answered or not."""

_PENDING_APPROVAL: Final = Shape(required={"id": string}, optional=_ASKED, forbidden=("approved", "reason"))


def _answered_approval(approved: Check) -> Shape:
    return Shape(required={"id": string, "approved": approved}, optional={"reason": string, **_ASKED})


_GRANTED_APPROVAL: Final = _answered_approval(exactly(value=True))

_STATES: Final[dict[str, Shape]] = {
    "input-streaming": Shape(
        optional={"rawInput": anything, "inputEncoding": one_of("json", "text")},
        forbidden=("output", "errorText", "approval"),
    ),
    "input-available": Shape(forbidden=("output", "errorText", "approval")),
    "approval-requested": Shape(required={"approval": _PENDING_APPROVAL}, forbidden=("output", "errorText")),
    "approval-responded": Shape(required={"approval": _answered_approval(boolean)}, forbidden=("output", "errorText")),
    "output-available": Shape(
        optional={
            "output": anything,
            "preliminary": boolean,
            "resultProviderMetadata": _PROVIDER_METADATA,
            "approval": _GRANTED_APPROVAL,
        },
        forbidden=("errorText",),
    ),
    "output-error": Shape(
        required={"errorText": string},
        optional={
            "rawInput": anything,
            "resultProviderMetadata": _PROVIDER_METADATA,
            "approval": _GRANTED_APPROVAL,
        },
        forbidden=("output",),
    ),
    "output-denied": Shape(
        required={"approval": _answered_approval(exactly(value=False))},
        forbidden=("output", "errorText"),
    ),
}
"""What each state adds. `input` and `output` may be absent in any state: an undefined one is left out by JavaScript."""


def _tool_shapes(required: dict[str, Check], optional: dict[str, Check]) -> dict[str, Shape]:
    return {
        state: Shape(
            required={**_TYPE, **required, "toolCallId": string, "state": string, **own.required},
            optional={
                "title": string,
                "toolMetadata": json_object,
                "providerExecuted": boolean,
                "callProviderMetadata": _PROVIDER_METADATA,
                "input": anything,
                **optional,
                **own.optional,
            },
            forbidden=own.forbidden,
        )
        for state, own in _STATES.items()
    }


_STATIC_SHAPES: Final = _tool_shapes({}, {})
_DYNAMIC_SHAPES: Final = _tool_shapes({"toolName": string}, {"dynamic": boolean})
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
    "text": _TEXT,
    "reasoning": Shape(required={**_TYPE, "text": string}, optional={"id": string, "state": _BLOCK_STATE, **_METADATA}),
    "file": _FILE,
    "reasoning-file": Shape(required={**_TYPE, "mediaType": string, "url": string}, optional=_METADATA),
    "source-url": Shape(required={**_TYPE, "sourceId": string, "url": string}, optional={"title": string, **_METADATA}),
    "source-document": Shape(
        required={**_TYPE, "sourceId": string, "mediaType": string, "title": string},
        optional={"filename": string, **_METADATA},
    ),
    "custom": Shape(required={**_TYPE, "kind": string}, optional=_METADATA),
    "step-start": Shape(required=_TYPE),
    "steering-message": Shape(required={**_TYPE, "id": string, "parts": list_of(_steering_part)}),
    "dynamic-tool": _dynamic_tool,
    "tool-": _static_tool,
    "data-": Shape(required={**_TYPE, "data": anything}, optional={"id": string}),
}
"""The shape of each type; one that ends with a dash is for all types that begin so."""


def _part(value: object, path: str) -> object:
    return _by_type(value, path, _PART_SHAPES)


_MESSAGE: Final = Shape(
    required={"id": string, "role": one_of("system", "user", "assistant"), "parts": list_of(_part)},
    optional={"metadata": anything},
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
