"""`assert_chunks` and `assert_hooks`: what they let pass, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, saying
from chatagent.errors import InvalidArgumentError
from chatagent.ui import FinishStep, Start, StartStep, TextDelta
from chatagent_test import ChatAgentHarness, HookCall, Turn, assert_chunks, assert_hooks, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


def fail(event: Any) -> None:
    raise LookupError("no such shop")


@pytest.fixture
async def harness() -> AsyncIterator[ChatAgentHarness]:
    agent = agent_of(
        saying(script.text("Hello there.", chunks=["Hello ", "there."])),
        on_boot=lambda event: None,
        on_turn_start=lambda event: None,
        on_turn_complete=fail,
    )
    async with mock_chat_agent(agent) as harness:
        yield harness


@pytest.fixture
async def turn(harness: ChatAgentHarness) -> Turn:
    return await harness.send_message("hi")


async def test_chunks_may_be_types_keys_objects_and_gaps(harness: ChatAgentHarness, turn: Turn) -> None:
    expected = [
        "start",
        StartStep(),
        ...,
        {"type": "text-delta", "delta": "Hello "},
        {"delta": "there."},
        "text-end",
        FinishStep(),
        ...,
        {"type": "finish", "finishReason": str},
    ]

    assert_chunks(turn, expected)
    assert_chunks(harness, expected)
    assert_chunks(turn.chunks, expected)
    assert_chunks(turn, [..., "finish", "trigger:turn-complete"], with_control=True)


async def test_chunks_that_differ_are_shown_with_what_differs(turn: Turn) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_chunks(
            turn, ["start", "start-step", "text-start", {"type": "text-delta", "delta": "Hello!"}, "data-note", ...]
        )

    assert str(caught.value).split("\n") == [
        "the chunks of turn 0 are not as expected (-)",
        '  start {"messageId": "msg-2"}',
        "  start-step",
        '  text-start {"id": "text-1"}',
        '- text-delta {"delta": "Hello!"}',
        '+ text-delta {"id": "text-1", "delta": "Hello "}',
        '      delta: expected "Hello!", got "Hello "',
        "- data-note",
        '  … text-delta {"id": "text-1", "delta": "there."}',
        '  … text-end {"id": "text-1"}',
        "  … finish-step",
        '  … finish {"finishReason": "stop"}',
    ]


async def test_a_chunk_object_allows_no_other_keys(turn: Turn) -> None:
    delta = TextDelta(id="text-1", delta="Hello ", provider_metadata={"a": {}})

    with pytest.raises(AssertionError, match=r'providerMetadata: expected {"a": {}}, but there is none'):
        assert_chunks(turn, [..., delta, ...])
    with pytest.raises(AssertionError, match=r"\+ start .*\n      messageId: not expected"):
        assert_chunks(turn.chunks[:1], [Start()])


async def test_an_expected_chunk_that_is_none_is_refused(turn: Turn) -> None:
    with pytest.raises(InvalidArgumentError, match=r"give a type, a dict of keys in wire form, a chunk, or `\.\.\.`"):
        assert_chunks(turn, [1])  # type: ignore[list-item] - that is the point


async def test_hooks_may_be_names_attributes_calls_and_gaps(harness: ChatAgentHarness, turn: Turn) -> None:
    raised = {"name": "on_turn_complete", "outcome": "raised", "error": LookupError}

    assert_hooks(turn, ["on_turn_start", "run", raised, ...])
    assert_hooks(harness, ["on_boot", {"turn": 0, "event": {"chat_id": "test-chat", "turn": 0}}, ...])
    assert_hooks(turn.hooks[:1], [turn.hooks[0]])
    assert_hooks([], [...])


async def test_hooks_that_differ_are_shown_with_how_they_went(turn: Turn) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_hooks(turn, ["on_chat_start", "on_turn_start", {"name": "run", "outcome": "raised"}, "on_turn_complete"])

    assert str(caught.value).split("\n") == [
        "the hook calls of turn 0 are not as expected (-)",
        "- on_chat_start",
        "  on_turn_start",
        "- run (outcome raised)",
        "+ run",
        '      outcome: expected "raised", got "returned"',
        "+ on_turn_complete (raised LookupError('no such shop'))",
        "  on_turn_complete (raised LookupError('no such shop'))",
    ]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"nane": "run"}, "no attribute of a hook call; these are: name, event, turn"),
        (1, "give a name, a dict of attributes, a HookCall, or `...`"),
    ],
)
async def test_an_expected_hook_that_is_none_is_refused(item: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        assert_hooks([], [item])

    assert text in str(caught.value)


async def test_a_hook_at_work_says_so() -> None:
    call = HookCall(name="run", event=None, turn=0, started_at=0.0)

    with pytest.raises(AssertionError, match=r"\+ run \(at work\)"):
        assert_hooks([call], [])


# --- what is no list ---


@pytest.mark.parametrize("expected", ["run", {"name": "run"}, None, 7])
async def test_what_is_expected_is_a_list(expected: Any, harness: ChatAgentHarness) -> None:
    turn = await harness.send_message("hello")

    with pytest.raises(InvalidArgumentError, match=r"^`expected` is .*: a list with one item a call$"):
        assert_hooks(turn, expected)
    with pytest.raises(InvalidArgumentError, match=r"^`expected` is .*: a list with one item a chunk$"):
        assert_chunks(turn, expected)


async def test_what_was_not_awaited_is_no_turn(harness: ChatAgentHarness) -> None:
    pending: Any = harness.begin_message("hello")

    with pytest.raises(
        InvalidArgumentError, match=r"^`turn` is <.*: a turn \(awaited\), a harness, or a list of hook c"
    ):
        assert_hooks(pending, [])
    with pytest.raises(
        InvalidArgumentError, match=r"^`turn` is <.*: a turn \(awaited\), a harness, or a list of chunks$"
    ):
        assert_chunks(pending, [])
    with pytest.raises(AttributeError, match=r"has no attribute 'text': it is not a turn yet, `await` it to get one$"):
        _ = pending.text
    with pytest.raises(AttributeError, match=r"has no attribute 'txet'$"):
        _ = pending.txet
    assert (await pending).text == "Hello there."
