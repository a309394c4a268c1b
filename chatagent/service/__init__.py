"""The service of an agent: threads over its sessions, and the transport for clients in the same process."""

from __future__ import annotations

from chatagent.service.errors import ServiceLoopError, ServiceStateError, ThreadStoreBusyError
from chatagent.service.files import DirectoryFileStore, FileStore, InMemoryFileStore
from chatagent.service.service import AgentService
from chatagent.service.setting import RunSurroundings
from chatagent.service.store import (
    InMemoryThreadStore,
    OutboxEntry,
    StoredThread,
    TapState,
    ThreadStore,
    ThreadWrite,
)
from chatagent.service.transport import InProcessTransport

__all__ = [
    "AgentService",
    "DirectoryFileStore",
    "FileStore",
    "InMemoryFileStore",
    "InMemoryThreadStore",
    "InProcessTransport",
    "OutboxEntry",
    "RunSurroundings",
    "ServiceLoopError",
    "ServiceStateError",
    "StoredThread",
    "TapState",
    "ThreadStore",
    "ThreadStoreBusyError",
    "ThreadWrite",
]
