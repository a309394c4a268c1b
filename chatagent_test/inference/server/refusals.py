"""Requests that get no answer: refused unread, or for want of a key. What is said stays in the provider's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats.failures import error_response
from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.inference.steps import OPEN_GATE, Steps, play

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.requests import Request

__all__ = ["is_authorized", "refuse", "unauthorized"]

MISSING_KEY = "missing API key; set the x-api-key header or Authorization: Bearer header"


def refuse(
    core: Core, request: Request, status: int, problem: str, *, headers: Mapping[str, str] | None = None
) -> tuple[LogEntry, Steps[None]]:
    """Refuse a request before any answer is looked for: it is logged with its bytes, and counted as rejected."""
    entry = request.entry()
    entry.error, entry.rejected, entry.answered_by = problem, True, "error"
    core.log.append(entry)
    if _is_meant_for_a_model(request.path):
        with core.board.lock:
            core.failures.append(f"request [{entry.index}] {entry.line}")
    endpoint = InferenceEndpoint.MESSAGES if "/messages" in request.path else InferenceEndpoint.RESPONSES
    response = error_response(endpoint, status, problem).with_headers(headers or {})
    return entry, play(response, entry, OPEN_GATE, core.pace())


def _is_meant_for_a_model(path: str) -> bool:
    """Whether a request goes to an inference route, or would with the right base URL."""
    return any(path.endswith(endpoint.path.removeprefix("/v1")) for endpoint in InferenceEndpoint)


def is_authorized(core: Core, entry: LogEntry) -> bool:
    """Whether a request carries the token that the server asks for, if it asks for one."""
    token = core.knobs.required_auth
    if token is None:
        return True
    return entry.authorization in (f"Bearer {token}", f"bearer {token}") or entry.header("x-api-key") == token


def unauthorized(core: Core, endpoint: InferenceEndpoint | None) -> ScriptedResponse:
    """Return the 401, as the endpoint's provider or the reference words it."""
    if endpoint is None or core.knobs.auth_error_style == "reference":
        return ScriptedResponse.json(401, {"error": MISSING_KEY})
    return error_response(endpoint, 401, MISSING_KEY)
