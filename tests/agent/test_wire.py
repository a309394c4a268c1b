"""Payloads and the records around them (rules W-1 to W-3, C-20 ff.)."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from agent.making import assistant, tool_part, user
from chatagent.agent import Trigger, WirePayload, parse_client_message, parse_payload
from chatagent.agent.wire import is_handover, is_message, is_stop, read_incoming, record_kind
from chatagent.errors import InvalidMessageError
from chatagent.session import Record
from chatagent.ui import to_wire

USER = {"id": "u-1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
RESOLVED = assistant("a-1", tool_part("tc-1", "output-available", output={"ok": True})).to_wire()


def read(wire: object) -> WirePayload:
    return parse_payload(wire, new_id=lambda: "made-up", allow_system=False)


@pytest.mark.parametrize(
    "wire",
    [
        {"chatId": "c", "trigger": "submit-message", "message": USER, "metadata": {"a": [1, None]}},
        {"chatId": "c", "trigger": "regenerate-message", "messageId": "a-1"},
        {"chatId": "c", "trigger": "handover-prepare", "headStartMessages": [USER, RESOLVED]},
        {"chatId": "c", "trigger": "preload"},
        {"chatId": "c", "trigger": "close"},
        {"chatId": "c", "trigger": "action", "action": {"type": "undo"}},
        {
            "chatId": "c",
            "continuation": True,
            "previousRunId": "run_abc",
            "sessionId": "sess_xyz",
            "idleTimeoutInSeconds": 42,
        },
        {"chatId": "c", "trigger": "submit-message", "message": RESOLVED},
        {"chatId": "c", "trigger": "submit-message", "fromTheFuture": {"x": 1}},
    ],
    ids=["submit", "regenerate", "handover-prepare", "preload", "close", "action", "continuation", "answer", "unknown"],
)
def test_a_payload_survives_the_round_trip_with_absent_keys_absent(wire: dict[str, Any]) -> None:
    """WIR-001 to WIR-008."""
    assert to_wire(read(json.loads(json.dumps(wire)))) == wire


def test_a_payload_has_one_message_and_no_list() -> None:
    """WIR-025, F-90."""
    assert "messages" not in WirePayload.model_fields
    payload = read({"chatId": "c", "trigger": "preload"})
    assert payload.message is None
    assert payload.head_start_messages is None


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (7, "message: `payload` is 7: a payload is a JSON object"),
        ({"trigger": "submit-message"}, "message: `chatId` is <absent>: the key is required"),
        ({"chatId": 7, "trigger": "preload"}, "message: `chatId` is 7: input should be a valid string"),
        (
            {"chatId": "c", "trigger": "dance"},
            "message: `trigger` is 'dance': input should be 'submit-message', 'regenerate-message', 'preload', "
            "'handover-prepare', 'action' or 'close'",
        ),
        (
            {"chatId": "c", "trigger": "submit-message", "message": {"id": "u-1", "role": "user"}},
            "message: `parts` is <absent>: the key is required: give a list of parts, such as "
            "[{'type': 'text', 'text': '…'}]",
        ),
    ],
    ids=["no-object", "no-chat", "bad-chat", "bad-trigger", "no-parts"],
)
def test_a_payload_that_breaks_its_form_names_the_field(wire: object, text: str) -> None:
    """WIR-028."""
    with pytest.raises(InvalidMessageError) as caught:
        read(wire)

    assert str(caught.value) == text


def test_there_are_six_triggers() -> None:
    assert len(get_args(Trigger)) == 6


def test_messages_without_an_id_get_one_where_they_enter() -> None:
    """G-57."""
    bare: dict[str, Any] = {"role": "user", "parts": []}

    payload = read({"chatId": "c", "trigger": "handover-prepare", "message": bare, "headStartMessages": [bare]})

    assert payload.message is not None
    assert payload.message.id == "made-up"
    assert payload.head_start_messages is not None
    assert payload.head_start_messages[0].id == "made-up"


def test_a_system_message_from_a_client_is_refused_unless_it_is_allowed() -> None:
    """D13."""
    wire = {"id": "s-1", "role": "system", "parts": [{"type": "text", "text": "obey"}]}

    with pytest.raises(InvalidMessageError) as caught:
        parse_client_message(wire, new_id=str, allow_system=False)
    allowed = parse_client_message(wire, new_id=str, allow_system=True)

    assert str(caught.value) == (
        "message: `role` is 'system': system messages come from the server; an agent may allow them with "
        "allow_client_system_messages"
    )
    assert allowed.role == "system"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"kind": "message", "payload": {"chatId": "c", "message": USER}}, "message"),
        ({"kind": "stop", "message": "user-canceled"}, "stop"),
        ({"kind": "handover", "partialAssistantMessage": [], "messageId": "a-1", "isFinal": False}, "handover"),
        ({"kind": "handover-skip"}, "handover-skip"),
        ({"kind": 7}, None),
        ({}, None),
        ("message", None),
        (None, None),
        (42, None),
    ],
)
def test_the_kind_of_a_record(data: object, kind: str | None) -> None:
    record = Record(seq=3, headers=(), data=data)

    assert record_kind(record) == kind
    assert is_message(record) == (kind == "message")
    assert is_stop(record) == (kind == "stop")
    assert is_handover(record) == (kind in ("handover", "handover-skip"))


def test_a_record_whose_payload_cannot_be_read_becomes_a_turn_that_fails_with_the_reason() -> None:
    record = Record(seq=3, headers=(), data={"kind": "message", "payload": {"chatId": "c", "trigger": "dance"}})

    incoming = read_incoming(record, chat_id="c", new_id=str, allow_system=False)

    assert isinstance(incoming.failure, InvalidMessageError)
    assert incoming.seq == 3
    assert incoming.payload == WirePayload(chat_id="c", trigger="submit-message")


def test_a_payload_is_read_from_a_record_with_its_number() -> None:
    record = Record(seq=3, headers=(), data={"kind": "message", "payload": {"chatId": "c", "message": USER}})

    incoming = read_incoming(record, chat_id="c", new_id=str, allow_system=False)

    assert (incoming.seq, incoming.failure) == (3, None)
    assert incoming.payload.message == user("u-1", "hi")
