"""Scripted events to the body that is not streamed and says the same (4.5.5)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.formats.messages import tool_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chatagent_test.inference.sse import SseEvent

__all__ = ["collapse"]

Payload = dict[str, Any]

_RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")


def collapse(events: Sequence[SseEvent]) -> dict[str, Any]:
    """Return the JSON body that a list of events stands for, so that one script serves both.

    Frames that are no JSON object, and events of kinds that nobody knows, say nothing here.

    Args:
        events: the events of an answer of any of the three endpoints.

    Raises:
        InvalidArgumentError: they are no answer, or one that no body can say: an error, a response without its end, or
            frames whose members are missing or of the wrong kind.
    """
    payloads = [payload for event in events if (payload := _payload(event)) is not None]
    try:
        return _body(payloads)
    except InvalidArgumentError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as exc:
        raise _cannot(list(events), f"a frame is of no shape that is known: {type(exc).__name__}: {exc}") from exc


def _body(payloads: list[Payload]) -> Payload:
    for payload in payloads:
        if "error" in payload and ("type" not in payload or payload["type"] == "error"):
            raise _cannot(payload, "a stream that fails has no body that says the same")
    chunks = [payload for payload in payloads if isinstance(payload.get("choices"), list)]
    if chunks:
        return _chat(chunks)
    if any(str(payload.get("type")).startswith("response.") for payload in payloads):
        return _response(payloads)
    if any(payload.get("type") == "message_start" for payload in payloads):
        return _message(payloads)
    raise _cannot(payloads, "none of them is of an answer")


def _payload(event: SseEvent) -> Payload | None:
    try:
        value: object = json.loads(event.data)
    except ValueError:
        return None
    return cast("Payload", value) if isinstance(value, dict) else None


def _cannot(value: object, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(argument="events", value=value, problem=problem)


# Chat Completions -------------------------------------------------------------------------------------------------


def _chat(chunks: list[Payload]) -> Payload:
    body = {key: value for key, value in chunks[0].items() if key not in ("choices", "usage")}
    body["object"] = "chat.completion"
    choices: dict[int, Payload] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            index = choice.get("index", 0)
            whole = choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
            _add_delta(whole["message"], choice.get("delta") or {})
            whole["finish_reason"] = choice.get("finish_reason") or whole["finish_reason"]
    body["choices"] = [_whole_choice(choice) for _, choice in sorted(choices.items())]
    usage = next((chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage")), None)
    return body if usage is None else {**body, "usage": usage}


def _add_delta(message: Payload, delta: Payload) -> None:
    for key, value in delta.items():
        if key == "tool_calls":
            _add_calls(message.setdefault("tool_calls", {}), value)
        elif isinstance(value, list):
            message.setdefault(key, []).extend(value)
        elif isinstance(value, str) and key != "role":
            message[key] = (message.get(key) or "") + value
        elif value is not None or key not in message:
            message[key] = value


def _add_calls(calls: dict[int, Payload], fragments: Iterable[Payload]) -> None:
    for fragment in fragments:
        function: Payload = fragment.get("function") or {}
        call = calls.setdefault(
            fragment.get("index", 0),
            {"id": None, "type": "function", "function": {"name": "", "arguments": ""}},
        )
        call["id"] = fragment.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


def _whole_choice(choice: Payload) -> Payload:
    said = choice["message"]
    message: Payload = {"role": said.pop("role", "assistant"), "content": said.pop("content", None)}
    calls: dict[int, Payload] = said.pop("tool_calls", {})
    message |= {key: value for key, value in said.items() if value is not None}
    if calls:
        message["tool_calls"] = [call for _, call in sorted(calls.items())]
    return {**choice, "message": message}


# Responses --------------------------------------------------------------------------------------------------------


def _response(payloads: list[Payload]) -> Payload:
    for payload in payloads:
        if payload.get("type") in _RESPONSE_ENDS:
            return dict(payload["response"])
    raise _cannot([payload.get("type") for payload in payloads], "a response that does not end has no body")


# Messages ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Message:
    """A message that grows."""

    head: Payload = field(default_factory=dict[str, Any])
    end: Payload = field(default_factory=lambda: {"stop_reason": None, "stop_sequence": None})
    usage: Payload = field(default_factory=dict[str, Any])
    blocks: dict[int, Payload] = field(default_factory=dict[int, Payload])
    inputs: dict[int, str] = field(default_factory=dict[int, str])

    def add(self, payload: Payload) -> None:
        match payload.get("type"):
            case "message_start":
                self.head = {key: value for key, value in payload["message"].items() if key not in _LATE}
                self.usage = dict(payload["message"].get("usage") or {})
            case "content_block_start":
                self.blocks[payload["index"]] = dict(payload["content_block"])
            case "content_block_delta":
                self._add_delta(payload["index"], payload["delta"])
            case "message_delta":
                self.end |= payload["delta"]
                self.usage |= payload.get("usage") or {}
            case _:
                pass

    def _add_delta(self, index: int, delta: Payload) -> None:
        block, kind = self.blocks.setdefault(index, {}), str(delta.get("type"))
        if kind == "input_json_delta":
            self.inputs[index] = self.inputs.get(index, "") + delta["partial_json"]
        elif kind == "citations_delta":
            block.setdefault("citations", []).append(delta["citation"])
        elif kind in _GROWS:
            block[_GROWS[kind]] = block.get(_GROWS[kind], "") + delta[_GROWS[kind]]

    def whole(self) -> Payload:
        for index, text in self.inputs.items():
            self.blocks[index]["input"] = tool_input(text)
        content = [block for _, block in sorted(self.blocks.items())]
        return {**self.head, "content": content, **self.end, "usage": self.usage}


def _message(payloads: list[Payload]) -> Payload:
    message = _Message()
    for payload in payloads:
        message.add(payload)
    return message.whole()


_LATE = ("content", "stop_reason", "stop_sequence", "usage")
_GROWS: Mapping[str, str] = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
