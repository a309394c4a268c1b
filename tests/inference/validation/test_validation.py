"""Requests that real providers refuse (7.13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.scripted import JsonBody
from chatagent_test.inference.validation import request_problems, validate_request
from conformance.goldens import OWN_GOLDENS, goldens_of

CHAT, RESPONSES, MESSAGES = InferenceEndpoint
USER = {"role": "user", "content": "hi"}
FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": FUNCTION}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = {"role": "assistant", "tool_calls": [CHAT_CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
ITEM_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
ITEM_RESULT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}


def chat(*messages: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages) or [USER], **members}


def responses(*items: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(items) or "hi", **members}


def messages(*turns: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(turns) or [USER], **members}


RECORDED = [golden for golden in goldens_of("wire", OWN_GOLDENS) if golden.load()["endpoint"] != "/v1/models"]


@pytest.mark.parametrize("golden", RECORDED, ids=lambda golden: golden.path.stem)
def test_every_recorded_request_is_taken(golden: Any) -> None:
    case = golden.load()

    assert request_problems(InferenceEndpoint(case["endpoint"]), case["request"]) == []


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (CHAT, chat(USER, CALLS, RESULT, tools=[CHAT_TOOL], tool_choice="auto")),
        (CHAT, chat({"role": "assistant", "refusal": "no", "content": None}, USER)),
        (CHAT, chat({"role": "user", "content": [{"type": "text", "text": "x"}]}, temperature=2, stream=False)),
        (CHAT, chat(tools=[CHAT_TOOL], tool_choice={"type": "function", "function": {"name": "f"}})),
        (CHAT, chat(stream=True, stream_options={"include_usage": True})),
        (RESPONSES, responses()),
        (RESPONSES, responses(USER, ITEM_CALL, ITEM_RESULT)),
        (RESPONSES, responses(ITEM_RESULT, previous_response_id="r")),
        (RESPONSES, responses({"type": "reasoning", "id": "r", "summary": []}, ITEM_CALL, ITEM_RESULT)),
        (RESPONSES, {"prompt": {"id": "p"}}),
        (RESPONSES, responses(tools=[{"type": "mcp", "server_label": "s", "server_url": "u"}])),
        (MESSAGES, messages(USER, USE, USED, tools=[TOOL], tool_choice={"type": "tool", "name": "f"})),
        (MESSAGES, messages(USER, {"role": "assistant", "content": "He says:"})),
        (MESSAGES, messages(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000)),
        (MESSAGES, messages(mcp_servers=[{"type": "url", "url": "u", "name": "n"}])),
        (MESSAGES, messages(tools=[{"type": "web_search_20250305", "name": "web_search"}])),
    ],
)
def test_good_requests_are_taken(endpoint: InferenceEndpoint, body: Any) -> None:
    assert validate_request(endpoint, body) is None
    assert request_problems(endpoint, body) == []


@pytest.mark.parametrize(
    ("body", "message", "param", "code"),
    [
        ({"messages": [USER]}, "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        ({"model": 7, "messages": [USER]}, "Invalid type for 'model': expected a string", "model", "invalid_type"),
        ({"model": "m"}, "Missing required parameter: 'messages'.", "messages", "missing_required_parameter"),
        ({"model": "m", "messages": []}, "Invalid 'messages': empty array.", "messages", "empty_array"),
        (chat("hi"), "Invalid type for 'messages[0]': expected an object", "messages[0]", "invalid_type"),
        (chat({"content": "hi"}), "Missing required parameter", "messages[0].role", "missing_required_parameter"),
        (chat({"role": "bot", "content": ""}), "Invalid value: 'bot'.", "messages[0].role", "invalid_value"),
        (chat({"role": "user"}), "Invalid value for 'content'", "messages[0].content", None),
        (chat({"role": "user", "content": 3}), "Invalid type for", "messages[0].content", "invalid_type"),
        (
            chat({"role": "user", "content": [{"type": "tool_result"}]}),
            "Invalid value: 'tool_result'.",
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (
            chat({"role": "user", "content": [{"type": "image_url"}]}),
            "Missing required parameter: 'messages[0].content[0].image_url'.",
            "messages[0].content[0].image_url",
            "missing_required_parameter",
        ),
        (chat(USER, RESULT), "Invalid parameter: messages with role 'tool'", "messages.[1].role", None),
        (chat(USER, CALLS), "An assistant message with 'tool_calls' must be followed", "messages.[1].role", None),
        (chat(USER, CALLS, USER, RESULT), "An assistant message with 'tool_calls'", "messages.[1].role", None),
        (
            chat(USER, CALLS, {"role": "tool", "content": "x"}),
            "Missing required parameter",
            "messages[2].tool_call_id",
            "missing_required_parameter",
        ),
        (
            chat(
                {"role": "assistant", "tool_calls": [{**CHAT_CALL, "function": {"name": "f", "arguments": {}}}]}, RESULT
            ),
            "Invalid type for 'messages[0].tool_calls[0].function.arguments'",
            "messages[0].tool_calls[0].function.arguments",
            "invalid_type",
        ),
        (chat(temperature=3), "Invalid 'temperature': above maximum value.", "temperature", "above_max_value"),
        (chat(top_p=-1), "Invalid 'top_p': below minimum value.", "top_p", "below_min_value"),
        (chat(max_tokens="9"), "Invalid type for 'max_tokens'", "max_tokens", "invalid_type"),
        (
            chat(max_tokens=9, max_completion_tokens=9),
            "Setting 'max_tokens' and",
            "max_tokens",
            "invalid_parameter_combination",
        ),
        (chat(stream="yes"), "Invalid type for 'stream': expected a boolean", "stream", "invalid_type"),
        (chat(stream_options={}), "The 'stream_options' parameter is only allowed", "stream_options", None),
        (chat(tool_choice="auto"), "Invalid value for 'tool_choice'", "tool_choice", None),
        (chat(tools=[]), "Invalid 'tools': empty array.", "tools", "empty_array"),
        (chat(tools={}), "Invalid type for 'tools'", "tools", "invalid_type"),
        (chat(tools=[{"function": FUNCTION}]), "Missing required", "tools[0].type", "missing_required_parameter"),
        (chat(tools=[{"type": "function"}]), "Missing", "tools[0].function", "missing_required_parameter"),
        (chat(tools=[{"type": "mcp"}]), "Invalid value: 'mcp'.", "tools[0].type", "invalid_value"),
        (
            chat(tools=[{"type": "function", "function": {"name": "a b"}}]),
            "Invalid 'tools[0].function.name': string does not match pattern.",
            "tools[0].function.name",
            "invalid_value",
        ),
        (
            chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]),
            "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"'",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        (
            chat(tools=[{"type": "function", "function": {**FUNCTION, "strict": True}}]),
            "Invalid schema for function 'f': In context=(), 'additionalProperties' is required",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        (
            chat(tools=[CHAT_TOOL], tool_choice={"type": "function", "function": {"name": "g"}}),
            "Tool choice 'g' not found in 'tools' parameter.",
            "tool_choice",
            None,
        ),
        (chat(tools=[CHAT_TOOL], tool_choice="any"), "Invalid value: 'any'.", "tool_choice", "invalid_value"),
        ([], "the body of a request is an object, and this is an array", None, None),
    ],
)
def test_chat_completions_refuses(body: Any, message: str, param: str | None, code: str | None) -> None:
    refused(CHAT, body, message, param, code)


@pytest.mark.parametrize(
    ("body", "message", "param", "code"),
    [
        ({"input": "hi"}, "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        ({"model": "m"}, "Missing required parameter: 'input'.", "input", "missing_required_parameter"),
        ({"model": "m", "input": {}}, "Invalid type for 'input'", "input", "invalid_type"),
        ({"model": "m", "messages": [USER]}, "Unsupported parameter: 'messages'.", "messages", "unsupported_parameter"),
        (responses(max_tokens=9), "Unsupported parameter: 'max_tokens'.", "max_tokens", "unsupported_parameter"),
        (responses(max_output_tokens=1), "Invalid 'max_output_tokens'", "max_output_tokens", "below_min_value"),
        (responses(stream=1), "Invalid type for 'stream'", "stream", "invalid_type"),
        (responses({}), "Missing required", "input[0].type", "missing_required_parameter"),
        (responses({"role": "tool", "content": ""}), "Invalid value: 'tool'.", "input[0].role", "invalid_value"),
        (responses({"role": "user"}), "Missing required", "input[0].content", "missing_required_parameter"),
        (responses({"role": "user", "content": 7}), "Invalid type", "input[0].content", "invalid_type"),
        (
            responses({"role": "user", "content": [{"type": "text", "text": "x"}]}),
            "Invalid value: 'text'.",
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            responses({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
            "Invalid value: 'input_text'. Supported values are: 'output_text', and 'refusal'.",
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            responses({"role": "user", "content": [{"type": "output_text", "text": "x"}]}),
            "Invalid value: 'output_text'.",
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            responses({"type": "function_call_output", "call_id": "c1"}),
            "Missing required parameter: 'input[0].output'.",
            "input[0].output",
            "missing_required_parameter",
        ),
        (responses(ITEM_CALL), "No tool output found for function call c1.", "input", None),
        (responses(ITEM_RESULT), "No tool call found for function call output with call_id c1.", "input", None),
        (
            responses({"type": "reasoning", "id": "r1", "summary": []}),
            "Item 'r1' of type 'reasoning' was provided without its required following item.",
            "input",
            None,
        ),
        (responses(tools=[CHAT_TOOL]), "Missing", "tools[0].name", "missing_required_parameter"),
        (responses(tools=[{}]), "Missing", "tools[0].type", "missing_required_parameter"),
        (responses(tools=[{"type": "mcp"}]), "Missing", "tools[0].server_label", "missing_required_parameter"),
        (
            responses(tools=[{"type": "mcp", "server_label": "s"}]),
            "Missing",
            "tools[0].server_url",
            "missing_required_parameter",
        ),
        (
            responses(
                tools=[
                    {
                        "type": "function",
                        "name": "f",
                        "strict": True,
                        "parameters": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
                    }
                ]
            ),
            "Invalid schema for function 'f': In context=(), 'required' is required",
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
    ],
)
def test_responses_refuses(body: Any, message: str, param: str | None, code: str | None) -> None:
    refused(RESPONSES, body, message, param, code)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"max_tokens": 1, "messages": [USER]}, "model: Field required"),
        ({"model": "m", "messages": [USER]}, "max_tokens: Field required"),
        (messages(max_tokens="9"), "max_tokens: Input should be a valid integer"),
        (messages(max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
        ({"model": "m", "max_tokens": 9}, "messages: Field required"),
        ({"model": "m", "max_tokens": 9, "messages": []}, "messages: at least one message is required"),
        (messages({"role": "system", "content": "x"}), 'messages: Unexpected role "system".'),
        (messages({"role": "tool", "content": "x"}), "messages.0.role: Input should be 'user' or 'assistant'"),
        (messages({"content": "x"}), "messages.0.role: Field required"),
        (messages({"role": "user"}), "messages.0.content: Field required"),
        (messages({"role": "user", "content": 7}), "messages.0.content: Input should be a valid list"),
        (messages({"role": "user", "content": ""}), "messages.0: all messages must have non-empty content"),
        (messages({"role": "assistant", "content": "x"}, USER), 'messages: first message must use the "user" role'),
        (
            messages(USER, {"role": "assistant", "content": "x "}),
            "messages: final assistant content cannot end with trailing whitespace",
        ),
        (
            messages({"role": "user", "content": [{"type": "text", "text": ""}]}),
            "messages: text content blocks must be non-empty",
        ),
        (messages(system=[{"type": "text", "text": ""}]), "system: text content blocks must be non-empty"),
        (messages({"role": "user", "content": [{"text": "x"}]}), "messages.0.content.0.type: Field required"),
        (messages({"role": "user", "content": [{"type": "text"}]}), "messages.0.content.0.text.text: Field required"),
        (
            messages(USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}),
            "messages.1.content.0.thinking.signature: Field required",
        ),
        (messages({**USE, "role": "user"}, USED), "messages.0.content.0: `tool_use` blocks can only be in `assistant`"),
        (messages(USER, USE, {**USED, "role": "assistant"}), "messages.2.content.0: `tool_result` blocks can only be"),
        (messages(USER, USE), "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        (messages(USER, USE, USER), "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        (
            messages(USER, USE, {"role": "user", "content": [{"type": "text", "text": "x"}, *USED["content"]]}),
            "messages.1: `tool_use` ids were found without `tool_result` blocks",
        ),
        (messages(USED), "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1."),
        (messages(USER, USE, USED, USE, USED), "messages.3: `tool_use` ids must be unique"),
        (
            messages(USER, {"role": "assistant", "content": [{**USE["content"][0], "id": "a b"}]}, USED),
            "messages.1.content.0.tool_use.id: String should match pattern",
        ),
        (
            messages(USER, {"role": "assistant", "content": [{**USE["content"][0], "input": "{}"}]}, USED),
            "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        ),
        (messages(tools=[{"name": "f"}]), "tools.0.custom.input_schema: Field required"),
        (messages(tools=[{"name": "f", "input_schema": {}}]), "tools.0.custom.input_schema.type: Field required"),
        (messages(tools=[{**TOOL, "name": "a b"}]), "tools.0.custom.name: String should match pattern"),
        (messages(tools=[TOOL, TOOL]), "tools: Tool names must be unique."),
        (messages(tool_choice={"type": "any"}), "tool_choice may only be specified while providing tools."),
        (messages(tools=[TOOL], tool_choice={"type": "tool", "name": "g"}), "Tool 'g' not found in provided tools"),
        (messages(tools=[TOOL], tool_choice={"type": "required"}), "tool_choice: Input tag should be one of"),
        (messages(mcp_servers=[{"type": "url", "name": "n"}]), "mcp_servers.0.url: Field required"),
        (messages(temperature=1.5), "temperature: Input should be less than or equal to 1"),
        (messages(top_p=-1), "top_p: Input should be greater than or equal to 0"),
        (messages(top_k=True), "top_k: Input should be a valid number, not a boolean"),
        (messages(stream=1), "stream: Input should be a valid boolean"),
        (
            messages(thinking={"type": "enabled", "budget_tokens": 1024}),
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        ),
        (messages(thinking={"type": "enabled"}), "thinking.enabled.budget_tokens: Field required"),
        (
            messages(thinking={"type": "enabled", "budget_tokens": 1}, max_tokens=9),
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            messages(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000, temperature=0),
            "`temperature` may only be set to 1 when thinking is enabled.",
        ),
    ],
)
def test_messages_refuses(body: Any, message: str) -> None:
    response = validate_request(MESSAGES, body)

    assert response is not None
    assert isinstance(response.body, JsonBody)
    error = response.body.value["error"]
    assert (response.status, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(message)


def refused(endpoint: InferenceEndpoint, body: Any, message: str, param: str | None, code: str | None) -> None:
    response = validate_request(endpoint, body)

    assert response is not None
    assert isinstance(response.body, JsonBody)
    error = response.body.value["error"]
    assert (response.status, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(message)
    assert (error["param"], error["code"]) == (param, code)


WORDS = st.sampled_from(
    ["role", "content", "type", "tools", "messages", "input", "function", "user", "assistant", "tool", "tool_use"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=6),
    max_leaves=30,
)
MEMBERS = st.sampled_from(
    ["model", "messages", "input", "tools", "tool_choice", "thinking", "system", "mcp_servers", "max_tokens", "stream"]
)


@given(body=JSON | st.dictionaries(MEMBERS, JSON))
def test_whatever_comes_is_answered(body: Any) -> None:
    for endpoint in InferenceEndpoint:
        response = validate_request(endpoint, body)

        assert response is None or response.status == 400
