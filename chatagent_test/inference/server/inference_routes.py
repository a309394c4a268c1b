"""The three inference routes: reading a request, and who answers it (1.3). The order of the sources is frozen."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.answers import Answer, find_response
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.expectations.book import response_of
from chatagent_test.inference.formats import error_response, requested_model, text_response
from chatagent_test.inference.formats.scripts import script_response
from chatagent_test.inference.formats.tokens import wants_usage
from chatagent_test.inference.log import LogEntry, RequestKind
from chatagent_test.inference.reading import echo_source
from chatagent_test.inference.scripted import RawBody, ScriptedResponse, SseBody
from chatagent_test.inference.server.refusals import is_authorized, refuse, unauthorized
from chatagent_test.inference.steps import OPEN_GATE, Gate, Steps, last_index, play
from chatagent_test.inference.validation.checking import validate_request
from chatagent_test.scripting.render import IdCounter
from chatagent_test.scripting.steps import ToolCallStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent_test.inference.expectations.classifying import RequestClassifier
    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.knobs import Knobs
    from chatagent_test.inference.server.requests import Request
    from chatagent_test.inference.waiting import Latch
    from chatagent_test.scripting import Script

__all__ = ["InferenceRoutes"]

_BY_PATH = {endpoint.path: endpoint for endpoint in InferenceEndpoint}


class InferenceRoutes:
    """Inference at one server."""

    def __init__(self, core: Core, classifier: RequestClassifier, *, echoes: bool) -> None:
        self._core, self._classifier = core, classifier
        self.echoes = echoes
        self._ids = IdCounter()
        # Echo, fixed text and scripts are said again and again.
        self._text_response = lru_cache(maxsize=64)(_text_response)
        self._script_response = lru_cache(maxsize=64)(_script_response)

    def endpoint(self, path: str) -> InferenceEndpoint | None:
        """Return the endpoint at a path, if there is one."""
        if self._core.knobs.lenient_paths and not path.startswith("/v1/"):
            path = f"/v1{path}"
        return _BY_PATH.get(path)

    def open(self, request: Request, endpoint: InferenceEndpoint) -> tuple[LogEntry, Steps[None]]:
        """Take a request down; return its log entry and its answer."""
        refused = self._refused(request)
        if refused is not None:
            return refused
        entry = request.entry(path=endpoint.path)
        try:
            entry.body = request.parsed()
        except (ValueError, RecursionError) as error:
            return refuse(self._core, request, 400, f"the body is no JSON: {error}")
        steps = self._answer(entry, endpoint)
        try:
            entry.kind = self._classifier.kind(entry)
        except Exception as error:  # noqa: BLE001 - the test's own function; it is told like one that answers
            steps = _failing(error)
        self._core.log.append(entry)
        return entry, steps

    def _refused(self, request: Request) -> tuple[LogEntry, Steps[None]] | None:
        if request.method != "POST":
            problem = f"{request.path} takes POST, not {request.method}"
            return refuse(self._core, request, 405, problem, headers={"allow": "POST"})
        if request.is_too_large:
            return refuse(self._core, request, 413, f"the body is over {self._core.max_body_bytes} bytes")
        problem = request.media_problem
        return refuse(self._core, request, 415, problem) if problem is not None else None

    # Who answers, first to last ----------------------------------------------------------------------------------

    def _answer(self, entry: LogEntry, endpoint: InferenceEndpoint) -> Steps[None]:
        refusal = validate_request(endpoint, entry.body) if self._core.knobs.validates else None
        if refusal is not None:
            entry.answered_by = "validation"
            yield from play(refusal, entry, OPEN_GATE, self._core.pace())
            return
        claim = self._core.book.claim(entry)
        if claim is not None:
            entry.answered_by = claim.name
            try:
                response = yield from response_of(claim, entry, self.render)
                response = claim.call.expected.altered(response)
                yield from self._play(response, entry, claim, is_script=True)
            finally:
                claim.leave()
            return
        queued = self._core.queues.pop(entry.path)
        if queued is not None:
            entry.answered_by = "fifo"
            yield from self._play_answer(queued, entry)
            return
        recorded = self._core.recorder
        if recorded is not None and (response := (yield from recorded.answer(entry))) is not None:
            entry.answered_by = "recording"
            yield from self._play(response, entry, OPEN_GATE, is_script=True)
            return
        yield from self._play(self._unscripted(entry, endpoint), entry, self._gate(entry), is_script=False)

    def _unscripted(self, entry: LogEntry, endpoint: InferenceEndpoint) -> ScriptedResponse:
        knobs = self._core.knobs
        if not is_authorized(self._core, entry):
            entry.answered_by = "auth"
            return unauthorized(self._core, endpoint)
        turn = self._pop_agent_turn(entry)
        if turn is not None:
            entry.answered_by = "agent_turn"
            return self._say(entry, endpoint, turn, exact=True)
        if not self.echoes:
            return self._unexpected(entry, endpoint)
        if knobs.fixed_text is not None:
            entry.answered_by = "fixed"
            return self._say(entry, endpoint, knobs.fixed_text, exact=True)
        entry.answered_by = "echo"
        return self._say(entry, endpoint, f"Echo: {echo_source(endpoint, entry.members)}", exact=False)

    def _pop_agent_turn(self, entry: LogEntry) -> str | None:
        turns = self._core.knobs.agent_turns
        if entry.kind is not RequestKind.FOREGROUND or not turns:
            return None
        with self._core.board.lock:
            return turns.popleft() if turns else None

    def _unexpected(self, entry: LogEntry, endpoint: InferenceEndpoint) -> ScriptedResponse:
        reasons = self._core.book.why_unanswered(entry) or ["no expectation is pending"]
        problem = f"unexpected request [{entry.index}] {entry.line}"
        with self._core.board.lock:
            self._core.failures.append("\n".join([problem, *(f"  {reason}" for reason in reasons)]))
        entry.answered_by, entry.error = "error", "unexpected: " + "; ".join(reasons)
        return error_response(
            endpoint, 501, f"{problem}: no expectation and no queued response is meant for it: " + "; ".join(reasons)
        )

    # What is said ------------------------------------------------------------------------------------------------

    def render(self, script: Script, entry: LogEntry) -> ScriptedResponse:
        """Put a script into the format of the endpoint that asks, as a stream if a stream is asked for."""
        knobs = self._core.knobs
        if entry.kind is None:
            problem = "a script says what a model answers; this route is no model's, so give a ScriptedResponse"
            raise InvalidArgumentError(argument="response", value=script, problem=problem)
        endpoint, streams = InferenceEndpoint(entry.path), entry.streams
        if knobs.usage == "estimate" or _counts_ids(script):
            return script_response(
                endpoint,
                script,
                entry.members,
                streams=streams,
                ids=self._ids,
                profile=knobs.profile,
                usage=knobs.usage,
                usage_frame=knobs.usage_frame,
            )
        tells_usage = knobs.usage_frame == "always" or wants_usage(entry.members)
        model = requested_model(entry.members)
        return self._script_response(_Same(script), endpoint, model, streams, tells_usage, knobs.profile, knobs.usage)

    def _say(self, entry: LogEntry, endpoint: InferenceEndpoint, text: str, *, exact: bool) -> ScriptedResponse:
        knobs = self._core.knobs
        streams = entry.streams if knobs.stream_mode == "auto" else knobs.stream_mode == "always"
        if knobs.usage == "estimate" or knobs.usage_frame == "requested":
            return _say(endpoint, text, entry.members, knobs, streams=streams, exact=exact)
        model = entry.members.get("model")
        name = model if isinstance(model, str) else None
        return self._text_response(endpoint, text, name, streams, exact, knobs.profile, knobs.stop_reason, knobs.usage)

    def _play_answer(self, answer: Answer, entry: LogEntry) -> Steps[None]:
        response = yield from find_response(answer, entry, self.render)
        yield from self._play(response, entry, self._gate(entry), is_script=True)

    def _play(self, response: ScriptedResponse, entry: LogEntry, gate: Gate, *, is_script: bool) -> Steps[None]:
        if is_script:
            self._note_mismatch(response, entry)
            if entry.answered_by == "fifo" and not isinstance(response.body, SseBody):
                gate = OPEN_GATE
        yield from play(self._core.knobs.altered(response), entry, gate, self._core.pace())

    def _note_mismatch(self, response: ScriptedResponse, entry: LogEntry) -> None:
        entry.mismatch = _mismatch(response, entry)
        if entry.mismatch is not None:
            with self._core.board.lock:
                self._core.failures.append(f"request [{entry.index}] {entry.line}: {entry.mismatch}")

    def _gate(self, entry: LogEntry) -> Gate:
        return _CompletionGate(self._core.knobs) if entry.kind is RequestKind.FOREGROUND else OPEN_GATE


class _CompletionGate:
    """Holds the last frame of user-facing turns while completions are held (2.10)."""

    may_hold = True

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    def hold_index(self, body: SseBody) -> int:
        return last_index(body)

    def arrive(self) -> Latch | None:
        return None if self._knobs.completions.is_open else self._knobs.completions

    def cross(self) -> None:
        pass


def _failing(error: Exception) -> Steps[None]:
    raise error
    yield  # makes a generator of it, which fails when the answer runs


def _mismatch(response: ScriptedResponse, entry: LogEntry) -> str | None:
    """Return what a script and the request disagree about; errors are JSON whatever was asked for."""
    if response.status >= 400 or isinstance(response.body, RawBody):
        return None
    is_stream = isinstance(response.body, SseBody)
    if is_stream and not entry.streams:
        return "events were scripted, and the request asks for one JSON body"
    return "one JSON body was scripted, and the request asks for a stream" if entry.streams and not is_stream else None


def _say(
    endpoint: InferenceEndpoint, text: str, body: Mapping[str, object], knobs: Knobs, *, streams: bool, exact: bool
) -> ScriptedResponse:
    return text_response(
        endpoint,
        text,
        body,
        streams=streams,
        exact=exact,
        profile=knobs.profile,
        stop_reason=knobs.stop_reason,
        usage=knobs.usage,
        usage_frame=knobs.usage_frame,
    )


class _Same:
    """A script as a key: the very same one, and not another that is equal, which would take long to find out."""

    __slots__ = ("script",)

    def __init__(self, script: Script) -> None:
        self.script = script

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.script is other.script

    def __hash__(self) -> int:
        return id(self.script)


def _counts_ids(script: Script) -> bool:
    """Whether a script has a call without an id, so that no two answers are equal."""
    return any(isinstance(step, ToolCallStep) and step.tool_call_id is None for step in script.steps)


def _script_response(
    same: _Same,
    endpoint: InferenceEndpoint,
    model: str,
    streams: bool,  # noqa: FBT001 - a cache's key goes by position
    tells_usage: bool,  # noqa: FBT001
    profile: Any,
    usage: Any,
) -> ScriptedResponse:
    return script_response(
        endpoint,
        same.script,
        {"model": model, "stream_options": {"include_usage": tells_usage}},
        streams=streams,
        ids=IdCounter(),
        profile=profile,
        usage=usage,
        usage_frame="requested",
    )


def _text_response(
    endpoint: InferenceEndpoint,
    text: str,
    model: str | None,
    streams: bool,  # noqa: FBT001 - a cache's key goes by position
    exact: bool,  # noqa: FBT001
    profile: Any,
    stop_reason: str,
    usage: Any,
) -> ScriptedResponse:
    return text_response(
        endpoint,
        text,
        {} if model is None else {"model": model},
        streams=streams,
        exact=exact,
        profile=profile,
        stop_reason=stop_reason,
        usage=usage,
    )
