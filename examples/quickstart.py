"""The main job in one file: a chat agent with hooks, driven through a conversation without network and without waiting.

Run it with `python examples/quickstart.py`. The agent and its turn loop are real; the model is scripted, and time is
virtual: the price that takes a minute to look up takes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import anyio
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chatagent import chat, is_step_count, locals, stream_text, tool
from chatagent.ui import ToolUIPart
from chatagent_test import MockLanguageModel, mock_chat_agent, mock_id, script

if TYPE_CHECKING:
    from chatagent.agent import ActionEvent, BootEvent, ChatStartEvent, RunEvent, TurnCompleteEvent, TurnStartEvent
    from chatagent.generate import StreamTextResult
    from chatagent.session import Snapshot
    from chatagent.task import LocalValues
    from chatagent_test import ChatAgentHarness, Turn

# --- the agent: what you would write for production -------------------------------------------------------------------


class Undo(BaseModel):
    """The one action that clients may send."""

    type: Literal["undo"]


class Visit(BaseModel):
    """What a run remembers beside the conversation."""

    turns: int


MENU = locals.create("menu", dict[str, float])
MODEL = locals.create("model", MockLanguageModel)
visit = chat.local(Visit, id="visit")


@tool
async def look_up_price(drink: str) -> str:
    """Look up what a drink costs.

    Args:
        drink: the drink's name, as on the menu.
    """
    await chat.sleep(60)  # a slow till; on the run's clock
    return f"{locals.get_or_throw(MENU)[drink]:.2f}"


@chat.agent(id="barista", tools=[look_up_price], action_schema=Undo)
async def barista(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(
        model=locals.get_or_throw(MODEL),
        instructions="You are a barista.",
        messages=event.messages,
        tools=event.tools,
        stop_when=is_step_count(5),
        abort_signal=event.signal,
    )


@barista.on_boot
def begin(event: BootEvent[None]) -> None:
    visit.init(Visit(turns=0))


@barista.on_chat_start
async def greet(event: ChatStartEvent[None]) -> None:
    event.writer.write({"type": "data-greeting", "data": "Welcome!"})


@barista.on_turn_start
def count(event: TurnStartEvent[None]) -> None:
    visit.turns += 1


@barista.on_action
def undo(event: ActionEvent[None]) -> str:
    chat.history.slice(0, -2)
    return "Forgotten."


@barista.on_turn_complete
async def say_when_done(event: TurnCompleteEvent[None]) -> None:
    if visit.turns >= 100:
        chat.end_run()


# --- the test: a scripted model, and a menu in place of a database ----------------------------------------------------

ANSWERS = [
    script.text("One flat white, coming up."),
    script.text("Let me see. ").tool_call("look_up_price", {"drink": "espresso"}),
    script.text("An espresso is 2.20."),
    script.text("We close at six."),
    script.text("Our beans come from ").hold("beans").text("three farms."),
    script.text("Welcome back! Another flat white?"),
]


async def main(console: Console) -> None:
    model = MockLanguageModel(ANSWERS)

    def set_up(values: LocalValues) -> None:
        values.set(MENU, {"espresso": 2.2, "flat white": 3.4})
        values.set(MODEL, model)

    async with mock_chat_agent(barista, setup_locals=set_up) as harness:
        await harness.start()
        began_at = harness.clock.now()
        show_boot(console, "A new conversation", harness)
        for number, text in enumerate(("A flat white, please.", "What is an espresso?", "When do you close?"), start=1):
            turn = await harness.send_message(text)
            show(console, f"Turn {number}", turn, asked=text, snapshot=harness.get_snapshot())
        turn = await harness.send_action({"type": "undo"})
        show(console, "An action: undo the last turn", turn, snapshot=harness.get_snapshot())
        text = "Tell me all about your beans."
        turn = await send_and_stop(harness, model, text)
        show(console, "Turn 4, stopped in mid-stream", turn, asked=text, snapshot=harness.get_snapshot())
        snapshot = harness.get_snapshot()
        seconds = harness.clock.now() - began_at

    later = mock_chat_agent(barista, setup_locals=set_up, continuation=True, snapshot=snapshot, ids=mock_id("later"))
    async with later as harness:
        await harness.start()
        show_boot(console, "A continuation: another run, on what was stored", harness)
        turn = await harness.send_message("Me again.")
        show(console, "Its first turn", turn, asked="Me again.", snapshot=harness.get_snapshot())

    model.assert_done()
    console.print(f"Virtual time that passed: {seconds:g} seconds.")
    console.print("Where to go next: docs/tutorial.md builds an agent and its tests step by step.")


async def send_and_stop(harness: ChatAgentHarness, model: MockLanguageModel, text: str) -> Turn:
    pending = harness.begin_message(text)
    await model.reached("beans")
    await harness.send_stop("enough")
    return await pending


# --- the printing -----------------------------------------------------------------------------------------------------


def show_boot(console: Console, title: str, harness: ChatAgentHarness) -> None:
    stored = f"{len(harness.boot.settled_messages)} messages" if harness.boot.snapshot_found else "no conversation yet"
    table = rows(hooks=", ".join(call.name for call in harness.hooks), stored=stored)
    print_section(console, title, table)


def show(console: Console, title: str, turn: Turn, *, snapshot: Snapshot | None, asked: str | None = None) -> None:
    """Print one turn; what failed in it is raised."""
    if turn.error is not None:
        raise turn.error
    reply = Text.assemble((turn.text, "green"), (" (stopped)" if turn.stopped else "", "yellow"))
    table = rows(user=asked, reply=reply, tool=tool_calls(turn), hooks=", ".join(call.name for call in turn.hooks))
    add_row(table, "stored", "nothing" if snapshot is None else f"{len(snapshot.messages)} messages: {roles(snapshot)}")
    print_section(console, title, table)


def tool_calls(turn: Turn) -> str | None:
    parts = () if turn.message is None else turn.message.parts
    calls = [part for part in parts if isinstance(part, ToolUIPart)]
    return "\n".join(f"{part.tool_name}({part.input}) gave {part.output!r}" for part in calls) or None


def roles(snapshot: Snapshot) -> str:
    return ", ".join(message.role for message in snapshot.messages)


def rows(**cells: str | Text | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right", min_width=8)
    table.add_column(overflow="fold")
    for name, cell in cells.items():
        if cell is not None:
            add_row(table, name, cell)
    return table


def add_row(table: Table, name: str, cell: str | Text) -> None:
    table.add_row(name, Text(cell) if isinstance(cell, str) else cell)


def print_section(console: Console, title: str, table: Table) -> None:
    console.print(Text(title, style="bold cyan"))
    console.print(table)
    console.print()


if __name__ == "__main__":
    anyio.run(main, Console(highlight=False))
