"""Saying in messages what a script is: each step as the call that makes it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from chatagent_test.scripting.steps import PartsStep, ReasoningStep, TextStep, ToolCallStep

if TYPE_CHECKING:
    from chatagent_test.scripting.steps import Step

__all__ = ["as_written"]

_LONGEST = 60
"""Characters of one argument; longer ones are cut."""


def as_written(step: Step) -> str:
    """Return the call that makes a step, such as `tool_call('search', '{"q":"tea"}')`."""
    match step:
        case TextStep() | ReasoningStep():
            arguments: tuple[object, ...] = ("".join(step.chunks),)
        case ToolCallStep():
            arguments = (step.tool_name, step.input_text)
        case PartsStep():
            arguments = ([type(part).__name__ for part in step.parts],)
        case _:
            arguments = tuple(
                each for each in (getattr(step, field.name) for field in fields(step)) if each is not None
            )
    return f"{_name_of(step)}({', '.join(_short(each) for each in arguments)})"


def _name_of(step: Step) -> str:
    """Return the name of the builder's method."""
    name = type(step).__name__.removesuffix("Step")
    return "tool_call" if isinstance(step, ToolCallStep) else name.lower()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
