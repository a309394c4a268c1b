"""The errors of the scripted backend: the test is wrong, not the code under test (rule MK-22).

```text
ChatAgentError, AssertionError
└── MockError
    ├── MockConfigError          an option of the mock that does not fit
    ├── SeedError                a seed that no backend could hold
    ├── ScriptError              a script that no agent could say, or that does not fit its run
    │   └── UnknownToolError     a tool that contract, manifest and registration do not know
    ├── ResponseNotStartedError  a streamed response was played before a run claimed it
    ├── ResponseEndedError       a streamed response was played after its end
    ├── ResponseDetachedError    a streamed response lost its place: cleared, reset, or its run was settled
    ├── NoActiveRunError         there is no run to settle
    └── UnusedScriptsError       the test ended with scripts that no run claimed
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import ChatAgentError, spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chatagent.protocol import Run

__all__ = [
    "MockConfigError",
    "MockError",
    "NoActiveRunError",
    "ResponseDetachedError",
    "ResponseEndedError",
    "ResponseNotStartedError",
    "ScriptError",
    "SeedError",
    "UnknownToolError",
    "UnusedScriptsError",
    "nearest",
]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest one, or those that there are."""
    names = sorted(known)
    meant = spelling.nearest(name, names)
    if meant is not None:
        return f"did you mean {meant!r}?"
    return f"there are {', '.join(names)}" if names else "there are none"


class MockError(ChatAgentError, AssertionError):
    """The test is wrong, not the code under test."""


class MockConfigError(MockError):
    """An option of the mock that does not fit."""


class SeedError(MockError):
    """A seed that no backend could hold; the store is as it was."""


class ScriptError(MockError):
    """A script that no agent could say, or one that does not fit the run that claimed it."""


class UnknownToolError(ScriptError):
    """A tool that contract, manifest and registration do not know."""

    def __init__(self, *, tool_name: str, where: str, known: Sequence[str]) -> None:
        super().__init__(
            f"{where}: no tool is called {tool_name!r}; {nearest(tool_name, known)}; a tool that no contract lists is "
            "registered with registered_tool_metadata={...}"
        )
        self.tool_name, self.where, self.known = tool_name, where, list(known)


class ResponseNotStartedError(MockError):
    """A streamed response was played before a run claimed it."""

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call}: no run has claimed this response yet; send first, or await "
            "response.wait_until_started() while another task sends"
        )
        self.call = call


class ResponseEndedError(MockError):
    """A streamed response was played after its end."""

    def __init__(self, call: str, how: str) -> None:
        super().__init__(f"{call}: the response has ended: {how}")
        self.call, self.how = call, how


class ResponseDetachedError(MockError):
    """A streamed response lost its place."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the streamed response is detached: {why}; make another with mock.responses.stream()")
        self.why = why


class NoActiveRunError(MockError):
    """There is no run to settle."""

    def __init__(self, *, thread_id: str, run_id: str | None, runs: Sequence[Run]) -> None:
        wanted = "no active run" if run_id is None else f"run {run_id!r} is not the active one"
        told = ", ".join(f"{run.run_id} ({run.status})" for run in runs) or "none"
        super().__init__(f"thread {thread_id!r}: {wanted}; its runs: {told}")
        self.thread_id, self.run_id = thread_id, run_id


class UnusedScriptsError(MockError):
    """The test ended with scripts that no run claimed, faults that no call met, or calls that nobody handled."""

    def __init__(self, unused: Sequence[str]) -> None:
        lines = "\n".join(f"  - {each}" for each in unused)
        super().__init__(
            f"{len(unused)} unused or unexpected at the end of the test:\n{lines}\n"
            "Send what claims the scripts, drop them with mock.responses.clear(), or pass strict=False"
        )
        self.unused = list(unused)
