"""Goldens of `ai-sdk/ui-stream`: what a function writes and merges, and what the reader and the callbacks see of it.

Each is replayed on both backends, in virtual time.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import anyio

from chatagent.current import current_clock
from chatagent.errors import UIMessageStreamError
from chatagent.ui import StreamEndEvent, StreamStepEndEvent, create_ui_message_stream, to_wire
from support.virtual_run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.ui import UIMessageStreamWriter

ID = "<id-1>"
"""What the only generated id of a golden is called."""


class NamedError(Exception):
    """What a golden raises."""


def replay(golden: dict[str, Any]) -> None:
    for backend in ("asyncio", "trio"):
        observed = anyio.run(_observe, golden, backend=backend)

        assert json.dumps(observed, sort_keys=True, indent=1) == json.dumps(
            golden["observed"], sort_keys=True, indent=1
        )


async def _observe(golden: dict[str, Any]) -> dict[str, Any]:
    run = VirtualRun()
    return await run.play(lambda: _play(golden, run))


async def _play(golden: dict[str, Any], run: VirtualRun) -> dict[str, Any]:
    options = golden.get("options", {})
    events: list[dict[str, Any]] = []
    observed: dict[str, Any] = {"uiChunks": [], "uiEvents": events}

    async def execute(writer: UIMessageStreamWriter) -> None:
        await _perform(golden["execute"], writer, run)

    stream = create_ui_message_stream(
        execute=execute,
        on_error=(lambda error: f"error: {error}") if options.get("onError") else None,
        original_messages=options.get("originalMessages"),
        generate_id=lambda: ID,
        on_step_end=(lambda event: events.append(_step_end(event))) if options.get("onStepEnd") else None,
        on_end=(lambda event: events.append(_end(event))) if options.get("onEnd", True) else None,
    )
    async with aclosing(stream):
        try:
            async for chunk in stream:
                observed["uiChunks"].append(to_wire(chunk))
                if len(observed["uiChunks"]) == options.get("cancelAfter"):
                    break
        except Exception as error:  # noqa: BLE001 - whatever the stream raises is what the golden shows
            observed["uiStreamError"] = _error(error)
    return observed


async def _perform(operations: list[dict[str, Any]], writer: UIMessageStreamWriter, run: VirtualRun) -> None:
    for operation in operations:
        match operation:
            case {"write": chunk}:
                writer.write(chunk)
            case {"merge": source}:
                writer.merge(_chunks(source))
            case {"wait": milliseconds}:
                await current_clock().sleep(milliseconds / 1000)
            case {"throw": text}:
                raise NamedError(text)
            case {"later": later}:
                at_once = list(takewhile(lambda each: "wait" not in each, later))
                await _perform(at_once, writer, run)
                rest = later[len(at_once) :]
                run.tasks.start(lambda rest=rest: _perform(rest, writer, run), name="later operations")
            case _:
                raise AssertionError(f"no such operation: {operation}")


async def _chunks(source: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for chunk in source["chunks"]:
        if "everyMs" in source:
            await current_clock().sleep(source["everyMs"] / 1000)
        yield chunk
    if "thenError" in source:
        raise NamedError(source["thenError"])


def _step_end(event: StreamStepEndEvent) -> dict[str, Any]:
    return {
        "event": "onStepEnd",
        "isContinuation": event.is_continuation,
        "responseMessage": to_wire(event.response_message),
    }


def _end(event: StreamEndEvent) -> dict[str, Any]:
    outcome: dict[str, Any] = {"status": event.outcome.status}
    if isinstance(event.outcome.error, Exception):
        outcome["error"] = _error(event.outcome.error)
    shown: dict[str, Any] = {
        "event": "onEnd",
        "isAborted": event.is_aborted,
        "isContinuation": event.is_continuation,
        "outcome": outcome,
        "responseMessage": to_wire(event.response_message),
        "messageIds": [message.id for message in event.messages],
    }
    if event.is_cancelled:
        shown["isCancelled"] = True
    if event.finish_reason is not None:
        shown["finishReason"] = event.finish_reason
    return shown


def _error(error: Exception) -> dict[str, str]:
    name = "AI_UIMessageStreamError" if isinstance(error, UIMessageStreamError) else "Error"
    return {"$error": str(error), "name": name}
