"""The scripted model of a scenario: the n-th call of its streaming method plays the n-th entry."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

from chatagent.errors import AbortError
from chatagent.model import GenerateResult, StreamResult
from conformance.chat_agent.errors import scenario_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.model import CallOptions
    from chatagent.signals import AbortSignal
    from conformance.chat_agent.gates import Gates
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire


class ScriptedModel:
    """A language model of protocol v3 that plays a script."""

    specification_version: Literal["v3"] = "v3"
    provider = "scripted"
    model_id = "scripted"
    supported_urls: dict[str, list[str]] = {}  # noqa: RUF012 - a constant of the protocol

    def __init__(self, script: list[Wire], gates: Gates, recorder: Recorder) -> None:
        self._script, self._gates, self._recorder = script, gates, recorder

    async def do_generate(self, options: CallOptions, /) -> GenerateResult:
        raise NotImplementedError("scenarios only stream")

    async def do_stream(self, options: CallOptions, /) -> StreamResult:
        number = self._recorder.model_call(options)
        if number >= len(self._script):
            raise scenario_error(f"no scripted model call {number}")
        entry = self._script[number]
        if "error" in entry:
            raise scenario_error(entry["error"])
        return StreamResult(stream=self._play(entry, options.abort_signal))

    async def _play(self, entry: Wire, signal: AbortSignal | None) -> AsyncIterator[Wire]:
        heeded = None if entry.get("onAbort") == "ignore" else signal
        for part in entry.get("parts", ()):
            _raise_if_aborted(heeded)
            if "$gate" in part:
                await self._gates.wait(part["$gate"], unless=heeded)
                _raise_if_aborted(heeded)
            else:
                yield _made_live(part)
        if "breakWith" in entry:
            raise scenario_error(entry["breakWith"])


def _raise_if_aborted(signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        raise AbortError(signal.reason)


def _made_live(part: Wire) -> dict[str, Any]:
    """Return a copy of a part; the error in it is one, not its text."""
    live = copy.deepcopy(part)
    if live["type"] == "error" and isinstance(live["error"], str):
        live["error"] = scenario_error(live["error"])
    return live
