"""The errors of the service itself; what clients are told is in `chatagent.protocol`.

```text
ChatAgentError
└── ServiceStateError              the service is not open (RuntimeError)
```
"""

from __future__ import annotations

from chatagent.errors import ChatAgentError

__all__ = ["ServiceStateError"]


class ServiceStateError(ChatAgentError, RuntimeError):
    """The service is not open; nothing was done."""

    def __init__(self, *, operation: str) -> None:
        super().__init__(f"{operation}: the service is not open; use it inside `async with AgentService(...)`")
        self.operation = operation
