"""What makes no sense is refused where it is said, and not when a request comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference import MockInferenceServer, RequestClassifier, RequestMatcher, ScriptedResponse
from inference.asking import ask

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER = ScriptedResponse.text(200, "")


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"model": 5}, "`model` is 5: it is a string, or a compiled pattern"),
        ({"last_user": ["hi"]}, r"`last_user` is \['hi'\]: it is a string, or a compiled pattern"),
        ({"system": b"be kind"}, "`system` is b'be kind': it is a string, or a compiled pattern"),
        ({"tool_result": 5}, "`tool_result` is 5: it is the id of a call, or a pair of id and text"),
        ({"tool_result": (5, "x")}, "`tool_result` is 5: it is the id of a call, or a pair of id and text"),
        ({"tool_result": ("a", 5)}, "`tool_result` is 5: it is a string, or a compiled pattern"),
        ({"tool_result": ("a",)}, r"`tool_result` is \('a',\): it is the id of a call, or a pair of id and text"),
        ({"has_tool": 5}, "`has_tool` is 5: it is the name of a tool"),
        ({"stream": "yes"}, "`stream` is 'yes': it is true or false"),
        ({"json": [1]}, r"`json` is \[1\]: it is the members that the body must have"),
        ({"headers": ["x-a"]}, r"`headers` is \['x-a'\]: it is values and patterns by name"),
        ({"headers": {"x-a": 5}}, r"`headers\['x-a'\]` is 5: it is a string, or a compiled pattern"),
        ({"predicate": True}, "`predicate` is True: it is a function of the log entry"),
    ],
)
def test_a_condition_that_no_request_can_meet_is_refused(condition: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{problem}$"):
        RequestMatcher.any().where(**condition)


@pytest.mark.parametrize(
    "say",
    [
        lambda server: server.set_response(None),
        lambda server: server.set_response(5),
        lambda server: server.set_agent_turns(["a", 5]),
        lambda server: server.set_agent_turns(None),
        lambda server: server.set_messages_stop_reason(None),
        lambda server: server.set_required_auth(5),
        lambda server: server.set_user_subscription_tier(5),
        lambda server: server.set_timing(0.5),
        lambda server: server.set_faults("abort"),
        lambda server: server.expect_response(5, RequestMatcher.any(), ANSWER),
        lambda server: server.expect_response("a", RequestMatcher.any(), ANSWER, timing=0.5),
        lambda server: server.expect_response("a", RequestMatcher.any(), ANSWER, fault="abort"),
        lambda server: server.expect_agent_turn(5, "text"),
        lambda server: server.expect_agent_turn("a", 5),
        lambda server: server.expect_agent_turn("a", "text", endpoints=["messages"]),
    ],
)
def test_what_a_server_cannot_be_told_is_refused_and_leaves_no_trace(
    server: MockInferenceServer, say: Callable[[MockInferenceServer], object]
) -> None:
    with pytest.raises(InvalidArgumentError):
        say(server)

    assert ask(server).json()["choices"][0]["message"]["content"] == "Echo: hi"
    server.assert_all_satisfied()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"port": "80"}, "`port` is '80': it is a number from 0 to 65535"),
        ({"port": True}, "`port` is True: it is a number from 0 to 65535"),
        ({"port": 65536}, "`port` is 65536: it is a number from 0 to 65535"),
        ({"port": -1}, "`port` is -1: it is a number from 0 to 65535"),
        ({"max_body_bytes": -1}, "`max_body_bytes` is -1: it is a number of bytes"),
        ({"strict": "no"}, "`strict` is 'no': it is true or false"),
        ({"usage": "exact"}, "`usage` is 'exact': it is 'default', 'estimate' or a Usage"),
        ({"classifier": "turns"}, "`classify` is 'turns': it is a function of the log entry"),
        ({"timing": 0.5}, "`timing` is 0.5: it is a TimingProfile, or `None`"),
        ({"faults": "abort"}, "`faults` is 'abort': it is a Fault, RandomFaults, or `None`"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{problem}$"):
        MockInferenceServer(**options)


def test_an_option_that_there_is_not_is_refused() -> None:
    options: Any = {"strikt": True}

    with pytest.raises(TypeError, match=r"^a mock inference server has no option 'strikt'; it has allow_echo, "):
        MockInferenceServer(**options)


def test_a_classifier_names_headers_and_a_number() -> None:
    names: Any = ("x-turn", 5)
    few: Any = "two"

    with pytest.raises(InvalidArgumentError, match=r"^`request_id_headers` is \('x-turn', 5\): give a list of texts$"):
        RequestClassifier(request_id_headers=names)
    with pytest.raises(InvalidArgumentError, match=r"^`min_tools` is 'two': it is a number of tools$"):
        RequestClassifier(min_tools=few)
