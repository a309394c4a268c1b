from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from chatagent.errors import InvalidArgumentError, MessageValidationError
from chatagent.ui import (
    InvalidMessages,
    MessageReducer,
    TextUIPart,
    UIMessage,
    ValidMessages,
    safe_validate_ui_messages,
    schema_parser,
    to_wire,
    validate_ui_messages,
)
from ui.well_formed import call as call_chunks
from ui.well_formed import well_formed_chunks

if TYPE_CHECKING:
    from chatagent.ui import Chunk

LINK: dict[str, Any] = {"type": "source", "sourceType": "url", "id": "s", "url": "u", "providerMetadata": {"p": {}}}
DOCUMENT: dict[str, Any] = {
    "type": "source",
    "sourceType": "document",
    "id": "s",
    "mediaType": "a/b",
    "title": "t",
    "filename": "f",
}
CITATION: dict[str, Any] = {"source": LINK, "startIndex": 0, "endIndex": 2, "citedText": "x"}
APPROVAL = {"id": "p"}
GRANTED = {"id": "p", "approved": True}
DENIED = {"id": "p", "approved": False}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Note(BaseModel):
    """Data of an application."""

    n: int


class Schema:
    """As much of a tool's schema as is asked for."""

    def __init__(self, schema: Any) -> None:
        self.parse = schema_parser(schema)


class Tool:
    """As much of a tool as is asked for."""

    def __init__(self, takes: Any = CITY, gives: Any = None) -> None:
        self.input = Schema(takes)
        self.output = None if gives is None else Schema(gives)


def message(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "m", "role": "assistant", "parts": list(parts), **fields}


def note_number(value: Any) -> int:
    return int(value["n"])


def bare_call(state: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-weather", "toolCallId": "c", "state": state, **fields}


def call(state: str, **fields: Any) -> dict[str, Any]:
    """Return a call with the input and output that its state asks for."""
    needed: dict[str, Any] = {} if state in ("input-streaming", "output-error") else {"input": {}}
    if state == "output-available":
        needed["output"] = 1
    return bare_call(state, **{**needed, **fields})


def checked(*parts: Any, **options: Any) -> list[object]:
    """Return the clean parts of a message, in wire form."""
    return to_wire(validate_ui_messages([message(*parts)], **options)[0].parts)


def refused(messages: object, **options: Any) -> MessageValidationError:
    with pytest.raises(MessageValidationError) as caught:
        validate_ui_messages(messages, **options)
    return caught.value


# --- structure -------------------------------------------------------------------------------------------------

PARTS: list[dict[str, Any]] = [
    {
        "type": "text",
        "text": "",
        "state": "done",
        "citations": [CITATION, {"source": DOCUMENT}],
        "providerMetadata": {"p": {"k": [1]}},
    },
    {"type": "reasoning", "text": "", "id": "b", "state": "streaming"},
    {"type": "file", "mediaType": "a/b", "url": "u", "filename": "f", "providerReference": {"p": "id"}},
    {"type": "reasoning-file", "mediaType": "a/b", "url": "u"},
    {"type": "source-url", "sourceId": "s", "url": "u", "title": "t"},
    {"type": "source-document", "sourceId": "s", "mediaType": "a/b", "title": "t", "filename": "f"},
    {"type": "custom", "kind": "p.x"},
    {"type": "step-start"},
    {"type": "steering-message", "id": "u", "parts": [{"type": "text", "text": "x"}]},
    {"type": "data-note", "data": None, "id": "d"},
    call("input-streaming", input={"a": 1}, rawInput='{"a":1', inputEncoding="json"),
    call("input-available", input={}, title="t", toolMetadata={"m": 1}, providerExecuted=True),
    call("approval-requested", input={}, approval={**APPROVAL, "requestReason": "r", "descriptor": 1}),
    call("approval-responded", input={}, approval={**DENIED, "reason": "r", "isAutomatic": True, "signature": "s"}),
    call("output-available", input={}, output=None, preliminary=True, approval=GRANTED),
    call("output-error", errorText="e", rawInput="x", resultProviderMetadata={"p": {}}, approval=GRANTED),
    call("output-denied", input={}, approval={**DENIED, "inputSchemaInput": None}),
    {**call("input-available"), "type": "dynamic-tool", "toolName": "x", "dynamic": False},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part['type']}-{part.get('state')}")
def test_a_part_of_each_type_passes_as_it_came(part: dict[str, Any]) -> None:
    assert checked(part) == [part]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part['type']}-{part.get('state')}")
def test_fields_that_no_rule_names_are_dropped(part: dict[str, Any]) -> None:
    more = {**part, "extra": 1}
    if "approval" in part:
        more["approval"] = {**part["approval"], "extra": 1}

    assert checked(more) == [part]


def test_the_messages_that_were_given_are_not_changed() -> None:
    part = call("output-available", input={"town": 1}, output=1, extra=1)
    given_message = message(part)

    result = validate_ui_messages([given_message], tools={})

    assert given_message == message(call("output-available", input={"town": 1}, output=1, extra=1))
    assert to_wire(result[0].parts[0])["type"] == "dynamic-tool"
    part["input"]["town"] = 2
    assert to_wire(result[0].parts[0])["input"] == {"town": 1}


def test_messages_may_be_given_as_objects_and_hold_objects() -> None:
    whole = UIMessage.model_validate(message({"type": "text", "text": "x", "extra": 1}))

    result = validate_ui_messages((whole, message(TextUIPart(text="y"))))

    assert to_wire(result) == [message({"type": "text", "text": text}) for text in "xy"]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("text", ""),
        ({"text": "x"}, ".type"),
        ({"type": 1}, ".type"),
        ({"type": "brand-new"}, ".type"),
        ({"type": "text-new"}, ".type"),
        ({"type": "text"}, ".text"),
        ({"type": "text", "text": None}, ".text"),
        ({"type": "text", "text": "x", "state": None}, ".state"),
        ({"type": "text", "text": "x", "state": "open"}, ".state"),
        ({"type": "text", "text": "x", "providerMetadata": {"p": 1}}, ".providerMetadata.p"),
        ({"type": "text", "text": "x", "citations": [CITATION, {}]}, ".citations[1].source"),
        ({"type": "text", "text": "x", "citations": [{"source": {"url": "u"}}]}, ".citations[0].source.sourceType"),
        ({"type": "text", "text": "x", "citations": [{**CITATION, "endIndex": -1}]}, ".citations[0].endIndex"),
        ({"type": "file", "mediaType": "a/b"}, ".url"),
        ({"type": "file", "mediaType": "a/b", "url": "u", "providerReference": {"p": 1}}, ".providerReference.p"),
        ({"type": "data-x"}, ".data"),
        ({"type": "data-x", "data": 1, "id": 1}, ".id"),
        ({"type": "steering-message", "id": "u", "parts": [{"type": "step-start"}]}, ".parts[0].type"),
        ({"type": "steering-message", "id": "u", "parts": {}}, ".parts"),
        ({"type": "dynamic-tool", "toolCallId": "c", "state": "input-available"}, ".toolName"),
        (call("running"), ".state"),
        (call("partial-call"), ".state"),
        ({"type": "tool-x", "state": "input-available"}, ".toolCallId"),
        ({**call("input-available"), "type": "dynamic-tool", "toolName": "x", "dynamic": True}, ".dynamic"),
        (bare_call("input-available"), ".input"),
        (bare_call("approval-requested", approval=APPROVAL), ".input"),
        (bare_call("output-available", input={}), ".output"),
        (call("input-streaming", output=None), ".output"),
        (call("input-streaming", rawInput={}), ".rawInput"),
        (call("input-streaming", inputEncoding="xml"), ".inputEncoding"),
        (call("input-available", approval=APPROVAL), ".approval"),
        (call("input-available", errorText="e"), ".errorText"),
        (call("input-available", providerExecuted="yes"), ".providerExecuted"),
        (call("approval-requested"), ".approval"),
        (call("approval-requested", approval=GRANTED), ".approval.approved"),
        (call("approval-requested", approval={**APPROVAL, "reason": "r"}), ".approval.reason"),
        (call("approval-responded", approval=APPROVAL), ".approval.approved"),
        (call("approval-responded", approval={"id": "p", "approved": 1}), ".approval.approved"),
        (call("output-available", approval=APPROVAL), ".approval.approved"),
        (call("output-available", approval=DENIED), ".approval.approved"),
        (call("output-available", errorText="e"), ".errorText"),
        (call("output-error"), ".errorText"),
        (call("output-error", errorText="e", output=1), ".output"),
        (call("output-error", output=1), ".output"),
        (call("output-error", errorText="e", approval=DENIED), ".approval.approved"),
        (call("output-denied"), ".approval"),
        (call("output-denied", approval=GRANTED), ".approval.approved"),
    ],
)
def test_a_part_that_breaks_its_shape_is_refused_with_the_path(part: object, field: str) -> None:
    error = refused([message({"type": "step-start"}, part)])

    assert error.field == f"messages[0].parts[1]{field}"
    assert (error.entity_name, error.entity_id) == (None, None)


BAD_MESSAGES: list[tuple[Any, str]] = [
    ([], "messages"),
    ({}, "messages"),
    ("messages", "messages"),
    ([7], "messages[0]"),
    ([{1: 2}], "messages[0]"),
    ([message(), {"role": "user", "parts": []}], "messages[1].id"),
    ([{"id": 1, "role": "user", "parts": []}], "messages[0].id"),
    ([{"id": "m", "role": "tool", "parts": []}], "messages[0].role"),
    ([{"id": "m", "role": "user"}], "messages[0].parts"),
    ([{"id": "m", "role": "user", "parts": []}], "messages[0].parts"),
    ([{"id": "m", "role": "system", "parts": []}], "messages[0].parts"),
    ([UIMessage(id="m", role="assistant", parts=[], metadata=object())], "messages[0]"),
]


@pytest.mark.parametrize(("messages", "field"), BAD_MESSAGES)
def test_messages_that_break_their_shape_are_refused_with_the_path(messages: object, field: str) -> None:
    assert refused(messages).field == field


def test_an_error_names_the_field_the_value_and_the_way_out() -> None:
    error = refused([message(call("output-available", output=1, errorText="e"))])

    assert str(error) == "`messages[0].parts[0].errorText` is 'e': it does not belong here: leave the key out"


def test_no_messages_at_all_are_an_error_of_the_argument() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`messages` is None: give the list of messages to check$"):
        validate_ui_messages(None)


@pytest.mark.parametrize("chunks", [well_formed_chunks(), call_chunks()], ids=["a message", "one call"])
@given(data=st.data())
def test_what_the_reducer_makes_of_a_well_formed_stream_is_valid(
    chunks: st.SearchStrategy[list[Chunk]], data: st.DataObject
) -> None:
    reducer = MessageReducer()
    for chunk in data.draw(chunks):
        reducer.feed(chunk)

    result = validate_ui_messages([reducer.message])

    assert [part.type for part in result[0].parts] == [part.type for part in reducer.message.parts]
    assert to_wire(validate_ui_messages(result)) == to_wire(result)


# --- schemas of the application --------------------------------------------------------------------------------


SCHEMAS: dict[str, Any] = {
    "model": Note,
    "adapter": TypeAdapter(Note),
    "JSON schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "method": Note.model_validate,
    "function": note_number,
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_schema_may_be_of_any_kind(schema: Any) -> None:
    good, bad = message({"type": "data-note", "data": {"n": 1}}), message({"type": "data-note", "data": {"n": "x"}})

    assert to_wire(validate_ui_messages([good], data_schemas={"note": schema})) == [good]
    assert refused([bad], data_schemas={"note": schema}).field == "messages[0].parts[0].data"


def test_what_a_schema_parses_is_not_used() -> None:
    result = validate_ui_messages([message(metadata={"n": "1", "more": 2})], metadata_schema=Note)

    assert result[0].metadata == {"n": "1", "more": 2}


def test_metadata_is_checked_in_every_message_before_any_part() -> None:
    first = message({"type": "data-x", "data": 1}, metadata={"n": 1})
    second = message(metadata={"n": "one"}, id="m2")

    error = refused([first, second], metadata_schema=Note, data_schemas={})

    assert (error.field, error.entity_name, error.entity_id) == ("messages[1].metadata", None, "m2")
    assert str(error).startswith(
        "`messages[1].metadata` ('m2') is {'n': 'one'}: it does not fit the metadata_schema: `n`: "
    )


def test_absent_metadata_is_checked_as_none() -> None:
    assert validate_ui_messages([message()], metadata_schema=TypeAdapter(dict[str, int] | None))
    assert refused([message()], metadata_schema=dict).field == "messages[0].metadata"


def test_once_schemas_are_given_a_kind_of_data_without_one_is_refused() -> None:
    error = refused([message({"type": "data-other", "data": 1, "id": "d"})], data_schemas={"note": Note})

    assert (error.field, error.entity_name, error.entity_id) == ("messages[0].parts[0].data", "other", "d")
    assert "add 'other' to `data_schemas`" in str(error)


def test_the_cause_of_a_refusal_is_what_the_schema_raised() -> None:
    def parse(_value: object) -> None:
        raise LookupError("no such note")

    error = refused([message({"type": "data-note", "data": 1})], data_schemas={"note": parse})

    assert isinstance(error.__cause__, LookupError)
    assert error.problem.endswith("no such note")


def test_a_schema_that_pydantic_cannot_use_is_an_error_of_the_argument() -> None:
    class Foreign:
        """Nothing that pydantic knows."""

    with pytest.raises(InvalidArgumentError, match=r"^`data_schemas\['note'\]` is .*: pydantic cannot check values"):
        validate_ui_messages([message()], data_schemas={"note": Foreign})


def test_a_text_is_no_schema() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"^`data_schemas\['note'\]` is 'Note': give a type, a `TypeAdapter`, a "
    ):
        validate_ui_messages([message()], data_schemas={"note": "Note"})


# --- tools -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        call("input-available", input={"city": "Oslo"}),
        call("input-streaming", input={"town": 1}),
        call("output-error", errorText="e"),
        call("output-error", errorText="e", input={"city": "Oslo"}),
        call("output-available", input={"city": "Oslo"}, output=1),
        {"type": "dynamic-tool", "toolName": "weather", "toolCallId": "c", "state": "input-available", "input": 1},
    ],
    ids=lambda part: f"{part['type']}-{part['state']}",
)
def test_a_call_that_fits_its_tool_stays_as_it_is(part: dict[str, Any]) -> None:
    assert checked(part, tools={"weather": Tool(gives={"type": "integer"})}) == [part]


@pytest.mark.parametrize(
    "part",
    [
        call("input-available", input={"town": 1}),
        call("input-available"),
        call("approval-requested", input={"town": 1}, approval=APPROVAL),
        call("approval-responded", input={"town": 1}, approval=GRANTED),
        call("output-available", input={"town": 1}, output=1),
        call("output-denied", input={"town": 1}, approval=DENIED),
    ],
    ids=lambda part: part["state"],
)
def test_a_call_whose_input_does_not_fit_is_refused(part: dict[str, Any]) -> None:
    error = refused([message(part)], tools={"weather": Tool()})

    assert (error.field, error.entity_name, error.entity_id) == ("messages[0].parts[0].input", "weather", "c")


@pytest.mark.parametrize(
    "part",
    [
        call("output-error", errorText="e", input={"town": 1}),
        call("output-available", input={}, output=1),
    ],
    ids=lambda part: part["state"],
)
def test_a_finished_call_may_have_had_no_good_input(part: dict[str, Any]) -> None:
    dynamic = {**part, "type": "dynamic-tool", "toolName": "weather", "dynamic": False}

    assert checked(part, tools={"weather": Tool()}) == [dynamic]


@pytest.mark.parametrize("value", [{}, {"city": "Oslo"}])
def test_an_output_that_does_not_fit_is_refused(value: object) -> None:
    part = call("output-available", input=value, output="warm")

    error = refused([message(part)], tools={"weather": Tool(gives={"type": "integer"})})

    assert (error.field, error.entity_name, error.entity_id) == ("messages[0].parts[0].output", "weather", "c")


@pytest.mark.parametrize(
    "part",
    [
        call("output-available", input={}, output=1),
        call("output-error", errorText="e"),
        call("output-denied", approval=DENIED),
    ],
    ids=lambda part: part["state"],
)
def test_a_finished_call_of_a_tool_that_is_gone_becomes_a_dynamic_one(part: dict[str, Any]) -> None:
    dynamic = {**part, "type": "dynamic-tool", "toolName": "weather", "dynamic": False}

    assert checked(part, tools={}) == [dynamic]
    assert checked(part) == [part]


def test_an_unfinished_call_of_a_tool_that_is_gone_is_refused() -> None:
    error = refused([message(call("input-streaming"))], tools={})

    assert (error.field, error.entity_name, error.entity_id) == ("messages[0].parts[0].input", "weather", "c")
    assert "add 'weather' to `tools`" in str(error)


# --- without raising -------------------------------------------------------------------------------------------


def test_the_safe_form_returns_what_the_other_one_raises() -> None:
    good = safe_validate_ui_messages([message()])
    bad = safe_validate_ui_messages([7])
    none = safe_validate_ui_messages(None)

    assert good == ValidMessages([UIMessage(id="m", role="assistant", parts=[])])
    assert isinstance(bad, InvalidMessages)
    assert isinstance(none, InvalidMessages)
    assert (good.success, bad.success) == (True, False)
    assert (type(bad.error), type(none.error)) == (MessageValidationError, InvalidArgumentError)
