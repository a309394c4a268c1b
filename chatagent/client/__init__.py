"""Clients of chat agents: threads, runs and pending actions, over any transport."""

from __future__ import annotations

from chatagent.client.client import AgentClient, create_agent_client
from chatagent.client.commands import ThreadCommands
from chatagent.client.files import ClientFiles
from chatagent.client.pending import ActionResult, PendingAction
from chatagent.client.run import RunHandle
from chatagent.client.thread import Thread
from chatagent.client.transport import AgentClientTransport, WaitHints
from chatagent.client.watch import ThreadUpdate

__all__ = [
    "ActionResult",
    "AgentClient",
    "AgentClientTransport",
    "ClientFiles",
    "PendingAction",
    "RunHandle",
    "Thread",
    "ThreadCommands",
    "ThreadUpdate",
    "WaitHints",
    "create_agent_client",
]
