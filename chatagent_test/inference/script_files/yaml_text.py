"""Script files in YAML, read as the JSON that they stand for."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from chatagent.errors import InvalidArgumentError, MissingExtraError

__all__ = ["json_of_yaml"]


def json_of_yaml(text: str) -> str:
    """Return a YAML text as JSON.

    Raises:
        InvalidArgumentError: it is no YAML, or says what JSON cannot, such as a date that is not quoted.
        MissingExtraError: PyYAML is not installed.
    """
    try:
        yaml: Any = import_module("yaml")
    except ImportError as exc:
        raise MissingExtraError(package="pyyaml", extra="yaml") from exc
    try:
        return json.dumps(yaml.safe_load(text))
    except yaml.YAMLError as exc:
        raise InvalidArgumentError(argument="script file", value=text[:80], problem=f"it is no YAML: {exc}") from exc
    except (TypeError, ValueError, RecursionError) as exc:
        problem = f"it says what JSON cannot: {exc}"
        raise InvalidArgumentError(argument="script file", value=text[:80], problem=problem) from exc
