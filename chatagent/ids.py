"""Ids: the one seam through which the runtime makes them up.

A generator is a plain callable, so that a test can hand in a counter and read stable ids.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

__all__ = ["IdGenerator", "random_id"]

IdGenerator = Callable[[], str]
"""Makes a fresh id at each call; it must not repeat one within a session."""


def random_id() -> str:
    """Return a random id of 16 characters that are safe in URLs (96 bits), fit for messages, approvals and calls."""
    return secrets.token_urlsafe(12)
