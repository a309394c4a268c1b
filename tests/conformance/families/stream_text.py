"""Goldens of `ai-sdk/stream-text`: a scripted model and tools, and everything that is seen of the call.

Each is replayed twice: read by two readers at the same time on asyncio, and pumped on trio with a reader afterwards.
"""

from __future__ import annotations

from typing import Any

import anyio

from conformance.stream_text.comparing import problems_of
from conformance.stream_text.scenario import How, Scenario


def replay(golden: dict[str, Any]) -> None:
    recorded: dict[str, Any] = {**golden["observed"]}
    if golden["call"].get("abort", {}).get("before"):
        del recorded["modelCalls"]  # whether the model was asked is not to be relied on

    problems = problems_of(recorded, _run(golden, "read", "asyncio"), about="read")
    if not _breaks_the_message(recorded):
        problems += problems_of(recorded, _run(golden, "pump", "trio"), about="pump")

    assert not problems, "\n".join([golden["name"], *problems])


def _breaks_the_message(recorded: dict[str, Any]) -> bool:
    """Return whether the UI stream fails by itself: then the other reader is what keeps the call going."""
    return "uiStreamError" in recorded and recorded["uiStreamError"] != recorded.get("fullStreamError")


def _run(golden: dict[str, Any], how: How, backend: str) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        return await Scenario(golden).observe(how)

    return anyio.run(run, backend=backend)
