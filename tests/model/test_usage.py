"""Token usage: flattening, sums, wire forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chatagent.model import (
    InputTokenDetails,
    LanguageModelUsage,
    OutputTokenDetails,
    add_usage,
    flatten_usage,
    parse_usage,
)

COUNTS = st.none() | st.integers(min_value=0, max_value=2**60)
USAGES = st.builds(
    LanguageModelUsage,
    input_tokens=COUNTS,
    input_token_details=st.builds(
        InputTokenDetails, no_cache_tokens=COUNTS, cache_read_tokens=COUNTS, cache_write_tokens=COUNTS
    ),
    output_tokens=COUNTS,
    output_token_details=st.builds(OutputTokenDetails, text_tokens=COUNTS, reasoning_tokens=COUNTS),
    total_tokens=COUNTS,
)


def test_the_null_usage_is_two_empty_details_on_the_wire() -> None:
    assert LanguageModelUsage().to_wire() == {"inputTokenDetails": {}, "outputTokenDetails": {}}


def test_a_models_usage_is_flattened_with_its_total() -> None:
    usage = parse_usage(
        {
            "inputTokens": {"total": 100, "noCache": 20, "cacheRead": 70, "cacheWrite": 10},
            "outputTokens": {"total": 30, "text": 10, "reasoning": 20},
            "raw": {"vendor": 1},
        }
    )

    flat = flatten_usage(usage)

    assert flat.to_wire() == {
        "inputTokens": 100,
        "inputTokenDetails": {"noCacheTokens": 20, "cacheReadTokens": 70, "cacheWriteTokens": 10},
        "outputTokens": 30,
        "outputTokenDetails": {"textTokens": 10, "reasoningTokens": 20},
        "totalTokens": 130,
        "raw": {"vendor": 1},
    }


def test_a_side_that_is_missing_counts_nothing_in_the_total() -> None:
    only_output = flatten_usage(parse_usage({"outputTokens": {"total": 7}}))
    nothing = flatten_usage(parse_usage({}))

    assert (only_output.total_tokens, nothing.total_tokens) == (7, None)


def test_a_count_missing_in_both_stays_missing_and_raw_records_do_not_add_up() -> None:
    first = flatten_usage(parse_usage({"inputTokens": {"total": 5, "cacheRead": 2}, "raw": {"a": 1}}))
    second = flatten_usage(parse_usage({"inputTokens": {"total": 11, "noCache": 4}, "raw": {"b": 2}}))

    both = first + second

    assert both.to_wire() == {
        "inputTokens": 16,
        "inputTokenDetails": {"noCacheTokens": 4, "cacheReadTokens": 2},
        "outputTokenDetails": {},
        "totalTokens": 16,
    }


def test_what_is_no_whole_number_is_no_count() -> None:
    usage = parse_usage({"inputTokens": {"total": "7", "noCache": True, "cacheRead": 3.0}, "outputTokens": 5})

    assert usage.to_wire() == {"inputTokens": {"cacheRead": 3}, "outputTokens": {}}


@given(USAGES)
def test_the_null_usage_changes_nothing(usage: LanguageModelUsage) -> None:
    assert add_usage(usage, LanguageModelUsage()) == usage == add_usage(LanguageModelUsage(), usage)


@given(USAGES, USAGES, USAGES)
def test_the_order_of_a_sum_does_not_matter(
    first: LanguageModelUsage, second: LanguageModelUsage, third: LanguageModelUsage
) -> None:
    assert (first + second) + third == first + (second + third)
    assert first + second == second + first
