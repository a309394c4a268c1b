"""Merging messages and what goes over the wire of them, as plain functions (rules M-1, M-10, M-11, W-4, W-5)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.making import assistant, ids, parts_of, texts, tool_part, user
from chatagent import chat
from chatagent.agent import merge_by_id_replace_wins, slim_submit_message_for_wire, upsert_incoming_message
from chatagent.agent.merge import ToolCallMap, merge_incoming_into_stored
from chatagent.ui import UIMessage, to_wire

INPUT = {"query": "weather"}


def merged_part(stored: dict[str, Any], incoming: dict[str, Any]) -> dict[str, Any]:
    """The stored tool part after the incoming one was laid over it, in wire form."""
    result = merge_incoming_into_stored(assistant("a-1", stored), assistant("a-1", incoming))
    return parts_of(result)[0]


# --- merge_by_id_replace_wins ---


def test_merging_nothing_gives_a_copy_of_the_first() -> None:
    """MRG-001."""
    a = [user("u-1")]

    merged = merge_by_id_replace_wins(a, [])
    merged.append(user("u-2"))

    assert ids(a) == ["u-1"]


def test_merging_into_nothing_gives_a_copy_of_the_second() -> None:
    """MRG-002."""
    b = [user("u-1")]

    merged = merge_by_id_replace_wins([], b)
    merged.append(user("u-2"))

    assert ids(b) == ["u-1"]


def test_merging_nothing_into_nothing() -> None:
    """MRG-003."""
    assert merge_by_id_replace_wins([], []) == []


def test_a_new_id_is_appended() -> None:
    """MRG-004."""
    assert ids(merge_by_id_replace_wins([user("u-1")], [assistant("a-1")])) == ["u-1", "a-1"]


def test_the_second_wins_where_ids_meet() -> None:
    """MRG-005."""
    merged = merge_by_id_replace_wins([user("u-1"), assistant("a-1", "stale")], [assistant("a-1", "fresh-version")])

    assert texts(merged) == ["hello", "fresh-version"]


def test_the_order_of_the_first_is_kept() -> None:
    """MRG-006."""
    a = [user("u-1"), assistant("a-1", "old-1"), user("u-2"), assistant("a-2", "old-2")]

    merged = merge_by_id_replace_wins(a, [assistant("a-2", "fresh-2"), assistant("a-1", "fresh-1")])

    assert ids(merged) == ["u-1", "a-1", "u-2", "a-2"]
    assert [merged[1].text, merged[3].text] == ["fresh-1", "fresh-2"]


def test_what_is_new_is_appended_in_its_order() -> None:
    """MRG-007."""
    merged = merge_by_id_replace_wins([user("u-1"), assistant("a-1")], [user("u-2"), assistant("a-2")])

    assert ids(merged) == ["u-1", "a-1", "u-2", "a-2"]


def test_messages_without_an_id_are_always_appended() -> None:
    """MRG-008."""
    a, b = [user("", "no-id one")], [user("", "no-id two"), user("u-1")]

    assert texts(merge_by_id_replace_wins(a, b)) == ["no-id one", "no-id two", "hello"]


def test_the_last_of_several_with_the_same_id_wins() -> None:
    """MRG-009."""
    assert texts(merge_by_id_replace_wins([], [assistant("a-1", "v1"), assistant("a-1", "v2")])) == ["v2"]


def test_user_messages_survive() -> None:
    """MRG-010."""
    merged = merge_by_id_replace_wins(
        [user("u-1"), assistant("a-1"), user("u-2")], [assistant("a-1"), assistant("a-2")]
    )

    assert [message.id for message in merged if message.role == "user"] == ["u-1", "u-2"]


MESSAGES = st.lists(
    st.builds(user, st.sampled_from(["", "m-1", "m-2", "m-3"]), st.sampled_from(["x", "y", "z"])), max_size=6
)


@given(MESSAGES, MESSAGES)
def test_whatever_is_merged_nothing_is_lost_and_nothing_given_is_changed(
    a: list[UIMessage], b: list[UIMessage]
) -> None:
    """MRG-011."""
    before = json.dumps([to_wire(a), to_wire(b)])

    merged = merge_by_id_replace_wins(a, b)

    assert json.dumps([to_wire(a), to_wire(b)]) == before
    assert {message.id for message in merged} == {message.id for message in [*a, *b]}
    assert ids(merged[: len(a)]) == ids(a)
    assert [message for message in merged if not message.id] == [message for message in [*a, *b] if not message.id]


# --- tool answers over a stored message (M-10) ---


@pytest.mark.parametrize(
    ("brought", "expected"),
    [
        ({"state": "output-available", "output": {"hits": 7}}, {"output": {"hits": 7}}),
        ({"state": "output-available", "output": None}, {"output": None}),
        (
            {"state": "output-available", "output": 1, "approval": {"id": "ap", "approved": True}},
            {"output": 1, "approval": {"id": "ap", "approved": True}},
        ),
        ({"state": "output-error", "errorText": "boom"}, {"errorText": "boom"}),
        (
            {"state": "approval-responded", "approval": {"id": "ap", "approved": True}},
            {"approval": {"id": "ap", "approved": True}},
        ),
        (
            {"state": "output-denied", "approval": {"id": "ap", "approved": False}},
            {"approval": {"id": "ap", "approved": False}},
        ),
    ],
)
@pytest.mark.parametrize("stored_state", ["input-available", "approval-requested"])
def test_an_answer_sets_state_and_result_and_leaves_the_input(
    stored_state: str, brought: dict[str, Any], expected: dict[str, Any]
) -> None:
    stored = tool_part("tc-1", stored_state, input=INPUT)

    part = merged_part(stored, {**tool_part("tc-1", "", input={"query": "forged"}), **brought})

    assert part == {**stored, "state": brought["state"], **expected}


@pytest.mark.parametrize("final", ["output-available", "output-error", "output-denied"])
@pytest.mark.parametrize("later", ["output-available", "output-error", "output-denied", "approval-responded"])
def test_a_final_state_never_goes_back(final: str, later: str) -> None:
    """F-72."""
    stored = tool_part("tc-1", final, input=INPUT)

    part = merged_part(stored, tool_part("tc-1", later, output="late", errorText="late"))

    assert part == stored


def test_a_part_that_nobody_answers_stays_as_it_is() -> None:
    stored = assistant("a-1", "text", tool_part("tc-1", "input-available", input=INPUT))

    for incoming in ("input-available", "input-streaming", "approval-requested"):
        merged = merge_incoming_into_stored(stored, assistant("a-1", "other", tool_part("tc-1", incoming)))

        assert merged is stored


def test_only_tool_progress_is_taken_of_the_incoming_message() -> None:
    stored = UIMessage.model_validate(
        {
            **assistant("a-1", "before", tool_part("tc-1", "input-available", input=INPUT), "after").to_wire(),
            "metadata": {"kept": True},
        }
    )
    incoming = UIMessage.model_validate(
        {
            **assistant(
                "a-9", tool_part("tc-2", "output-available", output=2), tool_part("tc-1", "output-available", output=1)
            ).to_wire(),
            "metadata": {"kept": False},
        }
    )

    merged = merge_incoming_into_stored(stored, incoming)

    assert merged.id == "a-1"
    assert merged.metadata == {"kept": True}
    assert [part.type for part in merged.parts] == ["text", "tool-search", "text"]


def test_answers_without_a_call_id_are_ignored() -> None:
    stored = assistant("a-1", tool_part("", "input-available", input=INPUT))

    merged = merge_incoming_into_stored(stored, assistant("a-1", tool_part("", "output-available", output=1)))

    assert merged is stored


def test_dynamic_tools_are_merged_like_others() -> None:
    stored = {
        "type": "dynamic-tool",
        "toolName": "mcp",
        "toolCallId": "tc-1",
        "state": "input-available",
        "input": INPUT,
    }

    part = merged_part(stored, {**stored, "state": "output-available", "input": None, "output": "done"})

    assert part == {**stored, "state": "output-available", "output": "done"}


def test_the_first_call_that_is_known_names_the_message() -> None:
    """M-11."""
    known = ToolCallMap()
    known.record(assistant("a-1", tool_part("tc-1", "input-available")))
    known.record(assistant("a-2", tool_part("tc-2", "input-available")))
    known.record(user("u-1"))

    both = assistant(
        "made-up",
        tool_part("tc-0", "output-available"),
        tool_part("tc-2", "output-error"),
        tool_part("tc-1", "output-error"),
    )

    assert known.owner_of(both) == "a-2"
    assert known.owner_of(assistant("x", tool_part("tc-9", "output-error"))) is None


# --- upsert_incoming_message (W-5) ---


@dataclass
class Event:
    """What `hydrate_messages` receives, as far as it is looked at."""

    trigger: str = "submit-message"
    incoming_messages: list[UIMessage] = field(default_factory=list[UIMessage])
    chat_id: str = "c-1"


def test_a_fresh_user_message_is_appended() -> None:
    """WIR-009, WIR-016."""
    stored = [user("u-1")]

    appended = upsert_incoming_message(stored, Event(incoming_messages=[user("u-2")]))

    assert appended is True
    assert ids(stored) == ["u-1", "u-2"]


def test_a_message_that_is_stored_already_is_not_appended() -> None:
    """WIR-010, F-74."""
    stored = [user("u-1"), assistant("a-1")]
    before = list(stored)

    appended = upsert_incoming_message(stored, Event(incoming_messages=[assistant("a-1", "again")]))

    assert appended is False
    assert all(new is old for new, old in zip(stored, before, strict=True))


@pytest.mark.parametrize("trigger", ["regenerate-message", "action"])
def test_nothing_is_appended_for_other_triggers(trigger: str) -> None:
    """WIR-011, WIR-012."""
    stored = [user("u-1")]

    assert upsert_incoming_message(stored, Event(trigger, [user("u-2")])) is False
    assert ids(stored) == ["u-1"]


def test_nothing_is_appended_when_nothing_came() -> None:
    """WIR-013."""
    assert upsert_incoming_message([], Event()) is False


def test_only_the_last_incoming_message_counts() -> None:
    """WIR-014."""
    stored = [user("u-1")]

    upsert_incoming_message(stored, Event(incoming_messages=[user("u-2"), user("u-3")]))

    assert ids(stored) == ["u-1", "u-3"]


def test_a_message_without_an_id_is_appended() -> None:
    """WIR-015."""
    stored = [user("", "one")]

    assert upsert_incoming_message(stored, Event(incoming_messages=[user("", "two")])) is True
    assert texts(stored) == ["one", "two"]


def test_the_namespace_has_it_too() -> None:
    assert chat.upsert_incoming_message is upsert_incoming_message


# --- slim_submit_message_for_wire (W-4) ---


@pytest.mark.parametrize(
    "message", [None, user("u-1"), assistant("a-1", "text"), assistant("a-1", tool_part("tc-1", "input-available"))]
)
def test_a_message_without_answers_is_sent_as_it_is(message: UIMessage | None) -> None:
    """WIR-017, WIR-018, WIR-024."""
    assert slim_submit_message_for_wire(message) is message


def test_of_an_answer_only_the_result_is_sent() -> None:
    """WIR-019."""
    part = tool_part("tc-1", "output-available", input={"text": "x" * 15_000}, output={"hits": 7}, title="Search")
    whole = assistant("a-1", "long" * 100, part)

    slim = slim_submit_message_for_wire(whole)

    assert slim is not None
    wire = to_wire(slim)
    assert wire == {
        "id": "a-1",
        "role": "assistant",
        "parts": [{"type": "tool-search", "toolCallId": "tc-1", "state": "output-available", "output": {"hits": 7}}],
    }
    assert len(json.dumps(wire)) < len(json.dumps(to_wire(whole))) / 50


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("output-error", {"errorText": "boom"}),
        ("output-error", {"errorText": "boom", "approval": {"id": "ap", "approved": True}}),
        ("output-available", {"output": None}),
        ("approval-responded", {"approval": {"id": "ap", "approved": False, "reason": "too risky"}}),
        ("output-denied", {"approval": {"id": "ap", "approved": False}}),
        ("output-denied", {}),
    ],
)
def test_each_final_state_brings_its_own_fields(state: str, fields: dict[str, Any]) -> None:
    """WIR-020, WIR-021."""
    slim = slim_submit_message_for_wire(assistant("a-1", tool_part("tc-1", state, input=INPUT, **fields)))

    assert parts_of(slim) == [tool_part("tc-1", state, **fields)]


def test_a_dynamic_tool_keeps_its_name() -> None:
    """WIR-022."""
    part = {"type": "dynamic-tool", "toolName": "mcp", "toolCallId": "tc-1", "state": "output-available", "output": 1}

    slim = slim_submit_message_for_wire(assistant("a-1", {**part, "input": INPUT}))

    assert parts_of(slim) == [part]


def test_calls_that_still_wait_are_left_out() -> None:
    """WIR-023."""
    waiting = tool_part("tc-wait", "input-available", input=INPUT)
    resolved = tool_part("tc-resolved", "output-available", output=1)

    slim = slim_submit_message_for_wire(assistant("a-1", "text", waiting, resolved))

    assert parts_of(slim) == [resolved]
