"""Recorded exchanges as JSON files: one request, its answer, and how the connection ended (4.6).

The conformance cases are such files, and so is what a server records (7.10). Here a case becomes an answer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.scripted import Body, JsonBody, RawBody, ScriptedResponse, SseBody
from chatagent_test.inference.sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["case_response", "event_of_case"]

_FRAMING = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
"""Headers of the connection, which say nothing about the answer."""


def event_of_case(event: Mapping[str, Any]) -> SseEvent:
    """Return the event that a case tells: `data` is a text, or JSON to be dumped."""
    name, data = event.get("event"), event.get("data")
    return SseEvent.of(data) if name is None else SseEvent.named(name, data)


def case_response(case: Mapping[str, Any], *, frame_delays: Sequence[float | None] = ()) -> ScriptedResponse:
    """Return the answer of a case, which sends the recorded bytes.

    Args:
        case: the content of the file.
        frame_delays: seconds in front of each frame, if it is a stream of events.

    Raises:
        InvalidArgumentError: a member is missing or wrong; the error names it.
    """
    given: object = _member(case, "headers")
    pairs = cast("Mapping[str, str]", given).items() if isinstance(given, Mapping) else cast("Any", given)
    kept = [(name, value) for name, value in pairs if name.lower() not in _FRAMING]
    return ScriptedResponse(_member(case, "status"), kept, _body(case, frame_delays), has_defaults=False)


def _body(case: Mapping[str, Any], frame_delays: Sequence[float | None]) -> Body:
    body: Mapping[str, Any] = _member(case, "body")
    end = "abort" if case.get("connection_end") == "abrupt" else "clean"
    match body.get("kind"):
        case "events":
            return SseBody([event_of_case(event) for event in body["events"]], end, frame_delays=frame_delays)
        case "json" if end == "clean":
            return JsonBody(body["json"])
        case "json":
            return RawBody(JsonBody(body["json"]).content, end)
        case "text":
            return RawBody(body["text"], end)
        case "chunks_b64":
            return RawBody([_decoded(chunk) for chunk in body["chunks_b64"]], end)
        case kind:
            problem = "a body is of kind 'events', 'json', 'text' or 'chunks_b64'"
            raise InvalidArgumentError(argument="body.kind", value=kind, problem=problem)


def _decoded(chunk: str) -> bytes:
    try:
        return base64.b64decode(chunk, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidArgumentError(argument="chunks_b64", value=chunk, problem=f"it is no base64: {exc}") from exc


def _member(case: Mapping[str, Any], name: str) -> Any:
    if name not in case:
        raise InvalidArgumentError(argument=name, value=None, problem="every case has that member")
    return case[name]
