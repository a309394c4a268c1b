"""Goldens of `ai-sdk/validate`: messages, the application's schemas, and the clean messages or the first error."""

from __future__ import annotations

import json
from typing import Any

from chatagent.errors import InvalidArgumentError, MessageValidationError
from chatagent.generate import tool
from chatagent.ui import safe_validate_ui_messages, to_wire

ERRORS: dict[str, type[Exception]] = {
    "AI_InvalidArgumentError": InvalidArgumentError,
    "AI_TypeValidationError": MessageValidationError,
}


def replay(golden: dict[str, Any]) -> None:
    options, observed = golden.get("options", {}), golden["observed"]

    result = safe_validate_ui_messages(
        golden["messages"],
        metadata_schema=options.get("metadataSchema"),
        data_schemas=options.get("dataSchemas"),
        tools=_tools(options["tools"]) if "tools" in options else None,
    )

    assert result.success is observed["success"]
    if result.success is True:
        assert json.dumps(to_wire(result.data), sort_keys=True) == json.dumps(observed["data"], sort_keys=True)
    else:
        _check_error(result.error, observed["error"])


def _tools(specs: dict[str, Any]) -> Any:
    return {
        name: tool(
            name=name,
            input_schema=spec["inputSchema"],
            **({"output_schema": spec["outputSchema"]} if "outputSchema" in spec else {}),
        )
        for name, spec in specs.items()
    }


def _check_error(error: Exception, recorded: dict[str, Any]) -> None:
    assert type(error) is ERRORS[recorded["name"]]
    if "context" in recorded:
        assert isinstance(error, MessageValidationError)
        shown = {"field": error.field, "entityName": error.entity_name, "entityId": error.entity_id}
        assert {key: value for key, value in shown.items() if value is not None} == recorded["context"]
    elif "firstIssue" in recorded:
        assert isinstance(error, MessageValidationError)
        assert error.field == _path_of(recorded["firstIssue"]["path"])


def _path_of(steps: list[int | str]) -> str:
    return "messages" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
