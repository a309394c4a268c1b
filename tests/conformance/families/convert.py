"""Replays goldens of the conversion of UI messages to messages for a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from chatagent.errors import MessageConversionError
from chatagent.model import (
    ToModelOutput,
    ToModelOutputEvent,
    convert_to_model_messages,
    parse_model_messages,
    prompt_to_wire,
)


@dataclass(frozen=True)
class GoldenTool:
    """A tool of a golden: only how its output is told to the model."""

    to_model_output: ToModelOutput | None


def replay(golden: dict[str, Any]) -> None:
    options = golden.get("options", {})
    observed = golden["observed"]

    if "error" in observed:
        with pytest.raises(MessageConversionError):
            _convert(golden["uiMessages"], options)
        return

    messages = _convert(golden["uiMessages"], options)
    wire = prompt_to_wire(messages)

    assert wire == _plain(observed["modelMessages"])
    assert parse_model_messages(wire) == messages


def _convert(messages: list[dict[str, Any]], options: dict[str, Any]) -> Any:
    return convert_to_model_messages(
        messages,
        tools={name: _tool(spec) for name, spec in options["tools"].items()} if "tools" in options else None,
        ignore_incomplete_tool_calls=options.get("ignoreIncompleteToolCalls", False),
        convert_data_part=_data_converter(options.get("convertDataPart", {})),
    )


def _tool(spec: dict[str, Any]) -> GoldenTool:
    fixed = spec.get("modelOutput")
    if fixed == {"fromOutput": True}:
        return GoldenTool(_output_as_text)
    return GoldenTool(None if fixed is None else lambda _event: fixed)


def _output_as_text(event: ToModelOutputEvent) -> dict[str, object]:
    return {"type": "text", "value": f"<{_json(event.output)}>"}


def _data_converter(texts: dict[str, dict[str, str]]) -> Any:
    def convert(part: Any) -> dict[str, object] | None:
        spec = texts.get(part.type)
        return None if spec is None else {"type": "text", "text": spec["text"].replace("$data", _json(part.data))}

    return convert


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Replace the recorded stand-ins for live values by their wire form."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    for live in ("$url", "$bytes"):
        if live in value:
            return value[live]
    return {key: _plain(item) for key, item in value.items()}
