"""Makes the calls of the SDKs that a golden names, and tells what they read in the words of the goldens."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Heard", "acall", "call", "observation"]


@dataclass
class Heard:
    """What one call gave."""

    events: list[Any] = field(default_factory=list[Any])
    returned: Any = None
    final: Any = None
    error: BaseException | None = None


def _method(client: Any, name: str) -> Any:
    for part in name.split("."):
        client = getattr(client, part)
    return client


def _arguments(request: Mapping[str, Any], way: str) -> dict[str, Any]:
    return {key: value for key, value in request.items() if way != "stream" or key != "stream"}


def _final_of(stream: Any) -> Any:
    for name in ("get_final_completion", "get_final_response", "get_final_message"):
        if hasattr(stream, name):
            return getattr(stream, name)()
    raise AssertionError(stream)


def call(client: Any, name: str, request: Mapping[str, Any]) -> Heard:
    """Make a blocking call, such as `chat.completions.stream`."""
    heard, way = Heard(), name.rpartition(".")[2]
    try:
        if way == "list":
            heard.events = list(_method(client, name)())
        elif way == "stream":
            with _method(client, name)(**_arguments(request, way)) as stream:
                for event in stream:
                    heard.events.append(event)
                heard.final = _final_of(stream)
        elif request.get("stream"):
            with _method(client, name)(**request) as stream:
                for event in stream:
                    heard.events.append(event)
        else:
            heard.returned = _method(client, name)(**request)
    except Exception as error:  # noqa: BLE001 - what a call raises is what goldens record
        heard.error = error
    return heard


async def acall(client: Any, name: str, request: Mapping[str, Any]) -> Heard:
    """Make an async call."""
    heard, way = Heard(), name.rpartition(".")[2]
    try:
        if way == "list":
            heard.events = [item async for item in _method(client, name)()]
        elif way == "stream":
            async with _method(client, name)(**_arguments(request, way)) as stream:
                async for event in stream:
                    heard.events.append(event)
                heard.final = await _final_of(stream)
        elif request.get("stream"):
            async with await _method(client, name)(**request) as stream:
                async for event in stream:
                    heard.events.append(event)
        else:
            heard.returned = await _method(client, name)(**request)
    except Exception as error:  # noqa: BLE001 - what a call raises is what goldens record
        heard.error = error
    return heard


# In the words of the goldens --------------------------------------------------------------------------------------


def observation(heard: Heard, name: str) -> dict[str, Any]:
    """Return everything that a golden may record of a call."""
    kind, way = name.split(".")[0], name.rpartition(".")[2]
    if way == "list":
        return {"outcome": "ok", "items": [item.to_dict(mode="json") for item in heard.events]}
    said = {"types": runs(event.type for event in heard.events)} if way == "stream" or kind != "chat" else {}
    said |= READERS[kind](heard.events) if way == "create" else {}
    if heard.error is not None:
        told = {f"{key}_before_error" if key == "types" else key: value for key, value in said.items()}
        return {"outcome": "error", **_error(heard.error), "items_before_error": len(heard.events), **told}
    if heard.returned is not None:
        return {"outcome": "ok", "returned": _returned(heard.returned)}
    said["items"] = len(heard.events)
    if heard.final is not None:
        said["final_output" if kind == "responses" else "final"] = _final(heard.final, kind)
    return {"outcome": "ok", **said}


def runs(types: Iterable[str]) -> list[str]:
    counted = ((name, len(list(run))) for name, run in groupby(types))
    return [name if count == 1 else f"{name} x{count}" for name, count in counted]


def _error(error: BaseException) -> dict[str, Any]:
    response = getattr(error, "response", None)
    cause = error.__cause__
    return {
        "error_type": type(error).__name__,
        "message": str(error),
        "status_code": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
        "retry_after": response.headers.get("retry-after") if response is not None else None,
        "cause": type(cause).__name__ if cause is not None else None,
    }


def _returned(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return plain(value)
    return {"python_type": type(value).__name__, "value": value}


def plain(value: BaseModel) -> Any:
    return without_parsed(value.model_dump(mode="json", exclude_unset=True, exclude_none=True, warnings=False))


def without_parsed(value: Any) -> Any:
    """Leave out what the helpers work out from the rest."""
    if isinstance(value, dict):
        helpers = ("parsed", "parsed_arguments", "parsed_output")
        return {key: without_parsed(item) for key, item in value.items() if key not in helpers}
    return [without_parsed(item) for item in value] if isinstance(value, list) else value


def _final(final: Any, kind: str) -> Any:
    return plain(final)["output"] if kind == "responses" else plain(final)


def _chat(events: list[Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"text": "", "reasoning": "", "refusal": "", "finish_reason": None, "usage": None}
    calls: dict[int, dict[str, str]] = {}
    for event in events:
        said["usage"] = plain(event.usage) if event.usage else said["usage"]
        for choice in event.choices or ():
            said["finish_reason"] = choice.finish_reason or said["finish_reason"]
            if (delta := choice.delta) is None:
                continue
            said["text"] += delta.content or ""
            said["refusal"] += delta.refusal or ""
            said["reasoning"] += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or ():
                _add_call(calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""}), call)
    return {**said, "tool_calls": list(calls.values())}


def _add_call(known: dict[str, str], call: Any) -> None:
    known["id"] += call.id or ""
    if call.function is not None:
        known["name"] += call.function.name or ""
        known["arguments"] += call.function.arguments or ""


def _responses(events: list[Any]) -> dict[str, Any]:
    ends = [event.response for event in events if event.type in RESPONSE_ENDS]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    if not ends:
        return {"text": text}
    return {"text": text, "terminal_status": ends[-1].status, "output_text": ends[-1].output_text}


def _messages(events: list[Any]) -> dict[str, Any]:
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    reasons = [event.delta.stop_reason for event in events if event.type == "message_delta"]
    return {
        "text": "".join(delta.text for delta in deltas if delta.type == "text_delta"),
        "thinking": "".join(delta.thinking for delta in deltas if delta.type == "thinking_delta"),
        "tool_json": "".join(delta.partial_json for delta in deltas if delta.type == "input_json_delta"),
        "stop_reason": reasons[-1] if reasons else None,
    }


RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")

READERS = {"chat": _chat, "responses": _responses, "messages": _messages}
