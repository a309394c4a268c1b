"""Merging a message's metadata (rule 13.5)."""

from __future__ import annotations

from typing import Final, cast

__all__ = ["merge_metadata"]

_FORBIDDEN: Final = frozenset({"__proto__", "constructor", "prototype"})
"""Keys that reach for an object's prototype in JavaScript; a merge passes them over."""


def merge_metadata(base: object, update: object) -> object:
    """Return `base` with `update` merged in: objects deeply, everything else replaced. Neither is changed."""
    if not isinstance(base, dict) or not isinstance(update, dict):
        return update
    merged = dict(cast("dict[str, object]", base))
    for key, value in cast("dict[str, object]", update).items():
        if key in _FORBIDDEN:
            continue
        merged[key] = merge_metadata(merged[key], value) if key in merged else value
    return merged
