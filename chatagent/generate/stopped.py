"""How the loop is unwound from wherever it stands."""

from __future__ import annotations

__all__ = ["Stopped"]


class Stopped(BaseException):
    """The call was aborted, or nobody reads it any more; for the loop alone.

    Not an `Exception`, so that no user code in between takes it for an error of its own.
    """
