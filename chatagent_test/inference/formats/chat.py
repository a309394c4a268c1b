"""Chat Completions: its events and bodies (4.1).

`ChatWriter` puts what is said into frames, in the order in which it is said; the builders are short scripts for it.
Both profiles are the same here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from chatagent_test.inference.compact import compact_json, json_string
from chatagent_test.inference.formats.items import (
    CREATED,
    Call,
    Calls,
    Fragments,
    Reasoning,
    Refusal,
    Said,
    Text,
    as_items,
    spaces_behind,
    spaces_in_front,
    words_behind,
    words_in_front,
)
from chatagent_test.inference.sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chatagent_test.inference.endpoints import Profile

__all__ = [
    "DONE",
    "ChatOptions",
    "ChatWriter",
    "chat_completion_events",
    "chat_completion_events_exact",
    "chat_completion_json",
    "chat_completion_script_exact",
    "chat_completions_reasoning_then_tool_call_events",
    "chat_error_event",
    "chat_json",
    "chat_reasoning_events",
    "chat_refusal_events",
    "chat_tool_call_events",
    "chat_usage",
]

DONE = SseEvent(None, "[DONE]")
"""The last frame of OpenAI's streams; it is no JSON."""


def chat_usage(completion: int, prompt: int = 10) -> dict[str, object]:
    """Return a usage object."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class ChatWriter:
    """Frames of one streamed completion.

    Args:
        model: the model's name.
        id: id of the completion.
        created: seconds since 1970.
    """

    def __init__(self, model: str, *, id: str = "chatcmpl-test", created: int = CREATED) -> None:
        self.frames: list[SseEvent] = []
        self._head = (
            f'{{"id":{json_string(id)},"object":"chat.completion.chunk","created":{created},'
            f'"model":{json_string(model)},"choices":['
        )
        self._needs_role = True
        self._calls = 0

    def add(self, item: Said) -> None:
        """Say something."""
        match item:
            case Text():
                self.text(item.deltas)
                if item.sources:
                    self._delta(f'"annotations":{compact_json(_annotations(item))}')
            case Reasoning():
                self.reasoning(item.deltas)
            case Refusal():
                self.refusal(item.deltas)
            case Call():
                self.calls([item])

    def text(self, deltas: Sequence[str], *, finish: str | None = None) -> None:
        """Say a text, the last delta of which carries the finish reason if there is one."""
        last = len(deltas) - 1
        for index, delta in enumerate(deltas):
            self._delta(f'"content":{json_string(delta)}', finish if index == last else None)

    def reasoning(self, deltas: Iterable[str], *, takes_role: bool = True) -> None:
        """Think, as providers do that extend the format."""
        for delta in deltas:
            self._delta(f'"reasoning_content":{json_string(delta)}', takes_role=takes_role)

    def refusal(self, deltas: Iterable[str]) -> None:
        """Refuse."""
        self._delta('"content":null,"refusal":""' if self._needs_role else '"refusal":""')
        for delta in deltas:
            self._delta(f'"refusal":{json_string(delta)}')

    def calls(self, calls: Sequence[Call], *, whole: bool = False) -> None:
        """Call tools: ids and names first, then fragments of the arguments; or all in one delta."""
        first = self._calls
        self._calls += len(calls)
        heads = [_call_head(index, call, call.text if whole else "") for index, call in enumerate(calls, first)]
        content = '"content":null,' if self._needs_role else ""
        self._delta(f'{content}"tool_calls":[{",".join(heads)}]')
        if whole:
            return
        for index, call in enumerate(calls, first):
            for delta in call.deltas:
                quoted = json_string(delta)
                self._delta(f'"tool_calls":[{{"index":{index},"function":{{"arguments":{quoted}}}}}]')

    def finish(self, reason: str, *, usage: object = None) -> None:
        """Say why it ends, in a delta of its own; `usage` rides on it."""
        self._delta('"content":null' if self._needs_role else "", reason, usage=usage)

    def usage(self, usage: object) -> None:
        """Say what it took, in a frame without choices; nothing if it is `None`."""
        if usage is not None:
            self.frames.append(SseEvent(None, f'{self._head}],"usage":{compact_json(usage, argument="usage")}}}'))

    def done(self) -> None:
        """Say that nothing more comes."""
        self.frames.append(DONE)

    def _delta(self, members: str, finish: str | None = None, *, takes_role: bool = True, usage: object = None) -> None:
        if self._needs_role and takes_role:
            self._needs_role = False
            members = f'"role":"assistant",{members}'
        reason = "null" if finish is None else json_string(finish)
        tail = "" if usage is None else f',"usage":{compact_json(usage, argument="usage")}'
        data = f'{self._head}{{"index":0,"delta":{{{members}}},"finish_reason":{reason}}}]{tail}}}'
        self.frames.append(SseEvent(None, data))


def _annotations(text: Text) -> list[dict[str, object]]:
    at = {"start_index": 0, "end_index": len(text.text)}
    pages = [{**at, "title": source.title, "url": source.url} for source in text.sources]
    return [{"type": "url_citation", "url_citation": page} for page in pages]


def _call_head(index: int, call: Call, arguments: str) -> str:
    function = f'{{"name":{json_string(call.name)},"arguments":{json_string(arguments)}}}'
    return f'{{"index":{index},"id":{json_string(call.call_id)},"type":"function","function":{function}}}'


def chat_json(
    items: Sequence[Said],
    model: str,
    *,
    finish_reason: str,
    usage: object,
    id: str = "chatcmpl-test",
    created: int = CREATED,
) -> dict[str, object]:
    """Return the body of an answer that is not streamed (4.5.1)."""
    texts = [item.text for item in items if isinstance(item, Text)]
    message: dict[str, object] = {"role": "assistant", "content": "".join(texts) if texts else None}
    for key, kind in (("refusal", Refusal), ("reasoning_content", Reasoning)):
        said = [item.text for item in items if isinstance(item, kind)]
        if said:
            message[key] = "".join(said)
    annotations = [each for item in items if isinstance(item, Text) for each in _annotations(item)]
    if annotations:
        message["annotations"] = annotations
    calls = [item for item in items if isinstance(item, Call)]
    if calls:
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
            for call in calls
        ]
    body: dict[str, object] = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
    }
    return body if usage is None else {**body, "usage": usage}


# Builders ---------------------------------------------------------------------------------------------------------


class ChatOptions(TypedDict, total=False):
    """What every builder of Chat Completions can be told."""

    finish_reason: str
    """Why it ends; `stop`, or `tool_calls` where tools are called, by default."""
    usage: Mapping[str, object] | Literal["default"] | None
    """The usage object; `None` leaves it out."""
    id: str
    created: int
    """Seconds since 1970."""
    profile: Profile
    """Without effect here: both are the same."""


class _Answer:
    """A completion that grows."""

    def __init__(
        self,
        model: str,
        default_reason: str,
        completion: int,
        *,
        finish_reason: str | None = None,
        usage: Mapping[str, object] | Literal["default"] | None = "default",
        id: str = "chatcmpl-test",
        created: int = CREATED,
        profile: Profile = "sdk",
    ) -> None:
        self.writer = ChatWriter(model, id=id, created=created)
        self.reason = default_reason if finish_reason is None else finish_reason
        self.usage = chat_usage(completion) if usage == "default" else usage

    def finished(self) -> list[SseEvent]:
        """Return the frames, with a finish and a usage of their own at the end."""
        self.writer.finish(self.reason)
        return self.ended()

    def ended(self) -> list[SseEvent]:
        """Return the frames, with a usage at the end."""
        self.writer.usage(self.usage)
        self.writer.done()
        return self.writer.frames


def chat_completion_events(text: str, model: str = "test-model", **options: Unpack[ChatOptions]) -> list[SseEvent]:
    """Return a text as an echo streams it: its words, with single spaces (4.1.1)."""
    return _text_events(words_in_front(text), model, options)


def chat_completion_events_exact(
    text: str, model: str = "test-model", **options: Unpack[ChatOptions]
) -> list[SseEvent]:
    """Return a text in deltas that make it up, whatever is in it (4.1.1)."""
    return _text_events(spaces_in_front(text), model, options)


chat_completion_script_exact = chat_completion_events_exact


def _text_events(deltas: list[str], model: str, options: ChatOptions) -> list[SseEvent]:
    answer = _Answer(model, "stop", len(deltas), **options)
    answer.writer.text(deltas, finish=answer.reason)
    return answer.ended()


def chat_completion_json(
    text: str,
    model: str = "test-model",
    *,
    exact: bool = True,
    finish_reason: str = "stop",
    usage: Mapping[str, object] | Literal["default"] | None = "default",
    id: str = "chatcmpl-test",
    created: int = CREATED,
) -> dict[str, object]:
    """Return a text as a body that is not streamed; its usage is that of the streamed twin (4.5.1)."""
    deltas = spaces_in_front(text) if exact else words_in_front(text)
    took = chat_usage(len(deltas)) if usage == "default" else usage
    said = [Text(text, deltas)]
    return chat_json(said, model, finish_reason=finish_reason, usage=took, id=id, created=created)


def chat_reasoning_events(
    reasoning: str, model: str = "test-model", *, text: str | None = None, **options: Unpack[ChatOptions]
) -> list[SseEvent]:
    """Return a thought, and a text behind it if there is one (4.1.3)."""
    thought = words_behind(reasoning)
    deltas = [] if text is None else spaces_in_front(text)
    answer = _Answer(model, "stop", len(thought) + len(deltas), **options)
    answer.writer.reasoning(thought)
    answer.writer.text(deltas)
    return answer.finished()


def chat_refusal_events(refusal: str, model: str = "test-model", **options: Unpack[ChatOptions]) -> list[SseEvent]:
    """Return a refusal (4.1.3)."""
    deltas = spaces_behind(refusal)
    answer = _Answer(model, "stop", len(deltas), **options)
    answer.writer.refusal(deltas)
    return answer.finished()


def chat_tool_call_events(
    calls: Calls,
    model: str = "test-model",
    *,
    fragments: Fragments = None,
    **options: Unpack[ChatOptions],
) -> list[SseEvent]:
    """Return tool calls: id and name of each first, with empty arguments, then fragments of the arguments (4.1.3).

    Args:
        calls: the calls, or id, name and arguments of each.
        model: the model's name.
        fragments: characters a fragment, or a list of fragments for each call.
        options: see `ChatOptions`.
    """
    items = as_items(calls, fragments)
    answer = _Answer(model, "tool_calls", 10 + 10 * len(items), **options)
    answer.writer.calls(items)
    return answer.finished()


def chat_completions_reasoning_then_tool_call_events(
    reasoning: str,
    call_id: str,
    name: str,
    arguments: object,
    model: str = "test-model",
    **options: Unpack[ChatOptions],
) -> list[SseEvent]:
    """Return a thought and one tool call in a single delta; the usage rides on the finish (4.1.2)."""
    answer = _Answer(model, "tool_calls", 20, **options)
    answer.writer.reasoning(words_behind(reasoning), takes_role=False)
    answer.writer.calls([Call(call_id, name, arguments)], whole=True)
    answer.writer.finish(answer.reason, usage=answer.usage)
    answer.writer.done()
    return answer.writer.frames


def chat_error_event(message: str, *, type: str = "server_error", code: str | None = None) -> SseEvent:
    """Return the frame with which a stream says in its midst that it fails: an object with a top-level `error`."""
    return SseEvent.of({"error": {"message": message, "type": type, "param": None, "code": code}})
