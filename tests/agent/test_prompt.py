"""`chat.prompt`: the prompt of a run (rule N-50)."""

from __future__ import annotations

from typing import Any

import pytest

from agent.making import agent_of, asking, saying
from chatagent import ChatContextError, chat
from chatagent.agent import Prompt
from chatagent_test import mock_chat_agent

pytestmark = pytest.mark.anyio


async def prompt_after(*sets: Any) -> Prompt:
    """What `chat.prompt()` gives in `run` after these were set in `on_boot`."""
    read: list[Prompt] = []

    def boot(event: Any) -> None:
        for value in sets:
            chat.prompt.set(value)

    def run(event: Any) -> Any:
        read.append(chat.prompt())
        return asking(saying("ok"))(event)

    async with mock_chat_agent(agent_of(run=run, on_boot=boot)) as harness:
        await harness.send_message("hello")
    return read[0]


async def test_a_text_is_a_prompt_without_model_and_settings() -> None:
    prompt = await prompt_after("You are helpful.")

    assert prompt == Prompt(text="You are helpful.", model=None, config=None, prompt_id="", version=0, labels=())


async def test_a_prompt_is_kept_as_it_is() -> None:
    given = Prompt(text="Hi.", model="house:small", config={"temperature": 0.2}, prompt_id="p-1", version=3)

    assert await prompt_after("earlier", given) is given


async def test_reading_a_prompt_that_was_not_set_says_where_to_set_it() -> None:
    def run(event: Any) -> None:
        chat.prompt()

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, ChatContextError)
    assert str(turn.error) == (
        "chat.prompt() called before chat.prompt.set() in this run; set a prompt in `on_boot`, which every run calls, "
        "in `on_turn_start`, or in `run`"
    )


async def test_a_prompt_holds_for_the_whole_run_and_for_no_other() -> None:
    texts: list[str | None] = []

    def read(event: Any) -> None:
        last = event.messages[-1].content[0].text
        if last == "set":
            chat.prompt.set("mine")
        try:
            texts.append(chat.prompt().text)
        except ChatContextError:
            texts.append(None)

    agent = agent_of(run=read)
    async with mock_chat_agent(agent, chat_id="one") as one, mock_chat_agent(agent, chat_id="two") as two:
        await one.send_message("set")
        await one.send_message("read")
        await two.send_message("read")

    assert texts == ["mine", "mine", None]


@pytest.mark.parametrize("call", [lambda: chat.prompt(), lambda: chat.prompt.set("x")], ids=["read", "set"])
def test_a_prompt_needs_a_run(call: Any) -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.prompt(\.set)? was called outside a run; "):
        call()
