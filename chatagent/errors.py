"""Every error of the project, in one tree.

```text
ChatAgentError
├── AbortError                      a signal was aborted; `reason` says why
├── ChatContextError                a `chat.` function was called outside a run, or outside a turn
├── AgentDefinitionError            an agent was defined twice over, or changed after its first boot
├── InvalidMessageError             a message that cannot enter a conversation (ValueError)
├── ClientDataError                 client data that fails its schema (ValueError)
├── ActionError                     an action that fails its schema (ValueError)
├── HookResultError                 a hook returned something that it must not return (TypeError)
├── ChunkError                      a chunk that is not one of the wire's (ValueError)
├── UIMessageStreamError            a chunk that does not fit the chunks before it (ValueError)
├── StreamedError                   an `error` chunk: what the other side said when it failed
├── MessageConversionError          a UI message that no model can be shown (ValueError)
├── MessageValidationError          stored messages that break their format (ValueError)
├── InvalidArgumentError            an argument out of its range (ValueError)
├── LocalNotFoundError              a local that the run does not have (LookupError)
├── MissingExtraError               an optional dependency that is not installed (ImportError)
├── SkillError                      a skill that cannot be read (ValueError)
├── ModelError                      what goes wrong around a model call
│   ├── APICallError                the provider answered with an error, or not at all
│   ├── StreamProviderError         the provider reported an error inside its stream
│   ├── RetryError                  every try of a model call failed
│   ├── InvalidPromptError          a prompt that no model may be sent (ValueError)
│   ├── MissingToolResultsError     a prompt with unanswered tool calls (ValueError)
│   ├── MissingAPIKeyError          no key in the environment to ask a provider with (LookupError)
│   ├── ModelNameError              a string that names no model (ValueError)
│   ├── NoOutputGeneratedError      the model said nothing
│   ├── UnknownStreamPartError      a model streamed a part of a type nobody knows (ValueError)
│   ├── InvalidStreamPartError      a model streamed a part with a field missing or wrong (ValueError)
│   └── ToolError
│       ├── NoSuchToolError         the model called a tool that is not there (LookupError)
│       ├── InvalidToolInputError   the model's input does not fit the tool (ValueError)
│       ├── ToolCallRepairError     `repair_tool_call` itself failed
│       ├── ToolChoiceViolationError  the model did not keep to `tool_choice`
│       ├── InvalidToolApprovalError  an approval that answers no request (ValueError)
│       ├── ToolCallNotFoundForApprovalError  an approval of a call that is not there (LookupError)
│       ├── InvalidToolApprovalSignatureError  an approval of a call that nobody was asked about (ValueError)
│       └── ToolDefinitionError     a function that cannot be made a tool (TypeError)
├── StoreError
│   ├── SessionNotFoundError        (LookupError)
│   ├── SessionClosedError          the session takes no more input
│   ├── LeaseLostError              another run has taken over; nothing was written
│   ├── RecordTooLargeError         (ValueError)
│   │   └── ChatChunkTooLargeError  one chunk of a run is too large for a record
│   ├── StoreClosedError            the store is not open
│   ├── SnapshotStoreError          the snapshot could not be read
│   ├── SnapshotCorruptError        stored bytes that do not decode (ValueError)
│   └── SnapshotVersionError        a stored format newer than this release (ValueError)
├── WaitTimeoutError                a wait took longer than its limit (TimeoutError)
│   ├── InputStreamTimeoutError     no record came in time
│   └── WaitpointTimeoutError       no record came in time, while the run was suspended
├── OutOfMemoryError                the run hit its memory limit (MemoryError)
└── HarnessError                    misuse of the test harness
    ├── AgentNotRegisteredError     (LookupError)
    ├── AgentRunEndedError          the run is over, nobody is left to answer
    ├── HarnessClosedError          the harness is closed
    ├── HarnessModeError            the call does not fit the mode of the harness
    ├── HarnessStateError           the call comes too late or too early
    └── ScriptExhaustedError        the model was called more often than its script says (LookupError)
```

A class builds its own message from keyword facts and keeps the facts as attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "APICallError",
    "AbortError",
    "ActionError",
    "AgentDefinitionError",
    "AgentNotRegisteredError",
    "AgentRunEndedError",
    "ChatAgentError",
    "ChatChunkTooLargeError",
    "ChatContextError",
    "ChunkError",
    "ClientDataError",
    "HarnessClosedError",
    "HarnessError",
    "HarnessModeError",
    "HarnessStateError",
    "HookResultError",
    "InputStreamTimeoutError",
    "InvalidArgumentError",
    "InvalidMessageError",
    "InvalidPromptError",
    "InvalidStreamPartError",
    "InvalidToolApprovalError",
    "InvalidToolApprovalSignatureError",
    "InvalidToolInputError",
    "LeaseLostError",
    "LocalNotFoundError",
    "MessageConversionError",
    "MessageValidationError",
    "MissingAPIKeyError",
    "MissingExtraError",
    "MissingToolResultsError",
    "ModelError",
    "ModelNameError",
    "NoOutputGeneratedError",
    "NoSuchToolError",
    "OutOfMemoryError",
    "RecordTooLargeError",
    "RetryError",
    "ScriptExhaustedError",
    "SessionClosedError",
    "SessionNotFoundError",
    "SkillError",
    "SnapshotCorruptError",
    "SnapshotStoreError",
    "SnapshotVersionError",
    "StoreClosedError",
    "StoreError",
    "StreamProviderError",
    "StreamedError",
    "ToolCallNotFoundForApprovalError",
    "ToolCallRepairError",
    "ToolChoiceViolationError",
    "ToolDefinitionError",
    "ToolError",
    "UIMessageStreamError",
    "UnknownStreamPartError",
    "WaitTimeoutError",
    "WaitpointTimeoutError",
]


class ChatAgentError(Exception):
    """The root of all errors that this project raises."""


class AbortError(ChatAgentError):
    """A signal was aborted; work under it stopped on purpose.

    Args:
        reason: what the aborter gave as its reason; `None` if it gave none.
    """

    def __init__(self, reason: object = None) -> None:
        super().__init__("This operation was aborted" if reason is None else f"This operation was aborted: {reason}")
        self.reason = reason


class ChatContextError(ChatAgentError, RuntimeError):
    """A function that needs a run (or a turn) was called where there is none.

    Args:
        name: what was called.
        needs: `run` or `turn`.
        advice: the way out, where it is not the usual one.
    """

    def __init__(self, name: str, *, needs: str = "run", advice: str | None = None) -> None:
        usual = "call it from a hook, a tool or `run` of a chat agent, in a task that the run started"
        super().__init__(f"{name} was called outside a {needs}; {advice or usual}")
        self.name, self.needs = name, needs


class AgentDefinitionError(ChatAgentError, ValueError):
    """An agent's definition contradicts itself, or was changed after the agent had booted."""


class InvalidMessageError(ChatAgentError, ValueError):
    """A message that cannot enter a conversation; nothing was queued.

    Args:
        field: path of the field that is wrong, such as `parts[0].text`.
        value: what stood there.
        problem: what is wrong with it, with the way out.
    """

    def __init__(self, *, field: str, value: object, problem: str) -> None:
        super().__init__(f"message: `{field}` is {_short(value)}: {problem}")
        self.field, self.value, self.problem = field, value, problem


class ClientDataError(ChatAgentError, ValueError):
    """Client data that fails the agent's `client_data_schema`; its cause is the schema's own error."""

    def __init__(self, *, agent_id: str, value: object, problem: str) -> None:
        super().__init__(f"client data of agent {agent_id!r} fails its `client_data_schema`: {problem}")
        self.agent_id, self.value, self.problem = agent_id, value, problem


class ActionError(ChatAgentError, ValueError):
    """An action that fails the agent's `action_schema`; its cause is the schema's own error."""

    def __init__(self, *, agent_id: str, value: object, problem: str) -> None:
        super().__init__(f"action sent to agent {agent_id!r} fails its `action_schema`: {problem}")
        self.agent_id, self.value, self.problem = agent_id, value, problem


class HookResultError(ChatAgentError, TypeError):
    """A hook returned something that it must not return."""

    def __init__(self, *, hook: str, expected: str, value: object) -> None:
        super().__init__(f"`{hook}` must return {expected}, it returned {_short(value)}")
        self.hook, self.expected, self.value = hook, expected, value


class ChunkError(ChatAgentError, ValueError):
    """A chunk that is not one of the wire's: its type is unknown, or a field is missing or of the wrong kind."""

    def __init__(self, *, chunk_type: object, field: str, value: object, problem: str) -> None:
        super().__init__(f"chunk {_short(chunk_type)}: `{field}` is {_short(value)}: {problem}")
        self.chunk_type, self.field, self.value, self.problem = chunk_type, field, value, problem


class UIMessageStreamError(ChatAgentError, ValueError):
    """A chunk that does not fit the chunks before it; the message so far stands.

    Args:
        chunk_type: the wire type of the chunk.
        chunk_id: the block, call or approval id that it names.
        message: what does not fit, with the way out.
    """

    def __init__(self, message: str, *, chunk_type: str, chunk_id: str) -> None:
        super().__init__(message)
        self.chunk_type, self.chunk_id = chunk_type, chunk_id


class StreamedError(ChatAgentError):
    """The stream itself reported an error (an `error` chunk); its text is what the other side said."""


class MessageConversionError(ChatAgentError, ValueError):
    """A UI message that cannot be turned into messages for a model.

    Args:
        field: path of what cannot be, such as `messages[0].parts[1].url`; `parts[1].url` of a message that was
            converted by itself.
        value: what stands there.
        problem: what is wrong with it, with the way out.
    """

    def __init__(self, *, field: str, value: object, problem: str) -> None:
        super().__init__(f"`{field}` is {_short(value)}: {problem}")
        self.field, self.value, self.problem = field, value, problem


class MessageValidationError(ChatAgentError, ValueError):
    """Messages that break their format, or a schema that they were checked by; none of them was changed.

    Args:
        field: path of the first thing that is wrong, such as `messages[0].parts[1].input`.
        value: what stood there.
        problem: what is wrong with it, with the way out.
        entity_name: the tool or the kind of data that it belongs to; `None` if neither.
        entity_id: the id of the call, the data part or the message that failed a schema; `None` if it was no schema.
    """

    def __init__(
        self,
        *,
        field: str,
        value: object,
        problem: str,
        entity_name: str | None = None,
        entity_id: str | None = None,
    ) -> None:
        whose = ", ".join(repr(each) for each in (entity_name, entity_id) if each is not None)
        super().__init__(f"`{field}`{f' ({whose})' if whose else ''} is {_short(value)}: {problem}")
        self.field, self.value, self.problem = field, value, problem
        self.entity_name, self.entity_id = entity_name, entity_id


class InvalidArgumentError(ChatAgentError, ValueError):
    """An argument out of its range."""

    def __init__(self, *, argument: str, value: object, problem: str) -> None:
        super().__init__(f"`{argument}` is {_short(value)}: {problem}")
        self.argument, self.value, self.problem = argument, value, problem


class LocalNotFoundError(ChatAgentError, LookupError):
    """A local was asked for that the run does not have."""

    def __init__(self, local_id: str) -> None:
        super().__init__(
            f"Local with id {local_id} not found: set it in `on_boot`, or in a test with `setup_locals`, "
            "before it is read"
        )
        self.local_id = local_id


class MissingExtraError(ChatAgentError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: what could not be imported.
        extra: the extra of this package that brings it.
    """

    def __init__(self, *, package: str, extra: str) -> None:
        super().__init__(f'the package `{package}` is not installed: pip install "chatagent[{extra}]"')
        self.package, self.extra = package, extra


class SkillError(ChatAgentError, ValueError):
    """A skill that cannot be read, or whose `SKILL.md` lacks something."""

    def __init__(self, *, skill_id: str, problem: str) -> None:
        super().__init__(f"skill {skill_id!r}: {problem}")
        self.skill_id, self.problem = skill_id, problem


class ModelError(ChatAgentError):
    """What goes wrong around a model call."""


class APICallError(ModelError):
    """The provider answered with an error, or did not answer at all.

    Args:
        message: the provider's own words.
        status_code: HTTP status; `None` when there was no answer.
        response_headers: headers of the answer, lower-case names.
        is_retryable: whether another try may help; by default 408, 409, 429 and 5xx are, and so is no answer at all.
        url: what was called.
        response_body: the answer's text.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        response_headers: dict[str, str] | None = None,
        is_retryable: bool | None = None,
        url: str | None = None,
        response_body: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.response_headers = dict(response_headers or {})
        self.url, self.response_body = url, response_body
        if is_retryable is None:
            is_retryable = status_code is None or status_code in (408, 409, 429) or status_code >= 500
        self.is_retryable = is_retryable


class StreamProviderError(ModelError):
    """The provider reported an error inside its stream, as a payload instead of an exception.

    Args:
        message: the provider's own words.
        error_type: the provider's name for the kind of error.
        code: the provider's code for it.
        status_code: HTTP status, if the payload names one.
        is_retryable: whether the payload says that another try may help; `None` if it says nothing.
        payload: what the provider sent, unchanged.
    """

    def __init__(
        self,
        message: str,
        *,
        error_type: str | None = None,
        code: str | int | None = None,
        status_code: int | None = None,
        is_retryable: bool | None = None,
        payload: object = None,
    ) -> None:
        super().__init__(message)
        self.error_type, self.code, self.status_code = error_type, code, status_code
        self.is_retryable, self.payload = is_retryable, payload


class RetryError(ModelError):
    """Every try of a model call failed, or one failed in a way that no retry helps.

    Args:
        message: the summary, with the last error's text.
        reason: `max-retries-exceeded` or `error-not-retryable`.
        errors: the error of each try, in order.
    """

    def __init__(self, message: str, *, reason: str, errors: Sequence[BaseException]) -> None:
        super().__init__(message)
        self.reason, self.errors = reason, list(errors)
        self.last_error = self.errors[-1] if self.errors else None


class InvalidPromptError(ModelError, ValueError):
    """A prompt that no model may be sent."""


class MissingToolResultsError(ModelError, ValueError):
    """A prompt holds tool calls without results, and the model may not be asked before they are answered."""

    def __init__(self, tool_call_ids: Sequence[str]) -> None:
        ids = ", ".join(tool_call_ids)
        super().__init__(
            f"no tool results for the tool calls {ids}: answer them, "
            "or convert with `ignore_incomplete_tool_calls=True`"
        )
        self.tool_call_ids = list(tool_call_ids)


class MissingAPIKeyError(ModelError, LookupError):
    """A provider's client had to be made from the environment, and there is no key in it.

    Args:
        provider: the provider's name.
        variable: the environment variable that is not set.
        client: the class of the client that can be given instead.
    """

    def __init__(self, *, provider: str, variable: str, client: str) -> None:
        super().__init__(
            f"no API key for {provider}: set the environment variable {variable}, "
            f"or give the model a client of your own (`client={client}(...)`)"
        )
        self.provider, self.variable = provider, variable


class ModelNameError(ModelError, ValueError):
    """A string that names no model."""

    def __init__(self, name: str, *, providers: Sequence[str]) -> None:
        known = ", ".join(f'"{provider}:…"' for provider in providers)
        super().__init__(f"no model is called {name!r}: give a provider, a colon and the model's id there: {known}")
        self.name, self.providers = name, list(providers)


class NoOutputGeneratedError(ModelError):
    """The model said nothing."""


class UnknownStreamPartError(ModelError, ValueError):
    """A model streamed a part of a type that this release does not know."""

    def __init__(self, part: object) -> None:
        super().__init__(
            f"the model streamed {_short(part)}, which is no stream part; a part is one of the `Model…` classes of "
            "chatagent.model, or a dict with one of their types"
        )
        self.part = part


class InvalidStreamPartError(ModelError, ValueError):
    """A model streamed a part of a known type with a field that is missing or of the wrong kind."""

    def __init__(self, *, part: object, field: str, value: object, problem: str) -> None:
        super().__init__(f"the model streamed {_short(part)}: `{field}` is {_short(value)}: {problem}")
        self.part, self.field, self.value, self.problem = part, field, value, problem


class ToolError(ModelError):
    """What goes wrong around a tool call."""


class NoSuchToolError(ToolError, LookupError):
    """The model called a tool that is not there."""

    def __init__(self, *, tool_name: str, available_tools: Sequence[str]) -> None:
        there = f"Available tools: {', '.join(available_tools)}." if available_tools else "No tools are available."
        super().__init__(f"Model tried to call unavailable tool '{tool_name}'. {there}")
        self.tool_name, self.available_tools = tool_name, list(available_tools)


class InvalidToolInputError(ToolError, ValueError):
    """The input of a tool call is no JSON, or does not fit the tool's schema."""

    def __init__(self, *, tool_name: str, tool_input: str, problem: str) -> None:
        super().__init__(f"Invalid input for tool {tool_name}: {problem}")
        self.tool_name, self.tool_input, self.problem = tool_name, tool_input, problem


class ToolCallRepairError(ToolError):
    """`repair_tool_call` itself failed; its cause is what it raised, `original_error` what it should have repaired."""

    def __init__(self, *, original_error: BaseException, problem: str) -> None:
        super().__init__(f"Error repairing tool call: {problem}")
        self.original_error = original_error


class ToolChoiceViolationError(ToolError):
    """The model did not keep to `tool_choice`."""


class InvalidToolApprovalError(ToolError, ValueError):
    """An approval that answers no request of the history."""

    def __init__(self, *, approval_id: str) -> None:
        super().__init__(
            f"Tool approval response references unknown approvalId: {_short(approval_id)}. "
            "No matching request was found"
        )
        self.approval_id = approval_id


class ToolCallNotFoundForApprovalError(ToolError, LookupError):
    """An approval request names a call that is not in the history."""

    def __init__(self, *, tool_call_id: str, approval_id: str) -> None:
        super().__init__(f"Tool call {_short(tool_call_id)} not found for approval request {_short(approval_id)}")
        self.tool_call_id, self.approval_id = tool_call_id, approval_id


class InvalidToolApprovalSignatureError(ToolError, ValueError):
    """An approved call does not carry the signature of the request that was sent, so it may not run."""

    def __init__(self, *, approval_id: str, tool_call_id: str) -> None:
        super().__init__(
            f"Tool call {_short(tool_call_id)} was approved, but the signature of approval request "
            f"{_short(approval_id)} is missing or wrong: the call is not the one that was asked about"
        )
        self.approval_id, self.tool_call_id = approval_id, tool_call_id


class ToolDefinitionError(ToolError, TypeError):
    """A function that cannot be made a tool."""


class StoreError(ChatAgentError):
    """What goes wrong in a store of sessions or snapshots."""


class SessionNotFoundError(StoreError, LookupError):
    """No session has this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is not in the store; create it first")
        self.session_id = session_id


class SessionClosedError(StoreError):
    """The session is closed and takes no more input; nothing was written."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is closed and takes no more input")
        self.session_id = session_id


class LeaseLostError(StoreError):
    """Another run has taken the session over, or this run was revoked; nothing was written."""

    def __init__(self, *, session_id: str, epoch: int | None, current_epoch: int | None) -> None:
        super().__init__(
            f"session {session_id!r}: epoch {epoch} may not write, the current one is {current_epoch}; "
            "this run has lost its lease"
        )
        self.session_id, self.epoch, self.current_epoch = session_id, epoch, current_epoch


class RecordTooLargeError(StoreError, ValueError):
    """A record, a batch or a snapshot above its limit; nothing was written."""

    def __init__(self, *, field: str, size: int, limit: int) -> None:
        super().__init__(f"`{field}` is {size}, the limit is {limit}; nothing was written")
        self.field, self.size, self.limit = field, size, limit


class ChatChunkTooLargeError(RecordTooLargeError):
    """One chunk of a run does not fit into a record (N-25); nothing was written, and the run may go on.

    Args:
        chunk_type: the chunk's type on the wire.
        chunk_size: its size in bytes.
        max_size: the limit in bytes.
    """

    def __init__(self, *, chunk_type: str, chunk_size: int, max_size: int) -> None:
        super().__init__(field="chunk", size=chunk_size, limit=max_size)
        way_out = "nothing was written; send it in pieces, or a reference to it"
        self.args = (f"chunk {chunk_type!r} has {chunk_size} bytes, the limit is {max_size}: {way_out}",)
        self.chunk_type, self.chunk_size, self.max_size = chunk_type, chunk_size, max_size


class StoreClosedError(StoreError):
    """The store is not open."""


class SnapshotStoreError(StoreError):
    """The snapshot could not be read; its cause is the store's own error, and nothing was overwritten."""

    def __init__(self, *, session_id: str, problem: str) -> None:
        super().__init__(f"snapshot of session {session_id!r} could not be read: {problem}; nothing was overwritten")
        self.session_id, self.problem = session_id, problem


class SnapshotCorruptError(StoreError, ValueError):
    """A stored snapshot does not decode; it was left as it is."""

    def __init__(self, *, session_id: str, field: str, problem: str) -> None:
        super().__init__(
            f"snapshot of session {session_id!r}: `{field}`: {problem}; it was left as it is, "
            "repair or delete that snapshot"
        )
        self.session_id, self.field, self.problem = session_id, field, problem


class SnapshotVersionError(StoreError, ValueError):
    """A stored snapshot has a format that this release cannot read; it was left as it is."""

    def __init__(self, *, session_id: str, found: object, supported: int) -> None:
        super().__init__(
            f"snapshot of session {session_id!r}: `version` is {found!r}, this release reads {supported}; "
            "upgrade chatagent or delete that snapshot"
        )
        self.session_id, self.found, self.supported = session_id, found, supported


class WaitTimeoutError(ChatAgentError, TimeoutError):
    """A wait took longer than its limit."""


class InputStreamTimeoutError(WaitTimeoutError):
    """No record came on a channel in time."""

    def __init__(self, *, session_id: str, timeout: float | None, direction: str = "in") -> None:
        limit = "before the wait was ended" if timeout is None else f"within {timeout} s"
        super().__init__(f"session {session_id!r}: no record on `.{direction}` {limit}")
        self.session_id, self.timeout = session_id, timeout


class WaitpointTimeoutError(WaitTimeoutError):
    """No record came on a channel in time, while the run was suspended."""

    def __init__(self, *, session_id: str, timeout: float | None, direction: str = "in") -> None:
        limit = "before the suspended wait was ended" if timeout is None else f"within {timeout} s of being suspended"
        super().__init__(f"session {session_id!r}: no record on `.{direction}` {limit}")
        self.session_id, self.timeout = session_id, timeout


class OutOfMemoryError(ChatAgentError, MemoryError):
    """The run hit its memory limit; a platform starts it once more on a larger machine."""


class HarnessError(ChatAgentError):
    """Misuse of the test harness."""


class AgentNotRegisteredError(HarnessError, LookupError):
    """What was given to the harness is no agent."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"no task registered with id {_short(value)}: give the agent itself, "
            "the object that chat.agent(...) returned"
        )
        self.value = value


class AgentRunEndedError(HarnessError):
    """The agent's run is over, so nobody is left to answer; its cause is the run's own error, if it failed."""


class HarnessClosedError(HarnessError):
    """The harness is closed; nothing was queued."""


class HarnessModeError(HarnessError):
    """The call does not fit the mode in which the harness booted; nothing was queued."""


class HarnessStateError(HarnessError):
    """The call comes too late or too early; nothing was changed."""


class ScriptExhaustedError(HarnessError, LookupError):
    """The model was called more often than its script says; `so_far` tells what came of the calls before."""

    def __init__(self, *, call_number: int, entries: int, method: str, so_far: str = "") -> None:
        plural, calls = "entry" if entries == 1 else "entries", call_number + 1
        super().__init__(
            f"no scripted model call {calls}: `{method}` was called {calls} times, and the script has {entries} "
            f"{plural}; add one a call, or give one Script (or a function) that answers every call"
            + (f"\n{so_far}" if so_far else "")
        )
        self.call_number, self.entries, self.method = call_number, entries, method


def _short(value: object, limit: int = 200) -> str:
    """Show a value in a message, cut at `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
