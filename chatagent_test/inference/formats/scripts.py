"""Scripts, for whichever endpoint asks, streamed or not (7.9).

The same script drives a model double; what a model says there, the SDK of a provider reads here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats.answers import requested_model
from chatagent_test.inference.formats.chat import ChatWriter, chat_error_event, chat_json
from chatagent_test.inference.formats.failures import error_response, error_type
from chatagent_test.inference.formats.messages import MessagesWriter, messages_error_event, messages_json
from chatagent_test.inference.formats.responses import ResponseStatus, ResponsesWriter, responses_json
from chatagent_test.inference.formats.script_items import End, Failure, Play, failure_of, items_of, played
from chatagent_test.inference.formats.tokens import estimate_usage, usage_wire, wants_usage
from chatagent_test.inference.scripted import FrameWait, JsonBody, RawBody, ScriptedResponse, SseBody
from chatagent_test.scripting.render import DEFAULT_USAGE, IdCounter
from chatagent_test.scripting.steps import BreaksStep, HangStep, HoldStep, PauseStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chatagent.model import FinishReason
    from chatagent_test.inference.endpoints import Profile
    from chatagent_test.inference.formats.items import Said
    from chatagent_test.inference.formats.tokens import UsageFrame, UsageSource
    from chatagent_test.inference.sse import SseEvent
    from chatagent_test.scripting import Script

__all__ = ["check_script", "script_response"]

_CHAT_REASONS = {"content-filter": "content_filter", "tool-calls": "tool_calls"}
_MESSAGES_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content-filter": "refusal",
    "tool-calls": "tool_use",
}
_RESPONSES_REASONS = {"length": "max_output_tokens", "content-filter": "content_filter"}
_FAILED = {"code": "server_error", "message": "the script ends with an error"}


def check_script(script: Script, endpoints: Iterable[InferenceEndpoint] = InferenceEndpoint) -> None:
    """Make sure that a script can be rendered, before anybody asks for it.

    Raises:
        InvalidArgumentError: it says something that the formats cannot; the error names it.
    """
    for endpoint in endpoints:
        for streams in (True, False):
            script_response(endpoint, script, {}, streams=streams, ids=IdCounter())


def script_response(
    endpoint: InferenceEndpoint,
    script: Script,
    request: Mapping[str, object],
    *,
    streams: bool,
    ids: IdCounter,
    profile: Profile = "sdk",
    usage: UsageSource = "default",
    usage_frame: UsageFrame = "always",
) -> ScriptedResponse:
    """Return the answer that a script stands for.

    Args:
        endpoint: in whose format.
        script: what the model says.
        request: the body that asks.
        streams: whether it comes as events; as one JSON body otherwise, in front of which all waits come.
        ids: gives the ids of calls that the script gives none.
        profile: which frames are sent.
        usage: the numbers that are told if the script tells none: 10 tokens each way by default.
        usage_frame: when a streamed chat completion tells its usage.

    Raises:
        InvalidArgumentError: the script says something that the formats cannot.
    """
    failure = script.fails
    if failure is not None:
        return _failed(endpoint, failure_of(failure), [*_waits(script.steps)])
    said = played(script, ids)
    took = _usage(endpoint, said, request, usage)
    if not streams:
        return _whole(endpoint, said, request, took, profile)
    tells_usage = usage_frame == "always" or wants_usage(request)
    return _streamed(_VOICES[endpoint](requested_model(request), profile, took, tells_usage), said)


def _usage(
    endpoint: InferenceEndpoint, said: list[Play], request: Mapping[str, object], source: UsageSource
) -> dict[str, object]:
    told = next((each.usage for each in said if isinstance(each, End) and each.usage is not None), None)
    if told is None:
        told = DEFAULT_USAGE if source == "default" else source
    if told == "estimate":
        told = estimate_usage(request, list(items_of(said)))
    return usage_wire(endpoint, told)


def _waits(steps: Iterable[object]) -> list[PauseStep | HoldStep | HangStep]:
    return [step for step in steps if isinstance(step, PauseStep | HoldStep | HangStep)]


def _failed(
    endpoint: InferenceEndpoint, failure: Failure, waits: list[PauseStep | HoldStep | HangStep]
) -> ScriptedResponse:
    status = failure.status if failure.status is not None and 400 <= failure.status <= 599 else 500
    response = error_response(endpoint, status, failure.message)
    headers = {} if failure.retry_after is None else {"retry-after": failure.retry_after}
    response = response.with_headers(headers)
    return ScriptedResponse(response.status, response.headers, response.body, waits)


# In one piece -----------------------------------------------------------------------------------------------------


def _whole(
    endpoint: InferenceEndpoint,
    said: list[Play],
    request: Mapping[str, object],
    usage: Mapping[str, object],
    profile: Profile,
) -> ScriptedResponse:
    waits = _waits(said)
    for each in said:
        if isinstance(each, Failure):
            return _failed(endpoint, each, waits)
        if isinstance(each, BreaksStep):
            headers = (("content-type", "application/json"),)
            return ScriptedResponse(200, headers, RawBody("", "abort"), waits)
    ends = [each for each in said if isinstance(each, End)]
    body = _body(endpoint, list(items_of(said)), requested_model(request), ends[0] if ends else None, usage, profile)
    return ScriptedResponse(200, (), JsonBody(body), waits)


def _body(
    endpoint: InferenceEndpoint,
    items: list[Said],
    model: str,
    end: End | None,
    usage: Mapping[str, object],
    profile: Profile,
) -> dict[str, object]:
    match endpoint:
        case InferenceEndpoint.CHAT_COMPLETIONS:
            return chat_json(items, model, finish_reason=_chat_reason(end), usage=usage)
        case InferenceEndpoint.MESSAGES:
            return messages_json(items, model, stop_reason=_stop_reason(end), usage=usage)
        case InferenceEndpoint.RESPONSES:
            status, reason = _status(end)
            error = _FAILED if status == "failed" else None
            return responses_json(items, model, usage=usage, status=status, reason=reason, error=error, profile=profile)


def _chat_reason(end: End | None) -> str:
    return "stop" if end is None else _worded(end.reason, _CHAT_REASONS)


def _stop_reason(end: End | None) -> str:
    return "end_turn" if end is None else _worded(end.reason, _MESSAGES_REASONS)


def _worded(reason: FinishReason, words: Mapping[str, str]) -> str:
    return reason.raw or words.get(reason.unified, reason.unified)


def _status(end: End | None) -> tuple[ResponseStatus, str | None]:
    unified = "stop" if end is None else end.reason.unified
    if unified in _RESPONSES_REASONS:
        return "incomplete", _RESPONSES_REASONS[unified]
    if unified == "other":
        return "incomplete", end.reason.raw or "other" if end is not None else None
    return "failed" if unified == "error" else "completed", None


# In a stream ------------------------------------------------------------------------------------------------------


class _Voice(Protocol):
    """Says things in one of the formats."""

    @property
    def frames(self) -> list[SseEvent]: ...

    def begin(self) -> None: ...
    def add(self, item: Said) -> None: ...
    def fail(self, failure: Failure) -> None: ...
    def end(self, end: End) -> None: ...
    def close(self) -> None: ...


def _streamed(voice: _Voice, said: list[Play]) -> ScriptedResponse:
    waits: list[FrameWait] = []
    has_begun = False
    for each in said:
        if isinstance(each, BreaksStep):
            return ScriptedResponse(200, (), SseBody(voice.frames, "abort", waits=waits))
        if isinstance(each, HangStep):
            return ScriptedResponse(200, (), SseBody(voice.frames, "stall", waits=waits))
        if isinstance(each, PauseStep | HoldStep):
            waits.append(FrameWait(len(voice.frames), each))
            continue
        if not has_begun:
            voice.begin()
            has_begun = True
        _say(voice, each)
    voice.close()
    return ScriptedResponse(200, (), SseBody(voice.frames, waits=waits))


def _say(voice: _Voice, each: Said | Failure | End) -> None:
    match each:
        case Failure():
            voice.fail(each)
        case End():
            voice.end(each)
        case _:
            voice.add(each)


class _Chat:
    def __init__(self, model: str, profile: Profile, usage: Mapping[str, object], tells_usage: bool) -> None:  # noqa: FBT001
        self._writer = ChatWriter(model)
        self._usage = usage if tells_usage else None

    @property
    def frames(self) -> list[SseEvent]:
        return self._writer.frames

    def begin(self) -> None:
        pass

    def add(self, item: Said) -> None:
        self._writer.add(item)

    def fail(self, failure: Failure) -> None:
        kind = error_type(InferenceEndpoint.CHAT_COMPLETIONS, failure.status or 500)
        self.frames.append(chat_error_event(failure.message, type=kind))

    def end(self, end: End) -> None:
        self._writer.finish(_chat_reason(end))
        self._writer.usage(self._usage)

    def close(self) -> None:
        self._writer.done()


class _Responses:
    def __init__(self, model: str, profile: Profile, usage: Mapping[str, object], tells_usage: bool) -> None:  # noqa: FBT001
        self._writer = ResponsesWriter(model, profile=profile)
        self._usage = usage
        self._has_done = profile == "minimal"

    @property
    def frames(self) -> list[SseEvent]:
        return self._writer.frames

    def begin(self) -> None:
        self._writer.open()

    def add(self, item: Said) -> None:
        self._writer.add(item)

    def fail(self, failure: Failure) -> None:
        self._writer.error(failure.message, code="rate_limit_exceeded" if failure.status == 429 else "server_error")

    def end(self, end: End) -> None:
        status, reason = _status(end)
        error = _FAILED if status == "failed" else None
        self._writer.finish(status, usage=self._usage, reason=reason, error=error)

    def close(self) -> None:
        if self._has_done:
            self._writer.done()


class _Messages:
    def __init__(self, model: str, profile: Profile, usage: Mapping[str, object], tells_usage: bool) -> None:  # noqa: FBT001
        self._writer = MessagesWriter(model, profile=profile)
        self._usage = usage

    @property
    def frames(self) -> list[SseEvent]:
        return self._writer.frames

    def begin(self) -> None:
        self._writer.open(self._usage)

    def add(self, item: Said) -> None:
        self._writer.add(item)

    def fail(self, failure: Failure) -> None:
        kind = error_type(InferenceEndpoint.MESSAGES, failure.status or 500)
        self._writer.insert(messages_error_event(kind, failure.message))

    def end(self, end: End) -> None:
        self._writer.finish(_stop_reason(end), self._usage)

    def close(self) -> None:
        pass


_VOICES = {
    InferenceEndpoint.CHAT_COMPLETIONS: _Chat,
    InferenceEndpoint.RESPONSES: _Responses,
    InferenceEndpoint.MESSAGES: _Messages,
}
