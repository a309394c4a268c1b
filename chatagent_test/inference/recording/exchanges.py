"""One recorded exchange, from what came over the wire to its file and back (7.10).

The file is a case of the conformance format (`cases`), with three members more: how the body was cut into chunks, when
each of them came, and the headers of the request. Secrets are taken out before anything is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.recording.cases import case_response
from chatagent_test.inference.recording.scrubbing import Scrubber
from chatagent_test.inference.scripted import JsonBody, RawBody, ScriptedResponse, SseBody, sent_bytes
from chatagent_test.inference.sse import parse_sse, render_sse
from chatagent_test.inference.timing import delays_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Exchange", "request_key"]

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, secrets taken out."""

    case: Mapping[str, Any]
    """The content of the file."""

    @classmethod
    def recorded(
        cls,
        *,
        endpoint: str,
        request: Any,
        request_headers: Sequence[tuple[str, str]] = (),
        status: int,
        headers: Sequence[tuple[str, str]],
        chunks: Sequence[bytes],
        times: Sequence[float] = (),
        end: Literal["clean", "abort"] = "clean",
        method: str = "POST",
        name: str = "",
        scrubber: Scrubber | None = None,
    ) -> Exchange:
        """Return what was recorded.

        Args:
            endpoint: the path.
            request: the JSON body of the request; `None` if it had none.
            request_headers: name and value of each.
            status: of the answer.
            headers: of the answer.
            chunks: its body, as it came.
            times: seconds from the head of the answer to each chunk.
            end: how the connection ended.
            method: of the request.
            name: of the exchange; made of the endpoint and the request by default.
            scrubber: what takes the secrets out; keys and credentials that are known by their looks by default.

        Raises:
            InvalidArgumentError: there is not a time for each chunk.
        """
        if times and len(times) != len(chunks):
            problem = f"there is one for each of the {len(chunks)} chunks, or none"
            raise InvalidArgumentError(argument="times", value=times, problem=problem)
        scrubber = scrubber or Scrubber()
        body = scrubber.content(b"".join(chunks))
        sizes = [len(chunk) for chunk in chunks]
        asked = scrubber.json(request)
        case: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "name": name or _name_of(endpoint, asked),
            "endpoint": endpoint,
            "method": method,
            "request": asked,
            "request_headers": dict(scrubber.headers(request_headers)),
            "status": status,
            "headers": _told(scrubber.headers(headers)),
            "body": _body_of(body, sizes, headers),
            "body_length": len(body),
            "body_sha256": hashlib.sha256(body).hexdigest(),
            "connection_end": "clean" if end == "clean" else "abrupt",
            "chunk_lengths": sizes,
        }
        if times:
            case["chunk_times"] = [round(time, 6) for time in times]
        return cls(case)

    @classmethod
    def from_json(cls, text: str) -> Exchange:
        """Return the exchange of a file.

        Raises:
            InvalidArgumentError: the file is no JSON, or no such file; the error names the member.
        """
        try:
            case: object = json.loads(text)
        except ValueError as exc:
            problem = f"the file is no JSON: {exc}"
            raise InvalidArgumentError(argument="text", value=text[:80], problem=problem) from exc
        if not isinstance(case, dict):
            raise InvalidArgumentError(argument="text", value=text[:80], problem="the file holds no JSON object")
        exchange = cls(cast("dict[str, Any]", case))
        try:
            exchange._check()
            exchange.response(speed=1.0)
        except InvalidArgumentError:
            raise
        except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as exc:
            problem = f"a member is missing or of the wrong kind: {type(exc).__name__}: {exc}"
            raise InvalidArgumentError(argument="text", value=text[:80], problem=problem) from exc
        return exchange

    def to_json(self) -> str:
        """Return the content of the file, indented for readers and diffs."""
        return json.dumps(self.case, indent=2, ensure_ascii=False) + "\n"

    @property
    def name(self) -> str:
        """Its name, which is also that of its file."""
        return str(self.case["name"])

    @property
    def key(self) -> str:
        """What a request must be equal in for this to be its answer: method, endpoint and body."""
        return request_key(str(self.case.get("method", "POST")), self.case["endpoint"], self.case.get("request"))

    def response(self, *, speed: float | None = None) -> ScriptedResponse:
        """Return the answer, in the chunks in which it came.

        Args:
            speed: how many times faster than it was recorded; `None`: without any wait.
        """
        times = self.case.get("chunk_times")
        sizes = self.case.get("chunk_lengths")
        if sizes is None:
            return case_response(self.case)
        plain = case_response(self.case)
        frames = [len(frame) for frame in plain.body.frames] if isinstance(plain.body, SseBody) else None
        if frames is not None and (frames == sizes or (speed is not None and times)):
            delays = [] if speed is None or not times else delays_of(_frame_times(frames, sizes, times), speed=speed)
            return case_response(self.case, frame_delays=delays)
        end = "clean" if isinstance(plain.body, JsonBody) else plain.body.end
        cut = RawBody(_cut(sent_bytes(plain.body), sizes), end)
        return replace(plain, body=cut)

    def _check(self) -> None:
        for member in ("name", "endpoint", "status", "headers", "body"):
            if member not in self.case:
                raise InvalidArgumentError(argument=member, value=None, problem="every recording has that member")
        body = sent_bytes(case_response(self.case).body)
        expected = self.case.get("body_sha256")
        if expected is not None and hashlib.sha256(body).hexdigest() != expected:
            problem = "the body of the recording was changed by hand; take the member out if that is meant"
            raise InvalidArgumentError(argument="body_sha256", value=expected, problem=problem)
        sizes = self.case.get("chunk_lengths")
        if sizes is not None and sum(sizes) != len(body):
            problem = f"together the chunks are the {len(body)} bytes of the body"
            raise InvalidArgumentError(argument="chunk_lengths", value=sizes, problem=problem)


def _told(headers: list[tuple[str, str]]) -> dict[str, str] | list[list[str]]:
    """Return headers as an object, or as pairs if a name comes twice."""
    return dict(headers) if len(dict(headers)) == len(headers) else [list(pair) for pair in headers]


def request_key(method: str, endpoint: str, request: object) -> str:
    """Return what tells requests apart: method, endpoint, and the body whatever the order of its members."""
    body = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return f"{method} {endpoint} {body}"


def _name_of(endpoint: str, request: object) -> str:
    kind = endpoint.rstrip("/").rsplit("/v1/", 1)[-1].replace("/", "_")
    return f"{kind}_{hashlib.sha256(request_key('POST', endpoint, request).encode()).hexdigest()[:12]}"


def _body_of(body: bytes, sizes: Sequence[int], headers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return a body in the form that is best to read and gives the same bytes."""
    content_type = next((value for name, value in headers if name.lower() == "content-type"), "")
    if "event-stream" in content_type:
        events = parse_sse(body)
        if b"".join(map(render_sse, events)) == body:
            told = [{"data": _readable(event.data)} for event in events]
            return {
                "kind": "events",
                "events": [
                    each if event.event is None else {"event": event.event, **each}
                    for event, each in zip(events, told, strict=True)
                ],
            }
    elif "json" in content_type:
        value = _readable(body.decode("utf-8", "replace"))
        if not isinstance(value, str):
            return {"kind": "json", "json": value}
    try:
        return {"kind": "text", "text": body.decode()}
    except UnicodeDecodeError:
        return {"kind": "chunks_b64", "chunks_b64": [base64.b64encode(chunk).decode() for chunk in _cut(body, sizes)]}


def _readable(data: str) -> Any:
    """Return the JSON value of a text if dumping it gives the text again; else the text."""
    try:
        value = json.loads(data)
        same = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) == data
    except ValueError:
        return data
    return value if same and not isinstance(value, str) else data


def _cut(body: bytes, sizes: Sequence[int]) -> list[bytes]:
    ends = list(accumulate(sizes))
    return [body[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _frame_times(frames: Sequence[int], sizes: Sequence[int], times: Sequence[float]) -> list[float]:
    """Return when each frame was complete: with the chunk that brought its last byte."""
    arrived = list(zip(accumulate(sizes), times, strict=True))
    return [next(time for end, time in arrived if end >= size) for size in accumulate(frames)]
