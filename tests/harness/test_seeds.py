"""Seeds: what a boot finds, when a seed is refused, what the harness says of the boot (G-6, G-12, G-13, X-20, X-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.making import agent_of, assistant, ids, texts, tool_part, user
from chatagent.errors import ChunkError, HarnessStateError, InvalidArgumentError, InvalidMessageError
from chatagent.session import Snapshot
from chatagent.ui import Finish, Start, TextDelta, TextEnd, TextStart, UIMessage, to_wire
from chatagent_test import ChatAgentHarness, mock_chat_agent

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

STORED = {"version": 1, "savedAt": 0, "messages": [to_wire(user("u-1", "one")), to_wire(assistant("a-1", "two"))]}
ANSWER = [
    {"type": "start", "messageId": "a-2"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "streamed"},
    {"type": "text-end", "id": "t"},
    {"type": "finish"},
]


def nothing(event: Any) -> None:
    return None


def chain(harness: ChatAgentHarness) -> list[UIMessage]:
    (event,) = [call.event for call in harness.hooks if call.name == "on_turn_start"]
    return event.ui_messages


WAYS_TO_SEED: dict[str, Callable[[ChatAgentHarness], None]] = {
    "snapshot": lambda harness: harness.seed_snapshot(STORED),
    "out tail": lambda harness: harness.seed_session_out_tail(ANSWER),
    "partial answer": lambda harness: harness.seed_session_out_partial(assistant("a-9", "half")),
    "in tail": lambda harness: harness.seed_session_in_tail([user("u-9")]),
}


@pytest.mark.parametrize(
    "stored", [STORED, Snapshot(saved_at=0, messages=[user("u-1", "one"), assistant("a-1", "two")])]
)
@pytest.mark.parametrize("how", ["option", "method"])
async def test_a_snapshot_may_be_seeded_as_an_option_or_by_a_method_as_an_object_or_a_dict(
    stored: Any, how: str
) -> None:
    options: dict[str, Any] = {"snapshot": stored} if how == "option" else {}
    harness = mock_chat_agent(agent_of(on_turn_start=nothing), continuation=True, **options)
    if how == "method":
        harness.seed_snapshot(stored)

    async with harness:
        await harness.send_message(user("u-2", "three"))

    assert texts(chain(harness)) == ["one", "two", "three"]
    assert harness.boot.snapshot_found


async def test_a_retry_reads_the_past_too() -> None:
    harness = mock_chat_agent(
        agent_of(on_turn_start=nothing), snapshot=STORED, task_context={"ctx": {"attempt": {"number": 2}}}
    )

    async with harness:
        await harness.send_message(user("u-2", "three"))

    assert texts(chain(harness)) == ["one", "two", "three"]


@pytest.mark.parametrize("what", WAYS_TO_SEED)
async def test_a_seed_that_a_fresh_boot_would_not_read_is_refused(what: str) -> None:
    """G-6: the reference ignores it, and the test passes for nothing."""
    harness = mock_chat_agent(agent_of())

    with pytest.raises(HarnessStateError) as caught:
        WAYS_TO_SEED[what](harness)
    await harness.close()

    assert str(caught.value) == (
        f"this boot would not read the seeded {what}: only a continuation or a retry reads the past; make the harness "
        'with continuation=True, or with task_context={"attempt": {"number": 2}}'
    )


async def test_a_snapshot_as_an_option_of_a_fresh_boot_is_refused_when_the_harness_is_made() -> None:
    with pytest.raises(HarnessStateError, match=r"^this boot would not read the seeded snapshot: "):
        mock_chat_agent(agent_of(), snapshot=STORED)
    with pytest.raises(HarnessStateError, match=r"^this boot would not read the seeded snapshot: "):
        mock_chat_agent(agent_of(), snapshot=STORED, previous_run_id="run_prior")


async def test_a_snapshot_and_hydration_exclude_each_other() -> None:
    agent = agent_of(hydrate_messages=lambda event: event.incoming_messages)

    with pytest.raises(HarnessStateError) as caught:
        mock_chat_agent(agent, continuation=True, snapshot=STORED)

    assert str(caught.value) == (
        "a snapshot and `hydrate_messages` exclude each other: an agent that keeps its history reads none"
    )


@pytest.mark.parametrize("what", WAYS_TO_SEED)
async def test_not_strict_a_seed_that_nobody_reads_is_a_warning(what: str) -> None:
    harness = mock_chat_agent(agent_of(on_turn_start=nothing), strict=False)

    with pytest.warns(RuntimeWarning, match=rf"^this boot would not read the seeded {what}: "):
        WAYS_TO_SEED[what](harness)
    async with harness:
        await harness.send_message(user("u-2"))

    assert ids(chain(harness)) == ["u-2"]


@pytest.mark.parametrize("what", WAYS_TO_SEED)
async def test_a_seed_behind_the_boot_is_refused(what: str) -> None:
    """G-13."""
    async with mock_chat_agent(agent_of(), continuation=True) as harness:
        await harness.start()
        with pytest.raises(HarnessStateError) as caught:
            WAYS_TO_SEED[what](harness)

    assert str(caught.value) == (
        "seed: the run has booted; seed before the first driver call\nhooks so far: none\nchunks of the last turn: none"
    )


async def test_chunks_on_out_are_put_together_by_the_runtime_itself() -> None:
    """4.4: an open answer counts as cut off."""
    harness = mock_chat_agent(agent_of(on_turn_start=nothing), continuation=True)
    harness.seed_session_out_tail([*ANSWER, {"type": "start", "messageId": "a-3"}, *ANSWER[1:3]])
    harness.seed_session_in_tail([user("u-1")])

    async with harness:
        await harness.start()

    assert ids(harness.boot.settled_messages) == ["a-2"]
    assert harness.boot.partial_assistant == assistant("a-3", {"type": "text", "text": "streamed", "state": "done"})
    assert ids(harness.boot.in_flight_users) == ["u-1"]


async def test_chunks_may_be_seeded_as_objects_and_cleared() -> None:
    objects = [
        Start(message_id="a-2"),
        TextStart(id="t"),
        TextDelta(id="t", delta="streamed"),
        TextEnd(id="t"),
        Finish(),
    ]
    seeded, cleared = (mock_chat_agent(agent_of(), continuation=True) for _ in range(2))
    seeded.seed_session_out_tail(objects)
    cleared.seed_session_out_tail(objects)
    cleared.seed_session_out_tail()

    async with seeded, cleared:
        await seeded.start()
        await cleared.start()

    assert texts(seeded.boot.settled_messages) == ["streamed"]
    assert cleared.boot.settled_messages == ()


async def test_a_seeded_partial_is_taken_as_it_is_and_wins_over_the_chunks() -> None:
    """G-12: `raw` may differ."""
    harness = mock_chat_agent(agent_of(on_recovery_boot=nothing), continuation=True)
    harness.seed_session_out_tail(ANSWER[:3])
    harness.seed_session_out_partial(
        assistant("a-9", "clean"), raw=assistant("a-9", "raw", tool_part("tc-1", "input-available", input={}))
    )

    async with harness:
        await harness.start()

    (event,) = [call.event for call in harness.hooks if call.name == "on_recovery_boot"]
    assert event.partial_assistant == assistant("a-9", "clean")
    assert [call.tool_call_id for call in event.pending_tool_calls] == ["tc-1"]


async def test_a_seed_can_be_taken_back() -> None:
    harness = mock_chat_agent(agent_of(on_turn_start=nothing), continuation=True, snapshot=STORED)
    harness.seed_snapshot(None)
    harness.seed_session_out_partial(assistant("a-9", "half"))
    harness.seed_session_out_partial(None)
    harness.seed_session_in_tail([user("u-9")])
    harness.seed_session_in_tail([])

    async with harness:
        await harness.send_message(user("u-2"))

    assert ids(chain(harness)) == ["u-2"]
    assert not harness.boot.snapshot_found


BROKEN_SEEDS: list[tuple[Callable[[ChatAgentHarness], None], type[Exception]]] = [
    (lambda harness: harness.seed_session_out_tail([{"type": "text-delta"}]), ChunkError),
    (lambda harness: harness.seed_session_out_partial({"role": "assistant"}), InvalidMessageError),
    (lambda harness: harness.seed_session_in_tail([{"role": "user"}]), InvalidMessageError),
    (lambda harness: harness.seed_session_in_tail(cast("Any", user("u-1"))), InvalidArgumentError),
]


@pytest.mark.parametrize(("seed", "error"), BROKEN_SEEDS)
async def test_a_seed_that_breaks_its_form_is_refused_where_it_is_seeded(seed: Any, error: type[Exception]) -> None:
    harness = mock_chat_agent(agent_of(), continuation=True)

    with pytest.raises(error):
        seed(harness)
    await harness.close()

    assert harness.hooks == []


async def test_numbers_go_on_from_a_seeded_snapshot() -> None:
    """X-21."""
    stored = {**STORED, "lastOutEventId": "41", "lastInEventId": "7"}

    async with mock_chat_agent(agent_of(), continuation=True, snapshot=stored) as harness:
        await harness.send_message("hello")

    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert harness.out_records[0].seq == 42
    assert snapshot.last_in_event_id == "8"


async def test_a_continuation_without_seeds_is_a_clean_one() -> None:
    async with mock_chat_agent(agent_of(on_boot=nothing), mode="continuation", previous_run_id="run_prior") as harness:
        turn = await harness.send_message("hello")

    (boot,) = [call.event for call in harness.hooks if call.name == "on_boot"]
    assert (boot.continuation, boot.previous_run_id, boot.preloaded) == (True, "run_prior", False)
    assert turn.text == "ok"


@pytest.mark.parametrize(
    ("options", "preloaded", "continuation"),
    [
        ({}, True, False),
        ({"preload": False}, False, False),
        ({"mode": "submit-message"}, False, False),
        ({"continuation": True}, False, True),
        ({"continuation": True, "mode": "preload"}, True, True),
        ({"continuation": True, "preload": False}, False, True),
        ({"mode": "continuation"}, False, True),
        ({"mode": "preload", "preload": False}, True, False),
    ],
    ids=str,
)
async def test_which_boot_the_options_make(options: dict[str, Any], preloaded: bool, continuation: bool) -> None:  # noqa: FBT001 - parameters of a table
    async with mock_chat_agent(agent_of(on_boot=nothing), **options) as harness:
        turn = await harness.send_message("hello")

    (boot,) = [call.event for call in harness.hooks if call.name == "on_boot"]
    assert (boot.preloaded, boot.continuation) == (preloaded, continuation)
    assert turn.index == 0
