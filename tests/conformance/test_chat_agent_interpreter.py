"""The interpreter of chat agent scenarios: numbering, comparing, schemas, conditions, and some scenarios of its own."""

from __future__ import annotations

import copy
import json
from typing import Any

import anyio
import pytest

from conformance.chat_agent.comparing import problems_of
from conformance.chat_agent.errors import UnsupportedScenarioError
from conformance.chat_agent.placeholders import Authored, number_ids
from conformance.chat_agent.scenario import observe
from conformance.chat_agent.schemas import SchemaMismatchError, parse
from conformance.chat_agent.values import applies, camel, matches, resolve, snake
from conformance.chat_agent.windows import overlapping, split_turns
from conformance.families.chat_agent import replay

Wire = dict[str, Any]

COMPLETE: Wire = {"type": "trigger:turn-complete"}
SEND: Wire = {"do": "sendMessage", "message": {"id": "u1", "role": "user", "parts": []}}
HELLO: list[Wire] = [{"type": "start", "messageId": "<id:1>"}, COMPLETE]


def golden_of(**observed: Any) -> Wire:
    nothing: Wire = {"log": [], "steps": [], "modelCalls": [], "snapshot": None}
    return {"agent": {}, "model": [], "options": {}, "steps": [], "observed": {**nothing, **observed}}


def observed_of(**observed: Any) -> Wire:
    return {"out": [], "log": [], "steps": [], "modelCalls": [], "snapshot": None, **observed}


def turn(message_id: str, *deltas: str) -> list[Wire]:
    return [{"type": "start", "messageId": message_id}, *({"type": "text", "t": each} for each in deltas), COMPLETE]


def step_of(chunks: list[Wire], do: str = "sendMessage") -> Wire:
    return {"do": do, "chunks": [each for each in chunks if each is not COMPLETE], "rawChunks": chunks}


# --- ids -------------------------------------------------------------------------------------------------------


def test_ids_that_an_author_wrote_are_not_numbered() -> None:
    golden = golden_of()
    golden["steps"] = [{"do": "sendMessage", "message": {"id": "u1"}}]
    golden["agent"] = {"uiMessageStream": {"idPrefix": "msg-"}}
    golden["model"] = [{"parts": [{"type": "tool-call", "input": '{"id": "from-input"}'}]}]
    authored = Authored(golden)

    written = [each in authored for each in ("u1", "chat-1", "msg-7", "from-input", "")]

    assert written == [True] * 5
    assert "msg-x" not in authored
    assert "made-1" not in authored


def test_generated_ids_never_begin_as_a_string_of_the_scenario_does() -> None:
    golden = golden_of()
    golden["steps"] = [{"do": "sendMessage", "message": {"id": "made-1"}}]

    prefix = Authored(golden).fresh_prefix()

    assert prefix == "unmade-"


def test_ids_are_numbered_by_first_appearance_on_out_and_replaced_everywhere() -> None:
    observed = observed_of(
        out=[{"messageId": "b"}, {"approvalId": "c", "toolCallId": "a"}],
        log=[{"event": "x", "message": {"id": "z"}, "text": "z"}],
        snapshot={"messages": [{"id": "a"}, {"id": "u1"}]},
    )

    numbered = number_ids(observed, lambda text: text != "u1")

    assert numbered["out"] == [{"messageId": "<id:1>"}, {"approvalId": "<id:2>", "toolCallId": "<id:3>"}]
    assert numbered["log"] == [{"event": "x", "message": {"id": "<id:4>"}, "text": "<id:4>"}]
    assert numbered["snapshot"] == {"messages": [{"id": "<id:3>"}, {"id": "u1"}]}


# --- schemas ---------------------------------------------------------------------------------------------------


def test_parsing_fills_defaults_and_drops_unknown_keys() -> None:
    schema: Wire = {
        "type": "object",
        "properties": {
            "user": {"type": "string"},
            "level": {"type": "number", "default": 1},
            "tag": {"type": "string"},
        },
        "required": ["user"],
    }

    parsed = parse(schema, {"user": "u", "more": True}, "value")

    assert parsed == {"user": "u", "level": 1}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {}),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": 1}),
        ({"type": "number"}, True),
        ({"type": "boolean"}, 1),
        ({"const": 1}, True),
        ({"enum": ["a", "b"]}, "c"),
        ({"type": "array", "items": {"type": "number"}}, [1, "2"]),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "c"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_is_refused(schema: Wire, value: object) -> None:
    with pytest.raises(SchemaMismatchError):
        parse(schema, value, "value")


def test_the_first_alternative_that_fits_is_taken() -> None:
    undo: Wire = {"type": "object", "properties": {"type": {"const": "undo"}}, "required": ["type"]}
    edit: Wire = {"type": "object", "properties": {"type": {"const": "edit"}, "text": {"type": "string"}}}

    parsed = parse({"oneOf": [undo, edit]}, {"type": "edit", "text": "t", "x": 1}, "value")

    assert parsed == {"type": "edit", "text": "t"}


# --- directives ------------------------------------------------------------------------------------------------


def test_a_directive_applies_only_under_its_conditions() -> None:
    event: Wire = {"action": {"type": "undo"}, "turn": 2}

    assert applies({"do": "mark"}, event, 9)
    assert applies({"onCall": 2}, event, 2)
    assert not applies({"onCall": 2}, event, 1)
    assert applies({"onCall": [1, 3]}, event, 3)
    assert applies({"ifAction": "undo"}, event, 1)
    assert not applies({"ifAction": "edit"}, event, 1)
    assert applies({"ifEvent": {"turn": 2}}, event, 1)
    assert not applies({"ifEvent": {"turn": 2, "missing": 1}}, event, 1)


def test_a_reference_to_the_event_is_replaced_by_what_stands_there() -> None:
    event: Wire = {"action": {"messageId": "m1"}, "incomingMessages": [{"id": "u1"}]}

    resolved = resolve({"args": ["$event.action.messageId", "$event.incomingMessages.0", "$event.no.such"]}, event)

    assert resolved == {"args": ["m1", {"id": "u1"}, None]}


def test_matching_looks_at_the_fields_of_the_pattern_only() -> None:
    assert matches({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3})
    assert not matches({"a": 1}, {"a": True})
    assert not matches({"a": [1]}, {"a": [1, 2]})


def test_names_are_spelled_as_the_reference_and_as_we_do() -> None:
    assert [camel(name) for name in ("ui_messages", "new_ui_messages", "run_id")] == [
        "uiMessages",
        "newUIMessages",
        "runId",
    ]
    assert [snake(name) for name in ("getPendingToolCalls", "newUIMessages", "maxTurns")] == [
        "get_pending_tool_calls",
        "new_ui_messages",
        "max_turns",
    ]


# --- comparing -------------------------------------------------------------------------------------------------


def test_the_same_observation_with_other_ids_is_no_difference() -> None:
    golden = golden_of(steps=[step_of(HELLO)], snapshot={"messages": [{"id": "<id:1>"}], "lastInEventId": "9"})
    golden["steps"] = [SEND]
    mine = turn("made-4")

    problems = problems_of(
        golden, observed_of(out=mine, steps=[step_of(mine)], snapshot={"messages": [{"id": "made-4"}]})
    )

    assert problems == []


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": None}, {}),
        ({"a": 1}, {"a": True}),
        ({"a": [1, 2]}, {"a": [1]}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({}, {"a": 1}),
    ],
)
def test_absent_null_and_kind_are_told_apart_in_wire_forms(expected: Wire, actual: Wire) -> None:
    problems = problems_of(golden_of(modelCalls=[expected]), observed_of(modelCalls=[actual]))

    assert len(problems) == 1


def test_an_absent_field_of_a_hook_event_equals_none() -> None:
    expected, actual = {"event": "onBoot", "previousRunId": None}, {"event": "onBoot", "clientData": None}

    problems = problems_of(golden_of(log=[expected]), observed_of(log=[actual]))

    assert problems == []


def test_a_field_that_the_recorded_event_does_not_have_is_a_difference() -> None:
    problems = problems_of(golden_of(log=[{"event": "onBoot"}]), observed_of(log=[{"event": "onBoot", "turn": 0}]))

    assert problems == ["log[0] onBoot.turn: expected nothing, got 0"]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("An error occurred.", "something else", False),
        ("boom", "bang", False),
        ("boom", "boom", True),
        ("Error: boom", "ValueError: boom", True),
        ("Error: boom", "ValueError", False),
        ("hydrated is not iterable", "`hydrate_messages` must return a list", True),
        ("hydrated is not iterable", "", False),
        ("<schema error>", "value.a: it is required", True),
    ],
)
def test_a_text_that_nobody_wrote_counts_by_its_presence(expected: str, actual: str, same: bool) -> None:  # noqa: FBT001
    golden = golden_of(log=[{"event": "onTurnComplete", "error": {"$error": expected}}])
    golden["agent"] = {"run": [{"do": "throw", "message": "boom"}]}

    problems = problems_of(golden, observed_of(log=[{"event": "onTurnComplete", "error": {"$error": actual}}]))

    assert (problems == []) is same


def test_a_model_call_may_move_among_the_chunks_of_its_turn_but_not_past_its_end() -> None:
    call, chunk = {"event": "modelCall", "n": 0}, {"event": "out", "chunk": {"type": "data-x", "data": 1}}
    complete: Wire = {"event": "out", "chunk": COMPLETE}
    golden = golden_of(log=[call, chunk, complete])

    moved = problems_of(golden, observed_of(log=[chunk, call, complete]))
    too_far = problems_of(golden, observed_of(log=[chunk, complete, call]))

    assert moved == []
    assert len(too_far) == 1


def test_chunks_and_hooks_may_not_change_places() -> None:
    hook, chunk = {"event": "onTurnStart"}, {"event": "out", "chunk": {"type": "data-x", "data": 1}}

    problems = problems_of(golden_of(log=[hook, chunk]), observed_of(log=[chunk, hook]))

    assert len(problems) == 1


# --- overlapping sends -----------------------------------------------------------------------------------------


def overlapping_golden() -> Wire:
    first, second = turn("<id:1>", "a"), turn("<id:2>", "b")
    golden = golden_of(steps=[step_of(first), step_of(first[1:]), {"do": "join"}], allRawChunks=[*first, *second])
    golden["steps"] = [{**SEND, "await": False, "as": "t"}, SEND, {"do": "join", "name": "t"}]
    return golden


def test_sends_overlap_from_the_first_that_is_not_awaited_until_it_is_joined() -> None:
    started: Wire = {**SEND, "await": False, "as": "t"}

    assert overlapping([started, SEND, {"do": "join", "name": "t"}, SEND]) == {0, 1}
    assert overlapping([started, {"do": "sendStop"}, {"do": "join", "name": "t"}, SEND]) == set()
    assert overlapping([started, {"do": "sendPendingMessage"}, {"do": "join", "name": "t"}]) == {0}
    assert overlapping([{"do": "sendPendingMessage"}, SEND]) == {1}


def test_overlapping_sends_may_each_return_their_own_turn() -> None:
    first, second = turn("x", "a"), turn("y", "b")
    steps = [step_of(first), step_of(second), {"do": "join"}]

    problems = problems_of(overlapping_golden(), observed_of(out=[*first, *second], steps=steps))

    assert problems == []


def test_overlapping_sends_may_not_return_each_others_turns() -> None:
    first, second = turn("x", "a"), turn("y", "b")
    steps = [step_of(second), step_of(first), {"do": "join"}]

    problems = problems_of(overlapping_golden(), observed_of(out=[*first, *second], steps=steps))

    assert len(problems) == 1


def test_an_overlapping_send_that_raised_is_a_difference() -> None:
    first, second = turn("x", "a"), turn("y", "b")
    steps = [step_of(first), {"do": "sendMessage", "throws": "no"}, {"do": "join"}]

    problems = problems_of(overlapping_golden(), observed_of(out=[*first, *second], steps=steps))

    assert len(problems) == 1


def test_out_is_cut_behind_each_turn_complete() -> None:
    first, second = turn("x"), turn("y")

    turns = split_turns([*copy.deepcopy(first), *second, {"type": "data-late"}])

    assert turns == [first, second]


# --- scenarios -------------------------------------------------------------------------------------------------


def finish(reason: str) -> Wire:
    return {"type": "finish", "finishReason": {"unified": reason}, "usage": {"inputTokens": {}, "outputTokens": {}}}


def says(text: str) -> Wire:
    block = [{"type": kind, "id": "t1", **more} for kind, more in (("text-start", {}), ("text-delta", {"delta": text}))]
    return {"parts": [*block, {"type": "text-end", "id": "t1"}, finish("stop")]}


def calls(tool: str, given: object) -> Wire:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": tool, "input": json.dumps(given)}
    return {"parts": [call, finish("tool-calls")]}


def scenario(agent: Wire, *steps: Wire, model: tuple[Wire, ...] = ()) -> Wire:
    return {"name": "own", "agent": agent, "model": [*model], "options": {}, "steps": [*steps]}


def names(observed: Wire) -> list[str]:
    return [entry.get("label") or entry["event"] for entry in observed["log"]]


def test_a_scenario_with_a_word_that_nobody_knows_is_refused() -> None:
    golden = scenario({"hooks": {"onBoot": [{"do": "defer", "then": [{"do": "dance"}]}]}}, {"do": "jump"})

    with pytest.raises(UnsupportedScenarioError, match=r"^directive dance, step jump$"):
        anyio.run(observe, golden)


def test_a_scenario_that_throws_a_bare_string_is_left_out() -> None:
    golden = scenario({"run": [{"do": "throw", "message": "no error", "plain": True}]})

    with pytest.raises(pytest.skip.Exception):
        replay(golden)


def test_what_sleeps_wakes_while_a_step_waits_for_the_log() -> None:
    hooks = {"onTurnComplete": [{"do": "sleep", "ms": 3_600_000}, {"do": "mark", "label": "awake"}]}
    waiting = {"do": "waitForLog", "match": {"event": "mark"}}
    golden = scenario({"hooks": hooks}, {**SEND, "do": "sendPendingMessage"}, waiting, model=(says("a"),))

    observed = anyio.run(observe, golden)

    assert observed["steps"] == [{"do": "sendPendingMessage"}, {"do": "waitForLog"}]
    assert names(observed)[-2:] == ["onTurnComplete", "awake"]


def test_what_waits_at_a_gate_waits_until_the_gate_is_opened() -> None:
    hooks = {"onTurnComplete": [{"do": "waitGate", "gate": "g"}, {"do": "mark", "label": "through"}]}
    opening = ({"do": "settle", "ms": 60_000}, {"do": "openGate", "gate": "g"}, {"do": "settle", "ms": 0})
    closed = scenario({"hooks": hooks}, SEND, *opening[:1], model=(says("a"),))
    opened = scenario({"hooks": hooks}, SEND, *opening, model=(says("a"),))

    before, after = anyio.run(observe, closed), anyio.run(observe, opened)

    assert names(before)[-1] == "onTurnComplete"
    assert names(after)[-1] == "through"


def test_the_directives_of_a_tool_see_its_input_and_the_id_of_the_call() -> None:
    then = [{"do": "mark", "label": "$event.input.city"}, {"do": "mark", "label": "$event.toolCallId", "onCall": 1}]
    tool = {"description": "d", "inputSchema": {"type": "object"}, "result": 1, "then": then}
    golden = scenario({"tools": {"weather": tool}}, SEND, model=(calls("weather", {"city": "Oslo"}), says("a")))

    observed = anyio.run(observe, golden)

    assert names(observed)[:6] == ["run", "modelCall", "tool", "Oslo", "c1", "modelCall"]


def test_a_hook_counts_its_calls_over_all_harnesses() -> None:
    hooks = {"onTurnStart": [{"do": "mark", "label": "second", "onCall": 2}]}
    steps = [SEND, {"do": "close"}, {"do": "newHarness", "options": {}}, SEND, {"do": "close"}]
    golden = scenario({"hooks": hooks}, *steps, model=(says("a"), says("b")))

    observed = anyio.run(observe, golden)

    assert names(observed) == [
        *("onTurnStart", "run", "modelCall", "out", "runEnd", "newHarness"),
        *("onTurnStart", "second", "run", "modelCall", "out", "runEnd"),
    ]


def test_a_boot_that_fails_is_the_first_steps_failure() -> None:
    golden = scenario({"hooks": {"onBoot": [{"do": "throw", "message": "no boot"}]}}, SEND, {"do": "close"})

    observed = anyio.run(observe, golden)

    assert observed["steps"] == [{"do": "sendMessage", "throws": "no boot"}, {"do": "close"}]
    assert observed["log"][-1] == {"event": "runEnd", "outcome": "threw", "error": "no boot"}
