"""From a request to the steps of its answer: the one path that sockets, ASGI and in-process transports share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.errors import ServerClosedError
from chatagent_test.inference.expectations.book import ExpectationBook
from chatagent_test.inference.log import LogEntry, RequestLog
from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.inference.server.holds import NamedHolds
from chatagent_test.inference.server.inference_routes import InferenceRoutes
from chatagent_test.inference.server.knobs import Knobs
from chatagent_test.inference.server.queues import ResponseQueues
from chatagent_test.inference.server.side_routes import SideRoutes
from chatagent_test.inference.server.storage import StorageRoute
from chatagent_test.inference.steps import OPEN_GATE, Pace, ServerStopping, Steps, play
from chatagent_test.inference.waiting import Board

if TYPE_CHECKING:
    from chatagent_test.inference.expectations.classifying import RequestClassifier
    from chatagent_test.inference.server.recorder import Recorder
    from chatagent_test.inference.server.requests import Request

__all__ = ["Core"]

UNLOGGED_404 = frozenset(
    {
        "GET /v1/storage/exists",
        "POST /v1/storage/batch_exists",
        "POST /v1/storage/batch_upload_json",
        "POST /v1/storage/batch_upload",
        "GET /v1/storage/limits",
    }
)


class Core:
    """The state of one server, room by room, and its routes. It does no I/O and owns no thread."""

    def __init__(self, classifier: RequestClassifier, *, strict: bool, allow_echo: bool, max_body_bytes: int) -> None:
        self.board = Board()
        self.log = RequestLog(self.board)
        self.knobs = Knobs()
        self.queues = ResponseQueues(self.board)
        self.book = ExpectationBook(self.board, classifier)
        self.holds = NamedHolds(self.board)
        self.storage = StorageRoute(self.board, self.knobs)
        self.recorder: Recorder | None = None
        self.strict = strict
        self.max_body_bytes = max_body_bytes
        self.failures: list[str] = []
        """What strict servers raise at close, found while answering."""
        self.is_closed = False
        self.under_way = 0
        """Answers that have not ended, those of unlogged routes left out."""
        self.inference = InferenceRoutes(self, classifier, echoes=allow_echo or not strict)
        self._sides = SideRoutes(self)

    def answer(self, request: Request) -> Steps[None]:
        """Take a request down and return the answer to it, which has not begun yet.

        Raises:
            ServerClosedError: the server takes no more requests.
        """
        if self.is_closed:
            raise ServerClosedError
        path, method = request.path, request.method
        if path == "/v1/storage" and method == "POST" and not request.is_too_large:
            return self._plain(self.storage.upload(request))
        if f"{method} {path}" in UNLOGGED_404:
            return self._plain(ScriptedResponse.text(404, ""))
        endpoint = self.inference.endpoint(path)
        if endpoint is not None:
            return self.guarded(*self.inference.open(request, endpoint))
        return self.guarded(*self._sides.open(request))

    def pace(self) -> Pace:
        """Return how fast streams go that begin now."""
        return Pace(self.knobs.chunk_delay, self.knobs.keep_alive, self.holds.arrive)

    def guarded(self, entry: LogEntry, steps: Steps[None]) -> Steps[None]:
        """Run an answer, and take down how it ends; a failure of a test's own function becomes a 500."""
        with self.board.lock:
            self.under_way += 1
        try:
            yield from steps
        except GeneratorExit:
            self._finish(entry, "client_disconnected")
            raise
        except ServerStopping:
            self._finish(entry, "aborted")
            raise
        except Exception as error:
            self._fail(entry, error)
            if entry.status is not None:
                self._finish(entry, "aborted")
                raise
            yield from play(_failed(entry), entry, OPEN_GATE, self.pace())
            self._finish(entry, "complete")
        else:
            self._finish(entry, "aborted" if entry.outcome == "aborted" else "complete")

    def problems(self) -> list[str]:
        """Return what a strict server raises at close."""
        with self.board.lock:
            found = list(self.failures)
        found += self.book.explain(self.log.accepted())
        for path, count in self.queues.leftovers().items():
            found.append(f"{count} queued response{'s' if count > 1 else ''} at {path} nobody asked for")
        if self.recorder is not None:
            found += [f"recording {name} nobody asked for" for name in self.recorder.recordings.unused]
        turns = len(self.knobs.agent_turns)
        return [*found, f"{turns} agent turns nobody asked for"] if turns else found

    def release_all(self) -> None:
        """Open every barrier, gate and hold, so that nothing waits for a test any more."""
        self.book.release_all()
        self.knobs.release_all()
        self.holds.release_all()

    def _plain(self, response: ScriptedResponse) -> Steps[None]:
        return play(response, LogEntry("", "", None), OPEN_GATE, self.pace())

    def _fail(self, entry: LogEntry, error: Exception) -> None:
        entry.error = f"{type(error).__name__}: {error}"
        entry.answered_by = "error"
        with self.board.lock:
            self.failures.append(f"request [{entry.index}] {entry.line}: its answer failed with {entry.error}")

    def _finish(self, entry: LogEntry, outcome: str) -> None:
        with self.board.lock:
            self.under_way -= 1
            entry.outcome = outcome  # pyright: ignore[reportAttributeAccessIssue] - one of the three words
            self.board.changed()


def _failed(entry: LogEntry) -> ScriptedResponse:
    message = f"the mock inference server could not answer: {entry.error}"
    return ScriptedResponse.json(500, {"error": {"message": message, "type": "mock_server_error"}})
