"""Misuse of the test harness; it is here so that one tree holds all."""

from __future__ import annotations

from chatagent.errors.base import ChatAgentError, short


class HarnessError(ChatAgentError):
    """Misuse of the test harness."""


class AgentNotRegisteredError(HarnessError, LookupError):
    """What was given to the harness is no agent."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"no task registered with id {short(value)}: give the agent itself, "
            "the object that chat.agent(...) returned"
        )
        self.value = value


class AgentRunEndedError(HarnessError):
    """The agent's run is over, so nobody is left to answer; its cause is the run's own error, if it failed."""


class HarnessClosedError(HarnessError):
    """The harness is closed; nothing was queued."""


class HarnessModeError(HarnessError):
    """The call does not fit the mode in which the harness booted; nothing was queued."""


class HarnessStateError(HarnessError):
    """The call comes too late or too early; nothing was changed."""


class ScriptExhaustedError(HarnessError, LookupError):
    """The model was called more often than its script says; `so_far` tells what came of the calls before."""

    def __init__(self, *, call_number: int, entries: int, method: str, so_far: str = "") -> None:
        plural, calls = "entry" if entries == 1 else "entries", call_number + 1
        super().__init__(
            f"no scripted model call {calls}: `{method}` was called {calls} times, and the script has {entries} "
            f"{plural}; add one a call, or give one Script (or a function) that answers every call"
            + (f"\n{so_far}" if so_far else "")
        )
        self.call_number, self.entries, self.method = call_number, entries, method
