"""What waits on a task's streams raise or return.

```text
InputStreamTimeoutError
└── StreamInputTimeoutError         nothing came on an input stream in time
```
"""

from __future__ import annotations

from chatagent.errors import InputStreamTimeoutError, WaitTimeoutError

__all__ = ["StreamInputTimeoutError"]


class StreamInputTimeoutError(InputStreamTimeoutError):
    """Nothing came on an input stream in time, or the stream was closed meanwhile."""

    def __init__(self, *, stream_id: str, timeout: float | None, closed: bool) -> None:
        why = "was closed before anything came" if closed else f"nothing came within {timeout} s"
        WaitTimeoutError.__init__(self, f"input stream {stream_id!r}: {why}")
        self.stream_id, self.timeout, self.closed = stream_id, timeout, closed
