"""Goldens of `ai-sdk/sse`: the exact bytes of a stream, and what a client reads of bytes."""

from __future__ import annotations

import json
from typing import Any

from chatagent.errors import ChunkError
from chatagent.ui import SSE_DONE, SSE_HEADERS, SSE_OPEN, UNSET, SSEDecoder, format_sse, parse_chunk, to_wire


def replay(golden: dict[str, Any]) -> None:
    observed = golden["observed"]
    body = golden.get("body", observed.get("body", ""))
    if "chunks" in golden:
        _check_writing(_expanded(golden["chunks"]), golden.get("response", {}), observed)
    for size in {golden.get("pieceSize") or len(body) or 1, 1, 7}:
        _check_reading(body.encode(), size, observed)


def _check_writing(chunks: list[dict[str, Any]], response: dict[str, Any], observed: dict[str, Any]) -> None:
    given = {name.lower(): value for name, value in response.get("headers", {}).items()}
    opening = SSE_OPEN if "keepAliveMs" in response else b""

    body = opening + b"".join(format_sse(chunk) for chunk in chunks) + SSE_DONE

    assert body.decode() == observed["body"]
    assert {**SSE_HEADERS, **given} == observed["headers"]
    if "parseError" not in observed:
        typed = [format_sse(parse_chunk(chunk)) for chunk in chunks]
        assert [_json_of(event) for event in typed] == [_canonical(chunk) for chunk in chunks]


def _check_reading(body: bytes, size: int, observed: dict[str, Any]) -> None:
    decoder = SSEDecoder()
    parsed: list[object] = []
    error: ChunkError | None = None
    try:
        for start in range(0, len(body), size):
            parsed += [to_wire(chunk) for chunk in decoder.feed(body[start : start + size])]
        decoder.close()
    except ChunkError as raised:
        error = raised

    assert _canonical(parsed) == _canonical(observed.get("parsed", []))
    assert _name_of(error) == observed.get("parseError", {}).get("name")


def _name_of(error: ChunkError | None) -> str | None:
    """Return what the package calls such an error: one for text that is no JSON, one for JSON that is no chunk."""
    if error is None:
        return None
    is_about_the_text = error.field == "data" and error.value is not UNSET
    return "AI_JSONParseError" if is_about_the_text else "AI_TypeValidationError"


def _expanded(value: Any) -> Any:
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    if isinstance(value, dict):
        if "$repeat" in value:
            return value["$repeat"] * value["times"]
        return {key: _expanded(item) for key, item in value.items()}
    return value


def _json_of(event: bytes) -> str:
    return _canonical(json.loads(event.removeprefix(b"data: ")))


def _canonical(value: object) -> str:
    """Return a text that tells `True` from `1`, as `==` does not."""
    return json.dumps(value, sort_keys=True)
