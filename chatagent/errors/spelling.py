"""What a misspelt name was meant to be, for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like this one; `None` if none does."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that there is not; empty if no known one looks like it."""
    meant = nearest(name, known)
    return "" if meant is None else f"; did you mean `{meant}`?"
