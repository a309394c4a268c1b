"""`mock.events`: what happens in the backend besides the answers (rules IE-1 to IE-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.protocol import (
    Initiator,
    SendRequest,
    ThreadUpdated,
    TransportUnavailableError,
    check_thread_id,
)
from chatagent.ui import UNSET, TextUIPart, UIMessage, Unset
from chatagent_test.transport.errors import NoActiveRunError, SeedError
from chatagent_test.transport.values import error_text, json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.protocol import BackendThread, Run, ThreadEvent, ThreadHeadEvent
    from chatagent_test.transport.engine import Engine
    from chatagent_test.transport.store import MockStore

__all__ = ["MockEvents"]


class MockEvents:
    """Events and changes that no script tells.

    `push_thread` and `push_thread_head` reach the watches and never the store; the others change the store too.
    """

    def __init__(self, store: MockStore, engine: Engine, run_metadata: Callable[[], Mapping[str, object]]) -> None:
        self._store, self._engine, self._run_metadata = store, engine, run_metadata

    def push_thread(self, thread_id: str, event: ThreadEvent, *, seq: int | None = None) -> None:
        """Send an event to a thread's watches. Write it without `seq`, `thread_id` and `at`.

        Args:
            thread_id: the thread; it need not exist.
            event: the event.
            seq: its number; by default the next one. Others make gaps and duplicates.
        """
        check_thread_id(thread_id)
        self._store.thread(thread_id).push(event, seq)

    def push_thread_head(self, event: ThreadHeadEvent, *, seq: int | None = None) -> None:
        """Send an event to the watches of the list of threads; a changed head must be complete."""
        self._store.push_head(event, seq)

    def change_thread(
        self, thread_id: str, *, title: str | Unset | None = UNSET, metadata: Mapping[str, object] | Unset = UNSET
    ) -> None:
        """Change a thread's title or metadata as the backend would, and tell the watches.

        Raises:
            SeedError: there is no such thread.
        """
        thread = self._existing(thread_id, "change_thread")
        fields: dict[str, Any] = {name: getattr(thread.model.head, name) for name in thread.model.head.model_fields_set}
        if title is None:
            fields.pop("title", None)
        elif title is not UNSET:
            fields["title"] = title
        if metadata is not UNSET:
            fields["metadata"] = json_value(dict(metadata))
        head = type(thread.model.head).model_validate(fields)
        thread.emit(ThreadUpdated(head=head, **thread.stamp()))

    def start_run(self, thread_id: str, input: str, *, initiator: Initiator = "trigger") -> str:
        """Begin a run as the backend does by itself, with an input of its own; it claims the next script.

        Returns:
            The run's id.
        """
        check_thread_id(thread_id)
        thread = self._store.thread(thread_id)
        message = UIMessage(id=self._store.ids.new("msg"), role="user", parts=(TextUIPart(text=input),))
        if not thread.model.live:
            self._engine.check_fit(thread_id, None)
        run, _ = thread.admit(
            initiator=initiator,
            metadata=self._run_metadata(),
            message=message,
            producer="trigger" if initiator == "trigger" else "user",
        )
        request = SendRequest(request_id="", thread_id=thread_id, message=message)
        if run.status == "running":
            self._engine.begin(thread, run.run_id, request)
        else:
            self._engine.admitted(run.run_id, request)
        return run.run_id

    def complete_run(self, thread_id: str, run_id: str | None = None) -> None:
        """Settle the active run well; what plays it is detached.

        Raises:
            NoActiveRunError: there is none, or it is another one.
        """
        thread, run = self._active(thread_id, run_id)
        self._engine.detach(thread_id, "its run was settled by mock.events", run_id=run.run_id)
        thread.settle(run.run_id)
        self._engine.start_next(thread)

    def fail_run(self, thread_id: str, error: BaseException | str, run_id: str | None = None) -> None:
        """Let the active run fail; what plays it is detached.

        Raises:
            NoActiveRunError: there is none, or it is another one.
        """
        thread, run = self._active(thread_id, run_id)
        self._engine.detach(thread_id, "its run was settled by mock.events", run_id=run.run_id)
        thread.fail(run.run_id, error_text(error))
        self._engine.start_next(thread)

    def disconnect(self, thread_id: str | None = None) -> None:
        """Let the watches of a thread lose their connection; without a thread, all watches."""
        for key, thread in self._store.threads.items():
            if thread_id in (None, key):
                thread.log.cut(lambda: _lost("watch_thread"))
        if thread_id is None:
            self._store.heads.cut(lambda: _lost("watch_thread_heads"))

    def forget(self, thread_id: str) -> None:
        """Drop a thread's log, so that its events cannot be replayed."""
        self._existing(thread_id, "forget").log.forget()

    def _existing(self, thread_id: str, call: str) -> BackendThread:
        thread = self._store.threads.get(thread_id)
        if thread is None or not thread.model.exists:
            known = ", ".join(sorted(key for key, each in self._store.threads.items() if each.model.exists)) or "none"
            raise SeedError(f"events.{call}({thread_id!r}): there is no such thread; there are {known}; seed it first")
        return thread

    def _active(self, thread_id: str, run_id: str | None) -> tuple[BackendThread, Run]:
        thread = self._store.threads.get(thread_id)
        active = None if thread is None else thread.model.active_run
        if thread is None or active is None or run_id not in (None, active.run_id):
            runs = () if thread is None else tuple(thread.model.runs.values())
            raise NoActiveRunError(thread_id=thread_id, run_id=run_id if active is not None else None, runs=runs)
        return thread, active


def _lost(operation: str) -> TransportUnavailableError:
    return TransportUnavailableError(operation=operation, problem="the connection was lost")
