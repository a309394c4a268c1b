"""What a head start hands over in the tests of custom agents, and the tool that it has called."""

from __future__ import annotations

from chatagent import tool

CALLED: list[str] = []
GREETING = [{"role": "assistant", "content": [{"type": "text", "text": "Hi there."}]}]
CALLING = [
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "tc-1", "toolName": "weather", "input": {"city": "tokyo"}},
            {"type": "tool-approval-request", "approvalId": "ap-1", "toolCallId": "tc-1"},
        ],
    },
    {"role": "tool", "content": [{"type": "tool-approval-response", "approvalId": "ap-1", "approved": True}]},
]


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    CALLED.append(city)
    return f"sunny in {city}"
