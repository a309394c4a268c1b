"""The errors of the service itself; what clients are told is in `chatagent.protocol`.

```text
ChatAgentError
├── ServiceLoopError               the service runs in another event loop (RuntimeError)
├── ServiceStateError              the service is not open (RuntimeError)
└── ThreadStoreBusyError           another service is open on the store of threads (RuntimeError)
```
"""

from __future__ import annotations

from chatagent.errors import ChatAgentError

__all__ = ["ServiceLoopError", "ServiceStateError", "ThreadStoreBusyError"]


class ServiceLoopError(ChatAgentError, RuntimeError):
    """A service was used from another event loop than the one that it was opened in; nothing was done."""

    def __init__(self, *, operation: str) -> None:
        super().__init__(
            f"{operation}: the service was opened in another event loop, and its answers would wake nobody here; use "
            "it in that loop, from another thread by way of anyio.from_thread"
        )
        self.operation = operation


class ServiceStateError(ChatAgentError, RuntimeError):
    """The service is not open; nothing was done."""

    def __init__(self, *, operation: str) -> None:
        super().__init__(
            f"{operation}: the service is not open; use it, or the client that was made with it, inside `async with`"
        )
        self.operation = operation


class ThreadStoreBusyError(ChatAgentError, RuntimeError):
    """A store of threads is another service's; neither was changed."""

    def __init__(self) -> None:
        super().__init__(
            "another service is open on this store of threads, and two would number its events twice; close that one "
            "first, or give each a store of its own"
        )
