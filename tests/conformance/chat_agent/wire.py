"""Turns the events that hooks receive, and what lies in them, into the plain values that a log entry holds."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from chatagent.model import (
    AssistantMessage,
    LanguageModelUsage,
    SystemMessage,
    ToolMessage,
    UserMessage,
    message_to_wire,
)
from chatagent.ui import UNSET, WireModel, WireObject, to_wire
from conformance.chat_agent.values import camel

NOT_SHOWN = frozenset({"ctx", "writer", "signal", "stop_signal", "cancel_signal", "tools"})
"""Fields of events that are live objects; `run` shows the names of its tools and whether it was aborted instead."""
NO_VALUE: Any = object()
"""Stands for what has no wire form, such as a function."""


def event_to_wire(event: object) -> dict[str, Any]:
    """Return the fields of an event: camelCase names, absent ones left out, everything copied."""
    fields = (each.name for each in dataclasses.fields(event))  # type: ignore[arg-type]  # events are dataclasses
    values = {camel(name): value_to_wire(getattr(event, name)) for name in fields if name not in NOT_SHOWN}
    return {name: value for name, value in values.items() if value is not None and value is not NO_VALUE}


def value_to_wire(value: Any) -> Any:
    """Return a value as plain data that nothing can change any more."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (WireObject, WireModel)):
        return copy.deepcopy(to_wire(value))
    if isinstance(value, (SystemMessage, UserMessage, AssistantMessage, ToolMessage)):
        return copy.deepcopy(message_to_wire(value))
    if isinstance(value, LanguageModelUsage):
        return value.to_wire()
    if isinstance(value, BaseException):
        return {"$error": str(value)}
    return _container_to_wire(value)


def _container_to_wire(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: value_to_wire(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [value_to_wire(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
        return {camel(name): value_to_wire(item) for name, item in fields if item is not None and item is not UNSET}
    return NO_VALUE
