"""The ids of a harness: `msg-1`, `msg-2`, …, so that a test can write down what it expects (G-19).

An id that a message has already, seeded or sent, is left out: a fresh message under it would be taken for the old one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CountedIds"]


class CountedIds:
    """Makes `msg-1`, `msg-2`, and so on."""

    __slots__ = ("_numbers", "_taken")

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._taken: set[str] = set()

    def __call__(self) -> str:
        """Return the next id that is not taken."""
        return next(made for made in (f"msg-{number}" for number in self._numbers) if made not in self._taken)

    def take(self, messages: Iterable[Any]) -> None:
        """Take the ids of these messages (objects, or dicts in wire form) as given out."""
        for message in messages:
            is_dict = isinstance(message, dict)
            taken = cast("dict[str, Any]", message).get("id") if is_dict else getattr(message, "id", None)
            if isinstance(taken, str):
                self._taken.add(taken)
