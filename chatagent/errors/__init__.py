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

from chatagent.errors.agent import (
    AbortError,
    ActionError,
    AgentDefinitionError,
    ChatContextError,
    ClientDataError,
    HookResultError,
    LocalNotFoundError,
    OutOfMemoryError,
    SkillError,
)
from chatagent.errors.base import (
    ChatAgentError,
    InvalidArgumentError,
    MissingExtraError,
)
from chatagent.errors.harness import (
    AgentNotRegisteredError,
    AgentRunEndedError,
    HarnessClosedError,
    HarnessError,
    HarnessModeError,
    HarnessStateError,
    ScriptExhaustedError,
)
from chatagent.errors.message import (
    ChunkError,
    InvalidMessageError,
    MessageConversionError,
    MessageValidationError,
    StreamedError,
    UIMessageStreamError,
)
from chatagent.errors.model import (
    APICallError,
    InvalidPromptError,
    InvalidStreamPartError,
    MissingAPIKeyError,
    MissingToolResultsError,
    ModelError,
    ModelNameError,
    NoOutputGeneratedError,
    RetryError,
    StreamProviderError,
    UnknownStreamPartError,
)
from chatagent.errors.session import (
    ChatChunkTooLargeError,
    InputStreamTimeoutError,
    LeaseLostError,
    RecordTooLargeError,
    SessionClosedError,
    SessionNotFoundError,
    SnapshotCorruptError,
    SnapshotStoreError,
    SnapshotVersionError,
    StoreClosedError,
    StoreError,
    WaitpointTimeoutError,
    WaitTimeoutError,
)
from chatagent.errors.tool import (
    InvalidToolApprovalError,
    InvalidToolApprovalSignatureError,
    InvalidToolInputError,
    NoSuchToolError,
    ToolCallNotFoundForApprovalError,
    ToolCallRepairError,
    ToolChoiceViolationError,
    ToolDefinitionError,
    ToolError,
)

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
