"""The model list and the storage of a mock server, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["KEPT_UPLOAD_BYTES", "MockModel", "StorageUpload"]

KEPT_UPLOAD_BYTES = 262_144


class MockModel(BaseModel):
    """One entry of the model list. The `with_…` methods return changed copies.

    Args:
        id: the model's name; the only argument that may be given by position.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    agent_type: str | None = None
    api_backend: str | None = None
    supports_backend_search: bool = False
    supports_reasoning_effort: bool = False
    reasoning_effort: str | None = None
    reasoning_efforts: Sequence[str | dict[str, Any]] = ()
    """Bare names, or tables with a `value`."""

    def __init__(self, id: str, **rest: Any) -> None:
        super().__init__(id=id, **rest)

    @classmethod
    def with_agent_type(cls, id: str, agent_type: str) -> MockModel:
        """Return a model for one type of agent."""
        return cls(id, agent_type=agent_type)

    def with_api_backend(self, api_backend: str) -> MockModel:
        """Return a copy that names its backend."""
        return self._changed("api_backend", api_backend)

    def with_supports_backend_search(self, supports: bool) -> MockModel:  # noqa: FBT001 - the value itself
        """Return a copy that says whether its backend searches."""
        return self._changed("supports_backend_search", supports)

    def with_supports_reasoning_effort(self, supports: bool) -> MockModel:  # noqa: FBT001 - the value itself
        """Return a copy that says whether it takes a reasoning effort."""
        return self._changed("supports_reasoning_effort", supports)

    def with_reasoning_effort(self, effort: str) -> MockModel:
        """Return a copy with a default reasoning effort."""
        return self._changed("reasoning_effort", effort)

    def with_reasoning_efforts(self, efforts: Sequence[str | dict[str, Any]]) -> MockModel:
        """Return a copy with the reasoning efforts on offer."""
        return self._changed("reasoning_efforts", tuple(efforts))

    def to_wire(self) -> dict[str, object]:
        """Return the entry as `/v1/models` lists it (1.9.1)."""
        extras: dict[str, object] = {
            "_meta": {"agentType": self.agent_type} if self.agent_type is not None else None,
            "apiBackend": self.api_backend,
            "supportsBackendSearch": self.supports_backend_search or None,
            "supportsReasoningEffort": self.supports_reasoning_effort or None,
            "reasoningEffort": self.reasoning_effort,
            "reasoningEfforts": list(self.reasoning_efforts) or None,
        }
        entry = {"id": self.id, "object": "model", "created": 1234567890, "owned_by": "test"}
        return entry | {key: value for key, value in extras.items() if value is not None}

    def _changed(self, name: str, value: object) -> MockModel:
        members: dict[str, Any] = {**dict(self), name: value}
        return MockModel(**members)


@dataclass(frozen=True, slots=True)
class StorageUpload:
    """One upload that was accepted."""

    path: str
    """The header `X-Storage-Path`; empty if there was none."""
    size: int
    """Bytes."""
    body: bytes
    """Empty if it was larger than 262,144 bytes."""
    authorization: str | None
    """The header as it came."""
