"""What every wire format of the project shares: the base of the pydantic models and the names of JSON shapes.

Models are for what is kept (messages, their parts, payloads, snapshots); what comes by the ten thousand is built with
`slots.py` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FinishReason", "JSONObject", "ProviderMetadata", "WireModel"]

JSONObject: TypeAlias = dict[str, object]
"""An object of plain JSON values."""

ProviderMetadata: TypeAlias = dict[str, dict[str, object]]
"""What a provider adds for itself: its name, then its own keys."""

FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "other", "interrupted"]
"""Why a model call ended, in the words that all providers share (rule 1.6)."""


class WireModel(BaseModel):
    """Base of the models that go over a wire.

    Frozen; camelCase keys on the wire, snake_case attributes here, both accepted by the constructor. Unknown keys are
    kept. What came in goes out again: an absent key stays apart from a `null`, so a field that is given as `None` is
    written as `null`; leave it out instead.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="allow",
        frozen=True,
        defer_build=True,
        ser_json_inf_nan="constants",  # kept for the writer of JSON to refuse, instead of turned into null
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show only the fields that were given."""
        given = self.model_fields_set
        return [(name, value) for name, value in super().__repr_args__() if name is None or name in given]

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form: camelCase keys, absent fields left out, plain lists and dicts."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
