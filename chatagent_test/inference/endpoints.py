"""The three inference endpoints. What each of them reads and says is in `formats`."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

__all__ = ["InferenceEndpoint", "Profile"]

Profile: TypeAlias = Literal["sdk", "minimal"]
"""Which frames builders give (4.0.3): those that the stream helpers of the public SDKs accept, or the fewest."""


class InferenceEndpoint(Enum):
    """One of the routes at which a model answers (2.1.1)."""

    CHAT_COMPLETIONS = "/v1/chat/completions"
    RESPONSES = "/v1/responses"
    MESSAGES = "/v1/messages"

    @property
    def path(self) -> str:
        """The route."""
        return self.value
