"""Where the goldens lie, and which of them are expected to fail or to differ.

A family is a folder of golden files of one format. The files come from `tests/goldens`, or from the folder that the
environment variable `CHATAGENT_GOLDENS` names; that folder may leave out whole families, but not hold an empty one.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OWN_GOLDENS = HERE.parent / "goldens"
GOLDENS = Path(os.environ.get("CHATAGENT_GOLDENS") or OWN_GOLDENS)
NOT_YET = HERE / "not_yet.txt"
DIFFERS = HERE / "differs.toml"

FAMILIES = (
    "chat-agent",
    "ai-sdk/stream-text",
    "ai-sdk/reduce",
    "ai-sdk/convert",
    "ai-sdk/validate",
    "ai-sdk/partial-json",
    "ai-sdk/ui-stream",
    "ai-sdk/sse",
    "wire",
)


@dataclass(frozen=True)
class Golden:
    """One golden file: its family, its name within the family, and where it lies."""

    family: str
    path: Path

    @property
    def key(self) -> str:
        """The name under which `not_yet.txt` and `differs.toml` list it, such as `chat-agent/turn-text.json`."""
        return f"{self.family}/{self.path.name}"

    def load(self) -> dict[str, Any]:
        return json.loads(self.path.read_text(encoding="utf-8"))


def goldens_of(family: str, root: Path = GOLDENS) -> list[Golden]:
    return [Golden(family, path) for path in sorted((root / family).glob("*.json"))]


def not_yet() -> set[str]:
    lines = NOT_YET.read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def differs() -> dict[str, dict[str, str]]:
    return tomllib.loads(DIFFERS.read_text(encoding="utf-8"))
