"""Usage, finish reasons and times, as both OpenAI APIs tell them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

from chatagent.model import FinishReason, InputTokens, OutputTokens, Usage

if TYPE_CHECKING:
    from openai.types import CompletionUsage
    from openai.types.responses import ResponseUsage
    from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

    from chatagent.model import UnifiedFinishReason

__all__ = ["chat_finish_reason", "chat_usage", "created_at", "responses_finish_reason", "responses_usage"]

_CHAT_REASONS: Final[dict[str, UnifiedFinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
}
_INCOMPLETE_REASONS: Final[dict[str, UnifiedFinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content-filter",
}


def chat_finish_reason(raw: str, *, has_refused: bool) -> FinishReason:
    """Return why a model of the Chat Completions API stopped; a refusal counts as filtered content."""
    unified = "content-filter" if has_refused and raw == "stop" else _CHAT_REASONS.get(raw, "other")
    return FinishReason(unified, raw)


def responses_finish_reason(
    status: str | None, incomplete: str | None, *, has_calls: bool, has_refused: bool
) -> FinishReason:
    """Return why a model of the Responses API stopped.

    Args:
        status: the status of the response.
        incomplete: why the response is incomplete; `None` if it is not.
        has_calls: whether it calls a function of ours.
        has_refused: whether it holds a refusal.
    """
    if status == "incomplete" or incomplete is not None:
        return FinishReason(_INCOMPLETE_REASONS.get(incomplete or "", "other"), incomplete or status)
    if status == "failed":
        return FinishReason("error", status)
    if has_calls:
        return FinishReason("tool-calls", status)
    return FinishReason("content-filter" if has_refused else "stop", status)


def chat_usage(usage: CompletionUsage | None) -> Usage:
    """Return the usage of a chat completion; details that a server leaves out stay unknown."""
    if usage is None:
        return Usage()
    given, made = usage.prompt_tokens_details, usage.completion_tokens_details
    return _usage(
        total_input=usage.prompt_tokens,
        cached=given and given.cached_tokens,
        written=given and given.cache_write_tokens,
        total_output=usage.completion_tokens,
        reasoning=made and made.reasoning_tokens,
        raw=usage.to_dict(mode="json"),
    )


def responses_usage(usage: ResponseUsage | None) -> Usage:
    """Return the usage of a response; details that a server leaves out stay unknown."""
    if usage is None:
        return Usage()
    given = cast("InputTokensDetails | None", usage.input_tokens_details)
    made = cast("OutputTokensDetails | None", usage.output_tokens_details)
    return _usage(
        total_input=usage.input_tokens,
        cached=given and given.cached_tokens,
        written=given and cast("int | None", given.cache_write_tokens),
        total_output=usage.output_tokens,
        reasoning=made and made.reasoning_tokens,
        raw=usage.to_dict(mode="json"),
    )


def created_at(seconds: float | None) -> datetime | None:
    """Return the instant that an API gives in seconds since 1970; `None` if it gives none."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _usage(
    *,
    total_input: int | None,
    cached: int | None,
    written: int | None,
    total_output: int | None,
    reasoning: int | None,
    raw: object,
) -> Usage:
    return Usage(
        input_tokens=InputTokens(
            total=total_input,
            no_cache=_rest(total_input, cached, written),
            cache_read=cached,
            cache_write=written,
        ),
        output_tokens=OutputTokens(total=total_output, text=_rest(total_output, reasoning), reasoning=reasoning),
        raw=raw,
    )


def _rest(total: int | None, part: int | None, more: int | None = None) -> int | None:
    """Return what a total leaves beside its parts; unknown if the first part is."""
    return None if total is None or part is None else total - part - (more or 0)
