"""Chat agents: their definition, the run that works for one conversation, and the `chat` namespace."""

from chatagent.agent.boot import run_agent
from chatagent.agent.builder import ChatBuilder
from chatagent.agent.chat_local import ChatLocal
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.compaction_options import (
    CompactionOptions,
    CompactionState,
    CompactMessagesEvent,
    CompactResult,
    ShouldCompactEvent,
    SummarizeEvent,
)
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
from chatagent.agent.history import History, NewToolResult, ToolCallRef
from chatagent.agent.merge import merge_by_id_replace_wins, slim_submit_message_for_wire, upsert_incoming_message
from chatagent.agent.namespace import Chat, chat
from chatagent.agent.observer import BootReport, HookCall, NullObserver, RunObserver, TurnReport
from chatagent.agent.pending_messages import (
    PendingMessageReceivedEvent,
    PendingMessagesEvent,
    PendingMessagesInjectedEvent,
    PendingMessagesOptions,
)
from chatagent.agent.prompt import Prompt
from chatagent.agent.run import AgentRun, RunEnvironment
from chatagent.agent.skill_tools import build_skill_tools
from chatagent.agent.skills import ResolvedSkill, Skill
from chatagent.agent.stream_text_options import LanguageModelRegistry
from chatagent.agent.wire import Trigger, WirePayload, parse_client_message, parse_payload
from chatagent.agent.writer import ChunkWriter, StreamWriter

__all__ = [
    "HOOK_NAMES",
    "ActionEvent",
    "AgentOptions",
    "AgentRun",
    "BeforeTurnCompleteEvent",
    "BootEvent",
    "BootReport",
    "Chat",
    "ChatAgent",
    "ChatBuilder",
    "ChatLocal",
    "ChatResumeEvent",
    "ChatStartEvent",
    "ChatSuspendEvent",
    "ChunkWriter",
    "CompactMessagesEvent",
    "CompactResult",
    "CompactedEvent",
    "CompactionOptions",
    "CompactionState",
    "History",
    "HookCall",
    "HydrateMessagesEvent",
    "LanguageModelRegistry",
    "NewToolResult",
    "NullObserver",
    "PendingMessageReceivedEvent",
    "PendingMessagesEvent",
    "PendingMessagesInjectedEvent",
    "PendingMessagesOptions",
    "PendingToolCall",
    "PreloadEvent",
    "PrepareMessagesEvent",
    "Prompt",
    "RecoveryBootEvent",
    "RecoveryResult",
    "ResolveToolsEvent",
    "ResolvedSkill",
    "RunEnvironment",
    "RunEvent",
    "RunObserver",
    "ShouldCompactEvent",
    "Skill",
    "StreamWriter",
    "SummarizeEvent",
    "TaskOptions",
    "ToolCallRef",
    "Trigger",
    "TurnCompleteEvent",
    "TurnReport",
    "TurnStartEvent",
    "ValidateMessagesEvent",
    "WirePayload",
    "build_skill_tools",
    "chat",
    "cleanup_aborted_parts",
    "merge_by_id_replace_wins",
    "parse_client_message",
    "parse_payload",
    "run_agent",
    "slim_submit_message_for_wire",
    "upsert_incoming_message",
]
