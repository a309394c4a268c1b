"""What an agent is: its `run`, its hooks and its options, as a value that many runs share.

An agent is completed by decorators until it is first booted; from then on it does not change.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, cast

from chatagent.agent.commands import check_commands
from chatagent.agent.compaction_options import COMPACTION_CALLBACKS, CompactionOptions
from chatagent.agent.pending_messages import PENDING_MESSAGES_CALLBACKS, PendingMessagesOptions
from chatagent.clock import Duration, to_seconds
from chatagent.errors import AgentDefinitionError
from chatagent.errors.spelling import did_you_mean
from chatagent.generate import Tool, UIMessageStreamOptions
from chatagent.ui import schema_parser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Unpack

    from chatagent.agent.commands import Command
    from chatagent.agent.contract import ContractOptions
    from chatagent.agent.events import (
        ActionEvent,
        BeforeTurnCompleteEvent,
        BootEvent,
        ChatResumeEvent,
        ChatStartEvent,
        ChatSuspendEvent,
        CompactedEvent,
        HydrateMessagesEvent,
        PreloadEvent,
        PrepareMessagesEvent,
        RecoveryBootEvent,
        RecoveryResult,
        RunEvent,
        TurnCompleteEvent,
        TurnStartEvent,
        ValidateMessagesEvent,
    )
    from chatagent.agent.observer import Telemetry
    from chatagent.model import ModelMessage
    from chatagent.protocol import AgentContract
    from chatagent.ui import UIMessage

__all__ = ["HOOK_NAMES", "AgentOptions", "ChatAgent", "TaskOptions", "ToolsOption"]

ClientDataT = TypeVar("ClientDataT")
FnT = TypeVar("FnT", bound="Callable[..., object]")

ToolsOption = "Mapping[str, Tool] | Sequence[Tool] | Callable[[ResolveToolsEvent[Any]], Any]"

HOOK_NAMES = (
    "on_boot",
    "on_recovery_boot",
    "on_preload",
    "on_chat_start",
    "on_validate_messages",
    "hydrate_messages",
    "on_action",
    "on_turn_start",
    "prepare_messages",
    "on_compacted",
    "on_before_turn_complete",
    "on_turn_complete",
    "on_chat_suspend",
    "on_chat_resume",
)
"""Every hook that an agent may have, in the order in which a conversation meets them."""


class TaskOptions(TypedDict, total=False):
    """Options for the platform that runs the agent; kept with it, without effect offline."""

    machine: str
    queue: str
    max_duration: Duration
    on_start: Callable[..., object]
    on_success: Callable[..., object]
    on_failure: Callable[..., object]
    on_complete: Callable[..., object]
    on_cancel: Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """An agent's options, checked; durations in seconds."""

    id: str
    client_data_schema: Any = None
    action_schema: Any = None
    run_metadata_schema: Any = None
    commands: Mapping[str, Command] = field(default_factory=dict[str, "Command"])
    tools: Any = None
    compaction: CompactionOptions[Any] | None = None
    pending_messages: PendingMessagesOptions[Any] | None = None
    ui_message_stream_options: UIMessageStreamOptions | None = None
    max_turns: int = 100
    turn_timeout: float = 3600.0
    idle_timeout: float | None = None
    preload_idle_timeout: float | None = None
    preload_timeout: float | None = None
    exit_after_preload_idle: bool = False
    allow_client_system_messages: bool = False
    on_turn_error: Callable[[BaseException], str] | None = None
    chat_access_token_ttl: float = 3600.0
    oom_machine: str | None = None
    telemetry: Telemetry | None = None
    is_custom: bool = False
    """Whether `run` is code of its own in the place of the turn loop."""
    task_options: TaskOptions = field(default_factory=TaskOptions)


class ChatAgent(Generic[ClientDataT]):
    """A chat agent: what `chat.agent(...)` returns. Give it to a harness or a server; it holds no state of a run.

    Each hook can be added by the decorator of its name until the agent is first booted.
    """

    def __init__(
        self,
        options: AgentOptions,
        *,
        run: Callable[..., object] | None,
        hooks: Mapping[str, Callable[..., object]],
        builder_hooks: Mapping[str, Callable[..., object]] = MappingProxyType({}),
    ) -> None:
        self.options = options
        self._run = run
        self._own_hooks = dict(hooks)
        self._builder_hooks = builder_hooks
        self._hooks = {name: _both(builder_hooks.get(name), hooks.get(name)) for name in (*builder_hooks, *hooks)}
        """What is called: the builder's hook, the agent's own, or one behind the other (N-5)."""
        self._sealed = False
        self._warned: set[str] = set()
        self.parse_client_data = _parser(options.client_data_schema, "client_data_schema")
        """Parses the client data of a payload; raises what the schema raises."""
        self.parse_action = _parser(options.action_schema, "action_schema")
        """Parses an action; raises what the schema raises."""
        self.parse_run_metadata = _parser(options.run_metadata_schema, "run_metadata_schema")
        """Parses what clients can read of a run; raises what the schema raises."""

    def __repr__(self) -> str:
        return f"ChatAgent(id={self.id!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = did_you_mean(name, HOOK_NAMES) or f"; its hooks are {', '.join(HOOK_NAMES)}"
            raise AttributeError(f"an agent has no `{name}`{hint}", name=name, obj=self)

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.options.id

    def seal(self) -> None:
        """Take the definition as complete; called at every boot.

        Raises:
            AgentDefinitionError: the agent has no `run`.
        """
        if self._run is None:
            raise AgentDefinitionError(
                f"agent {self.id!r} has no `run`: give it with run=…, or decorate one with the agent"
            )
        self._sealed = True

    @property
    def run(self) -> Callable[..., object]:
        """The function that does a turn's work."""
        if self._run is None:
            raise AgentDefinitionError(f"agent {self.id!r} has no `run`")
        return self._run

    def hook(self, name: str) -> Callable[..., object] | None:
        """Return the hook of this name, if the agent has it."""
        return self._hooks.get(name)

    def has(self, name: str) -> bool:
        """Return whether the agent has the hook of this name."""
        return name in self._hooks

    def contract(self, **declared: Unpack[ContractOptions]) -> AgentContract:
        """Return what the agent takes and gives, for clients and for scripted backends that check values by it.

        Args:
            **declared: what the definition does not say, see `ContractOptions`.

        Raises:
            InvalidArgumentError: something is declared of a tool that the agent has not got.
        """
        # Imported when it is asked for: most agents never are, and the clients' data types take time to load.
        from chatagent.agent.contract import contract_of

        return contract_of(self.options, declared)

    def warn_once(self, topic: str, message: str) -> None:
        """Warn of something about this definition, once (G-42)."""
        if topic not in self._warned:
            self._warned.add(topic)
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def on_boot(self, fn: Callable[[BootEvent[ClientDataT]], R]) -> Callable[[BootEvent[ClientDataT]], R]:
        """Add the hook that is called when a run has started."""
        return self._add("on_boot", fn)

    def on_recovery_boot(
        self, fn: Callable[[RecoveryBootEvent], RecoveryResult | Awaitable[RecoveryResult | None] | None]
    ) -> Callable[[RecoveryBootEvent], RecoveryResult | Awaitable[RecoveryResult | None] | None]:
        """Add the hook that is called when the run before this one died in the middle of an answer."""
        return self._add("on_recovery_boot", fn)

    def on_preload(self, fn: Callable[[PreloadEvent[ClientDataT]], R]) -> Callable[[PreloadEvent[ClientDataT]], R]:
        """Add the hook that is called when a run was started ahead of the first message."""
        return self._add("on_preload", fn)

    def on_chat_start(
        self, fn: Callable[[ChatStartEvent[ClientDataT]], R]
    ) -> Callable[[ChatStartEvent[ClientDataT]], R]:
        """Add the hook that is called at the first turn of a conversation."""
        return self._add("on_chat_start", fn)

    def on_validate_messages(
        self, fn: Callable[[ValidateMessagesEvent], Sequence[UIMessage] | Awaitable[Sequence[UIMessage]]]
    ) -> Callable[[ValidateMessagesEvent], Sequence[UIMessage] | Awaitable[Sequence[UIMessage]]]:
        """Add the hook that checks what a turn brings, and returns what to use."""
        return self._add("on_validate_messages", fn)

    def hydrate_messages(
        self,
        fn: Callable[[HydrateMessagesEvent[ClientDataT]], Sequence[UIMessage] | Awaitable[Sequence[UIMessage]]],
    ) -> Callable[[HydrateMessagesEvent[ClientDataT]], Sequence[UIMessage] | Awaitable[Sequence[UIMessage]]]:
        """Add the hook that returns the whole chain from a store of your own."""
        return self._add("hydrate_messages", fn)

    def on_action(self, fn: Callable[[ActionEvent[ClientDataT]], R]) -> Callable[[ActionEvent[ClientDataT]], R]:
        """Add the hook that handles actions."""
        return self._add("on_action", fn)

    def on_turn_start(
        self, fn: Callable[[TurnStartEvent[ClientDataT]], R]
    ) -> Callable[[TurnStartEvent[ClientDataT]], R]:
        """Add the hook that is called before the model is asked."""
        return self._add("on_turn_start", fn)

    def prepare_messages(
        self,
        fn: Callable[[PrepareMessagesEvent[ClientDataT]], Sequence[ModelMessage] | Awaitable[Sequence[ModelMessage]]],
    ) -> Callable[[PrepareMessagesEvent[ClientDataT]], Sequence[ModelMessage] | Awaitable[Sequence[ModelMessage]]]:
        """Add the hook that returns the model messages to use."""
        return self._add("prepare_messages", fn)

    def on_compacted(self, fn: Callable[[CompactedEvent], R]) -> Callable[[CompactedEvent], R]:
        """Add the hook that is called when a summary has taken the place of the conversation."""
        return self._add("on_compacted", fn)

    def on_before_turn_complete(
        self, fn: Callable[[BeforeTurnCompleteEvent[ClientDataT]], R]
    ) -> Callable[[BeforeTurnCompleteEvent[ClientDataT]], R]:
        """Add the hook that is called with the answer, while the client still waits."""
        return self._add("on_before_turn_complete", fn)

    def on_turn_complete(
        self, fn: Callable[[TurnCompleteEvent[ClientDataT]], R]
    ) -> Callable[[TurnCompleteEvent[ClientDataT]], R]:
        """Add the hook that is called when the turn is over."""
        return self._add("on_turn_complete", fn)

    def on_chat_suspend(
        self, fn: Callable[[ChatSuspendEvent[ClientDataT]], R]
    ) -> Callable[[ChatSuspendEvent[ClientDataT]], R]:
        """Add the hook that is called before an idle run is put away."""
        return self._add("on_chat_suspend", fn)

    def on_chat_resume(
        self, fn: Callable[[ChatResumeEvent[ClientDataT]], R]
    ) -> Callable[[ChatResumeEvent[ClientDataT]], R]:
        """Add the hook that is called when a run that was put away goes on."""
        return self._add("on_chat_resume", fn)

    def __call__(self, fn: Callable[[RunEvent[ClientDataT]], R]) -> ChatAgent[ClientDataT]:
        """Give the agent its `run`; so `@chat.agent(id=…)` over a function gives the agent."""
        self._check_open("`run`")
        if self._run is not None:
            raise AgentDefinitionError(f"agent {self.id!r} has a `run` already")
        _check_callable(self.id, "run", fn)
        self._run = fn
        return self

    def _add(self, name: str, fn: FnT) -> FnT:
        self._check_open(f"`{name}`")
        if self.options.is_custom:
            raise AgentDefinitionError(f"agent {self.id!r} is a custom agent, which has no hooks such as `{name}`")
        if name in self._own_hooks:
            raise AgentDefinitionError(f"agent {self.id!r} has `{name}` already: a hook is given once")
        _check_callable(self.id, name, fn)
        self._own_hooks[name] = fn
        self._hooks[name] = _both(self._builder_hooks.get(name), fn)
        return fn

    def _check_open(self, what: str) -> None:
        if self._sealed:
            raise AgentDefinitionError(
                f"agent {self.id!r} was booted already, so {what} cannot be added: complete it before its first run"
            )


R = TypeVar("R")


def make_agent(
    *,
    id: str,
    run: Callable[..., object] | None,
    hooks: Mapping[str, Callable[..., object] | None],
    builder_hooks: Mapping[str, Callable[..., object]],
    turn_timeout: Duration,
    preload_timeout: Duration | None,
    chat_access_token_ttl: Duration,
    **values: Any,
) -> ChatAgent[Any]:
    """Check what `chat.agent` was given and make the agent of it.

    Raises:
        AgentDefinitionError: something that no agent can have; the message names the option.
        InvalidArgumentError: a duration that is none.
    """
    _check_id(id)
    _check_task_options(id, values["task_options"])
    if not isinstance(values["max_turns"], int) or values["max_turns"] < 1:
        told = f"`max_turns` is {values['max_turns']!r}; a run has at least one turn"
        raise AgentDefinitionError(f"agent {id!r}: {told}")
    for name in ("idle_timeout", "preload_idle_timeout"):
        if values[name] is not None:
            values[name] = to_seconds(values[name], argument=name)
    for name, callbacks, required in (
        ("compaction", COMPACTION_CALLBACKS, ("should_compact", "summarize")),
        ("pending_messages", PENDING_MESSAGES_CALLBACKS, ()),
    ):
        _check_callbacks(id, name, values[name], callbacks, required)
    _check_telemetry(id, values["telemetry"])
    _check_tools(id, values["tools"])
    _check_stream_options(id, values["ui_message_stream_options"])
    values["commands"] = check_commands(id, values["commands"] or {})
    given = {name: hook for name, hook in hooks.items() if hook is not None}
    for name, hook in (*builder_hooks.items(), *given.items()):
        _check_callable(id, name, hook)
    if run is not None:
        _check_callable(id, "run", run)
    options = AgentOptions(
        id=id,
        turn_timeout=to_seconds(turn_timeout, argument="turn_timeout"),
        preload_timeout=None if preload_timeout is None else to_seconds(preload_timeout, argument="preload_timeout"),
        chat_access_token_ttl=to_seconds(chat_access_token_ttl, argument="chat_access_token_ttl"),
        **values,
    )
    return ChatAgent(options, run=run, hooks=given, builder_hooks=builder_hooks)


def make_custom_agent(
    *,
    id: str,
    run: Callable[..., object],
    client_data_schema: Any,
    telemetry: Telemetry | None,
    task_options: TaskOptions,
) -> ChatAgent[Any]:
    """Check what `chat.custom_agent` was given and make the agent of it.

    Raises:
        AgentDefinitionError: something that no agent can have; the message names the option.
    """
    _check_id(id)
    _check_task_options(id, task_options)
    _check_callable(id, "run", run, takes="a payload and its run", arguments=2)
    _check_telemetry(id, telemetry)
    options = AgentOptions(
        id=id,
        client_data_schema=client_data_schema,
        telemetry=telemetry,
        is_custom=True,
        task_options=task_options,
    )
    return ChatAgent(options, run=run, hooks={})


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id:
        raise AgentDefinitionError(f"an agent's `id` is a text of at least one character, not {id!r}")


def _check_task_options(agent_id: str, given: Mapping[str, object]) -> None:
    """Refuse an option that nobody knows; a misspelt hook would never be called."""
    known = [*TaskOptions.__annotations__, *HOOK_NAMES, *(each.name for each in fields(AgentOptions))]
    for name in given:
        if name not in TaskOptions.__annotations__:
            raise AgentDefinitionError(f"agent {agent_id!r}: there is no option `{name}`{did_you_mean(name, known)}")


def _check_callbacks(agent_id: str, option: str, given: Any, known: Sequence[str], required: Sequence[str]) -> None:
    """Check an option that is a mapping of callbacks; a misspelt one would never be called."""
    if given is None:
        return
    names: list[str] = list(given)
    wrong = [name for name in names if name not in known]
    missing = [name for name in required if name not in names]
    if wrong or missing:
        what = f"knows no {wrong[0]!r}; it has {', '.join(known)}" if wrong else f"needs `{missing[0]}`"
        raise AgentDefinitionError(f"agent {agent_id!r}: `{option}` {what}")
    for name in names:
        if not callable(given[name]):
            raise AgentDefinitionError(
                f"agent {agent_id!r}: `{option}[{name!r}]` must be a function of one event, not {given[name]!r}"
            )


def _check_telemetry(agent_id: str, telemetry: object) -> None:
    if telemetry is None:
        return
    if isinstance(telemetry, type) or not callable(getattr(telemetry, "observe", None)):
        raise AgentDefinitionError(
            f"agent {agent_id!r}: `telemetry` is an object like `OpenTelemetry()`, not {telemetry!r}"
        )


def _check_tools(agent_id: str, given: object) -> None:
    """Check how tools are declared, and the names in a list of them; what a function returns is checked in its turn."""
    is_collection = isinstance(given, Mapping | Sequence) and not isinstance(given, str)
    # A tool can be called too, and would be taken for the function that gives the tools of a turn.
    is_function = callable(cast("object", given)) and not isinstance(given, Tool)
    if given is not None and not is_collection and not is_function:
        told = f"`tools` is {_named(cast('object', given))}"
        way_out = "give a list of tools, tools by name, or a function that returns those of a turn"
        raise AgentDefinitionError(f"agent {agent_id!r}: {told}; {way_out}")
    if isinstance(given, Sequence) and not isinstance(given, str):
        _check_tool_names(agent_id, cast("Sequence[object]", given))


def _check_tool_names(agent_id: str, given: Sequence[object]) -> None:
    """Refuse a tool of a list that could not be called: one without a name, or with the name of another."""
    names: set[str] = set()
    for each in given:
        name = getattr(each, "name", None)
        if not name:
            what = f"{_named(each)} among `tools` is no tool with a name; make one with `@tool`, or give tools by name"
            raise AgentDefinitionError(f"agent {agent_id!r}: {what}")
        if name in names:
            raise AgentDefinitionError(
                f"agent {agent_id!r}: two of its tools are named {name!r}; give one of them another `name=`"
            )
        names.add(name)


def _named(value: object) -> str:
    """Show a value; of a tool or a function, which have long forms, its name."""
    if isinstance(value, Tool):
        return "the tool without a name" if value.name is None else f"the tool {value.name!r}"
    name = getattr(value, "__name__", None)
    return f"the function {name!r}" if name else repr(value)


def _check_stream_options(agent_id: str, given: object) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise AgentDefinitionError(
            f"agent {agent_id!r}: `ui_message_stream_options` is {given!r}; give options by name, such as "
            '{"send_reasoning": False}'
        )
    known = sorted(UIMessageStreamOptions.__optional_keys__)
    for name in cast("Mapping[str, object]", given or {}):
        if name not in known:
            raise AgentDefinitionError(
                f"agent {agent_id!r}: there is no {name!r} among `ui_message_stream_options`{did_you_mean(name, known)}"
            )


def _both(first: Callable[..., Any] | None, second: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a hook that calls the builder's, then the agent's; if the first raises, the second is not called (N-5)."""
    if first is None or second is None:
        only = first or second
        assert only is not None
        return only

    async def both(event: Any) -> Any:
        result = None
        for fn in (first, second):
            result = fn(event)
            if inspect.isawaitable(result):
                result = await result
        return result

    return both


def _parser(schema: Any, argument: str) -> Callable[[Any], Any]:
    return _as_it_came if schema is None else schema_parser(schema, argument=argument)


def _as_it_came(value: Any) -> Any:
    return value


def _check_callable(agent_id: str, name: str, fn: object, *, takes: str = "one event", arguments: int = 1) -> None:
    """Check that `fn` can be called as it will be: a hook of the wrong shape is told before its first turn."""
    problem = f"agent {agent_id!r}: `{name}` must be a function of {takes}, not {fn!r}"
    if not callable(fn):
        raise AgentDefinitionError(problem)
    if isinstance(fn, FunctionType) and fn.__code__.co_argcount == arguments and not fn.__code__.co_kwonlyargcount:
        return
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # what is written in C need not tell
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as exc:
        raise AgentDefinitionError(f"{problem}: {exc}") from None
