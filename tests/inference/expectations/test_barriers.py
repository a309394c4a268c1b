"""Barriers, phases, overlapping duplicates, clients that leave, and the gate of completions."""

from __future__ import annotations

import gc
from concurrent.futures import Future  # noqa: TC003 - beside the anyio mark, whose tests are read at run time
from typing import Any

import anyio
import httpx2
import pytest

from chatagent_test import script
from chatagent_test.inference import (
    Expectation,
    ExpectationPhase,
    InferenceEndpoint,
    InferenceTimeoutError,
    MockInferenceServer,
    RequestMatcher,
    ScriptedResponse,
    ServerClosedError,
    SseEvent,
)
from chatagent_test.inference.formats import chat_completion_events, messages_api_events, responses_api_events
from chatagent_test.inference.server.requests import Request
from chatagent_test.inference.steps import Flush, Frames, Head, Wait
from chatagent_test.inference.waiting import scaled
from inference.asking import (
    CHAT,
    ENDPOINTS,
    MESSAGES,
    RESPONSES,
    TURN,
    ask,
    connection,
    data_of,
    deltas_of,
    in_background,
    is_silent,
    raw_request,
    read_to_end,
    read_until,
    side,
    text_of,
    turn,
)

ANY = RequestMatcher.any(CHAT)
EVENTS = ScriptedResponse.sse([SseEvent.of({"n": number}) for number in (1, 2, 3)])
BODIES = {
    "sse": EVENTS,
    "empty sse": ScriptedResponse.sse([]),
    "json": ScriptedResponse.json(200, {"n": 1}),
    "raw": ScriptedResponse.text(200, "raw"),
}


def answer(name: str) -> ScriptedResponse:
    return ScriptedResponse.json(200, {"answer": name})


def call(server: MockInferenceServer, **options: Any) -> Future[httpx2.Response]:
    return in_background(lambda: ask(server, **options))


def test_a_blocked_stream_ends_when_its_handle_is_dropped(server: MockInferenceServer) -> None:
    """EXP-009"""
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    pending = call(server, stream=True)
    expected.wait_blocked_sync()

    assert not expected.is_satisfied
    assert expected.diagnostic() == "inference expectation `held` (state: Blocked)"
    assert not pending.done()

    del expected
    gc.collect()
    assert len(data_of(pending.result(1).content)) == 3


@pytest.mark.parametrize("how", ["close", "with"])
def test_a_closed_handle_opens_its_barrier(server: MockInferenceServer, how: str) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    if how == "close":
        expected.close()
    else:
        with expected:
            pass

    assert len(data_of(ask(server, stream=True).content)) == 3
    assert expected.is_satisfied


def test_an_overlapping_duplicate_waits_at_the_same_barrier(server: MockInferenceServer) -> None:
    """EXP-010"""
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    first = call(server, stream=True, headers=turn("a"))
    expected.wait_blocked_sync()
    second = call(server, stream=True, headers=turn("a"))
    server.wait_for_requests_sync(2)

    assert not first.done()
    assert not second.done()
    expected.release()

    assert first.result(5).content == second.result(5).content
    expected.wait_satisfied_sync()
    assert expected.claims == 2
    assert [entry.answered_by for entry in server.requests()] == ["expectation:held", "replay:held"]


def test_a_released_answer_is_satisfied_when_its_call_has_ended(server: MockInferenceServer) -> None:
    """EXP-011"""
    expected = server.expect_response_blocked("held", ANY, answer("held"))
    pending = call(server)
    expected.wait_blocked_sync()
    assert expected.phase is ExpectationPhase.BLOCKED

    expected.release()
    pending.result(5)

    expected.wait_satisfied_sync()
    expected.wait_blocked_sync()
    expected.wait_received_sync()


def test_a_sequential_repeat_is_a_call_of_its_own(server: MockInferenceServer) -> None:
    """EXP-012"""
    first = server.expect_response_blocked("first", ANY, answer("first"))
    server.expect_response("second", ANY, answer("second"))
    calls = [call(server, headers=turn("a"))]
    first.wait_blocked_sync()
    calls.append(call(server, headers=turn("a")))
    server.wait_for_requests_sync(2)
    first.release()

    assert [each.result(5).json() for each in calls] == [{"answer": "first"}] * 2
    assert ask(server, headers=turn("a")).json() == {"answer": "second"}


def test_a_follow_up_with_a_tool_result_claims_the_next(server: MockInferenceServer) -> None:
    """EXP-013"""
    first = server.expect_response_blocked("first", ANY, answer("first"))
    server.expect_response("second", ANY, answer("second"))
    pending = call(server, headers=turn("a"))
    first.wait_blocked_sync()

    follow_up = ask(server, headers=turn("a"), messages=[{"role": "tool", "tool_call_id": "c", "content": "3"}])

    assert follow_up.json() == {"answer": "second"}
    first.release()
    assert pending.result(5).json() == {"answer": "first"}


def test_a_client_that_leaves_loses_its_expectation(server: MockInferenceServer) -> None:
    """EXP-014"""
    first = server.expect_response_blocked("first", ANY, EVENTS)
    server.expect_response("second", ANY, answer("second"))
    with connection(server) as client:
        client.sendall(raw_request(CHAT, headers=turn("a")))
        first.wait_blocked_sync()
    server.wait_idle_sync()

    assert ask(server, headers=turn("a"), stream=True).json() == {"answer": "second"}
    first.release()
    assert not first.is_satisfied
    with pytest.raises(AssertionError, match=r"^inference expectation `first` \(state: Blocked\): cancelled"):
        first.wait_satisfied_sync()
    assert server.requests()[0].outcome == "client_disconnected"


def test_a_duplicate_that_leaves_changes_nothing(server: MockInferenceServer) -> None:
    """EXP-015"""
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    first = call(server, stream=True, headers=turn("a"))
    expected.wait_blocked_sync()
    with connection(server) as client:
        client.sendall(raw_request(CHAT, headers=turn("a")))
        read_until(client, b'{"n":2}')
    server.wait_idle_sync(but=1)

    expected.release()

    assert len(data_of(first.result(5).content)) == 3
    expected.wait_satisfied_sync()


def test_a_duplicate_ends_though_the_first_has_left(server: MockInferenceServer) -> None:
    """EXP-016"""
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    with connection(server) as client:
        client.sendall(raw_request(CHAT, headers=turn("a")))
        expected.wait_blocked_sync()
        duplicate = call(server, stream=True, headers=turn("a"))
        server.wait_for_requests_sync(2)
    server.wait_idle_sync(but=1)

    expected.release()

    assert len(data_of(duplicate.result(5).content)) == 3
    server.wait_idle_sync()
    assert not expected.is_satisfied


def test_what_was_never_claimed_says_so(server: MockInferenceServer) -> None:
    """EXP-019"""
    expected = server.expect_response("lonely", ANY, EVENTS)

    with pytest.raises(AssertionError) as caught:
        expected.assert_satisfied()

    assert str(caught.value) == "inference expectation `lonely` was not satisfied (state: Pending)"
    ask(server, stream=True)
    expected.assert_satisfied()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("body", BODIES)
def test_every_kind_of_body_waits_at_its_barrier(
    server: MockInferenceServer, endpoint: InferenceEndpoint, body: str
) -> None:
    """EXP-020"""
    expected = server.expect_response_blocked("held", RequestMatcher.any(endpoint), BODIES[body])
    pending = call(server, endpoint=endpoint, stream=True)
    expected.wait_blocked_sync()

    assert not pending.done()
    expected.release()

    assert pending.result(5).status_code == 200
    expected.wait_satisfied_sync()


# The gate of completions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("source", ["agent turn", "fifo", "echo", "fixed"])
def test_held_completions_lack_their_last_frame(
    server: MockInferenceServer, endpoint: InferenceEndpoint, source: str
) -> None:
    """EXP-022"""
    server.hold_agent_completions()
    if source == "agent turn":
        server.set_agent_turns(["done"])
    elif source == "fifo":
        server.enqueue_response(endpoint.path, EVENTS)
    elif source == "fixed":
        server.set_response("done")

    with connection(server) as client:
        client.sendall(raw_request(endpoint, headers={**TURN, "connection": "close"}))
        seen = read_until(client, b"data:")
        pending = in_background(lambda: seen + read_to_end(client))
        with pytest.raises(TimeoutError):
            pending.result(0.05)
        server.release_agent_completions()
        assert pending.result(5).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("response", [answer("json"), ScriptedResponse.text(200, "raw")])
def test_held_completions_leave_json_and_raw_bodies(server: MockInferenceServer, response: ScriptedResponse) -> None:
    """EXP-023"""
    server.hold_agent_completions()
    server.enqueue_response(CHAT.path, response)

    assert ask(server, headers=TURN, timeout=1).status_code == 200


def test_held_completions_leave_side_work_and_expectations(server: MockInferenceServer) -> None:
    """EXP-024"""
    server.hold_agent_completions()
    server.expect_response("turn", RequestMatcher.foreground(CHAT), EVENTS)

    assert ask(server, stream=True, headers=side(), timeout=1).status_code == 200
    assert len(data_of(ask(server, stream=True, headers=TURN, timeout=1).content)) == 3


def test_completions_can_be_held_when_a_stream_has_begun(server: MockInferenceServer) -> None:
    """EXP-025"""
    frames = [SseEvent.of({"n": number}) for number in range(3)]
    server.enqueue_response(CHAT.path, ScriptedResponse.sse(frames, frame_delays=[0, 0, 0.05]))
    with connection(server) as client:
        client.sendall(raw_request(CHAT, headers=TURN))
        read_until(client, b'{"n":1}\n\n')
        server.hold_agent_completions()

        pending = in_background(lambda: read_until(client, b"0\r\n\r\n"))
        with pytest.raises(TimeoutError):
            pending.result(0.15)
        server.release_agent_completions()
        assert b'{"n":2}' in pending.result(5)


# Barriers ---------------------------------------------------------------------------------------------------------


def test_a_barrier_opened_beforehand_never_blocks(server: MockInferenceServer) -> None:
    """EXP-026"""
    expected = server.expect_response_blocked("open", ANY, EVENTS)
    expected.release()
    expected.release()
    assert not expected.is_satisfied

    assert len(data_of(ask(server, stream=True).content)) == 3
    expected.wait_satisfied_sync()


def test_without_a_request_id_nothing_is_a_duplicate(server: MockInferenceServer) -> None:
    """EXP-027"""
    held = [server.expect_response_blocked(name, ANY, answer(name)) for name in ("one", "two")]

    calls = [call(server) for _ in range(2)]
    for each in held:
        each.wait_blocked_sync()
    for each in held:
        each.release()

    assert sorted(each.result(5).json()["answer"] for each in calls) == ["one", "two"]


def test_the_order_of_keys_makes_no_difference(server: MockInferenceServer) -> None:
    """EXP-028"""
    expected = server.expect_response_blocked("held", ANY, answer("held"))
    pending = call(server, headers=turn("a"), seed=1)
    expected.wait_blocked_sync()
    reordered = b'{"seed": 1,   "messages":[{"content":"hi","role":"user"}],"model":"test-model"}'
    url, headers = f"{server.url}/chat/completions", {**turn("a"), "content-type": "application/json"}
    duplicate = in_background(lambda: httpx2.post(url, content=reordered, headers=headers))
    server.wait_for_requests_sync(2)
    expected.release()

    assert duplicate.result(5).json() == pending.result(5).json() == {"answer": "held"}
    assert expected.claims == 2


def test_another_kind_or_endpoint_is_no_duplicate(server: MockInferenceServer) -> None:
    """EXP-029"""
    expected = server.expect_response_blocked("held", ANY, answer("held"))
    pending = call(server, headers=turn("a"))
    expected.wait_blocked_sync()

    assert text_of(CHAT, ask(server, CHAT, headers=side("a")).json()) == "Echo: hi"
    assert text_of(MESSAGES, ask(server, MESSAGES, headers=turn("a")).json()) == "Echo: hi"
    assert text_of(CHAT, ask(server, CHAT, headers=turn("a"), seed=2).json()) == "Echo: hi"
    expected.release()
    pending.result(5)
    assert expected.claims == 1


def test_duplicates_replay_as_long_as_one_is_open(server: MockInferenceServer) -> None:
    """EXP-030"""
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    first = call(server, stream=True, headers=turn("a"))
    expected.wait_blocked_sync()
    server.set_chunk_delay(30)  # keeps the second open when the first has ended
    with connection(server) as second:
        second.sendall(raw_request(CHAT, headers=turn("a")))
        server.wait_for_requests_sync(2)
        server.set_chunk_delay(None)
        expected.release()
        first.result(5)

        third = ask(server, stream=True, headers=turn("a"))
        assert len(data_of(third.content)) == 3
        assert not expected.is_satisfied
    expected.wait_satisfied_sync()
    assert expected.claims == 3
    assert text_of(CHAT, ask(server, headers=turn("a")).json()) == "Echo: hi"


def test_without_a_barrier_blocked_is_reached_with_satisfied(server: MockInferenceServer) -> None:
    """EXP-031"""
    expected = server.expect_response("plain", ANY, EVENTS)
    pending = call(server, stream=True)

    expected.wait_received_sync()
    expected.wait_blocked_sync()

    assert expected.is_satisfied
    pending.result(5)


@pytest.mark.anyio
@pytest.mark.parametrize("wait", ["wait_received", "wait_blocked", "wait_satisfied"])
async def test_a_wait_ends_with_the_server(wait: str) -> None:
    """EXP-034"""
    caught: list[ServerClosedError] = []
    server = await MockInferenceServer.start()
    expected = server.expect_response("pending", ANY, EVENTS)

    async def wait_for_it() -> None:
        try:
            await getattr(expected, wait)()
        except ServerClosedError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for_it)
        await anyio.wait_all_tasks_blocked()
        await server.aclose()

    assert "inference expectation `pending` (state: Pending)" in str(caught[0])


def test_a_blocked_stream_has_sent_all_but_its_last_frame(server: MockInferenceServer) -> None:
    """EXP-035"""
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        expected.wait_blocked_sync()

        seen = read_until(client, b'{"n":2}\n\n\r\n')
        assert seen.startswith(b"HTTP/1.1 200")
        assert is_silent(client)
        expected.release()
        assert b'{"n":3}' in read_until(client, b"0\r\n\r\n")


def test_what_was_said_is_let_out_before_an_expectation_counts_as_blocked(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    headers = [("content-type", "application/json")]
    steps = server._core.answer(Request("POST", CHAT.path, "", headers, b'{"stream": true}'))

    taken: list[tuple[type, ExpectationPhase]] = []
    step = next(steps)
    while not isinstance(step, Wait):
        taken.append((type(step), expected.phase))
        step = next(steps)
    steps.close()

    assert taken[-1] == (Flush, ExpectationPhase.RECEIVED)
    assert [kind for kind, _ in taken] == [Head, Frames, Frames, Flush]


@pytest.mark.parametrize("body", ["json", "raw"])
def test_a_blocked_body_has_not_even_sent_its_status(server: MockInferenceServer, body: str) -> None:
    """EXP-036"""
    expected = server.expect_response_blocked("held", ANY, BODIES[body])
    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        expected.wait_blocked_sync()

        assert is_silent(client)
        expected.release()
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("endpoint", "events", "last_seen", "held"),
    [
        (CHAT, chat_completion_events("a b", "m"), b'"content":"a"', b'"finish_reason":"stop"'),
        (RESPONSES, responses_api_events("a b", "m", profile="sdk"), b"output_item.done", b"response.completed"),
        (MESSAGES, messages_api_events("a b", "m", "end_turn"), b"content_block_stop", b"message_delta"),
    ],
)
def test_a_stream_can_be_held_before_it_ends_in_meaning(
    server: MockInferenceServer, endpoint: InferenceEndpoint, events: list[SseEvent], last_seen: bytes, held: bytes
) -> None:
    matcher, response = RequestMatcher.any(endpoint), ScriptedResponse.sse(events)
    expected = server.expect_response_blocked("held", matcher, response, block_before="terminal")
    with connection(server) as client:
        client.sendall(raw_request(endpoint))
        expected.wait_blocked_sync()

        seen = read_until(client, last_seen)
        assert held not in seen
        expected.release()
        assert held in read_until(client, b"0\r\n\r\n")


def test_a_stream_can_be_held_before_any_frame(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS, block_before=1)
    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        expected.wait_blocked_sync()

        assert b'{"n":2}' not in read_until(client, b'{"n":1}')
        expected.release()
        assert b'{"n":3}' in read_until(client, b"0\r\n\r\n")


@pytest.mark.parametrize("before", [-1, "first", True, 1.5])
def test_a_place_that_is_none_is_refused(server: MockInferenceServer, before: object) -> None:
    with pytest.raises(ValueError, match="`block_before`"):
        server.expect_response_blocked("held", ANY, EVENTS, block_before=before)


def test_a_barrier_that_is_never_released_says_who_waits_for_what(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    pending = call(server, stream=True)
    expected.wait_blocked_sync()

    with pytest.raises(InferenceTimeoutError) as caught:
        expected.wait_satisfied_sync(timeout=0.01)

    assert str(caught.value) == (
        "inference expectation `held` (state: Blocked), after 0.01 s\n"
        "request [0] POST /v1/chat/completions waits at the barrier of `held`, which `release()` opens\n"
        "requests:\n  [0] POST /v1/chat/completions"
    )
    expected.release()
    pending.result(5)


@pytest.mark.anyio
async def test_a_wait_that_takes_too_long_says_what_came(server: MockInferenceServer) -> None:
    expected = server.expect_response("lonely", ANY, EVENTS)

    with pytest.raises(AssertionError, match=r"^inference expectation `lonely` \(state: Pending\), after 0\.01 s"):
        await expected.wait_received(timeout=0.01)


@pytest.mark.parametrize(
    ("scale", "seconds"),
    [("3", 6.0), ("1", 2.0), ("0", 2.0), ("-2", 2.0), ("1.5", 2.0), ("x", 2.0), ("", 2.0), ("²", 2.0)],
)
def test_only_a_positive_whole_number_scales(scale: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATAGENT_TEST_TIMEOUT_SCALE", scale)

    assert scaled(2.0) == seconds


def test_limits_of_waits_can_be_scaled(server: MockInferenceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = server.expect_response("lonely", ANY, EVENTS)
    monkeypatch.setenv("CHATAGENT_TEST_TIMEOUT_SCALE", "2")

    with pytest.raises(AssertionError, match=r"after 0\.02 s"):
        expected.wait_received_sync(timeout=0.01)


@pytest.mark.anyio
async def test_several_tasks_may_wait_for_the_same(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    seen: list[ExpectationPhase] = []

    async def watch(wait: str) -> None:
        await getattr(expected, wait)()
        seen.append(expected.phase)

    async with anyio.create_task_group() as tasks:
        for wait in ("wait_received", "wait_blocked", "wait_blocked", "wait_satisfied"):
            tasks.start_soon(watch, wait)
        pending = call(server, stream=True)
        await expected.wait_blocked()
        expected.release()

    assert len(seen) == 4
    pending.result(5)


def test_two_hundred_held_streams_lose_nothing(server: MockInferenceServer) -> None:
    held: list[Expectation] = []
    clients = []
    for number in range(200):
        matcher = ANY.where(last_user=f"call {number}.")
        held.append(server.expect_response_blocked(f"n{number}", matcher, EVENTS))
    url = f"{server.url}/chat/completions"
    with httpx2.Client(limits=httpx2.Limits(max_connections=None), timeout=30) as http:
        for number in range(200):
            body = {"stream": True, "messages": [{"role": "user", "content": f"call {number}."}]}
            clients.append(in_background(lambda body=body: http.post(url, json=body)))
        for each in held:
            each.wait_blocked_sync(30)
        assert not any(client.done() for client in clients)
        for each in held:
            each.release()

        assert [len(data_of(client.result(30).content)) for client in clients] == [3] * 200
    server.assert_all_satisfied()


# One turn at any of several endpoints -----------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES])
def test_an_agents_turn_may_come_at_either_endpoint(server: MockInferenceServer, endpoint: InferenceEndpoint) -> None:
    """EXP-037"""
    expected = server.expect_agent_turn("turn", "a  b\n")

    said = ask(server, endpoint, stream=True, headers=TURN)

    assert "".join(deltas_of(endpoint, said.content)) == "a  b\n"
    expected.wait_received_sync()
    expected.wait_blocked_sync()
    expected.wait_satisfied_sync()
    assert expected.is_satisfied
    other = "responses" if endpoint is CHAT else "chat completions"
    assert list(expected.unsatisfied_diagnostics()) == [f"inference expectation `turn ({other})` (state: Pending)"]
    server.assert_all_satisfied()


def test_the_other_side_of_an_answered_turn_is_withdrawn(server: MockInferenceServer) -> None:
    server.expect_agent_turn("turn", "first")
    ask(server, CHAT, stream=True, headers=TURN)

    assert text_of(RESPONSES, ask(server, RESPONSES, headers=TURN).json()) == "Echo: hi"
    server.expect_agent_turn("turn", "the name is free again")


@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES, MESSAGES])
def test_a_blocked_turn_is_released_on_whichever_side_it_is(
    server: MockInferenceServer, endpoint: InferenceEndpoint
) -> None:
    """EXP-038"""
    expected = server.expect_agent_turn("turn", "done", endpoints=ENDPOINTS, blocked=True)
    pending = call(server, endpoint=endpoint, stream=True, headers=TURN)
    expected.wait_blocked_sync()
    assert not pending.done()

    expected.release()

    assert deltas_of(endpoint, pending.result(5).content) == ["done"]
    expected.wait_satisfied_sync()
    expected.assert_satisfied()


def test_one_that_answers_always_is_not_lost_with_a_client_that_leaves(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("always", ANY, EVENTS).always()
    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        expected.wait_blocked_sync()
    server.wait_idle_sync()

    with pytest.raises(InferenceTimeoutError):
        expected.wait_satisfied_sync(timeout=0.01)
    expected.release()
    ask(server, stream=True)

    expected.wait_satisfied_sync()


def test_no_comment_ever_stands_inside_a_frame_that_is_cut() -> None:
    cut = ScriptedResponse.sse([SseEvent.of("whole"), SseEvent.of("cut")], cut_bytes=2)
    with MockInferenceServer(keep_alive=0.01) as server, connection(server) as client:
        held = server.expect_response_blocked("held", ANY, cut, block_before=2)
        client.sendall(raw_request(CHAT, headers={"connection": "close"}))
        held.wait_blocked_sync()
        read_until(client, b"data: cut")

        assert is_silent(client)

        held.release()
        assert read_to_end(client).endswith(b"0\r\n\r\n")


def test_a_duplicate_whose_first_has_gone_waits_without_being_blocked(server: MockInferenceServer) -> None:
    said = script.hold("early").text("ab", chunks=["a", "b"])
    expected = server.expect_response_blocked("one", ANY, said)
    with connection(server) as second:
        with connection(server) as first:
            first.sendall(raw_request(CHAT, headers=turn("call")))
            read_until(first, b"\r\n\r\n")
            second.sendall(raw_request(CHAT, headers={**turn("call"), "connection": "close"}))
            read_until(second, b"\r\n\r\n")
        server.wait_idle_sync(but=1)

        server.release("early")
        read_until(second, b'"usage"')
        assert is_silent(second)
        expected.release()
        read_to_end(second)

    assert (expected.claims, expected.phase) == (2, ExpectationPhase.RECEIVED)


def test_a_turn_has_the_frames_of_its_servers_profile() -> None:
    with MockInferenceServer(profile="minimal") as server:
        server.expect_agent_turn("turn", "a  b")

        answer = ask(server, RESPONSES, headers=TURN, stream=True)

    assert [data["type"] for data in data_of(answer.content)] == [
        "response.created",
        *["response.output_text.delta"] * 3,
        "response.completed",
    ]
    assert b"event:" not in answer.content


def test_a_turn_that_never_came_names_both_sides(server: MockInferenceServer) -> None:
    """EXP-039"""
    expected = server.expect_agent_turn("turn", "done")

    with pytest.raises(AssertionError) as caught:
        expected.assert_satisfied()

    assert str(caught.value) == (
        "inference expectation `turn (responses)` was not satisfied (state: Pending); "
        "inference expectation `turn (chat completions)` was not satisfied (state: Pending)"
    )
    assert expected.diagnostic() == (
        "inference expectation `turn (responses)` (state: Pending); "
        "inference expectation `turn (chat completions)` (state: Pending)"
    )


def test_a_turn_whose_name_is_half_taken_registers_nothing(server: MockInferenceServer) -> None:
    server.expect_response("turn (chat completions)", ANY, answer("mine"))

    with pytest.raises(ValueError, match=r"`turn \(chat completions\)`"):
        server.expect_agent_turn("turn", "done")

    assert text_of(RESPONSES, ask(server, RESPONSES, headers=TURN).json()) == "Echo: hi"
