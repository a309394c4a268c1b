"""Models of Anthropic; needs the extra `chatagent[anthropic]`."""

from __future__ import annotations

from chatagent.providers.anthropic.messages import AnthropicModel

__all__ = ["AnthropicModel"]
