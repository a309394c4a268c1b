"""Models of providers, through their official SDKs: each provider is an area and an extra of its own.

`chatagent.providers.openai` needs `chatagent[openai]`, `chatagent.providers.anthropic` needs `chatagent[anthropic]`.
"""

from __future__ import annotations

from chatagent.providers.resolve import resolve_model

__all__ = ["resolve_model"]
