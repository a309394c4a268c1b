"""The errors of clients and of the backends they talk to.

```text
ChatAgentError
├── ThreadIdError                  an id that no thread can have (ValueError)
├── EmptyMessageError              a message that says nothing (ValueError)
├── ReservedNameError              a name that is kept for the protocol itself (ValueError)
├── ThreadNotFoundError            (LookupError)
├── ThreadDeletedError             a wait on a thread that was deleted meanwhile (LookupError)
├── MessageNotFoundError           (LookupError)
├── RunNotFoundError               (LookupError)
├── ToolCallNotFoundError          (LookupError)
├── StoredFileNotFoundError        (LookupError)
├── CommandNotFoundError           (LookupError)
├── MessageExistsError             the id of a message is taken (ValueError)
├── ThreadBusyError                a run is at work or queued
├── NothingToRetryError            the last generation has not failed
├── NothingToRegenerateError       there is nothing to answer
├── ActionNotPendingError          nobody waits for this answer; `reason` says why
├── ActionValueError               an answer that does not fit its schema (ValueError)
├── CommandInputError              an input that does not fit the command (ValueError)
├── ToolDataError                  data that the tool has no channel for (ValueError)
├── CommandFailedError             the command's handler raised
├── GenerationFailedError          a thread's last generation failed; raised by `raise_for_error()` only
├── TransportUnavailableError      the backend was not reached, or the connection was lost (ConnectionError)
├── TransportProtocolError         an answer that cannot be understood
├── TransportAuthError             refused by the backend's own authorization (PermissionError)
├── UnsupportedOperationError      the transport has not got the profile of this operation
├── ClientClosedError              the client or the transport is closed
├── RunNotBlockedError             the run settled instead of waiting for an answer
└── RunWaitTimeoutError            a `WaitTimeoutError`: a wait took longer than the client's `wait_timeout`
```

A class builds its own message from keyword facts and keeps the facts as attributes, so that a transport that carries
errors over a wire can rebuild them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from chatagent.errors import ChatAgentError, WaitTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.protocol.models import RunStatus, ThreadError

__all__ = [
    "ActionNotPendingError",
    "ActionProblem",
    "ActionValueError",
    "ClientClosedError",
    "CommandFailedError",
    "CommandInputError",
    "CommandNotFoundError",
    "EmptyMessageError",
    "GenerationFailedError",
    "MessageExistsError",
    "MessageNotFoundError",
    "NothingToRegenerateError",
    "NothingToRetryError",
    "ReservedNameError",
    "RunNotBlockedError",
    "RunNotFoundError",
    "RunWaitTimeoutError",
    "StoredFileNotFoundError",
    "ThreadBusyError",
    "ThreadDeletedError",
    "ThreadIdError",
    "ThreadNotFoundError",
    "ToolCallNotFoundError",
    "ToolDataError",
    "TransportAuthError",
    "TransportProtocolError",
    "TransportUnavailableError",
    "UnsupportedOperationError",
]

ActionProblem: TypeAlias = Literal["resolved", "superseded", "aborted", "unknown"]
"""Why nobody waits for an answer any more."""


class ThreadIdError(ChatAgentError, ValueError):
    """An id that no thread can have; nothing was asked of the backend."""

    def __init__(self, *, thread_id: object) -> None:
        super().__init__(
            f"`thread_id` is {thread_id!r:.100}: give a text of 1 to 128 characters without white space and without `/`"
        )
        self.thread_id = thread_id


class EmptyMessageError(ChatAgentError, ValueError):
    """A message that says nothing; it was not sent."""

    def __init__(self, *, problem: str) -> None:
        super().__init__(f"the message is empty: {problem}")
        self.problem = problem


class ReservedNameError(ChatAgentError, ValueError):
    """A name that is kept for the protocol itself.

    Args:
        field: where it stands.
        name: the name.
    """

    def __init__(self, *, field: str, name: str) -> None:
        super().__init__(f"`{field}` is {name!r}, which is kept for the protocol: use a name without `chatagent`")
        self.field, self.name = field, name


class ThreadNotFoundError(ChatAgentError, LookupError):
    """No thread has this id."""

    def __init__(self, *, thread_id: str) -> None:
        super().__init__(f"there is no thread {thread_id!r}; it comes into being with the first send")
        self.thread_id = thread_id


class ThreadDeletedError(ChatAgentError, LookupError):
    """The thread was deleted, so what was waited for will not happen."""

    def __init__(self, *, thread_id: str) -> None:
        super().__init__(f"thread {thread_id!r} was deleted")
        self.thread_id = thread_id


class MessageNotFoundError(ChatAgentError, LookupError):
    """The thread has no message of this id."""

    def __init__(self, *, thread_id: str, message_id: str) -> None:
        super().__init__(f"thread {thread_id!r} has no message {message_id!r}")
        self.thread_id, self.message_id = thread_id, message_id


class RunNotFoundError(ChatAgentError, LookupError):
    """The thread has no run of this id."""

    def __init__(self, *, thread_id: str, run_id: str) -> None:
        super().__init__(f"thread {thread_id!r} has no run {run_id!r}")
        self.thread_id, self.run_id = thread_id, run_id


class ToolCallNotFoundError(ChatAgentError, LookupError):
    """The message has no tool call of this id."""

    def __init__(self, *, message_id: str, tool_call_id: str) -> None:
        super().__init__(f"message {message_id!r} has no tool call {tool_call_id!r}")
        self.message_id, self.tool_call_id = message_id, tool_call_id


class StoredFileNotFoundError(ChatAgentError, LookupError):
    """No file has this id."""

    def __init__(self, *, file_id: str) -> None:
        super().__init__(f"there is no file {file_id!r}")
        self.file_id = file_id


class CommandNotFoundError(ChatAgentError, LookupError):
    """There is no command of this name.

    Args:
        command: the name that was asked for.
        known: the names that there are.
    """

    def __init__(self, *, command: str, known: Sequence[str] = ()) -> None:
        there = f"there are {', '.join(sorted(known))}" if known else "there are none"
        super().__init__(f"there is no command {command!r}; {there}")
        self.command, self.known = command, list(known)


class MessageExistsError(ChatAgentError, ValueError):
    """The id of a new message is taken."""

    def __init__(self, *, thread_id: str, message_id: str) -> None:
        super().__init__(f"thread {thread_id!r} has a message {message_id!r} already; leave the id out for a new one")
        self.thread_id, self.message_id = thread_id, message_id


class ThreadBusyError(ChatAgentError):
    """A run of the thread is at work or queued, so its history cannot be answered anew now."""

    def __init__(self, *, thread_id: str, active_run_id: str) -> None:
        super().__init__(f"thread {thread_id!r} is busy with run {active_run_id!r}; wait for it or abort it first")
        self.thread_id, self.active_run_id = thread_id, active_run_id


class NothingToRetryError(ChatAgentError):
    """The thread's last generation has not failed, or it had no input."""

    def __init__(self, *, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} has no failed generation to retry; use regenerate() to answer a message again"
        )
        self.thread_id = thread_id


class NothingToRegenerateError(ChatAgentError):
    """The thread has no message that could be answered again."""

    def __init__(self, *, thread_id: str) -> None:
        super().__init__(f"thread {thread_id!r} has no message that could be answered again")
        self.thread_id = thread_id


class ActionNotPendingError(ChatAgentError):
    """Nobody waits for this answer.

    Args:
        action_id: the action that was answered.
        reason: why it is not pending.
    """

    def __init__(self, *, action_id: str, reason: ActionProblem) -> None:
        told = {
            "resolved": "it was answered already",
            "superseded": "a newer generation has taken the place of its run",
            "aborted": "its run was aborted",
            "unknown": "there is no such action",
        }
        super().__init__(f"action {action_id!r} is not pending ({reason}): {told.get(reason, reason)}")
        self.action_id, self.reason = action_id, reason


class ActionValueError(ChatAgentError, ValueError):
    """An answer that does not fit what the action asks for; the action stays pending."""

    def __init__(self, *, action: str, field: str, problem: str) -> None:
        super().__init__(f"the value for {action!r} does not fit: `{field}`: {problem}")
        self.action, self.field, self.problem = action, field, problem


class CommandInputError(ChatAgentError, ValueError):
    """An input that does not fit the command; its handler was not called."""

    def __init__(self, *, command: str, field: str, problem: str) -> None:
        super().__init__(f"the input of command {command!r} does not fit: `{field}`: {problem}")
        self.command, self.field, self.problem = command, field, problem


class ToolDataError(ChatAgentError, ValueError):
    """Data that the tool has no channel for, or that the channel does not take."""

    def __init__(self, *, tool: str, channel: str, problem: str) -> None:
        super().__init__(f"tool {tool!r}, channel {channel!r}: {problem}")
        self.tool, self.channel, self.problem = tool, channel, problem


class CommandFailedError(ChatAgentError):
    """The command's handler raised; in one process that exception is the cause.

    Args:
        command: the command.
        problem: what the handler said.
    """

    def __init__(self, *, command: str, problem: str) -> None:
        super().__init__(f"command {command!r} failed: {problem}")
        self.command, self.problem = command, problem


class GenerationFailedError(ChatAgentError):
    """The thread's last generation failed. Raised by `ThreadState.raise_for_error()` only."""

    def __init__(self, error: ThreadError) -> None:
        super().__init__(f"run {error.run_id!r} failed ({error.operation}): {error.message}")
        self.error = error


class TransportUnavailableError(ChatAgentError, ConnectionError):
    """The backend was not reached, or the connection was lost: whether the call took effect is unknown.

    Repeating it with the same `request_id` is safe.
    """

    def __init__(self, *, operation: str, problem: str = "the backend was not reached") -> None:
        super().__init__(f"{operation}: {problem}; repeating the call with the same request_id is safe")
        self.operation, self.problem = operation, problem


class TransportProtocolError(ChatAgentError):
    """An answer of the backend that cannot be understood."""

    def __init__(self, *, operation: str, detail: str) -> None:
        super().__init__(f"{operation}: the backend's answer cannot be understood: {detail}")
        self.operation, self.detail = operation, detail


class TransportAuthError(ChatAgentError, PermissionError):
    """The backend's own authorization refused the call; nothing was changed."""

    def __init__(self, *, operation: str, status: int) -> None:
        super().__init__(f"{operation}: the backend refused the call (status {status})")
        self.operation, self.status = operation, status


class UnsupportedOperationError(ChatAgentError):
    """The transport has not got the profile that this operation belongs to."""

    def __init__(self, *, operation: str, profile: str) -> None:
        super().__init__(f"{operation}: this transport has no profile {profile!r}")
        self.operation, self.profile = operation, profile


class ClientClosedError(ChatAgentError):
    """The client, or the transport, is closed."""

    def __init__(self, *, operation: str) -> None:
        super().__init__(f"{operation}: the client is closed")
        self.operation = operation


class RunNotBlockedError(ChatAgentError):
    """The run settled instead of waiting for an answer."""

    def __init__(self, *, run_id: str, status: RunStatus) -> None:
        super().__init__(f"run {run_id!r} is {status}: it ended without waiting for an answer")
        self.run_id, self.status = run_id, status


class RunWaitTimeoutError(WaitTimeoutError):
    """A wait for a run took longer than the client's `wait_timeout`; the run goes on.

    Args:
        thread_id: the thread.
        run_id: the run that was waited for; `None` if the wait was for the thread.
        status: where the run stands.
        seconds: the limit, in real seconds.
        pending: the ids of the actions that wait for an answer.
        hint: what the transport knows about it.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str | None,
        status: str,
        seconds: float,
        pending: Sequence[str] = (),
        hint: str | None = None,
    ) -> None:
        who = f"thread {thread_id!r}" if run_id is None else f"run {run_id!r} of thread {thread_id!r}"
        way_out = ", which somebody has to answer; `wait()` returns when a run waits for that"
        actions = f"; pending actions: {', '.join(pending)}{way_out}" if pending else ""
        told = f"; {hint}" if hint else ""
        super().__init__(f"{who} is {status} after {seconds:g} s of waiting{actions}{told}")
        self.thread_id, self.run_id, self.status, self.seconds = thread_id, run_id, status, seconds
        self.pending, self.hint = list(pending), hint
