"""What a backend stores of a thread, as it goes over the wire: heads, runs, pending actions, files, snapshots.

Frozen pydantic models with camelCase keys; what is not there is left out. What the facade shows instead is in
`projection.py`. Follows the rules DM-1 to DM-50.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, Field

from chatagent.ui.messages import UIMessage
from chatagent.ui.wire import JSONObject, WireModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "BEGINNING",
    "PROFILES",
    "PROFILE_OF",
    "ActionRecord",
    "FileContent",
    "FileInfo",
    "Initiator",
    "Operation",
    "Profile",
    "Run",
    "RunError",
    "RunStatus",
    "StreamingMessage",
    "ThreadError",
    "ThreadHead",
    "ThreadSnapshot",
    "ThreadStatus",
    "WireMessage",
    "changed",
    "is_settled",
]

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The times of a thread that does not exist."""

ThreadStatus: TypeAlias = Literal["idle", "running", "waiting"]
RunStatus: TypeAlias = Literal["queued", "running", "waiting", "completed", "failed", "aborted"]
Initiator: TypeAlias = Literal["send", "retry", "regenerate", "action", "trigger"]
"""What began a run (DM-12)."""
Operation: TypeAlias = Literal["send", "retry", "regenerate", "action", "trigger", "resume"]
"""What a generation answers; `resume` goes on with a run that waited."""
Profile: TypeAlias = Literal["core", "watch", "heads", "regeneration", "actions", "commands", "files"]
"""A group of operations that a transport has, or has not."""

PROFILES: Final[tuple[Profile, ...]] = ("core", "watch", "heads", "regeneration", "actions", "commands", "files")

PROFILE_OF: Final[Mapping[str, Profile]] = {
    "watch_thread": "watch",
    "list_threads": "heads",
    "watch_thread_heads": "heads",
    "rename_thread": "heads",
    "delete_thread": "heads",
    "retry": "regeneration",
    "regenerate": "regeneration",
    "submit_action": "actions",
    "send_action": "actions",
    "write_tool_data": "actions",
    "execute_command": "commands",
    "upload_file": "files",
    "read_file": "files",
    "create_file_url": "files",
}
"""The profile that each operation of a transport belongs to; what is not named here is of `core`."""

WireMessage: TypeAlias = UIMessage
"""A message as it is stored: who owns it stands under the reserved key of its metadata (DM-20)."""

_SETTLED: Final = frozenset({"completed", "failed", "aborted"})


def is_settled(status: RunStatus) -> bool:
    """Return whether a run of this status is over for good (DM-11)."""
    return status in _SETTLED


class ThreadHead(WireModel):
    """What a list of threads shows of one (DM-2)."""

    thread_id: str
    title: str | None = None
    status: ThreadStatus
    metadata: JSONObject = Field(default_factory=dict[str, object])
    created_at: datetime
    updated_at: datetime
    active_run_id: str | None = None


class RunError(WireModel):
    """Why a run failed (DM-14)."""

    message: str
    code: str | None = None


class Run(WireModel):
    """One generation: an input, or a trigger, and all that answers it (DM-10)."""

    run_id: str
    thread_id: str
    status: RunStatus
    initiator: Initiator
    metadata: JSONObject = Field(default_factory=dict[str, object])
    input_message_id: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    settled_at: datetime | None = None
    error: RunError | None = None
    abort_reason: str | None = None

    @property
    def settled(self) -> bool:
        """Whether the run is over for good."""
        return self.status in _SETTLED


class ThreadError(WireModel):
    """Why the last generation failed (DM-42); `message_id` is the input that it should have answered."""

    message: str
    operation: Operation
    run_id: str
    message_id: str | None = None
    code: str | None = None


class ActionRecord(WireModel):
    """A tool call that waits for the client (DM-41), found beside the messages, never inside the public parts."""

    action_id: str
    run_id: str
    message_id: str
    tool_call_id: str
    tool_name: str
    name: str
    """`<tool>.<action>`."""
    action_name: str
    suspend_name: str | None = None
    input: object = None


class StreamingMessage(WireModel):
    """What a reader needs, besides the message, to take the next chunk of one that is coming in.

    A part does not say under which id its block is open, so a snapshot taken in the middle of a text says it here. The
    messages named here are also those that a failure or an abort cleans (EV-17).
    """

    message_id: str
    chunks: int = 0
    """How many chunks the message has had: the index of the next."""
    texts: dict[str, int] = Field(default_factory=dict[str, int])
    """The open text blocks: the part's index by the block's id."""
    reasonings: dict[str, int] = Field(default_factory=dict[str, int])


class ThreadSnapshot(WireModel):
    """A thread as it is stored, raw, with the number of the last event that it includes (DM-40)."""

    thread: ThreadHead
    messages: tuple[WireMessage, ...] = ()
    runs: tuple[Run, ...] = ()
    """In the order in which they were made."""
    actions: tuple[ActionRecord, ...] = ()
    error: ThreadError | None = None
    streaming: tuple[StreamingMessage, ...] = ()
    seq: int


class FileInfo(WireModel):
    """A file of the agent (DM-50); a message refers to it by a `file` part with the url `chatagent-file:<file_id>`."""

    file_id: str
    filename: str
    media_type: str
    size_bytes: int
    metadata: JSONObject = Field(default_factory=dict[str, object])
    created_at: datetime


class FileContent(BaseModel, frozen=True):
    """A file with its bytes."""

    info: FileInfo
    body: bytes


def changed(run: Run, *, clear: Sequence[str] = (), **values: Any) -> Run:
    """Return the run with other values; those named in `clear` are gone, so that the wire form leaves them out."""
    if not clear:
        return run.model_copy(update=values)
    fields: Mapping[str, Any] = {name: getattr(run, name) for name in run.model_fields_set if name not in clear}
    return Run.model_construct(**{**fields, **values})
