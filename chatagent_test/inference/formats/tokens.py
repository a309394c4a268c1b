"""What an answer took: usage in the shape of each endpoint, and estimates of it (7.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from chatagent.model import InputTokens, OutputTokens, Usage
from chatagent_test.inference.endpoints import InferenceEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chatagent_test.inference.formats.items import Said

__all__ = ["UsageFrame", "UsageSource", "estimate_tokens", "estimate_usage", "usage_wire", "wants_usage"]

UsageSource: TypeAlias = Usage | Literal["default", "estimate"]
"""Where the numbers come from: a test, the fixed ones of the rules, or the lengths of the texts."""

UsageFrame: TypeAlias = Literal["always", "requested"]
"""When a streamed chat completion tells its usage: always, or if `stream_options.include_usage` asks for it."""

_CHARACTERS_A_TOKEN = 4
_PROMPT = ("messages", "input", "system", "instructions", "tools")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: one for every four characters, rounded up."""
    return -(-len(text) // _CHARACTERS_A_TOKEN)


def estimate_usage(request: Mapping[str, object], said: Sequence[Said]) -> Usage:
    """Return about what an answer took, from the texts of the request and of the answer."""
    prompt = sum(len(text) for key in _PROMPT for text in _texts(request.get(key)))
    made = sum(estimate_tokens(item.text) for item in said)
    return Usage(
        input_tokens=InputTokens(total=-(-prompt // _CHARACTERS_A_TOKEN)),
        output_tokens=OutputTokens(total=made),
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _texts(each)


def wants_usage(request: Mapping[str, object]) -> bool:
    """Return whether a chat request asks that its stream tells the usage."""
    options = request.get("stream_options")
    return isinstance(options, dict) and cast("dict[str, Any]", options).get("include_usage") is True


def usage_wire(endpoint: InferenceEndpoint, usage: Usage) -> dict[str, object]:
    """Return a usage as an endpoint tells it; counts that are unknown are 0, details that are unknown are left out."""
    given, made = usage.input_tokens, usage.output_tokens
    prompt, completion = given.total or 0, made.total or 0
    if endpoint is InferenceEndpoint.MESSAGES:
        read, written = given.cache_read or 0, given.cache_write or 0
        return {
            # Here the total is what is left beside the cache.
            "input_tokens": prompt - read - written if prompt >= read + written else prompt,
            "output_tokens": completion,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
        }
    total = prompt + completion
    if endpoint is InferenceEndpoint.RESPONSES:
        return {
            "input_tokens": prompt,
            "output_tokens": completion,
            "total_tokens": total,
            "input_tokens_details": {"cached_tokens": given.cache_read or 0},
            "output_tokens_details": {"reasoning_tokens": made.reasoning or 0},
        }
    wire: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    if given.cache_read is not None:
        wire["prompt_tokens_details"] = {"cached_tokens": given.cache_read}
    if made.reasoning is not None:
        wire["completion_tokens_details"] = {"reasoning_tokens": made.reasoning}
    return wire
