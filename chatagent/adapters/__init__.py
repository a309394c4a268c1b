"""Agents that were written with other frameworks, as what `run` of a chat agent may return.

Each framework is a module and an extra of its own: `chatagent.adapters.pydantic_ai` needs `chatagent[pydantic-ai]`.
"""

from __future__ import annotations

__all__: list[str] = []
