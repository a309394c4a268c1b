"""What goes wrong around an agent and its run: its definition, its hooks, what they are given and what they ask for."""

from __future__ import annotations

from chatagent.errors.base import ChatAgentError, short


class AbortError(ChatAgentError):
    """A signal was aborted; work under it stopped on purpose.

    Args:
        reason: what the aborter gave as its reason; `None` if it gave none.
    """

    def __init__(self, reason: object = None) -> None:
        super().__init__("This operation was aborted" if reason is None else f"This operation was aborted: {reason}")
        self.reason = reason


class ChatContextError(ChatAgentError, RuntimeError):
    """A function that needs a run (or a turn) was called where there is none.

    Args:
        name: what was called.
        needs: `run` or `turn`.
        advice: the way out, where it is not the usual one.
    """

    def __init__(self, name: str, *, needs: str = "run", advice: str | None = None) -> None:
        usual = "call it from a hook, a tool or `run` of a chat agent, in a task that the run started"
        super().__init__(f"{name} was called outside a {needs}; {advice or usual}")
        self.name, self.needs = name, needs


class AgentDefinitionError(ChatAgentError, ValueError):
    """An agent's definition contradicts itself, or was changed after the agent had booted."""


class ClientDataError(ChatAgentError, ValueError):
    """Client data that fails the agent's `client_data_schema`; its cause is the schema's own error."""

    def __init__(self, *, agent_id: str, value: object, problem: str) -> None:
        none = " (none was sent: give `client_data`)" if value is None else ""
        super().__init__(f"client data of agent {agent_id!r}{none} fails its `client_data_schema`: {problem}")
        self.agent_id, self.value, self.problem = agent_id, value, problem


class ActionError(ChatAgentError, ValueError):
    """An action that fails the agent's `action_schema`; its cause is the schema's own error."""

    def __init__(self, *, agent_id: str, value: object, problem: str) -> None:
        super().__init__(f"action sent to agent {agent_id!r} fails its `action_schema`: {problem}")
        self.agent_id, self.value, self.problem = agent_id, value, problem


class HookResultError(ChatAgentError, TypeError):
    """A hook returned something that it must not return."""

    def __init__(self, *, hook: str, expected: str, value: object) -> None:
        super().__init__(f"`{hook}` must return {expected}, it returned {short(value)}")
        self.hook, self.expected, self.value = hook, expected, value


class LocalNotFoundError(ChatAgentError, LookupError):
    """A local was asked for that the run does not have."""

    def __init__(self, local_id: str) -> None:
        super().__init__(
            f"Local with id {local_id} not found: set it in `on_boot`, or in a test with `setup_locals`, "
            "before it is read"
        )
        self.local_id = local_id


class SkillError(ChatAgentError, ValueError):
    """A skill that cannot be read, or whose `SKILL.md` lacks something."""

    def __init__(self, *, skill_id: str, problem: str) -> None:
        super().__init__(f"skill {skill_id!r}: {problem}")
        self.skill_id, self.problem = skill_id, problem


class OutOfMemoryError(ChatAgentError, MemoryError):
    """The run hit its memory limit; a platform starts it once more on a larger machine."""
