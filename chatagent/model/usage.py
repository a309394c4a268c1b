"""Token usage: nested, as a model reports it, and flat, as users of `stream_text` see it.

A model reports a `Usage`, any count of which may be missing. Users see a `LanguageModelUsage`, and sums of them over
the steps of a call. A count that nobody reported is `None`, which is not 0, and absent on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

__all__ = [
    "InputTokenDetails",
    "InputTokens",
    "LanguageModelUsage",
    "OutputTokenDetails",
    "OutputTokens",
    "Usage",
    "add_usage",
    "flatten_usage",
    "parse_usage",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokens:
    """Tokens of the prompt, as a model reports them."""

    total: int | None = None
    no_cache: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokens:
    """Tokens that the model wrote, as it reports them."""

    total: int | None = None
    text: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token usage of one model call, as the model reports it (rule 1.7)."""

    input_tokens: InputTokens = field(default_factory=InputTokens)
    output_tokens: OutputTokens = field(default_factory=OutputTokens)
    raw: object = None
    """The provider's own record, unchanged; `None` if it gave none."""

    def to_wire(self) -> dict[str, object]:
        """Return the nested wire form; a missing count is absent."""
        given, made = self.input_tokens, self.output_tokens
        return {
            "inputTokens": _present(
                total=given.total, noCache=given.no_cache, cacheRead=given.cache_read, cacheWrite=given.cache_write
            ),
            "outputTokens": _present(total=made.total, text=made.text, reasoning=made.reasoning),
            **_present(raw=self.raw),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokenDetails:
    """How the tokens of the prompt divide."""

    no_cache_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokenDetails:
    """How the tokens that the model wrote divide."""

    text_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelUsage:
    """Token usage of a step, or of all steps of a call together (rule 1.9).

    Made without arguments it is the null usage: it changes nothing when added to another.
    """

    input_tokens: int | None = None
    input_token_details: InputTokenDetails = field(default_factory=InputTokenDetails)
    output_tokens: int | None = None
    output_token_details: OutputTokenDetails = field(default_factory=OutputTokenDetails)
    total_tokens: int | None = None
    raw: object = None
    """The provider's own record; `None` if it gave none, and in a sum of several."""

    def __add__(self, other: LanguageModelUsage) -> LanguageModelUsage:
        """Return both together, field by field."""
        return add_usage(self, other)

    def to_wire(self) -> dict[str, object]:
        """Return the wire form; a missing count is absent, the details are always there."""
        given, made = self.input_token_details, self.output_token_details
        return {
            **_present(inputTokens=self.input_tokens),
            "inputTokenDetails": _present(
                noCacheTokens=given.no_cache_tokens,
                cacheReadTokens=given.cache_read_tokens,
                cacheWriteTokens=given.cache_write_tokens,
            ),
            **_present(outputTokens=self.output_tokens),
            "outputTokenDetails": _present(textTokens=made.text_tokens, reasoningTokens=made.reasoning_tokens),
            **_present(totalTokens=self.total_tokens, raw=self.raw),
        }


_NULL_USAGE = LanguageModelUsage()


def flatten_usage(usage: Usage) -> LanguageModelUsage:
    """Return a model's usage as users see it; the total is input and output together."""
    given, made = usage.input_tokens, usage.output_tokens
    return LanguageModelUsage(
        input_tokens=given.total,
        input_token_details=InputTokenDetails(
            no_cache_tokens=given.no_cache, cache_read_tokens=given.cache_read, cache_write_tokens=given.cache_write
        ),
        output_tokens=made.total,
        output_token_details=OutputTokenDetails(text_tokens=made.text, reasoning_tokens=made.reasoning),
        total_tokens=_add(given.total, made.total),
        raw=usage.raw,
    )


def add_usage(first: LanguageModelUsage, second: LanguageModelUsage) -> LanguageModelUsage:
    """Return two usages together: a count missing in one counts 0, missing in both it stays missing.

    The provider's record survives only if the other usage is the null usage, since two records do not add up.
    """
    if first == _NULL_USAGE:
        return second
    if second == _NULL_USAGE:
        return first
    given, more_given = first.input_token_details, second.input_token_details
    made, more_made = first.output_token_details, second.output_token_details
    return LanguageModelUsage(
        input_tokens=_add(first.input_tokens, second.input_tokens),
        input_token_details=InputTokenDetails(
            no_cache_tokens=_add(given.no_cache_tokens, more_given.no_cache_tokens),
            cache_read_tokens=_add(given.cache_read_tokens, more_given.cache_read_tokens),
            cache_write_tokens=_add(given.cache_write_tokens, more_given.cache_write_tokens),
        ),
        output_tokens=_add(first.output_tokens, second.output_tokens),
        output_token_details=OutputTokenDetails(
            text_tokens=_add(made.text_tokens, more_made.text_tokens),
            reasoning_tokens=_add(made.reasoning_tokens, more_made.reasoning_tokens),
        ),
        total_tokens=_add(first.total_tokens, second.total_tokens),
    )


def parse_usage(wire: object) -> Usage:
    """Read a model's usage from its nested wire form; a count that is missing or no whole number becomes `None`."""
    source = _mapping(wire)
    given, made = _mapping(source.get("inputTokens")), _mapping(source.get("outputTokens"))
    return Usage(
        input_tokens=InputTokens(
            total=_count(given, "total"),
            no_cache=_count(given, "noCache"),
            cache_read=_count(given, "cacheRead"),
            cache_write=_count(given, "cacheWrite"),
        ),
        output_tokens=OutputTokens(
            total=_count(made, "total"), text=_count(made, "text"), reasoning=_count(made, "reasoning")
        ),
        raw=source.get("raw"),
    )


def _add(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


def _present(**fields: object) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value is not None}


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _count(source: Mapping[str, object], key: str) -> int | None:
    value = source.get(key)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
