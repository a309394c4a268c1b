"""Ids: the one seam through which the runtime makes them up.

A generator is a plain callable, so that a test can hand in a counter and read stable ids.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable

__all__ = ["IdGenerator", "random_id"]

IdGenerator = Callable[[], str]
"""Makes a fresh id at each call; it must not repeat one within a session."""

_ALPHABET = string.ascii_letters + string.digits


def random_id() -> str:
    """Return a random id of 16 letters and digits (95 bits), fit for messages, approvals and calls."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(16))
