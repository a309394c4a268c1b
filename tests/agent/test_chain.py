"""The chain of messages as a value, and what its messages convert to (D8, N-11, F-86)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.making import assistant, ids, roles, tool_part, user
from chatagent import tool
from chatagent.agent.chain import MessageChain, MessageConverter
from chatagent.errors import MessageConversionError
from chatagent.model import ToolMessage
from chatagent.ui import UIMessage

NAMES = st.sampled_from(["", "a", "b", "c"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NAMES),
        st.tuples(st.just("upsert"), NAMES),
        st.tuples(st.just("replace"), NAMES),
        st.tuples(st.just("trim"), st.just("")),
    ),
    max_size=12,
)


def named(name: str) -> UIMessage:
    """A message; those of `c` are the assistant's."""
    return assistant(name) if name == "c" else user(name)


def step(
    chain: MessageChain, plain: list[UIMessage], operation: str, name: str
) -> tuple[MessageChain, list[UIMessage]]:
    """Do the same to a chain and to a plain list."""
    message = named(name)
    found = next((at for at, each in enumerate(plain) if each.id == name and name), None)
    match operation:
        case "append":
            return chain.append(message), [*plain, message]
        case "upsert":
            if found is None:
                return chain.upsert(message)[0], [*plain, message]
            return chain.upsert(message)[0], [*plain[:found], message, *plain[found + 1 :]]
        case "replace" if plain:
            return chain.replace(0, message), [message, *plain[1:]]
        case "trim":
            end = max((at for at, each in enumerate(plain) if each.role == "user"), default=-1)
            return chain.without_trailing_non_users(), plain[: end + 1]
        case _:
            return chain, plain


@given(OPERATIONS)
def test_a_chain_is_like_a_list_and_every_older_one_stays_as_it_was(operations: list[tuple[str, str]]) -> None:
    chain, plain = MessageChain(), list[UIMessage]()
    older: list[tuple[MessageChain, list[UIMessage]]] = []

    for operation, name in operations:
        older.append((chain, plain))
        chain, plain = step(chain, plain, operation, name)
    older.append((chain, plain))

    for each, expected in older:
        assert each.to_list() == expected
        assert len(each) == len(expected)
        assert each.last == (expected[-1] if expected else None)
        for name in ("a", "b", "c", "unknown"):
            first = next((at for at, message in enumerate(expected) if message.id == name), None)
            assert each.position(name) == first
            assert each.find(name) == (None if first is None else expected[first])
        assert each.position("") is None


def test_upsert_says_whether_it_replaced() -> None:
    chain = MessageChain([user("u-1")])

    appended, was_there = chain.upsert(user("u-2"))
    replaced, is_there = appended.upsert(user("u-1", "new"))

    assert (was_there, is_there) == (False, True)
    assert [message.text for message in replaced] == ["new", "hello"]


def test_the_list_of_a_chain_is_the_reader_s_own() -> None:
    chain = MessageChain([user("u-1")])

    chain.to_list().clear()

    assert ids(chain) == ["u-1"]


def vault(marker: str) -> dict[str, Any]:
    made: list[int] = []
    return {
        "vault": tool(
            description="Open the vault.",
            input_schema={"type": "object"},
            to_model_output=lambda event: made.append(1) or {"type": "text", "value": f"{marker} {len(made)}"},
        )
    }


RESOLVED = assistant("a-1", tool_part("tc-1", "output-available", name="vault", input={}, output="raw"))


def shown(messages: list[Any]) -> list[Any]:
    contents: list[Any] = [part for message in messages if isinstance(message, ToolMessage) for part in message.content]
    return [part.output.value for part in contents]


@pytest.mark.anyio
async def test_a_message_is_converted_once_for_a_set_of_tools() -> None:
    converter = MessageConverter()
    converter.use_tools(vault("x"))

    first = await converter.convert([user("u-1"), RESOLVED])
    again = await converter.convert([RESOLVED])

    assert roles(first) == ["user", "assistant", "tool"]
    assert shown(first) == shown(again) == ["x 1"]


@pytest.mark.anyio
async def test_other_tools_convert_anew() -> None:
    converter = MessageConverter()
    converter.use_tools(vault("x"))
    await converter.convert([RESOLVED])

    converter.use_tools(vault("y"))
    other = await converter.convert([RESOLVED])
    converter.use_tools(None)
    plain = await converter.convert([RESOLVED])

    assert shown(other) == ["y 1"]
    assert shown(plain) == ["raw"]


@pytest.mark.anyio
async def test_what_no_model_can_be_shown_is_raised_or_left_out() -> None:
    converter = MessageConverter()
    broken = UIMessage.model_validate(
        {"id": "u-9", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "no url"}]}
    )

    with pytest.raises(MessageConversionError):
        await converter.convert([user("u-1"), broken])
    rest = await converter.convert_what_can_be([user("u-1"), broken, user("u-2")])

    assert roles(rest) == ["user", "user"]


@pytest.mark.anyio
async def test_messages_that_left_the_chain_are_let_go() -> None:
    converter = MessageConverter()
    gone = [user(f"u-{number}") for number in range(200)]
    await converter.convert(gone)

    converter.forget_all_but([gone[0]])

    assert len(converter._kept) == 1  # pyright: ignore[reportPrivateUsage] - what it keeps shows nowhere else
