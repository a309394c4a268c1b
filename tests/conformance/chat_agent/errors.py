"""The errors that scenarios raise, and the one for scenarios that cannot be replayed yet."""

from __future__ import annotations

from chatagent.errors import AbortError


class UnsupportedScenarioError(NotImplementedError):
    """The scenario asks for something that the interpreter or the runtime does not have."""


class ScenarioError(Exception):
    """An error with the text that a scenario gave it."""


class _ScenarioAbortError(AbortError):
    """An abort error with the text that a scenario gave it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.args = (message,)


def scenario_error(message: str, name: str = "Error") -> Exception:
    """Return an error with a text, of a class of that name: the model layer shows the names of classes."""
    if name == "AbortError":
        return _ScenarioAbortError(message)
    return type(name, (ScenarioError,), {})(message)


def is_scenario_error(error: BaseException) -> bool:
    """Return whether a scenario asked for an error."""
    return isinstance(error, (ScenarioError, _ScenarioAbortError))
