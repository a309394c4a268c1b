"""The recorded exchanges, rendered and parsed by what a mock server sends with (4.6.1, 4.6.3)."""

from __future__ import annotations

import hashlib
import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from chatagent_test.inference.recording.cases import case_response
from chatagent_test.inference.scripted import SseBody, sent_bytes
from chatagent_test.inference.sse import SseEvent, parse_sse
from conformance.goldens import OWN_GOLDENS, Golden, goldens_of

if TYPE_CHECKING:
    from collections.abc import Iterable

GOLDENS = goldens_of("wire") or goldens_of("wire", OWN_GOLDENS)
STREAMS = [
    golden
    for golden in GOLDENS
    if "event-stream" in golden.load()["headers"].get("content-type", "") and golden.load()["request"].get("stream")
]


def ids(golden: Golden) -> str:
    return golden.path.stem


@pytest.mark.parametrize("golden", GOLDENS, ids=ids)
def test_every_recorded_body_is_rendered_byte_for_byte(golden: Golden) -> None:
    """FMT-017."""
    case = golden.load()

    response = case_response(case)

    body = sent_bytes(response.body)
    assert len(body) == case["body_length"]
    assert hashlib.sha256(body).hexdigest() == case["body_sha256"]
    assert response.status == case["status"]
    assert dict(response.wire_headers) == case["headers"]


@pytest.mark.parametrize("golden", STREAMS, ids=ids)
def test_a_recorded_stream_is_parsed_however_it_is_cut(golden: Golden) -> None:
    body = case_response(golden.load()).body
    wire = sent_bytes(body)

    whole = parse_sse(wire)

    for size in (1, 2, 3, 7, 64):
        assert parse_sse(wire[start : start + size] for start in range(0, len(wire), size)) == whole
    if isinstance(body, SseBody):
        assert whole == list(body.events)


@pytest.mark.parametrize("golden", STREAMS, ids=ids)
def test_parsing_gives_the_events_that_the_sdk_saw(golden: Golden) -> None:
    case = golden.load()
    is_anthropic = case["endpoint"] == "/v1/messages"
    call, observed = next((call, seen) for call, seen in case["sdk_observed"].items() if "stream=True" in call)
    assert call.startswith("anthropic" if is_anthropic else "openai")

    events = parse_sse(sent_bytes(case_response(case).body))

    seen = list(named(events) if is_anthropic else until_done(events))
    payloads = [payload for event in seen if (payload := json_of(event)) is not None]
    if observed["outcome"] == "ok":
        assert len(payloads) == len(seen) == observed["items"]
    else:
        assert len(payloads) >= observed["items_before_error"]
        payloads = payloads[: observed["items_before_error"]]
    types = observed.get("types", observed.get("types_before_error"))
    assert types is None or run_lengths(payload.get("type") for payload in payloads) == types
    assert text_of(payloads) == observed.get("text", "")


def named(events: Iterable[SseEvent]) -> Iterable[SseEvent]:
    """Leave out what the SDK of Anthropic does not hand on: events without a name, pings, and errors (raised)."""
    return (event for event in events if event.event not in (None, "ping", "error"))


def until_done(events: Iterable[SseEvent]) -> Iterable[SseEvent]:
    for event in events:
        payload = json_of(event)
        if event.data == "[DONE]" or (isinstance(payload, dict) and payload.get("error")):
            return
        yield event


def json_of(event: SseEvent) -> Any:
    try:
        return json.loads(event.data)
    except ValueError:
        return None


def run_lengths(types: Iterable[str]) -> list[str]:
    counts = [(name, len(list(group))) for name, group in groupby(types)]
    return [name if count == 1 else f"{name} x{count}" for name, count in counts]


def text_of(payloads: list[dict[str, Any]]) -> str:
    pieces: list[str] = []
    for payload in payloads:
        for choice in payload.get("choices", ()):
            pieces.append(choice.get("delta", {}).get("content") or "")
        delta = payload.get("delta")
        if payload.get("type") == "response.output_text.delta":
            pieces.append(payload["delta"])
        elif isinstance(delta, dict):
            pieces.append(delta.get("text", ""))
    return "".join(pieces)
