"""What a test may give as an answer: a scripted response, a script of what the model says, or a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.formats.scripts import check_script
from chatagent_test.inference.log import LogEntry
from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.inference.steps import Ask, Steps
from chatagent_test.scripting import Script

if TYPE_CHECKING:
    from chatagent_test.inference.endpoints import InferenceEndpoint

__all__ = ["Answer", "AnswerFunction", "Render", "Said", "checked_answers", "find_response"]

Said: TypeAlias = ScriptedResponse | Script
AnswerFunction: TypeAlias = Callable[[LogEntry], Said | Awaitable[Said]]
"""Gives the answer to a request; an async one runs on the server's own asyncio loop."""
Answer: TypeAlias = Said | AnswerFunction
Render: TypeAlias = Callable[[Script, LogEntry], ScriptedResponse]


def checked_answers(given: Answer | Sequence[Answer], endpoints: Iterable[InferenceEndpoint]) -> tuple[Answer, ...]:
    """Return the answers, one a call.

    Args:
        given: one answer, or a list of them.
        endpoints: where they may be asked for; none for routes that are no model's.

    Raises:
        InvalidArgumentError: there is none, one is something else, or a script says what no endpoint's format can.
    """
    rendered = tuple(endpoints)
    answers = tuple(cast("Sequence[Answer]", given)) if isinstance(given, list | tuple) else (cast("Answer", given),)
    if not answers:
        raise InvalidArgumentError(argument="response", value=answers, problem="give one answer at least")
    for answer in answers:
        if not isinstance(answer, ScriptedResponse | Script) and not callable(cast("object", answer)):
            problem = "give a ScriptedResponse, a script, or a function of the log entry that returns one"
            raise InvalidArgumentError(argument="response", value=answer, problem=problem)
        if isinstance(answer, Script):
            _check_script(answer, rendered)
    return answers


def _check_script(script: Script, endpoints: tuple[InferenceEndpoint, ...]) -> None:
    if not endpoints:
        problem = "a script says what a model answers; at a route that is no model's give a ScriptedResponse"
        raise InvalidArgumentError(argument="response", value=script, problem=problem)
    check_script(script, endpoints)


def find_response(answer: Answer, entry: LogEntry, render: Render) -> Steps[ScriptedResponse]:
    """Ask for the response to a request."""
    said: object = answer
    if not isinstance(answer, ScriptedResponse | Script):
        said = answer(entry)
        if inspect.isawaitable(said):
            said = yield Ask(said)
    if isinstance(said, Script):
        return render(said, entry)
    if isinstance(said, ScriptedResponse):
        return said
    name = getattr(answer, "__name__", repr(answer))
    problem = f"`{name}` must return a ScriptedResponse or a script"
    raise InvalidArgumentError(argument="response", value=said, problem=problem)
