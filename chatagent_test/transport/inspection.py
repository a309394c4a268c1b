"""`mock.inspect`: what the backend holds and what it was asked, as copies (rules IN-1 to IN-4, BT-13)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatagent.protocol import SendRequest
from chatagent.ui import TextUIPart
from chatagent_test.transport.transcript import transcript_of

if TYPE_CHECKING:
    from chatagent.protocol import (
        AbortRequest,
        CommandRequest,
        FileInfo,
        RegenerateRequest,
        RetryRequest,
        SendActionRequest,
        SubmitActionRequest,
        ThreadEvent,
        ThreadHeadEvent,
        ThreadQuery,
        ThreadSnapshot,
        ToolDataRequest,
        UploadFileRequest,
    )
    from chatagent_test.transport.engine import Engine
    from chatagent_test.transport.store import MockStore

__all__ = ["CallRecorder", "LoggedRequest", "MockInspection", "RequestLog"]


@dataclass(slots=True)
class LoggedRequest:
    """One call of the transport."""

    index: int
    """Its place among all calls, from 0."""
    operation: str
    request: Any
    """The request, or the arguments of a call that has none."""
    error: Exception | None = None
    """Why it was refused; `None` if it was not."""


class CallRecorder:
    """What the transport writes its calls to; who inspects it has a `RequestLog`."""

    def __init__(self) -> None:
        self.logged: list[LoggedRequest] = []

    def add(self, operation: str, request: Any) -> LoggedRequest:
        """Log a call as it is now, whatever its caller does with the values later; what becomes of it is noted then."""
        logged = LoggedRequest(len(self.logged), operation, _copied(request))
        self.logged.append(logged)
        return logged

    def clear(self) -> None:
        """Forget every call."""
        self.logged.clear()


class RequestLog:
    """The calls of the transport, in order; `log.send()` gives the requests of one operation."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder

    def all(self) -> tuple[LoggedRequest, ...]:
        """Return every call."""
        return tuple(
            LoggedRequest(each.index, each.operation, _copied(each.request), each.error)
            for each in self._recorder.logged
        )

    def of(self, operation: str) -> tuple[Any, ...]:
        """Return the requests of an operation."""
        return tuple(_copied(each.request) for each in self._recorder.logged if each.operation == operation)

    def get_manifest(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `get_manifest`."""
        return self.of("get_manifest")

    def get_thread(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `get_thread`."""
        return self.of("get_thread")

    def send(self) -> tuple[SendRequest, ...]:
        """Return the requests of `send`."""
        return self.of("send")

    def abort(self) -> tuple[AbortRequest, ...]:
        """Return the requests of `abort`."""
        return self.of("abort")

    def watch_thread(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `watch_thread`."""
        return self.of("watch_thread")

    def list_threads(self) -> tuple[ThreadQuery, ...]:
        """Return the requests of `list_threads`."""
        return self.of("list_threads")

    def watch_thread_heads(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `watch_thread_heads`."""
        return self.of("watch_thread_heads")

    def rename_thread(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `rename_thread`."""
        return self.of("rename_thread")

    def delete_thread(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `delete_thread`."""
        return self.of("delete_thread")

    def retry(self) -> tuple[RetryRequest, ...]:
        """Return the requests of `retry`."""
        return self.of("retry")

    def regenerate(self) -> tuple[RegenerateRequest, ...]:
        """Return the requests of `regenerate`."""
        return self.of("regenerate")

    def submit_action(self) -> tuple[SubmitActionRequest, ...]:
        """Return the requests of `submit_action`."""
        return self.of("submit_action")

    def send_action(self) -> tuple[SendActionRequest, ...]:
        """Return the requests of `send_action`."""
        return self.of("send_action")

    def write_tool_data(self) -> tuple[ToolDataRequest, ...]:
        """Return the requests of `write_tool_data`."""
        return self.of("write_tool_data")

    def execute_command(self) -> tuple[CommandRequest, ...]:
        """Return the requests of `execute_command`."""
        return self.of("execute_command")

    def upload_file(self) -> tuple[UploadFileRequest, ...]:
        """Return the requests of `upload_file`."""
        return self.of("upload_file")

    def read_file(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `read_file`."""
        return self.of("read_file")

    def create_file_url(self) -> tuple[dict[str, Any], ...]:
        """Return the arguments of each `create_file_url`."""
        return self.of("create_file_url")


class MockInspection:
    """What the backend holds. Everything is a copy: changing it changes nothing here."""

    def __init__(self, store: MockStore, engine: Engine, recorder: CallRecorder) -> None:
        self._store, self._engine = store, engine
        self.requests = RequestLog(recorder)
        """What clients have asked."""

    def thread(self, thread_id: str) -> ThreadSnapshot | None:
        """Return a thread as it is stored, reserved parts included; `None` if there is none."""
        thread = self._store.threads.get(thread_id)
        if thread is None or not thread.model.exists:
            return None
        return copy.deepcopy(thread.model.snapshot())

    def threads(self) -> tuple[ThreadSnapshot, ...]:
        """Return every thread, in the order in which they came into being."""
        found = (self.thread(thread_id) for thread_id in tuple(self._store.threads))
        return tuple(each for each in found if each is not None)

    def files(self) -> tuple[FileInfo, ...]:
        """Return the files."""
        return tuple(copy.deepcopy(content.info) for content in self._store.files.values())

    def events(self, thread_id: str) -> tuple[ThreadEvent, ...]:
        """Return the logged events of a thread, oldest first."""
        thread = self._store.threads.get(thread_id)
        return () if thread is None else copy.deepcopy(thread.log.events())

    def head_events(self) -> tuple[ThreadHeadEvent, ...]:
        """Return the logged events of the list of threads."""
        return copy.deepcopy(self._store.heads.events())

    def watchers(self, thread_id: str) -> int:
        """Return how many watches of a thread are open."""
        thread = self._store.threads.get(thread_id)
        return 0 if thread is None else thread.log.watchers

    def queue(self) -> tuple[str, ...]:
        """Return the scripts that no run has claimed, as text."""
        return tuple(str(entry) for entry in self._engine.entries)

    def transcript(self, thread_id: str) -> str:
        """Return messages, runs and events of a thread as text that is the same in every run of a test."""
        thread = self._store.threads.get(thread_id)
        if thread is None or not thread.model.exists:
            return f"thread {thread_id}: none\n"
        return transcript_of(thread.model.snapshot(), thread.log.events())


def _copied(request: Any) -> Any:
    """Return a copy of a request; a body that comes in pieces cannot be copied, and mere text need not be."""
    if isinstance(request, SendRequest) and _is_text(request):
        return request
    body = getattr(request, "body", None)
    return request if body is not None and not isinstance(body, bytes) else copy.deepcopy(request)


def _is_text(request: SendRequest) -> bool:
    """Return whether nothing in it could be changed."""
    message = request.message
    return (
        request.client_data is None
        and message.metadata is None
        and all(type(part) is TextUIPart for part in message.parts)
    )
