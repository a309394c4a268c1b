"""Which request claims which expectation."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference import (
    DuplicateExpectationError,
    InferenceEndpoint,
    LogEntry,
    MockInferenceServer,
    RequestClassifier,
    RequestKind,
    RequestMatcher,
    ScriptedResponse,
)
from inference.asking import CHAT, MESSAGES, RESPONSES, TURN, ask, in_background, side, text_of, turn

FOREGROUND, AUXILIARY = RequestKind.FOREGROUND, RequestKind.AUXILIARY
ANY = RequestMatcher.any(CHAT)


def answer(name: str) -> ScriptedResponse:
    return ScriptedResponse.json(200, {"answer": name})


def classified(headers: dict[str, str], tools: object = None, **options: object) -> RequestKind:
    body = {} if tools is None else {"tools": tools}
    entry = LogEntry("POST", CHAT.path, body, None, tuple(headers.items()))
    return RequestClassifier(**options).kind(entry)


def test_headers_say_what_a_request_is_for() -> None:
    """EXP-001"""
    assert classified(side(), tools=[{}, {}]) is AUXILIARY
    assert classified(turn("call")) is FOREGROUND
    assert classified({"x-chatagent-turn-idx": "", "x-chatagent-req-id": ""}, tools=[{}, {}]) is FOREGROUND
    assert classified({"x-grok-turn-idx": "0"}) is FOREGROUND
    assert classified({"x-grok-req-id": "0"}, tools=[{}, {}]) is AUXILIARY


def test_without_headers_two_tools_make_a_turn() -> None:
    """EXP-002"""
    assert classified({}, tools=[{}]) is AUXILIARY
    assert classified({}, tools=[{}, {}]) is FOREGROUND
    assert classified({}, tools={"a": {}, "b": {}}) is AUXILIARY
    assert classified({}) is AUXILIARY


def test_blank_headers_count_as_absent() -> None:
    """EXP-003"""
    assert classified({"x-chatagent-turn-idx": "  ", "x-chatagent-req-id": "\t"}, tools=[{}, {}]) is FOREGROUND
    assert classified({"x-chatagent-turn-idx": "  "}) is AUXILIARY
    assert classified({"x-chatagent-turn-idx": "\xff\xfe"}) is AUXILIARY


def test_headers_and_tools_that_count_can_be_chosen() -> None:
    options = {"turn_index_headers": ("X-Turn",), "request_id_headers": ("X-Call",), "min_tools": 1}

    assert classified({"x-turn": "1"}, **options) is FOREGROUND
    assert classified({"x-call": "1"}, tools=[{}], **options) is AUXILIARY
    assert classified({}, tools=[{}], **options) is FOREGROUND
    assert classified(turn("call"), **options) is AUXILIARY
    with pytest.raises(InvalidArgumentError, match=r"^`turn_index_headers` is 'x-turn': give a list of texts$"):
        RequestClassifier(turn_index_headers="x-turn")


def test_a_function_may_classify_instead() -> None:
    with MockInferenceServer(classifier=lambda entry: FOREGROUND if entry.streams else AUXILIARY) as server:
        ask(server, stream=True)
        ask(server)

    assert [entry.kind for entry in server.requests()] == [FOREGROUND, AUXILIARY]


def test_a_function_that_fails_to_classify_gives_a_500() -> None:
    def fail(entry: LogEntry) -> RequestKind:
        raise RuntimeError(f"what is {entry.path}?")

    with MockInferenceServer(classifier=fail) as server:
        said = ask(server)

    assert said.status_code == 500
    assert server.requests()[0].error == "RuntimeError: what is /v1/chat/completions?"


def test_a_predicate_that_fails_gives_a_500_and_claims_nothing(server: MockInferenceServer) -> None:
    picky = ANY.where(predicate=lambda entry: entry.body["missing"])
    expected = server.expect_response("picky", picky, answer("picky"))

    assert "KeyError: 'missing'" in ask(server).json()["error"]["message"]
    assert expected.claims == 0


def test_side_work_leaves_the_expectation_of_a_turn(server: MockInferenceServer) -> None:
    """EXP-004"""
    expected = server.expect_response("turn", RequestMatcher.foreground(CHAT), answer("turn"))

    beside = ask(server, headers=side())
    turned = ask(server, headers=turn("call"))

    assert text_of(CHAT, beside.json()) == "Echo: hi"
    assert turned.json() == {"answer": "turn"}
    assert expected.is_satisfied


def test_another_endpoint_leaves_it_too(server: MockInferenceServer) -> None:
    """EXP-005"""
    expected = server.expect_response("turn", RequestMatcher.foreground(RESPONSES), answer("turn"))

    assert text_of(CHAT, ask(server, CHAT, headers=TURN).json()) == "Echo: hi"
    assert expected.claims == 0


def test_concurrent_requests_get_one_each(server: MockInferenceServer) -> None:
    """EXP-006"""
    for name in ("one", "two"):
        server.expect_response(name, ANY, answer(name))

    answers = [in_background(lambda: ask(server).json()["answer"]) for _ in range(2)]

    assert sorted(each.result(5) for each in answers) == ["one", "two"]


def test_exactly_as_many_are_answered_as_are_expected(server: MockInferenceServer) -> None:
    """EXP-007"""
    for number in range(20):
        server.expect_response(f"n{number}", ANY, answer(f"n{number}"))

    answers = [in_background(lambda: ask(server).json().get("answer", "echo")) for _ in range(50)]
    counted = Counter(each.result(10) for each in answers)

    assert counted.pop("echo") == 30
    assert set(counted) == {f"n{number}" for number in range(20)}
    assert set(counted.values()) == {1}


def test_calls_are_answered_in_the_order_of_registration(server: MockInferenceServer) -> None:
    """EXP-008"""
    for name in "abc":
        server.expect_response(name, ANY, answer(name))

    assert [ask(server).json()["answer"] for _ in range(3)] == ["a", "b", "c"]


def test_a_name_in_use_is_refused(server: MockInferenceServer) -> None:
    """EXP-017"""
    server.expect_response("same", ANY, answer("first"))

    with pytest.raises(DuplicateExpectationError, match=r"^duplicate inference expectation name `same`$"):
        server.expect_response("same", RequestMatcher.foreground(MESSAGES), answer("second"))

    assert issubclass(DuplicateExpectationError, ValueError)
    ask(server)
    assert text_of(CHAT, ask(server).json()) == "Echo: hi"


def test_a_name_in_flight_is_refused_and_a_settled_one_free(server: MockInferenceServer) -> None:
    """EXP-018"""
    first = server.expect_response_blocked("same", ANY, answer("first"))
    call = in_background(lambda: ask(server))
    first.wait_blocked_sync()
    with pytest.raises(DuplicateExpectationError):
        server.expect_response("same", ANY, answer("second"))

    first.release()
    call.result(5)
    server.wait_idle_sync()
    server.expect_response("same", ANY, answer("second"))

    assert ask(server).json() == {"answer": "second"}


def test_expectations_come_before_queues(server: MockInferenceServer) -> None:
    """EXP-032"""
    server.enqueue_response(CHAT.path, answer("queued"))
    server.expect_response("turn", RequestMatcher.foreground(CHAT), answer("expected"))

    assert ask(server, headers=TURN).json() == {"answer": "expected"}
    assert ask(server, headers=TURN).json() == {"answer": "queued"}


def test_a_queue_is_emptied_by_side_work_as_well(server: MockInferenceServer) -> None:
    server.enqueue_response(CHAT.path, answer("meant for a turn"))

    assert ask(server, headers=side()).json() == {"answer": "meant for a turn"}


@pytest.mark.parametrize("response", [None, "text", [], [answer("a"), 5], 7])
def test_a_response_that_is_none_leaves_the_name_free(server: MockInferenceServer, response: object) -> None:
    """EXP-033"""
    with pytest.raises(ValueError, match="`response`"):
        server.expect_response("name", ANY, response)

    server.expect_response("name", ANY, answer("fine"))
    assert ask(server).json() == {"answer": "fine"}


@pytest.mark.parametrize("matcher", [CHAT, None, "chat"])
def test_a_matcher_that_is_none_is_refused(server: MockInferenceServer, matcher: object) -> None:
    with pytest.raises(ValueError, match="give a RequestMatcher"):
        server.expect_response("name", matcher, answer("fine"))


def test_an_endpoint_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="it is an InferenceEndpoint: CHAT_COMPLETIONS, RESPONSES, MESSAGES"):
        RequestMatcher.any("chat")


def test_a_script_needs_no_key_and_the_gate_is_back_behind_it(server: MockInferenceServer) -> None:
    """EXP-021"""
    server.set_required_auth("secret")
    server.expect_response("once", ANY, answer("once"))

    assert (ask(server).status_code, ask(server).status_code) == (200, 401)


def test_the_defaults_of_a_consumers_harness(server: MockInferenceServer) -> None:
    """EXP-040"""
    server.preset_allow_access()
    server.set_response("All done.")

    from inference.asking import get

    assert get(server, "/v1/settings").json() == {"allow_access": True}
    assert text_of(CHAT, ask(server).json()) == "All done."


# Counted and dynamic answers --------------------------------------------------------------------------------------


def test_an_expectation_answers_so_many_calls(server: MockInferenceServer) -> None:
    expected = server.expect_response("thrice", ANY, answer("again")).times(3)

    answers = [ask(server).json() for _ in range(2)]
    assert not expected.is_satisfied
    answers.append(ask(server).json())

    assert answers == [{"answer": "again"}] * 3
    assert expected.is_satisfied
    assert text_of(CHAT, ask(server).json()) == "Echo: hi"


def test_an_expectation_may_answer_always(server: MockInferenceServer) -> None:
    expected = server.expect_response("always", ANY, answer("again")).always()
    assert not expected.is_satisfied

    assert [ask(server).json()["answer"] for _ in range(4)] == ["again"] * 4
    assert expected.is_satisfied
    assert expected.claims == 4


def test_a_sequence_answers_one_call_each(server: MockInferenceServer) -> None:
    expected = server.expect_response("steps", ANY, [script.error(429), script.text("ok"), answer("end")])

    statuses = [ask(server).status_code for _ in range(3)]

    assert statuses == [429, 200, 200]
    assert expected.is_satisfied


def test_the_last_of_a_sequence_is_repeated(server: MockInferenceServer) -> None:
    server.expect_response("steps", ANY, [answer("a"), answer("b")]).times(3)

    assert [ask(server).json()["answer"] for _ in range(3)] == ["a", "b", "b"]


@pytest.mark.parametrize("count", [0, -1, True, 1])
def test_a_count_that_makes_no_sense_is_refused(server: MockInferenceServer, count: int) -> None:
    expected = server.expect_response("steps", ANY, [answer("a"), answer("b")])

    with pytest.raises(InvalidArgumentError, match="`count`"):
        expected.times(count)


def test_a_count_that_comes_too_late_is_refused(server: MockInferenceServer) -> None:
    expected = server.expect_response("once", ANY, answer("a"))
    ask(server)

    with pytest.raises(InvalidArgumentError, match="has been claimed already"):
        expected.times(2)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_of_the_request_may_answer(server: MockInferenceServer, *, is_async: bool) -> None:
    def reply(entry: LogEntry) -> ScriptedResponse:
        return answer(entry.body["messages"][0]["content"].upper())

    async def areply(entry: LogEntry) -> object:
        return script.text(entry.body["messages"][0]["content"])

    server.expect_response("shout", ANY, areply if is_async else reply).always()

    said = ask(server, text="hello").json()
    assert (text_of(CHAT, said) if is_async else said["answer"]) == ("hello" if is_async else "HELLO")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_that_fails_gives_a_500_and_tells_the_log(server: MockInferenceServer, *, is_async: bool) -> None:
    def fail(entry: LogEntry) -> ScriptedResponse:
        raise RuntimeError("no idea")

    async def afail(entry: LogEntry) -> ScriptedResponse:
        raise RuntimeError("no idea")

    expected = server.expect_response("bad", ANY, afail if is_async else fail)

    said = ask(server)

    assert said.status_code == 500
    assert said.json()["error"]["message"].endswith("could not answer: RuntimeError: no idea")
    (entry,) = server.requests()
    assert (entry.answered_by, entry.error) == ("error", "RuntimeError: no idea")
    with pytest.raises(AssertionError, match="cancelled"):
        expected.wait_satisfied_sync()


def test_a_function_must_return_an_answer(server: MockInferenceServer) -> None:
    server.expect_response("bad", ANY, lambda entry: "text")

    assert "must return a ScriptedResponse or a script" in ask(server).json()["error"]["message"]


# What a request says ----------------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "search"}}
CALL_AND_RESULT = [
    {"role": "user", "content": "find x"},
    {"role": "assistant", "tool_calls": [{"id": "c1"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "found 3"},
]


@pytest.mark.parametrize(
    ("wanted", "why_not"),
    [
        ({"model": "test-model"}, None),
        ({"model": re.compile("^test")}, None),
        ({"model": "gpt"}, "model is 'test-model', wanted 'gpt'"),
        ({"model": re.compile("gpt")}, "model is 'test-model', wanted a match of /gpt/"),
        ({"last_user": "find"}, None),
        ({"last_user": re.compile("x$")}, None),
        ({"last_user": "lose"}, "the last user message is 'find x', wanted 'lose' in it"),
        ({"system": "brief"}, "there is no text in the system prompt"),
        ({"tool_result": "c1"}, None),
        ({"tool_result": ("c1", "found")}, None),
        ({"tool_result": (None, re.compile("\\d"))}, None),
        ({"tool_result": "c2"}, "there is no tool result of call 'c2', but of ['c1']"),
        ({"tool_result": ("c1", "lost")}, "the tool result is ['found 3'], wanted 'lost' in it"),
        ({"has_tool": "search"}, None),
        ({"has_tool": "draw"}, "the tools are ['search'], wanted 'draw' among them"),
        ({"stream": False}, None),
        ({"stream": True}, "stream is False, wanted True"),
        ({"json": {"messages": CALL_AND_RESULT, "model": "test-model"}}, None),
        ({"json": {"seed": 1}}, "body has no member 'seed', wanted 1"),
        ({"json": {"tools": []}}, "body.tools has 1 elements, wanted 0"),
        ({"json": {"tools": [{"type": "x"}]}}, "body.tools[0].type is 'function', wanted 'x'"),
        ({"headers": {"X-Test": "a"}}, None),
        ({"headers": {"x-test": re.compile("a")}}, None),
        ({"headers": {"x-other": None}}, None),
        ({"headers": {"x-test": "b"}}, "header x-test is 'a', wanted 'b'"),
        ({"headers": {"x-test": None}}, "header x-test is 'a', wanted absent"),
        ({"predicate": lambda entry: entry.body["model"]}, None),
        ({"predicate": len and (lambda entry: 0)}, "the predicate <lambda> says no"),
        (
            {"model": "gpt", "stream": True},
            "model is 'test-model', wanted 'gpt'; stream is False, wanted True",
        ),
    ],
)
def test_a_matcher_looks_at_what_a_request_says(
    server: MockInferenceServer, wanted: dict[str, object], why_not: str | None
) -> None:
    server.expect_response("narrow", ANY.where(**wanted), answer("narrow"))

    said = ask(server, messages=CALL_AND_RESULT, tools=[TOOL], headers={"x-test": "a"}).json()

    if why_not is None:
        assert said == {"answer": "narrow"}
        return
    with pytest.raises(AssertionError) as caught:
        server.assert_all_satisfied()
    assert str(caught.value) == (
        "inference expectation `narrow` (state: Pending) was not satisfied\n"
        "  request [0] POST /v1/chat/completions (answered by echo):\n"
        f"    not `narrow`: {why_not}"
    )


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (CHAT, {"messages": [{"role": "developer", "content": "be brief"}]}),
        (RESPONSES, {"instructions": "be brief", "input": "x"}),
        (RESPONSES, {"input": [{"role": "system", "content": [{"type": "input_text", "text": "be brief"}]}]}),
        (MESSAGES, {"system": "be brief"}),
        (MESSAGES, {"system": [{"type": "text", "text": "be brief"}]}),
    ],
)
def test_system_prompts_are_found_wherever_they_stand(
    server: MockInferenceServer, endpoint: InferenceEndpoint, body: dict[str, object]
) -> None:
    server.expect_response("brief", RequestMatcher.any(endpoint).where(system="brief"), answer("brief"))

    assert ask(server, endpoint, **body).json() == {"answer": "brief"}


@pytest.mark.parametrize(
    ("endpoint", "item"),
    [
        (RESPONSES, {"type": "function_call_output", "call_id": "c1", "output": "42"}),
        (
            MESSAGES,
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
        ),
        (CHAT, {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]}),
    ],
)
def test_tool_results_are_found_in_every_format(
    server: MockInferenceServer, endpoint: InferenceEndpoint, item: dict[str, object]
) -> None:
    server.expect_response("result", RequestMatcher.any(endpoint).where(tool_result=("c1", "42")), answer("result"))

    assert ask(server, endpoint, **{"input" if endpoint is RESPONSES else "messages": [item]}).json() == {
        "answer": "result"
    }


def test_all_that_was_not_met_is_told_with_the_requests_that_came_instead(server: MockInferenceServer) -> None:
    ask(server)  # came before, so it says nothing about either
    server.expect_response("turn", RequestMatcher.foreground(CHAT), answer("turn"))
    server.expect_response("other", RequestMatcher.any(MESSAGES), answer("other"))
    ask(server, headers={**side("c"), "x-stainless-retry-count": "1"})

    with pytest.raises(AssertionError) as caught:
        server.assert_all_satisfied()

    assert str(caught.value) == (
        "inference expectation `turn` (state: Pending) was not satisfied\n"
        "inference expectation `other` (state: Pending) was not satisfied\n"
        "  request [1] POST /v1/chat/completions (retry 1) (answered by echo):\n"
        "    not `turn`: kind is auxiliary because header x-chatagent-req-id comes without a turn index\n"
        "    not `other`: its endpoint is /v1/chat/completions, wanted /v1/messages"
    )


def test_nothing_is_told_when_all_was_met(server: MockInferenceServer) -> None:
    server.expect_response("once", ANY, answer("once"))
    ask(server)
    ask(server)

    server.assert_all_satisfied()


def test_a_matcher_of_every_endpoint_answers_wherever_it_is_asked(server: MockInferenceServer) -> None:
    said = [script.text(endpoint.name) for endpoint in InferenceEndpoint]
    server.expect_response("any", RequestMatcher.any().where(last_user="hi"), said)

    answers = [ask(server, endpoint) for endpoint in InferenceEndpoint]

    assert [endpoint.name in answer.text for endpoint, answer in zip(InferenceEndpoint, answers, strict=True)] == [
        True
    ] * 3
    assert server.problems() == []


def test_a_matcher_of_every_endpoint_says_why_a_request_is_not_meant(server: MockInferenceServer) -> None:
    server.expect_response("any", RequestMatcher.any().where(last_user="weather"), answer("any"))

    ask(server, MESSAGES)

    assert server.problems()[-1] == "    not `any`: the last user message is 'hi', wanted 'weather' in it"
    entry = LogEntry("GET", "/v1/models", None)
    assert RequestMatcher.any().why_not(entry, RequestClassifier()) == (
        "its endpoint is /v1/models, wanted /v1/chat/completions or /v1/responses or /v1/messages"
    )
