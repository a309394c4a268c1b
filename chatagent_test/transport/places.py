"""Where in the test something was said, for messages: the nearest line outside the mock."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

__all__ = ["calling_place"]

_HERE: Final = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "in_process"))


def calling_place() -> str:
    """Return `file.py:12` of the innermost caller that does not belong to the mock."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - the documented way to a caller's line
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
