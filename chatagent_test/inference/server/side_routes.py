"""All routes but those of inference: the model list, settings, the user, writeback, privacy, and what is no route."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from chatagent_test.inference.answers import Answer, find_response
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats.numbers import embeddings_response, token_count_response
from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.inference.server.refusals import is_authorized, refuse, unauthorized
from chatagent_test.inference.steps import OPEN_GATE, Steps, Wait, play

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.requests import Request

__all__ = ["SideRoutes"]

_SESSION = re.compile(r"/sessions/[^/]+")
_SESSION_DATA = re.compile(r"/sessions/[^/]+/data")

METHODS = {
    "/v1/models": "GET",
    "/v1/settings": "GET",
    "/v1/user": "GET",
    "/v1/storage": "POST",
    "/v1/storage/exists": "GET",
    "/v1/storage/batch_exists": "POST",
    "/v1/storage/batch_upload_json": "POST",
    "/v1/storage/batch_upload": "POST",
    "/v1/storage/limits": "GET",
    "/v1/privacy/coding-data-retention": "PUT",
    "/v1/embeddings": "POST",
    "/v1/messages/count_tokens": "POST",
}

_NUMBERS = {
    "/v1/embeddings": InferenceEndpoint.RESPONSES,
    "/v1/messages/count_tokens": InferenceEndpoint.MESSAGES,
}
"""Routes of models that answer in numbers, and the endpoint whose provider words their errors."""


class SideRoutes:
    """The routes of one server beside inference."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._handlers: dict[str, Callable[[LogEntry, Request], Steps[None]]] = {
            "/v1/models": self._models,
            "/v1/settings": self._settings,
            "/v1/user": self._user,
            "/v1/privacy/coding-data-retention": self._privacy,
            "/v1/embeddings": self._embeddings,
            "/v1/messages/count_tokens": self._count_tokens,
        }

    def open(self, request: Request) -> tuple[LogEntry, Steps[None]]:
        """Return the log entry and the answer of a request."""
        if request.is_too_large:
            return refuse(self._core, request, 413, f"the body is over {self._core.max_body_bytes} bytes")
        wanted = _method_of(request.path)
        if wanted is None:
            return refuse(self._core, request, 404, _unknown_path(request.path))
        if request.method != wanted:
            problem = f"{request.path} takes {wanted}, not {request.method}"
            return refuse(self._core, request, 405, problem, headers={"allow": wanted})
        if request.path.startswith("/sessions/"):
            return self._writeback(request)
        if request.path in _NUMBERS and (problem := request.media_problem) is not None:
            return refuse(self._core, request, 415, problem)
        query = f"?{request.query}" if request.query and request.path == "/v1/user" else ""
        entry = request.entry(path=request.path + query)
        entry.body = _json_or_none(request)
        if request.path in _NUMBERS and not isinstance(entry.body, dict):
            return refuse(self._core, request, 400, "the body is no JSON object")
        self._core.log.append(entry)
        return entry, self._handlers[request.path](entry, request)

    def _models(self, entry: LogEntry, request: Request) -> Steps[None]:
        yield from self._hang()
        data = [model.to_wire() for model in self._core.knobs.models]
        yield from self._queued_or(entry, request, lambda: ScriptedResponse.json(200, {"object": "list", "data": data}))

    def _settings(self, entry: LogEntry, request: Request) -> Steps[None]:
        def steady() -> ScriptedResponse:
            settings = self._core.knobs.settings
            if settings is None:
                return ScriptedResponse.text(404, "")
            return ScriptedResponse.text(200, settings, headers={"content-type": "application/json"})

        yield from self._hang()
        yield from self._queued_or(entry, request, steady)

    def _user(self, entry: LogEntry, request: Request) -> Steps[None]:
        user = {"userId": "mock-user", "email": "mock-user@test.invalid"}
        tier = self._core.knobs.subscription_tier
        if tier is not None:
            user["subscriptionTier"] = tier
        yield from self._queued_or(entry, request, lambda: ScriptedResponse.json(200, user))

    def _privacy(self, entry: LogEntry, request: Request) -> Steps[None]:
        opted_out = entry.members.get("codingDataRetentionOptOut", False)
        yield from self._send(entry, ScriptedResponse.json(200, {"codingDataRetentionOptOut": opted_out}))

    def _embeddings(self, entry: LogEntry, request: Request) -> Steps[None]:
        yield from self._queued_or(entry, request, lambda: self._in_numbers(entry, embeddings_response))

    def _count_tokens(self, entry: LogEntry, request: Request) -> Steps[None]:
        yield from self._queued_or(entry, request, lambda: self._in_numbers(entry, token_count_response))

    def _in_numbers(
        self, entry: LogEntry, answer: Callable[[Mapping[str, object]], ScriptedResponse]
    ) -> ScriptedResponse:
        if not is_authorized(self._core, entry):
            entry.answered_by = "auth"
            return unauthorized(self._core, _NUMBERS[entry.path])
        return answer(entry.members)

    def _writeback(self, request: Request) -> tuple[LogEntry, Steps[None]]:
        """Take a session's data; what is not let in is not logged (1.2.9)."""
        entry = request.entry()
        if not is_authorized(self._core, entry):
            return entry, self._send(entry, unauthorized(self._core, None))
        entry.body = _json_or_none(request)
        self._core.log.append(entry)
        return entry, self._send(entry, ScriptedResponse.text(200, ""))

    def _hang(self) -> Steps[None]:
        while not (yield Wait(self._core.knobs.answering)):
            pass

    def _queued_or(self, entry: LogEntry, request: Request, steady: Callable[[], ScriptedResponse]) -> Steps[None]:
        queued: Answer | None = self._core.queues.pop(request.path)
        if queued is None:
            yield from self._send(entry, steady())
            return
        entry.answered_by = "fifo"
        response = yield from find_response(queued, entry, self._core.inference.render)
        yield from play(response, entry, OPEN_GATE, self._core.pace())

    def _send(self, entry: LogEntry, response: ScriptedResponse) -> Steps[None]:
        entry.answered_by = entry.answered_by or "route"
        yield from play(response, entry, OPEN_GATE, self._core.pace())


def _method_of(path: str) -> str | None:
    if _SESSION_DATA.fullmatch(path):
        return "POST"
    return "PUT" if _SESSION.fullmatch(path) else METHODS.get(path)


def _unknown_path(path: str) -> str:
    versioned = f"/v1{path}"
    if versioned in METHODS or any(versioned == endpoint.path for endpoint in InferenceEndpoint):
        return f"nothing is served at {path}; {versioned} is, so the base URL lacks its /v1 (`openai_base_url`)"
    if path.startswith("/v1/v1/"):
        return f"nothing is served at {path}: the client adds /v1 itself, so give it `anthropic_base_url`"
    return f"nothing is served at {path}"


def _json_or_none(request: Request) -> Any:
    try:
        return request.parsed() if request.body else None
    except (ValueError, RecursionError):
        return None
