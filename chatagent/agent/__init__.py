"""Chat agents: their definition, the run that works for one conversation, and the `chat` namespace."""

from chatagent.agent.accumulator import ConsumedHandover, MessageAccumulator
from chatagent.agent.boot import run_agent
from chatagent.agent.builder import ChatBuilder
from chatagent.agent.capture import PipeAndCaptureResult
from chatagent.agent.chat_local import ChatLocal
from chatagent.agent.chat_session import ChatSession, ChatTurn, TurnHandover
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.client_view import CONTEXT_TYPE, RUN_METADATA_TYPE, RunMetadata
from chatagent.agent.commands import Command, CommandContext, command
from chatagent.agent.compaction_options import (
    CompactionOptions,
    CompactionState,
    CompactMessagesEvent,
    CompactResult,
    ShouldCompactEvent,
    SummarizeEvent,
)
from chatagent.agent.custom import CustomRunContext
from chatagent.agent.custom_turns import StopSignal, TurnCursors
from chatagent.agent.definition import HOOK_NAMES, AgentOptions, ChatAgent, TaskOptions
from chatagent.agent.events import (
    ActionEvent,
    BeforeTurnCompleteEvent,
    BootEvent,
    ChatResumeEvent,
    ChatStartEvent,
    ChatSuspendEvent,
    CompactedEvent,
    HydrateMessagesEvent,
    PendingToolCall,
    PreloadEvent,
    PrepareMessagesEvent,
    RecoveryBootEvent,
    RecoveryResult,
    ResolveToolsEvent,
    RunEvent,
    TurnCompleteEvent,
    TurnStartEvent,
    ValidateMessagesEvent,
)
from chatagent.agent.facades import MessageResult, Messages
from chatagent.agent.handover import HandoverSignal
from chatagent.agent.history import History, NewToolResult, ToolCallRef
from chatagent.agent.merge import merge_by_id_replace_wins, slim_submit_message_for_wire, upsert_incoming_message
from chatagent.agent.namespace import Chat, chat
from chatagent.agent.observer import (
    BootReport,
    HookCall,
    NullObserver,
    Observers,
    RunInfo,
    RunObserver,
    Telemetry,
    TurnReport,
)
from chatagent.agent.pending_messages import (
    PendingMessageReceivedEvent,
    PendingMessagesEvent,
    PendingMessagesInjectedEvent,
    PendingMessagesOptions,
)
from chatagent.agent.prompt import Prompt
from chatagent.agent.questions import RESUME_KEY, SUSPEND_TYPE
from chatagent.agent.run import AgentRun, RunEnvironment
from chatagent.agent.skill_tools import build_skill_tools
from chatagent.agent.skills import ResolvedSkill, Skill
from chatagent.agent.stored_files import LoadFile
from chatagent.agent.stream_text_options import LanguageModelRegistry
from chatagent.agent.tool_data import TOOL_DATA_ACTION, is_tool_data, tool_data_action
from chatagent.agent.wire import Trigger, WirePayload, parse_client_message, parse_payload
from chatagent.agent.work import (
    BootWork,
    CompactionWork,
    InjectionWork,
    ReadWork,
    RunWork,
    SnapshotWork,
    StreamWork,
    TurnWork,
    WaitsFor,
    WaitWork,
    Work,
)
from chatagent.agent.writer import ChunkWriter, StreamWriter

__all__ = [
    "CONTEXT_TYPE",
    "HOOK_NAMES",
    "RESUME_KEY",
    "RUN_METADATA_TYPE",
    "SUSPEND_TYPE",
    "TOOL_DATA_ACTION",
    "ActionEvent",
    "AgentOptions",
    "AgentRun",
    "BeforeTurnCompleteEvent",
    "BootEvent",
    "BootReport",
    "BootWork",
    "Chat",
    "ChatAgent",
    "ChatBuilder",
    "ChatLocal",
    "ChatResumeEvent",
    "ChatSession",
    "ChatStartEvent",
    "ChatSuspendEvent",
    "ChatTurn",
    "ChunkWriter",
    "Command",
    "CommandContext",
    "CompactMessagesEvent",
    "CompactResult",
    "CompactedEvent",
    "CompactionOptions",
    "CompactionState",
    "CompactionWork",
    "ConsumedHandover",
    "CustomRunContext",
    "HandoverSignal",
    "History",
    "HookCall",
    "HydrateMessagesEvent",
    "InjectionWork",
    "LanguageModelRegistry",
    "LoadFile",
    "MessageAccumulator",
    "MessageResult",
    "Messages",
    "NewToolResult",
    "NullObserver",
    "Observers",
    "PendingMessageReceivedEvent",
    "PendingMessagesEvent",
    "PendingMessagesInjectedEvent",
    "PendingMessagesOptions",
    "PendingToolCall",
    "PipeAndCaptureResult",
    "PreloadEvent",
    "PrepareMessagesEvent",
    "Prompt",
    "ReadWork",
    "RecoveryBootEvent",
    "RecoveryResult",
    "ResolveToolsEvent",
    "ResolvedSkill",
    "RunEnvironment",
    "RunEvent",
    "RunInfo",
    "RunMetadata",
    "RunObserver",
    "RunWork",
    "ShouldCompactEvent",
    "Skill",
    "SnapshotWork",
    "StopSignal",
    "StreamWork",
    "StreamWriter",
    "SummarizeEvent",
    "TaskOptions",
    "Telemetry",
    "ToolCallRef",
    "Trigger",
    "TurnCompleteEvent",
    "TurnCursors",
    "TurnHandover",
    "TurnReport",
    "TurnStartEvent",
    "TurnWork",
    "ValidateMessagesEvent",
    "WaitWork",
    "WaitsFor",
    "WirePayload",
    "Work",
    "build_skill_tools",
    "chat",
    "cleanup_aborted_parts",
    "command",
    "is_tool_data",
    "merge_by_id_replace_wins",
    "parse_client_message",
    "parse_payload",
    "run_agent",
    "slim_submit_message_for_wire",
    "tool_data_action",
    "upsert_incoming_message",
]
