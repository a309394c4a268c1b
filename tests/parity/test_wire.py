"""What records of `.in` carry, and which payloads are refused (WIR)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.making import agent_of, ids, user
from agent.sessions import live_session
from chatagent.agent import parse_payload, upsert_incoming_message
from chatagent.agent.wire import input_of, read_incoming, record_kind, stop_reason
from chatagent.errors import InvalidMessageError
from chatagent.session import InMemorySessionStore, NewRecord, SessionSpec
from chatagent.ui import UIMessage, to_wire
from chatagent_test import mock_chat_agent

pytestmark = pytest.mark.anyio

PARTIAL = [{"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            {
                "kind": "message",
                "payload": {"chatId": "c", "trigger": "submit-message", "message": to_wire(user("u-1"))},
            },
            id="WIR-029",
        ),
        pytest.param({"kind": "stop", "message": "user-canceled"}, id="WIR-030"),
        pytest.param(
            {"kind": "handover", "partialAssistantMessage": PARTIAL, "messageId": "a-1", "isFinal": False},
            id="WIR-031",
        ),
        pytest.param({"kind": "handover-skip"}, id="WIR-032"),
    ],
)
@pytest.mark.parametrize("form", ["object", "text"])
async def test_a_record_carries_what_was_sent(data: dict[str, Any], form: str) -> None:
    async with InMemorySessionStore() as store:
        await store.create_session(SessionSpec(session_id="c", task="t"))
        store.append_nowait("c", "in", [NewRecord(json.dumps(data) if form == "text" else data)])
        page = await store.read("c", "in")

    (record,) = page.records
    assert input_of(record) == data
    assert record_kind(record) == data["kind"]
    if data["kind"] == "message":
        incoming = read_incoming(record, chat_id="c", new_id=str, allow_system=False)
        assert incoming.payload.message == user("u-1")
    if data["kind"] == "stop":
        assert stop_reason(record) == "user-canceled"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("message", [to_wire(user("u-1"))], id="WIR-026"),
        pytest.param("headStartMessages", to_wire(user("u-1")), id="WIR-027-object"),
        pytest.param("headStartMessages", "u-1", id="WIR-027-text"),
        pytest.param("headStartMessages", 7, id="WIR-027-number"),
    ],
)
async def test_a_payload_has_one_message_and_a_list_of_earlier_ones(field: str, value: Any) -> None:
    wire = {"chatId": "c", "trigger": "submit-message", field: value}

    with pytest.raises(InvalidMessageError):
        parse_payload(wire, new_id=str, allow_system=False)


async def test_message_and_history_may_be_absent() -> None:
    """WIR-026, WIR-027."""
    wire = {"chatId": "c", "message": to_wire(user("u-2")), "headStartMessages": [to_wire(user("u-1"))]}

    whole = parse_payload(wire, new_id=str, allow_system=False)
    bare = parse_payload({"chatId": "c"}, new_id=str, allow_system=False)

    assert (whole.message, whole.head_start_messages) == (user("u-2"), [user("u-1")])
    assert (bare.message, bare.head_start_messages) == (None, None)


async def test_a_history_that_is_no_list_fails_its_turn_and_not_the_run() -> None:
    async with live_session() as session:
        session.put({"kind": "message", "payload": {"chatId": "c-1", "headStartMessages": 7}})
        session.submit(user("u-1"))
        seen = await session.run(agent_of(), trigger="preload")

    failed, turn = seen.turns
    assert isinstance(failed.error, InvalidMessageError)
    assert turn.error is None


async def test_the_event_of_hydration_is_taken_as_it_is() -> None:
    """WIR-016."""
    stored: list[UIMessage] = []
    appended: list[bool] = []

    def hydrate(event: Any) -> list[UIMessage]:
        appended.append(upsert_incoming_message(stored, event))
        return list(stored)

    async with mock_chat_agent(agent_of(hydrate_messages=hydrate)) as harness:
        await harness.send_message(user("u-1"))

    assert appended == [True]
    assert ids(stored) == ["u-1"]
