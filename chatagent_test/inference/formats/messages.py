"""Messages: its events and bodies (4.3).

`MessagesWriter` puts what is said into blocks; the builders are short scripts for it. In the `sdk` profile every frame
has its name, without which the SDK drops it; the `minimal` profile has none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from chatagent_test.inference.compact import compact_json, json_string
from chatagent_test.inference.formats.items import (
    Call,
    Calls,
    Fragments,
    Reasoning,
    Refusal,
    Said,
    Text,
    as_items,
    spaces_behind,
)
from chatagent_test.inference.sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent_test.inference.endpoints import Profile

__all__ = [
    "MessagesOptions",
    "MessagesWriter",
    "messages_api_events",
    "messages_api_events_exact",
    "messages_api_json",
    "messages_api_script_exact",
    "messages_error_event",
    "messages_json",
    "messages_ping",
    "messages_redacted_thinking_events",
    "messages_thinking_events",
    "messages_tool_use_events",
    "messages_usage",
    "tool_input",
]

_CACHE = ("cache_creation_input_tokens", "cache_read_input_tokens")


def messages_usage(
    output: int = 5, *, input: int = 10, cache_creation: int = 0, cache_read: int = 0
) -> dict[str, object]:
    """Return the usage object of a whole message."""
    return {
        "input_tokens": input,
        "output_tokens": output,
        **dict(zip(_CACHE, (cache_creation, cache_read), strict=True)),
    }


class MessagesWriter:
    """Frames of one streamed message.

    Args:
        model: the model's name.
        profile: which frames are written.
        id: id of the message.
    """

    def __init__(self, model: str, *, profile: Profile = "sdk", id: str = "msg_test") -> None:
        self.frames: list[SseEvent] = []
        self._is_full = profile == "sdk"
        self._head: dict[str, object] = {"id": id, "type": "message", "role": "assistant", "content": []}
        self._head["model"] = model
        self._blocks = 0

    def open(self, usage: Mapping[str, object]) -> None:
        """Say that a message begins, and what its input took.

        Args:
            usage: the usage object of the whole message.
        """
        first = {"input_tokens": usage.get("input_tokens", 0), "output_tokens": 0}
        first = {**first, **{key: usage.get(key, 0) for key in _CACHE}}
        message = {**self._head, "stop_reason": None, **self._no_sequence(), "usage": first}
        self._event("message_start", {"message": message})

    def add(self, item: Said) -> None:
        """Say something: a block of its own. A refusal is a text here; the stop reason tells it apart."""
        match item:
            case Text() | Refusal():
                cited = [f'"type":"citations_delta","citation":{compact_json(each)}' for each in _citations(item)]
                self._block({"type": "text", "text": ""}, "text_delta", "text", item.deltas, cited)
            case Reasoning():
                thought = {"type": "thinking", "thinking": "", "signature": ""}
                signature = f'"type":"signature_delta","signature":{json_string(item.signature)}'
                self._block(thought, "thinking_delta", "thinking", item.deltas, [signature])
            case Call():
                start: dict[str, object] = {"type": "tool_use", "id": item.call_id, "name": item.name, "input": {}}
                self._block(start, "input_json_delta", "partial_json", item.deltas)

    def redacted(self, data: str) -> None:
        """Think behind closed doors: the block comes whole."""
        self._block({"type": "redacted_thinking", "data": data}, "", "", ())

    def insert(self, event: SseEvent) -> None:
        """Put in a frame as it is."""
        self.frames.append(event)

    def finish(self, stop_reason: str, usage: Mapping[str, object], *, stop_sequence: str | None = None) -> None:
        """Say why the message ends and what it took.

        Args:
            stop_reason: why.
            usage: the usage object of the whole message; its members overwrite those of the beginning.
            stop_sequence: what was come upon, if that is why.
        """
        told = {"output_tokens": usage.get("output_tokens", 0), "input_tokens": usage.get("input_tokens", 0)}
        told = {**told, **{key: usage[key] for key in _CACHE if usage.get(key)}}
        rest = {key: value for key, value in usage.items() if key not in ("output_tokens", "input_tokens", *_CACHE)}
        reason: dict[str, object] = {"stop_reason": stop_reason, **self._no_sequence()}
        if stop_sequence is not None:
            reason["stop_sequence"] = stop_sequence
        self._event("message_delta", {"delta": reason, "usage": {**told, **rest}})
        self._event("message_stop", {})

    def _no_sequence(self) -> dict[str, object]:
        return {"stop_sequence": None} if self._is_full else {}

    def _block(
        self, start: Mapping[str, object], kind: str, key: str, deltas: Sequence[str], more: Sequence[str] = ()
    ) -> None:
        index = self._blocks
        self._blocks += 1
        self._event("content_block_start", {"index": index, "content_block": start})
        name = "content_block_delta"
        head = f'{{"type":"{name}","index":{index},"delta":{{'
        members = [f'"type":"{kind}","{key}":{json_string(delta)}' for delta in deltas]
        for member in (*members, *more):
            self.frames.append(SseEvent(name if self._is_full else None, f"{head}{member}}}}}"))
        self._event("content_block_stop", {"index": index})

    def _event(self, kind: str, members: Mapping[str, object]) -> None:
        data = compact_json({"type": kind, **members})
        self.frames.append(SseEvent(kind if self._is_full else None, data))


def messages_json(
    items: Sequence[Said],
    model: str,
    *,
    stop_reason: str,
    usage: Mapping[str, object],
    stop_sequence: str | None = None,
    id: str = "msg_test",
) -> dict[str, object]:
    """Return the body of an answer that is not streamed (4.5.3)."""
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_whole(item) for item in items],
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": dict(usage),
    }


def _whole(item: Said) -> dict[str, Any]:
    match item:
        case Text() | Refusal():
            citations = _citations(item)
            return {"type": "text", "text": item.text, **({"citations": citations} if citations else {})}
        case Reasoning():
            return {"type": "thinking", "thinking": item.text, "signature": item.signature}
        case Call():
            return {"type": "tool_use", "id": item.call_id, "name": item.name, "input": tool_input(item.text)}


def _citations(said: Text | Refusal) -> list[dict[str, object]]:
    if isinstance(said, Refusal):
        return []
    cited: dict[str, object] = {"type": "web_search_result_location", "cited_text": "", "encrypted_index": ""}
    return [{**cited, "title": source.title, "url": source.url} for source in said.sources]


def tool_input(text: str) -> object:
    """Return the input that a call's JSON text stands for.

    No text at all is an empty object. A text that is no JSON stays a text: what is not streamed cannot hold a broken
    input otherwise.
    """
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


# Builders ---------------------------------------------------------------------------------------------------------


class MessagesOptions(TypedDict, total=False):
    """What every builder of Messages can be told."""

    usage: Mapping[str, object] | Literal["default"]
    """The usage object of the whole message."""
    id: str
    stop_sequence: str
    profile: Profile
    """`sdk` by default; `minimal` gives frames without names."""


def _events(
    items: Sequence[Said],
    model: str,
    stop_reason: str,
    *,
    usage: Mapping[str, object] | Literal["default"] = "default",
    id: str = "msg_test",
    stop_sequence: str | None = None,
    profile: Profile = "sdk",
    redacted: str | None = None,
) -> list[SseEvent]:
    took = messages_usage() if usage == "default" else usage
    writer = MessagesWriter(model, profile=profile, id=id)
    writer.open(took)
    if redacted is not None:
        writer.redacted(redacted)
    for item in items:
        writer.add(item)
    writer.finish(stop_reason, took, stop_sequence=stop_sequence)
    return writer.frames


def messages_api_events(
    text: str,
    model: str = "test-model",
    stop_reason: str = "end_turn",
    **options: Unpack[MessagesOptions],
) -> list[SseEvent]:
    """Return a text, in one delta, so that it arrives as it is (4.3.1).

    Args:
        text: what is said.
        model: the model's name.
        stop_reason: why it ends; any word passes through the SDK.
        options: see `MessagesOptions`.
    """
    return _events([Text(text, (text,))], model, stop_reason, **options)


messages_api_events_exact = messages_api_events
messages_api_script_exact = messages_api_events


def messages_api_json(
    text: str,
    model: str = "test-model",
    stop_reason: str = "end_turn",
    *,
    usage: Mapping[str, object] | Literal["default"] = "default",
    id: str = "msg_test",
    stop_sequence: str | None = None,
) -> dict[str, object]:
    """Return a text as a body that is not streamed (4.5.3)."""
    took = messages_usage() if usage == "default" else usage
    said = [Text(text, (text,))]
    return messages_json(said, model, stop_reason=stop_reason, usage=took, stop_sequence=stop_sequence, id=id)


def messages_tool_use_events(
    calls: Calls,
    model: str = "test-model",
    text: str | None = None,
    *,
    fragments: Fragments = None,
    stop_reason: str = "tool_use",
    **options: Unpack[MessagesOptions],
) -> list[SseEvent]:
    """Return tool calls, behind a text if there is one (4.3.3).

    Args:
        calls: the calls, or id, name and arguments of each; one without arguments has no delta.
        model: the model's name.
        text: what is said first.
        fragments: characters a fragment, or a list of fragments for each call.
        stop_reason: why it ends.
        options: see `MessagesOptions`.
    """
    said: list[Said] = [] if text is None else [Text(text, (text,))]
    return _events([*said, *as_items(calls, fragments)], model, stop_reason, **options)


def messages_thinking_events(
    thinking: str,
    text: str | None = None,
    signature: str = "c2ln",
    *,
    model: str = "test-model",
    stop_reason: str = "end_turn",
    **options: Unpack[MessagesOptions],
) -> list[SseEvent]:
    """Return a thought with its signature, and a text behind it if there is one (4.3.3)."""
    said: list[Said] = [Reasoning(thinking, spaces_behind(thinking), signature)]
    said += [] if text is None else [Text(text, (text,))]
    return _events(said, model, stop_reason, **options)


def messages_redacted_thinking_events(
    data: str,
    text: str,
    *,
    model: str = "test-model",
    stop_reason: str = "end_turn",
    **options: Unpack[MessagesOptions],
) -> list[SseEvent]:
    """Return a thought that nobody may read, and a text behind it (4.3.3)."""
    return _events([Text(text, (text,))], model, stop_reason, redacted=data, **options)


def messages_error_event(type: str, message: str) -> SseEvent:
    """Return the event with which a stream says in its midst that it fails."""
    return SseEvent.named("error", {"type": "error", "error": {"type": type, "message": message}})


def messages_ping() -> SseEvent:
    """Return the event that says nothing but that the stream lives."""
    return SseEvent.named("ping", {"type": "ping"})
