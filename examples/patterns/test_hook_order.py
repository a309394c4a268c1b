"""Hook order: which hooks a conversation calls, and when.

The harness records every call: `turn.hooks` has those of one turn, `harness.hooks` all of them, those of the boot
included. A driver returns when the last hook of its turn has, so there is nothing to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import chat, locals, stream_text
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import RunEvent
    from chatagent.generate import StreamTextResult

MODEL = locals.create("model", MockLanguageModel)


def note(event: object) -> None:
    """Load, log or save something; a hook is a function of one event."""


@chat.agent(
    id="punctual",
    on_boot=note,
    on_preload=note,
    on_chat_start=note,
    on_turn_start=note,
    on_before_turn_complete=note,
    on_turn_complete=note,
)
def punctual(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@pytest.mark.asyncio
async def test_hooks_are_called_in_order() -> None:
    model = MockLanguageModel([script.text("Good morning."), script.text("Good night.")])

    async with mock_chat_agent(punctual, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        await harness.start()
        booted = [call.name for call in harness.hooks]
        first = await harness.send_message("Hello.")
        second = await harness.send_message("Bye.")

    assert booted == ["on_boot", "on_preload"]
    assert [call.name for call in first.hooks] == [
        "on_chat_start",
        "on_turn_start",
        "run",
        "on_before_turn_complete",
        "on_turn_complete",
    ]
    assert [call.name for call in second.hooks] == [
        "on_turn_start",
        "run",
        "on_before_turn_complete",
        "on_turn_complete",
    ]
