"""Hypothesis strategies for the lives of threads: what clients and the backend do, one step at a time."""

from __future__ import annotations

from hypothesis import strategies as st

STEPS = st.lists(
    st.sampled_from(
        [
            "send",
            "text",
            "tool",
            "wait",
            "fail",
            "queue",
            "abort",
            "retry",
            "regenerate",
            "submit",
            "rename",
            "data",
            "delete",
        ]
    ),
    min_size=1,
    max_size=14,
)
"""Steps of a thread; those that are not possible at their moment are refused and change nothing."""
