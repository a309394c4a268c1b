"""Answers for whichever endpoint asks, streamed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from chatagent.model import Usage
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats.chat import (
    chat_completion_events,
    chat_completion_events_exact,
    chat_completion_json,
)
from chatagent_test.inference.formats.items import Text
from chatagent_test.inference.formats.messages import messages_api_events, messages_api_json
from chatagent_test.inference.formats.responses_builders import (
    responses_api_events,
    responses_api_events_exact,
    responses_api_json,
)
from chatagent_test.inference.formats.tokens import estimate_usage, usage_wire, wants_usage
from chatagent_test.inference.scripted import ScriptedResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent_test.inference.endpoints import Profile
    from chatagent_test.inference.formats.tokens import UsageFrame, UsageSource
    from chatagent_test.inference.sse import SseEvent

__all__ = ["requested_model", "text_response"]


def requested_model(request: Mapping[str, object]) -> str:
    """Return the model that an answer names: the one that was asked for, else `test-model` (1.6.4)."""
    model = request.get("model")
    return model if isinstance(model, str) else "test-model"


def text_response(
    endpoint: InferenceEndpoint,
    text: str,
    request: Mapping[str, object],
    *,
    streams: bool,
    exact: bool = True,
    profile: Profile = "sdk",
    stop_reason: str = "end_turn",
    usage: UsageSource = "default",
    usage_frame: UsageFrame = "always",
) -> ScriptedResponse:
    """Return an answer that says a text.

    Args:
        endpoint: in whose format.
        text: what is said.
        request: the body that asks, from which come the model's name and whether usage is wanted.
        streams: whether it comes as events; as one JSON body otherwise.
        exact: whether the deltas make up the text; an echo collapses white space instead, but in Messages.
        profile: which frames are sent.
        stop_reason: why it ends, in Messages.
        usage: the numbers that it tells.
        usage_frame: when a streamed chat completion tells them.
    """
    if usage == "estimate":
        usage = estimate_usage(request, [Text(text, ())])
    wire: Mapping[str, object] | Literal["default"]
    wire = usage_wire(endpoint, usage) if isinstance(usage, Usage) else "default"
    model = requested_model(request)
    if not streams:
        return ScriptedResponse.json(200, _whole(endpoint, text, model, wire, exact=exact, stop_reason=stop_reason))
    frames: list[SseEvent]
    match endpoint:
        case InferenceEndpoint.CHAT_COMPLETIONS:
            chat = chat_completion_events_exact if exact else chat_completion_events
            tells = usage_frame == "always" or wants_usage(request)
            frames = chat(text, model, usage=wire if tells else None)
        case InferenceEndpoint.RESPONSES:
            responses = responses_api_events_exact if exact else responses_api_events
            frames = responses(text, model, usage=wire, profile=profile)
        case InferenceEndpoint.MESSAGES:
            frames = messages_api_events(text, model, stop_reason, usage=wire, profile=profile)
    return ScriptedResponse.sse(frames)


def _whole(
    endpoint: InferenceEndpoint,
    text: str,
    model: str,
    usage: Mapping[str, object] | Literal["default"],
    *,
    exact: bool,
    stop_reason: str,
) -> dict[str, object]:
    match endpoint:
        case InferenceEndpoint.CHAT_COMPLETIONS:
            return chat_completion_json(text, model, exact=exact, usage=usage)
        case InferenceEndpoint.RESPONSES:
            return responses_api_json(text, model, usage=usage)
        case InferenceEndpoint.MESSAGES:
            return messages_api_json(text, model, stop_reason, usage=usage)
