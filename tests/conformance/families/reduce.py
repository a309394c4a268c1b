"""Goldens of `ai-sdk/reduce`: chunks to messages, as a client reads them and as a server tracks its own stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio

from chatagent.errors import StreamedError, UIMessageStreamError
from chatagent.ui import (
    Abort,
    Chunk,
    FinishStep,
    MessageReducer,
    Start,
    UIMessage,
    parse_chunk,
    parse_ui_message,
    read_ui_message_stream,
    to_wire,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ERROR_NAMES = {UIMessageStreamError: "AI_UIMessageStreamError", StreamedError: "Error"}


def replay(golden: dict[str, Any]) -> None:
    observed = golden["observed"]
    chunks = _expanded(golden["chunks"])
    message = parse_ui_message(golden["message"]) if "message" in golden else None

    _check_states(chunks, message, observed)
    _check_reading(chunks, message, observed)
    if "terminateOnError" in observed:
        _check_termination(chunks, message, observed["terminateOnError"])
    _check_server(chunks, message, observed["server"])


def _check_states(chunks: list[dict[str, Any]], message: UIMessage | None, observed: dict[str, Any]) -> None:
    """One state a chunk, asked for at once: `selected` has some of them only."""
    reducer = MessageReducer(message)
    entries: list[dict[str, Any]] = []
    for index, chunk in enumerate(chunks):
        entry: dict[str, Any] = {"chunk": index, "state": None}
        entries.append(entry)
        try:
            if reducer.feed(chunk):
                entry["state"] = to_wire(reducer.message)
        except UIMessageStreamError as error:
            entry["errors"] = [_shown(error)]
            break
        if chunk["type"] == "error":
            entry["errors"] = [_shown(StreamedError(chunk["errorText"]))]

    if "afterChunk" in observed:
        _assert_same(entries, observed["afterChunk"])
    for selected in observed.get("selected", []):
        _assert_same(entries[selected["chunk"]], selected)
    last = reducer.last_state
    _assert_same(None if last is None else to_wire(last), observed["final"])


def _check_reading(chunks: list[dict[str, Any]], message: UIMessage | None, observed: dict[str, Any]) -> None:
    states, errors, read = _read(chunks, message)

    _assert_same(to_wire(states[-1]) if states else None, observed["final"])
    assert len(states) == observed["stateCount"]
    assert read == observed["chunksRead"]
    _assert_same([_shown(error) for error in errors], observed.get("errors", []))


def _check_termination(chunks: list[dict[str, Any]], message: UIMessage | None, expected: dict[str, Any]) -> None:
    raised: Exception | None = None
    read: list[int] = []
    try:
        _read(chunks, message, terminate_on_error=True, read=read)
    except (UIMessageStreamError, StreamedError) as error:
        raised = error

    assert raised is not None
    _assert_same({"raised": _shown(raised), "afterChunk": read[-1]}, expected)


def _read(
    chunks: list[dict[str, Any]],
    message: UIMessage | None,
    *,
    terminate_on_error: bool = False,
    read: list[int] | None = None,
) -> tuple[list[UIMessage], list[Exception], int]:
    pulled = [] if read is None else read
    states: list[UIMessage] = []
    errors: list[Exception] = []

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for index, chunk in enumerate(chunks):
            pulled.append(index)
            yield chunk

    async def main() -> None:
        reading = read_ui_message_stream(
            stream(), message=message, on_error=errors.append, terminate_on_error=terminate_on_error
        )
        states.extend([state async for state in reading])

    anyio.run(main)
    return states, errors, len(pulled)


def _check_server(chunks: list[dict[str, Any]], message: UIMessage | None, expected: dict[str, Any]) -> None:
    """The same chunks written to a stream of the server that tracks what it sends."""
    originals = [] if message is None else [message]
    continued = message if message is not None and message.role == "assistant" else None
    begin = continued or UIMessage(id="generated-id", role="assistant", parts=[])
    reducer = MessageReducer(begin, on_new_id="rename")
    sent: list[Chunk] = []
    shown: dict[str, Any] = {}
    steps: list[object] = []
    for wire in chunks:
        chunk = parse_chunk(wire, allow_unknown=True)
        if isinstance(chunk, Start) and chunk.message_id is None:
            chunk = Start(begin.id, chunk.message_metadata, extra=chunk.extra)
        try:
            reducer.feed(chunk)
        except UIMessageStreamError as error:
            shown["failure"] = _shown(error)
            break
        sent.append(chunk)
        if isinstance(chunk, FinishStep):
            steps.append(to_wire(reducer.message))

    response = reducer.message
    is_continuation = bool(originals) and originals[-1].id == response.id
    end: dict[str, Any] = {
        "isAborted": any(isinstance(chunk, Abort) for chunk in sent),
        "isContinuation": is_continuation,
        "responseMessage": to_wire(response),
        "messageIds": [each.id for each in (originals[:-1] if is_continuation else originals)] + [response.id],
    }
    if reducer.finish_reason is not None:
        end["finishReason"] = reducer.finish_reason
    starts = [to_wire(chunk) for chunk in sent if isinstance(chunk, Start)]
    shown |= {"forwardedCount": len(sent), "end": end}
    if starts:
        shown["start"] = starts[0]
    if steps:
        shown["stepMessages"] = steps
    _assert_same(shown, expected)


def _shown(error: Exception) -> dict[str, str]:
    return {"$error": str(error), "name": ERROR_NAMES[type(error)]}


def _assert_same(actual: object, expected: object) -> None:
    """Compare as JSON: `==` takes `True` for `1`."""
    assert json.dumps(actual, sort_keys=True, indent=1) == json.dumps(expected, sort_keys=True, indent=1)


def _expanded(value: Any) -> Any:
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    if isinstance(value, dict):
        if "$repeat" in value:
            return value["$repeat"] * value["times"]
        return {key: _expanded(item) for key, item in value.items()}
    return value
