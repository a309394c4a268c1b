"""What Messages refuses (7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.validation.findings import (
    Body,
    Finding,
    Findings,
    a_list,
    an_object,
    dicts,
    is_number,
    kind_of,
    matches,
    texts_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["messages_findings"]

_NAME = r"[a-zA-Z0-9_-]{1,128}"
_ID = r"[a-zA-Z0-9_-]+"
_NUMBERS = {"temperature": (0.0, 1.0), "top_p": (0.0, 1.0), "top_k": (0.0, float("inf"))}
_REQUIRED = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
_SERVER = ("type", "url", "name")
_MIN_BUDGET = 1024


def messages_findings(body: Body) -> Findings:
    """Look for what the API refuses, in the order in which it does."""
    for member, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        yield from _needs(body, member, kind, member)
    if isinstance(body.get("max_tokens"), int) and body["max_tokens"] < 1:
        yield Finding("max_tokens: Input should be greater than or equal to 1")
    yield from _check_numbers(body)
    yield from _check_thinking(body)
    yield from _check_tools(body)
    for index, server in dicts(body.get("mcp_servers")):
        for member in _SERVER:
            yield from _needs(server, member, str, f"mcp_servers.{index}.{member}")
    yield from _check_texts(body.get("system"), "system")
    messages = a_list(body.get("messages"))
    if messages is not None:
        yield from _check_messages([message for _, message in dicts(messages)])


def _needs(body: Body, member: str, kind: type, path: str) -> Findings:
    value = body.get(member)
    if value is None:
        yield Finding(f"{path}: Field required")
    elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = {str: "a valid string", int: "a valid integer", list: "a valid list", dict: "a valid dictionary"}[kind]
        yield Finding(f"{path}: Input should be {wanted}")


def _check_numbers(body: Body) -> Findings:
    for member, (low, high) in _NUMBERS.items():
        value = body.get(member)
        if value is None:
            continue
        if not is_number(value):
            yield Finding(f"{member}: Input should be a valid number, not {kind_of(value)}")
        elif not low <= value <= high:
            bound = f"greater than or equal to {low:g}" if value < low else f"less than or equal to {high:g}"
            yield Finding(f"{member}: Input should be {bound}")
    if body.get("stream") is not None and not isinstance(body["stream"], bool):
        yield Finding("stream: Input should be a valid boolean")


def _check_thinking(body: Body) -> Findings:
    thinking = an_object(body.get("thinking"))
    if thinking is None or thinking.get("type") != "enabled":
        return
    budget, limit = thinking.get("budget_tokens"), body.get("max_tokens")
    if not isinstance(budget, int):
        yield Finding("thinking.enabled.budget_tokens: Field required")
        return
    if budget < _MIN_BUDGET:
        yield Finding(f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_MIN_BUDGET}")
    if isinstance(limit, int) and limit <= budget:
        yield Finding("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if body.get("temperature") not in (None, 1):
        yield Finding("`temperature` may only be set to 1 when thinking is enabled.")


def _check_tools(body: Body) -> Findings:
    tools = [tool for _, tool in dicts(body.get("tools"))]
    for index, tool in enumerate(tools):
        # Tools of the provider's own have a versioned type, and no schema.
        if tool.get("type") not in (None, "custom"):
            continue
        path = f"tools.{index}.custom"
        yield from _needs(tool, "name", str, f"{path}.name")
        if isinstance(tool.get("name"), str) and not matches(_NAME, tool["name"]):
            yield Finding(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        yield from _needs(tool, "input_schema", dict, f"{path}.input_schema")
        schema = an_object(tool.get("input_schema"))
        if schema is not None and schema.get("type") != "object":
            kind = "Field required" if schema.get("type") is None else "Input should be 'object'"
            yield Finding(f"{path}.input_schema.type: {kind}")
    names = texts_of(tools, "name")
    if len(set(names)) < len(names):
        yield Finding("tools: Tool names must be unique.")
    choice = an_object(body.get("tool_choice"))
    if choice is not None:
        yield from _check_choice(choice, names)


def _check_choice(choice: Body, names: Sequence[str]) -> Findings:
    kinds = ("auto", "any", "tool", "none")
    if choice.get("type") not in kinds:
        yield Finding(f"tool_choice: Input tag should be one of {', '.join(map(repr, kinds))}")
    elif not names and choice["type"] != "none":
        yield Finding("tool_choice may only be specified while providing tools.")
    elif choice["type"] == "tool" and choice.get("name") not in names:
        yield Finding(f"Tool '{choice.get('name')}' not found in provided tools")


# Messages ---------------------------------------------------------------------------------------------------------


def _check_messages(messages: Sequence[Body]) -> Findings:
    if not messages:
        yield Finding("messages: at least one message is required")
        return
    for index, message in enumerate(messages):
        yield from _check_message(message, index, is_last=index == len(messages) - 1)
    if messages[0].get("role") == "assistant":
        yield Finding('messages: first message must use the "user" role')
    yield from _check_pairs(messages)


def _check_message(message: Body, index: int, *, is_last: bool) -> Findings:
    path, role, content = f"messages.{index}", message.get("role"), message.get("content")
    if role == "system":
        yield Finding(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
            'not "system" as an input message role.'
        )
    elif role not in ("user", "assistant"):
        wrong = "Field required" if role is None else "Input should be 'user' or 'assistant'"
        yield Finding(f"{path}.role: {wrong}")
    if content is None:
        yield Finding(f"{path}.content: Field required")
    elif not isinstance(content, str) and a_list(content) is None:
        yield Finding(f"{path}.content: Input should be a valid list")
    elif not content and not (is_last and role == "assistant"):
        text = "all messages must have non-empty content except for the optional final assistant message"
        yield Finding(f"{path}: {text}")
    yield from _check_texts(content, f"{path}.content", prefix="messages")
    for place, block in dicts(content):
        yield from _check_block(block, role, f"{path}.content.{place}")
    if is_last and role == "assistant" and _last_text(content) != _last_text(content).rstrip():
        yield Finding("messages: final assistant content cannot end with trailing whitespace")


def _check_texts(content: object, path: str, *, prefix: str | None = None) -> Findings:
    if any(text == "" for text in texts_of(content, "text")):
        yield Finding(f"{prefix or path}: text content blocks must be non-empty")


def _last_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = dicts(content)
    text = blocks[-1][1].get("text") if blocks else None
    return text if isinstance(text, str) else ""


def _check_block(block: Body, role: object, path: str) -> Findings:
    kind = block.get("type")
    if kind is None:
        yield Finding(f"{path}.type: Field required")
        return
    for member in _REQUIRED.get(str(kind), ()):
        if block.get(member) is None:
            yield Finding(f"{path}.{kind}.{member}: Field required")
    if kind == "tool_use":
        if role != "assistant":
            yield Finding(f"{path}: `tool_use` blocks can only be in `assistant` messages")
        if isinstance(block.get("id"), str) and not matches(_ID, block["id"]):
            yield Finding(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if block.get("input") is not None and not isinstance(block["input"], dict):
            yield Finding(f"{path}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result" and role != "user":
        yield Finding(f"{path}: `tool_result` blocks can only be in `user` messages")


def _check_pairs(messages: Sequence[Body]) -> Findings:
    """Look for calls without results right behind them, results without calls, and ids used twice."""
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        results = _results(message.get("content"))
        for place, call_id in results:
            if call_id not in waiting:
                yield Finding(
                    f"messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{call_id}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        yield from _unanswered(waiting, results, index)
        waiting = [block["id"] for _, block in dicts(message.get("content")) if _is_call(block)]
        for call_id in waiting:
            if call_id in seen or waiting.count(call_id) > 1:
                yield Finding(f"messages.{index}: `tool_use` ids must be unique")
            seen.add(call_id)
    yield from _unanswered(waiting, [], len(messages))


def _is_call(block: Body) -> bool:
    return block.get("type") == "tool_use" and isinstance(block.get("id"), str)


def _results(content: object) -> list[tuple[int, str]]:
    """Return place and id of each result that stands in front of everything else, as results must."""
    found: list[tuple[int, str]] = []
    for place, block in dicts(content):
        if block.get("type") != "tool_result":
            break
        found.append((place, str(block.get("tool_use_id"))))
    return found


def _unanswered(waiting: Sequence[str], results: Sequence[tuple[int, str]], index: int) -> Findings:
    answered = {call_id for _, call_id in results}
    left = [call_id for call_id in waiting if call_id not in answered]
    if left:
        yield Finding(
            f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(left)}. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )
