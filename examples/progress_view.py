"""A view of an agent at work: what it has said, which tools run and how far they are. A pure function of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import ToolPart
from chatagent.ui import DataUIPart, TextUIPart

if TYPE_CHECKING:
    from chatagent.protocol import ThreadState

SIGNS = {"input-streaming": "…", "input-available": "▶", "output-available": "✓", "output-error": "✗"}


def render(state: ThreadState) -> list[str]:
    """Return the lines of the view."""
    lines: list[str] = []
    for part in state.messages[-1].parts if state.messages else ():
        if isinstance(part, TextUIPart):
            lines.append(part.text + ("▌" if part.state == "streaming" else ""))
        elif isinstance(part, ToolPart):
            told = f": {part.error_text}" if part.error_text else ""
            lines.append(f"{SIGNS.get(part.state, '?')} {part.tool_name}{told}")
        elif isinstance(part, DataUIPart) and part.name == "progress":
            lines.append(f"  {part.data} %")
    if state.error is not None:
        lines.append(f"! {state.error.message}")
    return lines
