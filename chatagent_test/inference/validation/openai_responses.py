"""What Responses refuses (7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.validation.findings import Body, Finding, Findings, a_list, dicts, texts_of
from chatagent_test.inference.validation.openai_common import (
    check_function,
    check_numbers,
    invalid_value,
    missing,
    needs,
    wrong_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["responses_findings"]

_ROLES = ("user", "assistant", "system", "developer")
_PARTS = ("input_text", "input_image", "input_file", "input_audio", "output_text", "refusal", "summary_text")
_NUMBERS = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "max_output_tokens": (16.0, float("inf"))}
_MOVED = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
_REMEMBERS = ("previous_response_id", "conversation")
_REQUIRED = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call_output": ("call_id", "output"),
    "item_reference": ("id",),
    "reasoning": ("summary",),
}
_TOOL_MEMBERS = {"mcp": ("server_label",), "file_search": ("vector_store_ids",), "code_interpreter": ("container",)}


def responses_findings(body: Body) -> Findings:
    """Look for what the API refuses, in the order in which it does."""
    for member, home in _MOVED.items():
        if member in body:
            message = (
                f"Unsupported parameter: '{member}'. In the Responses API, this parameter has moved to '{home}'. "
                "Try again with the new parameter."
            )
            yield Finding(message, member, "unsupported_parameter")
    yield from _check_input(body)
    yield from check_numbers(body, _NUMBERS)
    for member in ("stream", "store", "background", "parallel_tool_calls"):
        if body.get(member) is not None and not isinstance(body[member], bool):
            yield wrong_type(member, "a boolean", body[member])
    for index, tool in dicts(body.get("tools")):
        yield from _check_tool(tool, f"tools[{index}]")
    for index, item in dicts(body.get("input")):
        yield from _check_item(item, f"input[{index}]")
    yield from _check_order([item for _, item in dicts(body.get("input"))])
    if not any(body.get(member) for member in _REMEMBERS):
        yield from _check_pairs([item for _, item in dicts(body.get("input"))])


def _check_input(body: Body) -> Findings:
    given: object = body.get("input")
    if body.get("prompt") is None:
        yield from needs(body, "model", str, "a string")
        if given is None and not any(body.get(member) for member in _REMEMBERS):
            yield missing("input")
    if given is not None and not isinstance(given, str) and a_list(given) is None:
        yield wrong_type("input", "one of a string or array of objects", given)


def _check_tool(tool: Body, path: str) -> Findings:
    kind = tool.get("type")
    if kind is None:
        yield missing(f"{path}.type")
    elif kind == "function":
        yield from check_function(tool, path)
    for member in _TOOL_MEMBERS.get(str(kind), ()):
        if tool.get(member) is None:
            yield missing(f"{path}.{member}")
    if kind == "mcp" and tool.get("server_url") is None and tool.get("connector_id") is None:
        yield missing(f"{path}.server_url")


def _check_item(item: Body, path: str) -> Findings:
    kind = item.get("type", "message" if "role" in item else None)
    if kind is None:
        yield missing(f"{path}.type")
    for member in _REQUIRED.get(str(kind), ()):
        if item.get(member) is None:
            yield missing(f"{path}.{member}")
    if kind == "message":
        yield from _check_message(item, path)


def _check_message(item: Body, path: str) -> Findings:
    role, content = item.get("role"), item.get("content")
    if role is None:
        yield missing(f"{path}.role")
    elif role not in _ROLES:
        yield invalid_value(f"{path}.role", role, _ROLES)
    if content is None:
        yield missing(f"{path}.content")
    elif not isinstance(content, str) and a_list(content) is None:
        yield wrong_type(f"{path}.content", "one of a string or array of objects", content)
    yield from _check_parts(content, role, f"{path}.content")


def _check_parts(content: object, role: object, path: str) -> Findings:
    for place, part in dicts(content):
        param, kind = f"{path}[{place}]", part.get("type")
        if kind is None:
            yield missing(f"{param}.type")
        elif kind not in _PARTS:
            yield invalid_value(f"{param}.type", kind, _PARTS)
        elif role == "assistant" and kind == "input_text":
            yield invalid_value(f"{param}.type", kind, ("output_text", "refusal"))
        elif role == "user" and kind in ("output_text", "refusal"):
            yield invalid_value(f"{param}.type", kind, _PARTS[:4])


def _check_order(items: Sequence[Body]) -> Findings:
    """Look for a thought at the end: it comes back only together with what it led to."""
    if items and items[-1].get("type") == "reasoning":
        thought = items[-1].get("id")
        message = f"Item '{thought}' of type 'reasoning' was provided without its required following item."
        yield Finding(message, "input")


def _check_pairs(items: Sequence[Body]) -> Findings:
    calls = texts_of([item for item in items if item.get("type") == "function_call"], "call_id")
    results = texts_of([item for item in items if item.get("type") == "function_call_output"], "call_id")
    for call_id in calls:
        if call_id not in results:
            yield Finding(f"No tool output found for function call {call_id}.", "input")
    for call_id in results:
        if call_id not in calls:
            yield Finding(f"No tool call found for function call output with call_id {call_id}.", "input")
