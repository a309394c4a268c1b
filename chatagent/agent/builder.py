"""`chat.agent` and the builder in front of it: a schema, stream options and hooks that several agents share.

A builder does not change: every method returns a new one, so that a common beginning can be forked (rules N-5 to N-8).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from chatagent.agent.definition import ChatAgent, TaskOptions, make_agent, make_custom_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from chatagent.agent.commands import Command
    from chatagent.agent.compaction_options import CompactionOptions
    from chatagent.agent.custom import CustomRunContext
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
        ResolveToolsEvent,
        RunEvent,
        TurnCompleteEvent,
        TurnStartEvent,
        ValidateMessagesEvent,
    )
    from chatagent.agent.observer import Telemetry
    from chatagent.agent.pending_messages import PendingMessagesOptions
    from chatagent.agent.wire import WirePayload
    from chatagent.clock import Duration
    from chatagent.generate import Tool, UIMessageStreamOptions

__all__ = ["ChatBuilder"]

T = TypeVar("T")
ClientDataT = TypeVar("ClientDataT")
NewDataT = TypeVar("NewDataT")


@dataclass(frozen=True)
class ChatBuilder(Generic[ClientDataT]):
    """What agents have in common before they are defined. `chat.with_client_data` makes one."""

    schema: Any = None
    stream_options: UIMessageStreamOptions | None = None
    hooks: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict[str, "Callable[[Any], Any]"])

    def with_client_data(self, *, schema: Callable[..., NewDataT]) -> ChatBuilder[NewDataT]:
        """Return a builder whose agents parse client data with this schema; it wins over an agent's own.

        Args:
            schema: a pydantic model or any type pydantic can check, a `TypeAdapter`, or a function that parses.
        """
        return cast("ChatBuilder[NewDataT]", replace(self, schema=schema))

    def with_ui_message(self, *, stream_options: UIMessageStreamOptions | None = None) -> ChatBuilder[ClientDataT]:
        """Return a builder whose agents convert answers with these options; an agent's own win key by key."""
        return replace(self, stream_options=stream_options)

    def on_boot(self, fn: Callable[[BootEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_boot", fn)

    def on_preload(self, fn: Callable[[PreloadEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_preload", fn)

    def on_chat_start(self, fn: Callable[[ChatStartEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_chat_start", fn)

    def on_turn_start(self, fn: Callable[[TurnStartEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_turn_start", fn)

    def on_before_turn_complete(
        self, fn: Callable[[BeforeTurnCompleteEvent[ClientDataT]], object]
    ) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_before_turn_complete", fn)

    def on_turn_complete(self, fn: Callable[[TurnCompleteEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_turn_complete", fn)

    def on_compacted(self, fn: Callable[[CompactedEvent], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_compacted", fn)

    def on_chat_suspend(self, fn: Callable[[ChatSuspendEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_chat_suspend", fn)

    def on_chat_resume(self, fn: Callable[[ChatResumeEvent[ClientDataT]], object]) -> ChatBuilder[ClientDataT]:
        """Return a builder with this hook; it runs before the agent's own of the same name."""
        return self._with_hook("on_chat_resume", fn)

    def agent(
        self,
        *,
        id: str,
        run: Callable[[RunEvent[ClientDataT]], object] | None = None,
        client_data_schema: Any = None,
        action_schema: Any = None,
        run_metadata_schema: Any = None,
        commands: Mapping[str, Command] | None = None,
        tools: Mapping[str, Tool] | Sequence[Tool] | Callable[[ResolveToolsEvent[ClientDataT]], Any] | None = None,
        on_boot: Callable[[BootEvent[ClientDataT]], object] | None = None,
        on_recovery_boot: Callable[[RecoveryBootEvent], object] | None = None,
        on_preload: Callable[[PreloadEvent[ClientDataT]], object] | None = None,
        on_chat_start: Callable[[ChatStartEvent[ClientDataT]], object] | None = None,
        on_validate_messages: Callable[[ValidateMessagesEvent], object] | None = None,
        hydrate_messages: Callable[[HydrateMessagesEvent[ClientDataT]], object] | None = None,
        on_action: Callable[[ActionEvent[ClientDataT]], object] | None = None,
        on_turn_start: Callable[[TurnStartEvent[ClientDataT]], object] | None = None,
        prepare_messages: Callable[[PrepareMessagesEvent[ClientDataT]], object] | None = None,
        on_before_turn_complete: Callable[[BeforeTurnCompleteEvent[ClientDataT]], object] | None = None,
        on_turn_complete: Callable[[TurnCompleteEvent[ClientDataT]], object] | None = None,
        on_compacted: Callable[[CompactedEvent], object] | None = None,
        on_chat_suspend: Callable[[ChatSuspendEvent[ClientDataT]], object] | None = None,
        on_chat_resume: Callable[[ChatResumeEvent[ClientDataT]], object] | None = None,
        compaction: CompactionOptions[ClientDataT] | None = None,
        pending_messages: PendingMessagesOptions[ClientDataT] | None = None,
        ui_message_stream_options: UIMessageStreamOptions | None = None,
        max_turns: int = 100,
        turn_timeout: Duration = "1h",
        idle_timeout: float | None = None,
        preload_idle_timeout: float | None = None,
        preload_timeout: Duration | None = None,
        exit_after_preload_idle: bool = False,
        allow_client_system_messages: bool = False,
        on_turn_error: Callable[[BaseException], str] | None = None,
        chat_access_token_ttl: Duration = "1h",
        oom_machine: str | None = None,
        telemetry: Telemetry | None = None,
        **task_options: Unpack[TaskOptions],
    ) -> ChatAgent[ClientDataT]:
        """Define a chat agent.

        Every hook takes one event and may be sync or async. Without `run` the result is a decorator for it, and hooks
        can be added by decorators too, until the agent is first booted.

        Args:
            id: names the agent.
            run: does a turn's work; what it returns is streamed to the client if it can be.
            client_data_schema: parses the client data of each payload: a type, a `TypeAdapter`, or a function.
            action_schema: parses actions, likewise.
            run_metadata_schema: says what clients can read of a run (`chat.run_metadata`), likewise; a run begins with
                what it makes of an empty object.
            commands: the functions that clients may call beside their messages, by name; `command` makes one.
            tools: the agent's tools, or a function that gives those of a turn; `run` gets them, and they decide how
                stored tool results look to the model.
            on_boot: a run has started.
            on_recovery_boot: the run before died in the middle of an answer; may return a `RecoveryResult`.
            on_preload: the run was started ahead of the first message.
            on_chat_start: the first turn of a conversation.
            on_validate_messages: checks what a turn brings; returns what to use.
            hydrate_messages: returns the whole chain from a store of yours; the runtime then keeps no snapshot.
            on_action: handles an action; what it returns is streamed if it can be.
            on_turn_start: before the model is asked.
            prepare_messages: returns the model messages to use.
            on_before_turn_complete: the answer is there, the client still waits.
            on_turn_complete: the turn is over.
            on_compacted: a summary has taken the place of the conversation.
            on_chat_suspend: an idle run is about to be put away.
            on_chat_resume: a run that was put away goes on.
            compaction: when to put a summary in the place of a conversation that has grown too long, and which.
            pending_messages: what becomes of messages that come while a turn is on; without it each is a turn of its
                own.
            ui_message_stream_options: how answers are converted to chunks.
            max_turns: turns after which a run ends; the next message starts another.
            turn_timeout: how long a run waits suspended for the next message.
            idle_timeout: seconds that it waits warm; by default what the payload says, else 30.
            preload_idle_timeout: the same for the wait for the first message; by default `idle_timeout`.
            preload_timeout: how long it waits suspended for the first message; by default `turn_timeout`.
            exit_after_preload_idle: end a preloaded run after the idle time instead of suspending it.
            allow_client_system_messages: take system messages from clients.
            on_turn_error: makes the text that clients read of an exception; by default its own words.
            chat_access_token_ttl: how long access tokens last.
            oom_machine: the machine for a second try after the memory ran out.
            telemetry: watches the agent's runs, such as a `chatagent.telemetry.OpenTelemetry`; without effect on them.
            task_options: options for the platform that runs the agent.

        Raises:
            AgentDefinitionError: something that no agent can have; the message names the option.
            InvalidArgumentError: a duration that is none.
        """
        own = {
            "on_boot": on_boot,
            "on_recovery_boot": on_recovery_boot,
            "on_preload": on_preload,
            "on_chat_start": on_chat_start,
            "on_validate_messages": on_validate_messages,
            "hydrate_messages": hydrate_messages,
            "on_action": on_action,
            "on_turn_start": on_turn_start,
            "prepare_messages": prepare_messages,
            "on_before_turn_complete": on_before_turn_complete,
            "on_turn_complete": on_turn_complete,
            "on_compacted": on_compacted,
            "on_chat_suspend": on_chat_suspend,
            "on_chat_resume": on_chat_resume,
        }
        return make_agent(
            id=id,
            run=run,
            hooks=own,
            builder_hooks=self.hooks,
            client_data_schema=client_data_schema if self.schema is None else self.schema,
            action_schema=action_schema,
            run_metadata_schema=run_metadata_schema,
            commands=commands,
            tools=tools,
            compaction=compaction,
            pending_messages=pending_messages,
            ui_message_stream_options=_merged(self.stream_options, ui_message_stream_options),
            max_turns=max_turns,
            turn_timeout=turn_timeout,
            idle_timeout=idle_timeout,
            preload_idle_timeout=preload_idle_timeout,
            preload_timeout=preload_timeout,
            exit_after_preload_idle=exit_after_preload_idle,
            allow_client_system_messages=allow_client_system_messages,
            on_turn_error=on_turn_error,
            chat_access_token_ttl=chat_access_token_ttl,
            oom_machine=oom_machine,
            telemetry=telemetry,
            task_options=task_options,
        )

    def custom_agent(
        self,
        *,
        id: str,
        run: Callable[[WirePayload, CustomRunContext], object],
        client_data_schema: Any = None,
        telemetry: Telemetry | None = None,
        **task_options: Unpack[TaskOptions],
    ) -> ChatAgent[ClientDataT]:
        """Define an agent whose code takes the place of the turn loop (N-80).

        There are no hooks, no history, no snapshot and no recovery; a builder's hooks are ignored. The code takes what
        clients send from `chat.messages` or `chat.create_session`, and completes its turns itself.

        Args:
            id: names the agent.
            run: works for one run: called once with the boot payload, as it came, and the run's context; sync or async.
            client_data_schema: says what the client data is; it is not parsed.
            telemetry: watches the agent's runs; without effect on them.
            task_options: options for the platform that runs the agent.

        Raises:
            AgentDefinitionError: something that no agent can have; the message names the option.
        """
        schema = client_data_schema if self.schema is None else self.schema
        return make_custom_agent(
            id=id, run=run, client_data_schema=schema, telemetry=telemetry, task_options=task_options
        )

    def _with_hook(self, name: str, fn: Callable[[Any], Any]) -> ChatBuilder[ClientDataT]:
        return replace(self, hooks={**self.hooks, name: fn})


def _merged(
    options: UIMessageStreamOptions | None, own: UIMessageStreamOptions | None
) -> UIMessageStreamOptions | None:
    """Return the builder's stream options with the agent's on top (N-7); what is no mapping is refused later."""
    if options is None or own is None:
        return options if own is None else own
    return {**options, **own}
