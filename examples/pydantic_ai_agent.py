"""An agent of pydantic-ai behind a chat agent: it answers with its tool, remembers, and is tested without a network.

Run it with `python examples/pydantic_ai_agent.py`; it needs `pip install "chatagent[pydantic-ai,test]"`. The agent and
the turn loop are real; only the model is pydantic-ai's `TestModel`, which calls every tool and says what it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from chatagent import chat, locals
from chatagent.adapters.pydantic_ai import PydanticAIStream
from chatagent.ui import ToolUIPart
from chatagent_test import mock_chat_agent

if TYPE_CHECKING:
    from chatagent.agent import RunEvent
    from chatagent_test import Turn

# --- the agent, as you have it already ----------------------------------------------------------------------------


@dataclass
class Till:
    """What the agent's tools work with."""

    prices: dict[str, float]


barista = Agent(deps_type=Till, instructions="You are a barista.")


@barista.tool
async def look_up_price(ctx: RunContext[Till], drink: Literal["espresso", "flat white"]) -> str:
    """Look up what a drink costs."""
    await chat.sleep(60)  # a slow till; on the run's clock, so that the test need not wait
    return f"{ctx.deps.prices[drink]:.2f}"


# --- the chat agent around it -------------------------------------------------------------------------------------

TILL = locals.create("till", Till)


@chat.agent(id="barista")
def serve(event: RunEvent[None]) -> PydanticAIStream[Till]:
    return PydanticAIStream(barista, event, deps=locals.get_or_throw(TILL))


# --- the test -----------------------------------------------------------------------------------------------------


async def main() -> None:
    till = Till(prices={"espresso": 2.2, "flat white": 3.4})
    model = TestModel(custom_output_text="An espresso is 2.20.")

    with barista.override(model=model):
        async with mock_chat_agent(serve, setup_locals=lambda values: values.set(TILL, till)) as harness:
            began_at = harness.clock.now()
            for text in ("What is an espresso?", "Thank you."):
                show(text, await harness.send_message(text))
            snapshot = harness.get_snapshot()
            seconds = harness.clock.now() - began_at

    assert snapshot is not None
    print(f"stored: {', '.join(message.role for message in snapshot.messages)}")
    print(f"virtual time that passed: {seconds:g} seconds")


def show(text: str, turn: Turn) -> None:
    """Print one turn; what failed in it is raised."""
    if turn.error is not None:
        raise turn.error
    print(f"user:   {text}")
    for part in () if turn.message is None else turn.message.parts:
        if isinstance(part, ToolUIPart):
            print(f"tool:   {part.tool_name}({part.input}) gave {part.output!r}")
    print(f"agent:  {turn.text}")


if __name__ == "__main__":
    anyio.run(main)
