"""The root of the errors, and those that any room may raise.

A class of this area says that it is at home in `chatagent.errors`, not in the module that holds it: that is the path
from which it is imported, and tracebacks, pickles and traces name it.
"""

from __future__ import annotations

from typing import Any


class ChatAgentError(Exception):
    """The root of all errors that this project raises."""

    __module__ = "chatagent.errors"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("chatagent.errors."):
            cls.__module__ = "chatagent.errors"


class InvalidArgumentError(ChatAgentError, ValueError):
    """An argument out of its range."""

    def __init__(self, *, argument: str, value: object, problem: str) -> None:
        super().__init__(f"`{argument}` is {short(value)}: {problem}")
        self.argument, self.value, self.problem = argument, value, problem


class MissingExtraError(ChatAgentError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: what could not be imported.
        extra: the extra of this package that brings it.
    """

    def __init__(self, *, package: str, extra: str) -> None:
        super().__init__(f'the package `{package}` is not installed: pip install "chatagent[{extra}]"')
        self.package, self.extra = package, extra


def short(value: object, limit: int = 200) -> str:
    """Show a value in a message, cut at `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
