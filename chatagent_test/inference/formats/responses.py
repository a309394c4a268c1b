"""Responses: the frames of its streams, written one thing said after the other (4.2).

`ResponsesWriter` writes both profiles. `minimal` has deltas alone between the first and the last event; `sdk` opens and
closes every item, as the stream helper of the SDK demands, and names its frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from chatagent_test.inference.compact import compact_json, json_string
from chatagent_test.inference.formats.chat import DONE
from chatagent_test.inference.formats.items import CREATED, Call, Reasoning, Refusal, Said, Text
from chatagent_test.inference.sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent_test.inference.endpoints import Profile

__all__ = ["ResponseStatus", "ResponsesWriter", "responses_json", "responses_usage"]

Item = dict[str, Any]

ResponseStatus = Literal["completed", "incomplete", "failed"]

_EXTRAS_FRONT: dict[str, object] = {"error": None, "incomplete_details": None}
_EXTRAS: dict[str, object] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}


def responses_usage(output: int = 5, *, reasoning: int = 0, input: int = 10, cached: int = 0) -> dict[str, object]:
    """Return a usage object."""
    return {
        "input_tokens": input,
        "output_tokens": output,
        "total_tokens": input + output,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }


class ResponsesWriter:
    """Frames of one streamed response.

    Args:
        model: the model's name.
        profile: which frames are written.
        id: id of the response.
        created: seconds since 1970.
        item_id: id of the message; that of text deltas in the `minimal` profile, where the two differ by default.
        reasoning_id: id of the first reasoning item.
        call_item_id: id of the first call's item.
    """

    def __init__(
        self,
        model: str,
        *,
        profile: Profile = "sdk",
        id: str = "resp_test",
        created: int = CREATED,
        item_id: str | None = None,
        reasoning_id: str = "reasoning_item_1",
        call_item_id: str = "fc_1",
    ) -> None:
        self.frames: list[SseEvent] = []
        self.output: list[Item] = []
        self._is_full = profile == "sdk"
        self._base: dict[str, object] = {"id": id, "object": "response", "created_at": created, "model": model}
        self._delta_id = item_id or ("msg_test" if self._is_full else "item_test")
        self._ids = {"message": item_id or "msg_test", "reasoning": reasoning_id, "function_call": call_item_id}
        self._sequence = 0

    def open(self) -> None:
        """Say that a response begins."""
        begun = self._response("in_progress", [])
        self._event("response.created", {"response": begun})
        if self._is_full:
            self._event("response.in_progress", {"response": begun})

    def add(self, item: Said) -> None:
        """Say something: an item of its own."""
        match item:
            case Text():
                part: Item = {"type": "output_text", "text": "", "annotations": []}
                self._message("output_text", "text", part, item)
            case Refusal():
                self._message("refusal", "refusal", {"type": "refusal", "refusal": ""}, item)
            case Reasoning():
                self._reasoning(item)
            case Call():
                self._call(item)

    def insert(self, event: SseEvent) -> None:
        """Put in a frame as it is."""
        self.frames.append(event)

    def finish(
        self,
        status: ResponseStatus = "completed",
        *,
        usage: object,
        reason: str | None = None,
        error: Mapping[str, object] | None = None,
        extra: Mapping[str, object] | None = None,
        renumber: bool = True,
    ) -> None:
        """Say that the response ends.

        Args:
            status: how.
            usage: the usage object; `None` leaves it out.
            reason: why it is incomplete.
            error: why it failed.
            extra: more members of the response object.
            renumber: whether frames put in have taken a number.
        """
        response = self.ended(status, usage, reason, error, extra)
        if renumber:
            self._sequence = len(self.frames)
        self._event(f"response.{status}", {"response": response})

    def ended(
        self,
        status: ResponseStatus,
        usage: object,
        reason: str | None = None,
        error: Mapping[str, object] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Item:
        """Return the response object of the end; arguments as for `finish`."""
        extras: dict[str, object] = {} if error is None else {"error": dict(error)}
        if reason is not None:
            extras["incomplete_details"] = {"reason": reason}
        output = self.output
        if status == "incomplete" and output and "status" in output[-1]:
            output = [*output[:-1], {**output[-1], "status": "incomplete"}]
        response = self._response(status, output, **extras)
        if usage is not None:
            response["usage"] = usage
        return {**response, **(extra or {})}

    def done(self) -> None:
        """Say that nothing more comes."""
        self.frames.append(DONE)

    def error(self, message: str, *, code: str = "server_error") -> None:
        """Say that the stream fails, in the flat event of its own."""
        self._event("error", {"code": code, "message": message, "param": None})

    # Items ----------------------------------------------------------------------------------------------------------

    def _message(self, kind: str, key: str, part: Item, said: Text | Refusal) -> None:
        index, item_id = self._next("message")
        delta_id = self._delta_id if item_id == self._ids["message"] else item_id
        done = {**part, key: said.text}
        annotations = _annotations(said)
        if annotations:
            done["annotations"] = annotations
        item: Item = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [done]}
        at = {"item_id": delta_id, "output_index": index, "content_index": 0}
        self._opened(index, {**item, "status": "in_progress", "content": []})
        self._full("response.content_part.added", {**at, "part": part})
        # Of texts alone do providers tell the probabilities.
        logs: Item = {"logprobs": []} if kind == "output_text" and self._is_full else {}
        self._deltas(f"response.{kind}.delta", at, said.deltas, logs)
        for number, annotation in enumerate(annotations):
            told = {**at, "annotation_index": number, "annotation": annotation}
            self._full("response.output_text.annotation.added", told)
        self._full(f"response.{kind}.done", {**at, key: said.text, **logs})
        self._full("response.content_part.done", {**at, "part": done})
        self._closed(index, item)

    def _reasoning(self, said: Reasoning) -> None:
        index, item_id = self._next("reasoning")
        part: Item = {"type": "summary_text", "text": ""}
        done = {**part, "text": said.text}
        item: Item = {"type": "reasoning", "id": item_id, "summary": [done], "status": "completed"}
        at = {"item_id": item_id, "output_index": index, "summary_index": 0}
        self._opened(index, {**item, "summary": [], "status": "in_progress"})
        self._full("response.reasoning_summary_part.added", {**at, "part": part})
        self._deltas("response.reasoning_summary_text.delta", at, said.deltas)
        self._full("response.reasoning_summary_text.done", {**at, "text": said.text})
        self._full("response.reasoning_summary_part.done", {**at, "part": done})
        self._closed(index, item)

    def _call(self, call: Call) -> None:
        index, item_id = self._next("function_call")
        item: Item = {"type": "function_call", "id": item_id, "call_id": call.call_id, "name": call.name}
        item = {**item, "arguments": call.text, "status": "completed"}
        if not self._is_full:
            item_id = call.call_id
            item = {key: value for key, value in item.items() if key not in ("id", "status")}
        at = {"item_id": item_id, "output_index": index}
        self._opened(index, {**item, "arguments": "", "status": "in_progress"})
        self._deltas("response.function_call_arguments.delta", at, call.deltas)
        self._full("response.function_call_arguments.done", {**at, "arguments": call.text, "name": call.name})
        self._closed(index, item)

    def _next(self, kind: str) -> tuple[int, str]:
        """Return index and id of the next item; a second one of its kind counts on from the first."""
        before = sum(item["type"] == kind for item in self.output)
        return len(self.output), self._ids[kind] if before == 0 else _counted(self._ids[kind], before)

    def _opened(self, index: int, item: Item) -> None:
        self._full("response.output_item.added", {"output_index": index, "item": item})

    def _closed(self, index: int, item: Item) -> None:
        self._full("response.output_item.done", {"output_index": index, "item": item})
        self.output.append(item)

    # Frames ---------------------------------------------------------------------------------------------------------

    def _full(self, kind: str, members: Mapping[str, object]) -> None:
        if self._is_full:
            self._event(kind, members)

    def _event(self, kind: str, members: Mapping[str, object]) -> None:
        data = compact_json({"type": kind, "sequence_number": self._sequence, **members})
        self._sequence += 1
        self.frames.append(SseEvent(kind if self._is_full else None, data))

    def _deltas(self, kind: str, at: Mapping[str, object], deltas: Sequence[str], rest: Item | None = None) -> None:
        name = kind if self._is_full else None
        head = f'{{"type":"{kind}","sequence_number":'
        where = f",{compact_json(at)[1:-1]},"
        tail = "," + compact_json(rest)[1:] if rest else "}"
        for number, delta in enumerate(deltas, self._sequence):
            self.frames.append(SseEvent(name, f'{head}{number}{where}"delta":{json_string(delta)}{tail}'))
        self._sequence += len(deltas)

    def _response(self, status: str, output: list[Item], **extras: object) -> Item:
        response = {**self._base, "status": status, "output": output}
        return {**response, **_EXTRAS_FRONT, **extras, **_EXTRAS} if self._is_full else {**response, **extras}


def _annotations(said: Text | Refusal) -> list[Item]:
    if isinstance(said, Refusal):
        return []
    at = {"start_index": 0, "end_index": len(said.text)}
    return [{"type": "url_citation", **at, "title": source.title, "url": source.url} for source in said.sources]


def _counted(first: str, before: int) -> str:
    """Return the id of a later item: `fc_1` is followed by `fc_2`, `msg_test` by `msg_test_2`."""
    stem, _, number = first.rpartition("_")
    return f"{stem}_{int(number) + before}" if number.isdigit() else f"{first}_{before + 1}"


def responses_json(
    items: Sequence[Said],
    model: str,
    *,
    usage: object,
    status: ResponseStatus = "completed",
    reason: str | None = None,
    error: Mapping[str, object] | None = None,
    profile: Profile = "sdk",
    id: str = "resp_test",
    created: int = CREATED,
) -> Item:
    """Return the body of an answer that is not streamed: the response object of the last frame (4.5.2)."""
    writer = ResponsesWriter(model, profile=profile, id=id, created=created)
    for item in items:
        writer.add(item)
    return writer.ended(status, usage, reason, error)
