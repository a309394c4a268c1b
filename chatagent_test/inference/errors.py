"""What goes wrong around a mock inference server.

```text
ChatAgentError
├── ServerClosedError                 the server is closed, or closed during a wait
├── ServerNotStartedError             the server listens to no port
├── DuplicateExpectationError         an expectation of that name is still in use (ValueError)
├── OriginTakenError                  two interceptions of one origin at a time (ValueError)
├── UnservedPathError                 nothing would ever serve a queue at that path (ValueError)
├── ExpectationError                  an expectation that was not met (AssertionError)
├── InferenceTimeoutError             a wait for a request or an expectation took too long (AssertionError)
├── StrictInferenceError              what a strict server saw and did not expect (AssertionError)
└── UnexpectedBodiesError             requests that are not those that a test expects (AssertionError)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import ChatAgentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "DuplicateExpectationError",
    "ExpectationError",
    "InferenceTimeoutError",
    "OriginTakenError",
    "ServerClosedError",
    "ServerNotStartedError",
    "StrictInferenceError",
    "UnexpectedBodiesError",
    "UnservedPathError",
]


class ServerClosedError(ChatAgentError):
    """The server is closed, or was closed while somebody waited."""

    def __init__(self, *, waited_for: str | None = None) -> None:
        super().__init__(
            "the mock inference server is closed" + (f"; waited for: {waited_for}" if waited_for is not None else "")
        )
        self.waited_for = waited_for


class ServerNotStartedError(ChatAgentError):
    """The server listens to no port, so it has no URL."""

    def __init__(self) -> None:
        super().__init__(
            "the mock inference server has no port: enter it (`async with MockInferenceServer() as server`), "
            "or reach it without one through `server.transport()` or `server.app`"
        )


class DuplicateExpectationError(ChatAgentError, ValueError):
    """An expectation of that name is pending or being answered; nothing was registered."""

    def __init__(self, *, name: str) -> None:
        super().__init__(f"duplicate inference expectation name `{name}`")
        self.name = name


class OriginTakenError(ChatAgentError, ValueError):
    """Requests to an origin are led to another server already; nothing was changed."""

    def __init__(self, *, origin: str) -> None:
        super().__init__(f"requests to {origin} are intercepted already; leave that interception first")
        self.origin = origin


class UnservedPathError(ChatAgentError, ValueError):
    """No request would ever be answered from a queue at that path; nothing was queued."""

    def __init__(self, *, path: str, served: Sequence[str]) -> None:
        super().__init__(f"nothing serves queued responses at {path!r}; queues are at {', '.join(served)}")
        self.path, self.served = path, tuple(served)


class ExpectationError(ChatAgentError, AssertionError):
    """An expectation that was not met."""


class InferenceTimeoutError(ChatAgentError, AssertionError):
    """A wait took longer than its limit; what is waited for stays as it is."""

    def __init__(self, *, waited_for: str, timeout: float, log: str, held: Sequence[str] = ()) -> None:
        lines = [f"{waited_for}, after {timeout:g} s", *held, "requests:", log]
        super().__init__("\n".join(lines))
        self.waited_for, self.timeout, self.held = waited_for, timeout, tuple(held)


class StrictInferenceError(ChatAgentError, AssertionError):
    """A strict server was asked what no script answers, or was not asked what a script expects."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(("the mock inference server is strict:", *problems)))
        self.problems = tuple(problems)


class UnexpectedBodiesError(ChatAgentError, AssertionError):
    """The requests are not those that the test expects."""
