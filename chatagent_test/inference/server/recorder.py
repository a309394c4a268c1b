"""Answers from recordings, and from a real provider whose answers become recordings (7.10)."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from chatagent.errors import InvalidArgumentError, MissingExtraError
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.recording import Exchange, Recordings
from chatagent_test.inference.steps import Ask, Steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.scripted import ScriptedResponse
    from chatagent_test.inference.server.options import ServerOptions

__all__ = ["Recorder", "create_recorder"]

_HOP_BY_HOP = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})
"""Headers that say how this connection goes, and nothing about the request."""


def create_recorder(options: ServerOptions) -> Recorder | None:
    """Return what a server's options ask for.

    Raises:
        InvalidArgumentError: there is an upstream and nowhere to record it, or it is no origin.
    """
    folder, upstream = options.get("recordings"), options.get("upstream")
    if folder is None:
        if upstream is not None:
            problem = "answers from there are recorded, so name a folder: `recordings=`"
            raise InvalidArgumentError(argument="upstream", value=upstream, problem=problem)
        return None
    recordings = folder if isinstance(folder, Recordings) else Recordings(folder)
    return Recorder(recordings, _origins(upstream), speed=options.get("replay_speed"))


def _origins(upstream: str | Mapping[InferenceEndpoint, str] | None) -> dict[InferenceEndpoint, str]:
    given = dict.fromkeys(InferenceEndpoint, upstream) if isinstance(upstream, str) else dict(upstream or {})
    for origin in given.values():
        if not origin.startswith(("http://", "https://")) or origin.rstrip("/").endswith("/v1"):
            problem = "give an origin without a path, such as https://api.openai.com"
            raise InvalidArgumentError(argument="upstream", value=origin, problem=problem)
    return {endpoint: origin.rstrip("/") for endpoint, origin in given.items()}


class Recorder:
    """One server's recordings, and where to ask for those that are missing."""

    def __init__(
        self, recordings: Recordings, origins: Mapping[InferenceEndpoint, str], *, speed: float | None
    ) -> None:
        self.recordings, self._origins, self._speed = recordings, origins, speed

    def answer(self, entry: LogEntry) -> Steps[ScriptedResponse | None]:
        """Return the recorded answer to a request, recorded just now if need be; `None` if there is none."""
        found = self.recordings.find(entry.path, entry.body)
        origin = self._origins.get(InferenceEndpoint(entry.path))
        if found is None and origin is not None:
            found = cast("Exchange", (yield Ask(self._record(origin, entry))))
        return None if found is None else found.response(speed=self._speed)

    async def _record(self, origin: str, entry: LogEntry) -> Exchange:
        """Ask the real provider, and keep what it says."""
        headers = [(name, value) for name, value in entry.headers if name not in _HOP_BY_HOP]
        chunks: list[bytes] = []
        times: list[float] = []
        end: Literal["clean", "abort"] = "clean"
        http = _httpx2()
        url, asked = f"{origin}{entry.path}", [*headers, ("accept-encoding", "identity")]
        async with (
            http.AsyncClient(timeout=None) as client,
            client.stream("POST", url, headers=asked, content=entry.raw_body) as response,
        ):
            began = time.monotonic()
            try:
                async for chunk in response.aiter_raw():
                    chunks.append(chunk)
                    times.append(time.monotonic() - began)
            except http.RemoteProtocolError:
                end = "abort"  # that is what is recorded: an answer that broke off
        exchange = Exchange.recorded(
            endpoint=entry.path,
            request=entry.body,
            request_headers=headers,
            status=response.status_code,
            headers=list(response.headers.multi_items()),
            chunks=chunks,
            times=times,
            end=end,
            scrubber=self.recordings.scrubber,
        )
        self.recordings.save(exchange)
        return exchange


def _httpx2() -> Any:
    try:
        return import_module("httpx2")
    except ImportError as exc:
        raise MissingExtraError(package="httpx2", extra="test") from exc
