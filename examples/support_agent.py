"""The agent behind the bot of `slack_bot.py`: it answers questions about a shop, and refunds orders if it may.

`test_slack_bot.py` runs the bot's tests over this agent too, with nothing scripted but its model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent import chat, is_step_count, stream_text, tool

if TYPE_CHECKING:
    from chatagent.agent import ChatAgent, RunEvent
    from chatagent.generate import StreamTextResult
    from chatagent.model import LanguageModel


@tool(needs_approval=True)
async def refund(order: int) -> bool:
    """Give the money for an order back.

    Args:
        order: the order's number.
    """
    return order > 0


def create_support_agent(model: LanguageModel) -> ChatAgent[None]:
    """Make the agent for a model."""

    @chat.agent(id="support", tools=[refund], ui_message_stream_options={"on_error": str})
    async def support(event: RunEvent[None]) -> StreamTextResult:
        return stream_text(
            model=model,
            instructions="You work for a shop. Be brief.",
            messages=event.messages,
            tools=event.tools,
            stop_when=is_step_count(5),
            abort_signal=event.signal,
        )

    return support
