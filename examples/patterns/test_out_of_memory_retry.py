"""Out of memory: a run that dies of it gets a second attempt, on a larger machine.

The second attempt is the same run once more: it reads what the first has left and answers what was not answered, so
`on_chat_start` is not called again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import OutOfMemoryError, chat, locals, stream_text
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import ChatStartEvent, RunEvent, TurnStartEvent
    from chatagent.generate import StreamTextResult

MODEL = locals.create("model", MockLanguageModel)


@chat.agent(id="librarian", oom_machine="large-2x")
def librarian(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@librarian.on_chat_start
def open_a_file(event: ChatStartEvent[None]) -> None:
    """Do what is done once for a conversation."""


@librarian.on_turn_start
def load_the_index(event: TurnStartEvent[None]) -> None:
    if event.ctx.machine.name != "large-2x":
        raise OutOfMemoryError("the index does not fit")


@pytest.mark.asyncio
async def test_the_second_attempt_answers() -> None:
    model = MockLanguageModel(script.text("On the third shelf."))

    async with mock_chat_agent(librarian, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        with pytest.raises(OutOfMemoryError):
            await harness.send_message("Where is the book?")
        await harness.retry_oom()
        await harness.wait_idle()

    assert [turn.text for turn in harness.turns] == ["On the third shelf."]
    assert [(call.name, call.outcome) for call in harness.hooks] == [
        ("on_chat_start", "returned"),
        ("on_turn_start", "raised"),
        ("on_turn_start", "returned"),
        ("run", "returned"),
    ]


@pytest.mark.asyncio
async def test_a_second_attempt_alone() -> None:
    model = MockLanguageModel(script.text("On the third shelf."))

    harness = mock_chat_agent(
        librarian,
        task_context={"attempt": {"number": 2}, "machine": {"name": "large-2x"}},
        setup_locals=lambda values: values.set(MODEL, model),
    )
    async with harness:
        turn = await harness.send_message("Where is the book?")

    assert [call.name for call in turn.hooks] == ["on_turn_start", "run"]
