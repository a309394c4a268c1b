"""Scripts that answer again and again: what is remembered of them, and what is not."""

from __future__ import annotations

from chatagent_test import script
from chatagent_test.inference import MockInferenceServer, RequestMatcher
from inference.asking import CHAT, MESSAGES, ask, data_of


def test_a_script_that_answers_again_and_again_minds_what_each_request_asks() -> None:
    """However much of it is remembered from one answer to the next."""
    said = script.text("Hi").tool_call("look", {}, tool_call_id="mine")
    with MockInferenceServer(usage_frame="requested") as server:
        server.expect_response("say", RequestMatcher.any(), said).always()

        first = data_of(ask(server, CHAT, stream=True, model="one").content)
        told = data_of(ask(server, CHAT, stream=True, model="one", stream_options={"include_usage": True}).content)
        other = data_of(ask(server, CHAT, stream=True, model="two").content)
        whole = ask(server, CHAT, model="two").json()
        message = ask(server, MESSAGES, model="two").json()
        again = data_of(ask(server, CHAT, stream=True, model="one").content)

    assert first == again
    assert told[:-1] == first
    assert told[-1]["usage"]["total_tokens"] == 20
    assert {data["model"] for data in other} == {"two"}
    assert (whole["object"], whole["model"], message["type"]) == ("chat.completion", "two", "message")


def test_calls_without_an_id_are_counted_on_from_answer_to_answer() -> None:
    with MockInferenceServer() as server:
        server.expect_response("say", RequestMatcher.any(), script.tool_call("look", {})).always()

        ids = [ask(server).json()["choices"][0]["message"]["tool_calls"][0]["id"] for _ in range(3)]

    assert len(set(ids)) == 3


def test_usage_can_be_estimated_anew_for_every_request() -> None:
    with MockInferenceServer(usage="estimate") as server:
        server.expect_response("say", RequestMatcher.any(), script.text("Hi")).always()

        usages = [ask(server, CHAT, "word " * times).json()["usage"]["prompt_tokens"] for times in (1, 100)]

    assert usages[0] < usages[1]
