"""Responses: builders of whole answers (4.2.1 to 4.2.5), each a short list of what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

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
    words_behind,
)
from chatagent_test.inference.formats.responses import ResponsesWriter, responses_json, responses_usage
from chatagent_test.inference.sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent_test.inference.endpoints import Profile

__all__ = [
    "ResponsesOptions",
    "doom_loop_event",
    "responses_api_doom_loop_check_events",
    "responses_api_doom_loop_terminal_only_events",
    "responses_api_error_events",
    "responses_api_events",
    "responses_api_events_exact",
    "responses_api_failed_events",
    "responses_api_incomplete_events",
    "responses_api_json",
    "responses_api_reasoning_and_text_events",
    "responses_api_reasoning_only_events",
    "responses_api_reasoning_then_tool_call_events",
    "responses_api_refusal_events",
    "responses_api_script_exact",
    "responses_api_tool_call_events",
    "responses_api_with_doom_loop_frame",
]

_DOOM_LOOP = "response.doom_loop_check"


class ResponsesOptions(TypedDict, total=False):
    """What every builder of Responses can be told."""

    usage: Mapping[str, object] | Literal["default"] | None
    """The usage object; `None` leaves it out."""
    id: str
    created: int
    """Seconds since 1970."""
    item_id: str
    """Id of the item that the builder is about: the last one said."""
    profile: Profile
    """`sdk` by default; `minimal` gives deltas alone, without names."""
    done: bool
    """Whether `[DONE]` stands at the end: by default in the `minimal` profile only."""


class _Answer:
    """A response that grows; what it says last decides which item `item_id` is of."""

    def __init__(
        self,
        model: str,
        default_usage: Mapping[str, object],
        last: type[Said],
        *,
        usage: Mapping[str, object] | Literal["default"] | None = "default",
        id: str = "resp_test",
        created: int = CREATED,
        item_id: str | None = None,
        profile: Profile = "sdk",
        done: bool | None = None,
    ) -> None:
        ids = {} if item_id is None else {_ID_OF.get(last, "item_id"): item_id}
        self.writer = ResponsesWriter(model, profile=profile, id=id, created=created, **ids)
        self.usage = default_usage if usage == "default" else usage
        self.has_done = profile == "minimal" if done is None else done
        self.counts_frames = profile == "sdk"
        self.writer.open()

    def say(self, *items: Said) -> _Answer:
        for item in items:
            self.writer.add(item)
        return self

    def completed(self, extra: Mapping[str, object] | None = None) -> list[SseEvent]:
        self.writer.finish(usage=self.usage, extra=extra, renumber=self.counts_frames)
        return self.end()

    def end(self) -> list[SseEvent]:
        if self.has_done:
            self.writer.done()
        return self.writer.frames


_ID_OF: dict[type[Said], str] = {Reasoning: "reasoning_id", Call: "call_item_id"}


def responses_api_events(text: str, model: str = "test-model", **options: Unpack[ResponsesOptions]) -> list[SseEvent]:
    """Return a text as an echo streams it: its words, each with a space behind it, and the text itself at the end.

    That the two disagree is how it is meant (4.2.1).
    """
    return _Answer(model, responses_usage(), Text, **options).say(Text(text, words_behind(text))).completed()


def responses_api_events_exact(
    text: str, model: str = "test-model", **options: Unpack[ResponsesOptions]
) -> list[SseEvent]:
    """Return a text in deltas that make it up, whatever is in it."""
    return _Answer(model, responses_usage(), Text, **options).say(_exact(text)).completed()


responses_api_script_exact = responses_api_events_exact


def responses_api_json(
    text: str,
    model: str = "test-model",
    *,
    usage: Mapping[str, object] | Literal["default"] | None = "default",
    id: str = "resp_test",
    created: int = CREATED,
    profile: Profile = "sdk",
) -> dict[str, object]:
    """Return a text as a body that is not streamed (4.5.2)."""
    chosen = responses_usage() if usage == "default" else usage
    return responses_json([_exact(text)], model, usage=chosen, profile=profile, id=id, created=created)


def responses_api_reasoning_only_events(
    reasoning: str, model: str = "test-model", **options: Unpack[ResponsesOptions]
) -> list[SseEvent]:
    """Return a thought, and no message (4.2.3)."""
    usage = responses_usage(5, reasoning=5)
    return _Answer(model, usage, Reasoning, **options).say(_thought(reasoning)).completed()


def responses_api_reasoning_and_text_events(
    reasoning: str, text: str, model: str = "test-model", **options: Unpack[ResponsesOptions]
) -> list[SseEvent]:
    """Return a thought, then a text, which is cut as an echo is (4.2.3)."""
    return _reasoning_and_text(reasoning, text, model, options).completed()


def responses_api_reasoning_then_tool_call_events(
    reasoning: str,
    call_id: str,
    name: str,
    arguments: object,
    model: str = "test-model",
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return a thought, then a tool call with its arguments in one delta (4.2.3)."""
    answer = _Answer(model, responses_usage(20, reasoning=5), Call, **options)
    return answer.say(_thought(reasoning), Call(call_id, name, arguments)).completed()


def responses_api_tool_call_events(
    calls: Calls,
    model: str = "test-model",
    *,
    fragments: Fragments = None,
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return tool calls.

    Args:
        calls: the calls, or id, name and arguments of each.
        model: the model's name.
        fragments: characters a fragment, or a list of fragments for each call.
        options: see `ResponsesOptions`.
    """
    return _Answer(model, responses_usage(20), Call, **options).say(*as_items(calls, fragments)).completed()


def responses_api_refusal_events(
    refusal: str, model: str = "test-model", **options: Unpack[ResponsesOptions]
) -> list[SseEvent]:
    """Return a refusal."""
    said = Refusal(refusal, spaces_behind(refusal))
    return _Answer(model, responses_usage(), Refusal, **options).say(said).completed()


def responses_api_incomplete_events(
    text: str,
    reason: str = "max_output_tokens",
    model: str = "test-model",
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return a text that was cut short: by `max_output_tokens`, or by the `content_filter` (4.2.5)."""
    answer = _Answer(model, responses_usage(), Text, **options).say(_exact(text))
    answer.writer.finish("incomplete", usage=answer.usage, reason=reason)
    return answer.end()


def responses_api_failed_events(
    message: str,
    code: str = "server_error",
    model: str = "test-model",
    *,
    text: str | None = None,
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return an answer that fails at its end, with the reason inside the response (4.2.5)."""
    answer = _Answer(model, responses_usage(), Text, **options)
    if text is not None:
        answer.say(_exact(text))
    answer.writer.finish("failed", usage=answer.usage, error={"code": code, "message": message})
    return answer.end()


def responses_api_error_events(
    message: str,
    code: str = "server_error",
    model: str = "test-model",
    *,
    text: str | None = None,
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return an answer that breaks off with an error event of its own (4.2.5)."""
    answer = _Answer(model, responses_usage(), Text, **options)
    if text is not None:
        answer.say(_exact(text))
    answer.writer.error(message, code=code)
    return answer.end()


# Doom loops -------------------------------------------------------------------------------------------------------


def doom_loop_event(triggers: Sequence[str], sequence_number: int) -> SseEvent:
    """Return the named frame in which a vendor tells that its model runs in circles (4.2.4).

    Args:
        triggers: what was seen, as `KIND[:N]@CHANNEL`.
        sequence_number: number of the frame.
    """
    return SseEvent.named(_DOOM_LOOP, {"sequence_number": sequence_number, "type": _DOOM_LOOP, **_found(triggers)})


def responses_api_doom_loop_check_events(
    triggers: Sequence[str],
    reasoning: str,
    model: str = "test-model",
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return a thought, a doom-loop frame for each longer list of triggers, and all of them again at the end."""
    answer = _Answer(model, responses_usage(5, reasoning=5), Reasoning, **options).say(_thought(reasoning))
    for count in range(1, len(triggers) + 1):
        answer.writer.insert(doom_loop_event(triggers[:count], len(answer.writer.frames)))
    return answer.completed(_found(triggers))


def responses_api_doom_loop_terminal_only_events(
    triggers: Sequence[str],
    reasoning: str,
    text: str,
    model: str = "test-model",
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return a thought and a text, and the triggers at the end alone."""
    return _reasoning_and_text(reasoning, text, model, options).completed(_found(triggers))


def responses_api_with_doom_loop_frame(
    data: str,
    reasoning: str,
    text: str,
    model: str = "test-model",
    **options: Unpack[ResponsesOptions],
) -> list[SseEvent]:
    """Return a thought and a text, with one doom-loop frame behind the first; its data may be anything."""
    frames = _reasoning_and_text(reasoning, text, model, options).completed()
    return [frames[0], SseEvent(_DOOM_LOOP, data), *frames[1:]]


def _found(triggers: Sequence[str]) -> dict[str, object]:
    return {"doom_loop_check": {"triggers": list(triggers)}}


def _reasoning_and_text(reasoning: str, text: str, model: str, options: ResponsesOptions) -> _Answer:
    answer = _Answer(model, responses_usage(10, reasoning=5), Text, **options)
    return answer.say(_thought(reasoning), Text(text, words_behind(text)))


def _exact(text: str) -> Text:
    return Text(text, spaces_behind(text))


def _thought(reasoning: str) -> Reasoning:
    return Reasoning(reasoning, words_behind(reasoning))
