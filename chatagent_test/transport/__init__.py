"""A scripted backend for code that talks to an agent: the real client over it, seeds, scripts, inspection."""

from __future__ import annotations

from chatagent_test.transport.client import MockAgentClient, create_mock_agent_client
from chatagent_test.transport.commands import CommandCall, MockCommands
from chatagent_test.transport.controllers import TextController, ToolController, ToolInputController
from chatagent_test.transport.errors import (
    MockConfigError,
    MockError,
    NoActiveRunError,
    ResponseDetachedError,
    ResponseEndedError,
    ResponseNotStartedError,
    ScriptError,
    SeedError,
    UnknownToolError,
    UnusedScriptsError,
)
from chatagent_test.transport.events import MockEvents
from chatagent_test.transport.faults import MockFaults
from chatagent_test.transport.files import MockFiles
from chatagent_test.transport.given import Given, given
from chatagent_test.transport.inspection import LoggedRequest, MockInspection, RequestLog
from chatagent_test.transport.making import create_mock_agent_transport
from chatagent_test.transport.reply import Reply, reply
from chatagent_test.transport.responses import MockResponses
from chatagent_test.transport.scripts import Script as ReplyScript
from chatagent_test.transport.scripts import SeedAction
from chatagent_test.transport.seeds import SeedFile, SeedThread
from chatagent_test.transport.streamed import ResponseStarted, StreamedResponse
from chatagent_test.transport.tools import RegisteredTool
from chatagent_test.transport.transport import MockAgentTransport

__all__ = [
    "CommandCall",
    "Given",
    "LoggedRequest",
    "MockAgentClient",
    "MockAgentTransport",
    "MockCommands",
    "MockConfigError",
    "MockError",
    "MockEvents",
    "MockFaults",
    "MockFiles",
    "MockInspection",
    "MockResponses",
    "NoActiveRunError",
    "RegisteredTool",
    "Reply",
    "ReplyScript",
    "RequestLog",
    "ResponseDetachedError",
    "ResponseEndedError",
    "ResponseNotStartedError",
    "ResponseStarted",
    "ScriptError",
    "SeedAction",
    "SeedError",
    "SeedFile",
    "SeedThread",
    "StreamedResponse",
    "TextController",
    "ToolController",
    "ToolInputController",
    "UnknownToolError",
    "UnusedScriptsError",
    "create_mock_agent_client",
    "create_mock_agent_transport",
    "given",
    "reply",
]
