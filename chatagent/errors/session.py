"""What goes wrong with sessions: in their stores, and in waits for their records."""

from __future__ import annotations

from chatagent.errors.base import ChatAgentError


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
