"""What Chat Completions refuses (7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.validation.findings import Body, Finding, Findings, a_list, an_object, dicts, texts_of
from chatagent_test.inference.validation.openai_common import (
    check_function,
    check_numbers,
    empty,
    invalid_value,
    missing,
    needs,
    wrong_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["chat_findings"]

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = ("text", "image_url", "input_audio", "refusal", "audio", "file")
_CHOICES = ("none", "auto", "required")
_NUMBERS = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "n": (1.0, 128.0),
    "max_tokens": (1.0, float("inf")),
    "max_completion_tokens": (1.0, float("inf")),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}


def chat_findings(body: Body) -> Findings:
    """Look for what the API refuses, in the order in which it does."""
    yield from needs(body, "model", str, "a string")
    yield from needs(body, "messages", list, "an array of objects")
    yield from check_numbers(body, _NUMBERS)
    yield from _check_options(body)
    yield from _check_tools(body)
    messages = a_list(body.get("messages"))
    if messages == []:
        yield empty("messages")
    for index, message in enumerate(messages or ()):
        if an_object(message) is None:
            yield wrong_type(f"messages[{index}]", "an object", message)
    for index, message in dicts(messages):
        yield from _check_message(message, index)
    yield from _check_pairs([message for _, message in dicts(messages)])


def _check_options(body: Body) -> Findings:
    for member in ("stream", "store", "logprobs"):
        if body.get(member) is not None and not isinstance(body[member], bool):
            yield wrong_type(member, "a boolean", body[member])
    if body.get("stream_options") is not None and body.get("stream") is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Finding(message, "stream_options")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        message = (
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported; "
            "use 'max_completion_tokens'."
        )
        yield Finding(message, "max_tokens", "invalid_parameter_combination")


def _check_tools(body: Body) -> Findings:
    tools: object = body.get("tools")
    if tools is not None and a_list(tools) is None:
        yield wrong_type("tools", "an array of objects", tools)
    if tools == []:
        yield empty("tools")
    if not tools:
        for member in ("tool_choice", "parallel_tool_calls"):
            if body.get(member) is not None and body[member] != "none":
                message = f"Invalid value for '{member}': '{member}' is only allowed when 'tools' are specified."
                yield Finding(message, member)
    for index, tool in dicts(tools):
        yield from _check_tool(tool, f"tools[{index}]")
    yield from _check_choice(body)


def _check_tool(tool: Body, path: str) -> Findings:
    if tool.get("type") is None:
        yield missing(f"{path}.type")
    elif tool["type"] not in ("function", "custom"):
        yield invalid_value(f"{path}.type", tool["type"], ("function", "custom"))
    elif tool["type"] == "function":
        function = an_object(tool.get("function"))
        if function is None:
            yield missing(f"{path}.function")
        else:
            yield from check_function(function, f"{path}.function")


def _check_choice(body: Body) -> Findings:
    choice = body.get("tool_choice")
    if isinstance(choice, str) and choice not in _CHOICES:
        yield invalid_value("tool_choice", choice, _CHOICES)
    chosen = an_object(choice)
    if chosen is not None and chosen.get("type") == "function":
        name = (an_object(chosen.get("function")) or {}).get("name")
        functions: list[object] = [tool.get("function") for _, tool in dicts(body.get("tools"))]
        if name not in texts_of(functions, "name"):
            yield Finding(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")


def _check_message(message: Body, index: int) -> Findings:
    path = f"messages[{index}]"
    role = message.get("role")
    if role is None:
        yield missing(f"{path}.role")
    elif role not in _ROLES:
        yield invalid_value(f"{path}.role", role, _ROLES)
    has_calls = bool(message.get("tool_calls") or message.get("function_call"))
    may_be_silent = role == "assistant" and (has_calls or message.get("refusal") is not None)
    yield from _check_content(message.get("content"), path, may_be_null=may_be_silent)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield missing(f"{path}.tool_call_id")
    for place, call in dicts(message.get("tool_calls")):
        yield from _check_call(call, f"{path}.tool_calls[{place}]")


def _check_content(content: object, path: str, *, may_be_null: bool) -> Findings:
    param = f"{path}.content"
    if content is None:
        if not may_be_null:
            yield Finding("Invalid value for 'content': expected a string, got null.", param)
    elif not isinstance(content, str) and a_list(content) is None:
        yield wrong_type(param, "one of a string or array of objects", content)
    for place, part in dicts(content):
        kind = part.get("type")
        if kind is None:
            yield missing(f"{param}[{place}].type")
        elif kind not in _PARTS:
            yield invalid_value(f"{param}[{place}].type", kind, _PARTS)
        elif kind in ("text", "image_url", "input_audio", "file") and part.get(kind) is None:
            yield missing(f"{param}[{place}].{kind}")


def _check_call(call: Body, path: str) -> Findings:
    yield from needs(call, "id", str, "a string", path=f"{path}.")
    yield from needs(call, "type", str, "a string", path=f"{path}.")
    if call.get("type") == "function":
        function = an_object(call.get("function"))
        if function is None:
            yield missing(f"{path}.function")
        else:
            for member in ("name", "arguments"):
                yield from needs(function, member, str, "a string", path=f"{path}.function.")


def _check_pairs(messages: Sequence[Body]) -> Findings:
    """Look for results without calls, and calls without results right behind them."""
    waiting: list[str] = []
    caller = 0
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in waiting:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message "
                    "with 'tool_calls'."
                )
                yield Finding(text, f"messages.[{index}].role")
            else:
                waiting.remove(call_id)
            continue
        if waiting:
            yield _unanswered(waiting, caller)
        waiting, caller = texts_of(message.get("tool_calls"), "id"), index
    if waiting:
        yield _unanswered(waiting, caller)


def _unanswered(waiting: Sequence[str], caller: int) -> Finding:
    message = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )
    return Finding(message, f"messages.[{caller}].role")
