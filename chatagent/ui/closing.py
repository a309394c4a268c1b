"""Closing a stream that somebody has stopped reading."""

from __future__ import annotations

import anyio

__all__ = ["close_stream"]

CLOSE_GRACE = 5.0
"""Real seconds that a stream has to close before it is left alone."""


async def close_stream(chunks: object) -> None:
    """Close a stream, if it can be closed; what hangs is left alone after a while."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        with anyio.move_on_after(CLOSE_GRACE, shield=True):
            await close()
