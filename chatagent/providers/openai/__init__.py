"""Models of OpenAI and of servers that speak its APIs; needs the extra `chatagent[openai]`."""

from __future__ import annotations

from chatagent.providers.openai.chat import OpenAIChatModel
from chatagent.providers.openai.responses import OpenAIResponsesModel

__all__ = ["OpenAIChatModel", "OpenAIResponsesModel"]
