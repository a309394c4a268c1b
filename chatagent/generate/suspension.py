"""Questions that a tool asks the client while it runs: declared with the tool, asked through its options (MP-17).

Asking ends the run of the tool: the call stays open, like one of a client's tool. With the answer the tool runs again
from its beginning, and the question that was answered returns the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic_core import to_jsonable_python

from chatagent.current import current_run
from chatagent.errors import ChatContextError, InvalidArgumentError
from chatagent.ui import UNSET, problem_of, schema_parser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.ui import ValueSchema

__all__ = ["Suspend", "ToolSuspendedSignal", "ask"]


@dataclass(frozen=True, slots=True)
class Suspend:
    """A question that a tool may ask.

    Args:
        input: what the question shows: a type, a `TypeAdapter`, a JSON schema, or a function that parses.
        resume: what answers it, likewise.
    """

    input: ValueSchema | None = None
    resume: ValueSchema | None = None


class ToolSuspendedSignal(BaseException):
    """Ends the run of a tool that has asked something. No error: a tool's `except Exception` lets it pass."""


class _AsksClients(Protocol):
    """A run that can ask clients."""

    def answers_of(self, tool_call_id: str) -> Mapping[str, object]:
        """Return the answers to the questions of a call, by the questions' names."""
        ...

    def ask_client(self, tool_call_id: str, name: str, shown: object) -> None:
        """Let the call wait for an answer."""
        ...


def ask(suspends: Mapping[str, Suspend], tool_call_id: str, name: str, shown: object) -> Any:
    """Return the answer to a question, or ask it.

    Args:
        suspends: the questions that the tool has declared.
        tool_call_id: the call.
        name: which question.
        shown: what it shows.

    Raises:
        ToolSuspendedSignal: it was asked now.
        InvalidArgumentError: no such question was declared, or what it shows or its answer does not fit.
        ChatContextError: there is no run whose client could answer.
    """
    declared = suspends.get(name)
    if declared is None:
        known = ", ".join(suspends) or "none"
        raise InvalidArgumentError(argument="name", value=name, problem=f"the tool declares no such question; {known}")
    run = current_run.get()
    if run is None or not hasattr(run, "ask_client"):
        raise ChatContextError("options.suspend")
    client = cast("_AsksClients", run)
    answer = client.answers_of(tool_call_id).get(name, UNSET)
    if answer is not UNSET:
        return _parsed(declared.resume, answer, "answer")
    plain = to_jsonable_python(shown, by_alias=True)
    _parsed(declared.input, plain, "input")
    client.ask_client(tool_call_id, name, plain)
    raise ToolSuspendedSignal


def _parsed(schema: ValueSchema | None, value: object, argument: str) -> Any:
    if schema is None:
        return value
    try:
        return schema_parser(schema)(value)
    except Exception as exc:  # a schema may be any function
        raise InvalidArgumentError(argument=argument, value=value, problem=problem_of(exc)) from exc
