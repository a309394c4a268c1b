"""What a request body says, whichever of the three endpoints it went to: prompts, texts, tools, tool results.

Bodies come from the code under test, so anything may be missing or of the wrong kind; that reads as absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent_test.inference.endpoints import InferenceEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ToolResult", "echo_source", "last_user_text", "system_text", "tool_names", "tool_results"]

TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
DEFAULT_ECHO = "hello"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back to the model."""

    call_id: str
    text: str


def echo_source(endpoint: InferenceEndpoint, body: dict[str, Any]) -> str:
    """Return what an echo repeats: the first text of the last user message, or `hello` (1.6.2)."""
    given = body.get("input")
    if endpoint is InferenceEndpoint.RESPONSES and isinstance(given, str):
        return given
    content = _last_user_content(endpoint, body)
    if isinstance(content, str):
        return content
    wanted = "input_text" if endpoint is InferenceEndpoint.RESPONSES else "text"
    texts = (part.get("text") for part in _dicts(content) if part.get("type") == wanted)
    return next((text for text in texts if isinstance(text, str)), DEFAULT_ECHO)


def last_user_text(endpoint: InferenceEndpoint, body: dict[str, Any]) -> str | None:
    """Return all the text of the last user message; `None` if there is none with text."""
    given = body.get("input")
    if endpoint is InferenceEndpoint.RESPONSES and isinstance(given, str):
        return given
    for message in reversed(list(_messages(endpoint, body))):
        if message.get("role") == "user":
            text = _joined(message.get("content"))
            if text is not None:
                return text
    return None


def system_text(endpoint: InferenceEndpoint, body: dict[str, Any]) -> str | None:
    """Return what the model is told beforehand: system and developer messages, `instructions`, or `system`."""
    if endpoint is InferenceEndpoint.MESSAGES:
        return _joined(body.get("system"))
    said = [_joined(body.get("instructions"))]
    said += [
        _joined(message.get("content"))
        for message in _messages(endpoint, body)
        if message.get("role") in ("system", "developer")
    ]
    texts = [text for text in said if text is not None]
    return "\n".join(texts) if texts else None


def tool_names(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools on offer; a tool without one by its type."""
    found: list[str] = []
    for tool in _dicts(body.get("tools")):
        function = tool.get("function")
        source = cast("dict[str, Any]", function) if isinstance(function, dict) else tool
        name = source.get("name", tool.get("type"))
        if isinstance(name, str):
            found.append(name)
    return found


def tool_results(endpoint: InferenceEndpoint, body: dict[str, Any]) -> list[ToolResult]:
    """Return all tool results in the request, in order."""
    return [ToolResult(str(call_id), _joined(content) or "") for call_id, content in _results(endpoint, body)]


def _results(endpoint: InferenceEndpoint, body: dict[str, Any]) -> Iterator[tuple[object, object]]:
    for message in _messages(endpoint, body):
        if message.get("role") == "tool":
            yield message.get("tool_call_id"), message.get("content")
        elif message.get("type") == "function_call_output":
            yield message.get("call_id"), message.get("output")
        elif endpoint is InferenceEndpoint.MESSAGES:
            for block in _dicts(message.get("content")):
                if block.get("type") == "tool_result":
                    yield block.get("tool_use_id"), block.get("content")


def _messages(endpoint: InferenceEndpoint, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return _dicts(body.get("input" if endpoint is InferenceEndpoint.RESPONSES else "messages"))


def _last_user_content(endpoint: InferenceEndpoint, body: dict[str, Any]) -> object:
    found = [message for message in _messages(endpoint, body) if message.get("role") == "user"]
    return found[-1].get("content") if found else None


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in cast("list[object]", value):
            if isinstance(each, dict):
                yield cast("dict[str, Any]", each)


def _joined(content: object) -> str | None:
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in _dicts(content) if part.get("type") in TEXT_PARTS]
    found = [text for text in texts if isinstance(text, str)]
    return "".join(found) if found else None
