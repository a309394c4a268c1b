"""The contract: a manifest that can check values, derived from the agent itself (rules DM-53, DM-54).

A client checks what it sends by it, a scripted backend what a test lets it say. So a script that the real agent could
not have said fails where it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from chatagent.protocol.manifest import (
    AgentManifest,
    Executor,
    ManifestChannel,
    ManifestCommand,
    ManifestSuspend,
    ManifestTool,
)
from chatagent.protocol.models import PROFILES, Profile
from chatagent.ui import JSONObject, Parse, ValueSchema, schema_parser

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AgentContract",
    "CommandContract",
    "HasContract",
    "SuspendContract",
    "ToolContract",
    "ValueContract",
    "ValueProblem",
]


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """What is wrong with a value: where, and why."""

    field: str
    text: str
    value: object


@dataclass(frozen=True, slots=True)
class ValueContract:
    """What a value must look like."""

    json_schema: JSONObject = field(default_factory=dict[str, object])
    """As clients are shown it; empty if anything goes, or if it has no JSON schema."""
    parse: Parse | None = None
    """Returns the parsed value, or raises; `None` takes every value as it is."""

    @classmethod
    def of(cls, schema: ValueSchema | None) -> ValueContract:
        """Make one of a type that pydantic can check, a `TypeAdapter`, a JSON schema, or a function that parses."""
        if schema is None:
            return cls()
        if isinstance(schema, Mapping):
            return cls(dict(cast("JSONObject", schema)), schema_parser(cast("JSONObject", schema)))
        return cls(_json_schema_of(schema), schema_parser(schema))

    def problem(self, value: object, root: str) -> ValueProblem | None:
        """Return the first thing wrong with a value; `None` if it fits.

        Args:
            value: JSON data.
            root: what the value is called; paths begin with it.
        """
        if self.parse is None:
            return None
        try:
            self.parse(value)
        except Exception as exc:  # noqa: BLE001 - a schema may be a function of the user's, which raises what it likes
            return _problem_of(exc, value, root)
        return None

    def parsed(self, value: object) -> Any:
        """Return the value as the declared type, or as it is if there is none."""
        return value if self.parse is None else self.parse(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendContract:
    """A question that a tool may ask: what it shows, and what answers it."""

    input: ValueContract = field(default_factory=ValueContract)
    resume: ValueContract = field(default_factory=ValueContract)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContract:
    """A tool: what goes in and what comes out."""

    name: str
    tool_id: str | None = None
    executor: Executor = "server"
    description: str | None = None
    input: ValueContract = field(default_factory=ValueContract)
    output: ValueContract | None = None
    needs_approval: bool = False
    suspends: Mapping[str, SuspendContract] = field(default_factory=dict[str, SuspendContract])
    data: Mapping[str, ValueContract] | None = None
    """The channels of data beside its calls; `None` if any channel goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContract:
    """A function that clients may call."""

    name: str
    input: ValueContract = field(default_factory=ValueContract)
    output: ValueContract = field(default_factory=ValueContract)


class HasContract(Protocol):
    """Whatever can say what may be said to it and by it; a `ChatAgent` can."""

    def contract(self) -> AgentContract:
        """Return the contract."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContract:
    """What an agent takes and gives.

    `agent.contract()` derives it from a real agent. Where a mapping is `None`, any name goes.
    """

    agent_id: str
    version: str = "1"
    tools: Mapping[str, ToolContract] | None = None
    commands: Mapping[str, CommandContract] | None = None
    data_parts: Mapping[str, ValueContract] | None = None
    """The `data-<name>` parts of answers, by name."""
    run_metadata: ValueContract = field(default_factory=ValueContract)
    message_metadata: ValueContract = field(default_factory=ValueContract)
    client_data: ValueContract = field(default_factory=ValueContract)
    action: ValueContract = field(default_factory=ValueContract)
    profiles: tuple[Profile, ...] = PROFILES

    @classmethod
    def from_agent(cls, agent: HasContract) -> AgentContract:
        """Return the contract of an agent."""
        return agent.contract()

    @classmethod
    def from_manifest(cls, manifest: AgentManifest) -> AgentContract:
        """Return a contract that knows the names of a manifest; values pass unchecked."""
        return cls(
            agent_id=manifest.agent_id,
            version=manifest.version,
            tools={each.name: _named_tool(each) for each in manifest.tools},
            commands={each.name: CommandContract(name=each.name) for each in manifest.commands},
            data_parts={each.name: ValueContract() for each in manifest.data_parts} or None,
            profiles=manifest.profiles,
        )

    def manifest(self) -> AgentManifest:
        """Return what clients may know; equal contracts give byte-equal JSON."""
        fields: dict[str, object] = {
            "agent_id": self.agent_id,
            "version": self.version,
            "tools": tuple(_manifest_tool(each) for each in _by_name(self.tools)),
            "commands": tuple(_manifest_command(each) for each in _by_name(self.commands)),
            "profiles": self.profiles,
        }
        if self.data_parts is not None:
            fields["data_parts"] = _channels(self.data_parts)
        for name, value in (
            ("run_metadata_schema", self.run_metadata),
            ("message_metadata_schema", self.message_metadata),
            ("client_data_schema", self.client_data),
            ("action_schema", self.action),
        ):
            if value.json_schema:
                fields[name] = value.json_schema
        return AgentManifest.model_validate(fields)


def _by_name(mapping: Mapping[str, Any] | None) -> Iterable[Any]:
    return [] if mapping is None else [mapping[name] for name in sorted(mapping)]


def _channels(mapping: Mapping[str, ValueContract]) -> tuple[ManifestChannel, ...]:
    return tuple(
        ManifestChannel.model_validate({"name": name, "schema": mapping[name].json_schema}) for name in sorted(mapping)
    )


def _manifest_tool(tool: ToolContract) -> ManifestTool:
    fields: dict[str, object] = {
        "name": tool.name,
        "executor": tool.executor,
        "input_schema": tool.input.json_schema,
        "needs_approval": tool.needs_approval,
        "suspends": tuple(
            ManifestSuspend(
                name=name,
                input_schema=tool.suspends[name].input.json_schema,
                resume_schema=tool.suspends[name].resume.json_schema,
            )
            for name in sorted(tool.suspends)
        ),
        "data_channels": _channels(tool.data or {}),
    }
    for name, value in (("tool_id", tool.tool_id), ("description", tool.description)):
        if value is not None:
            fields[name] = value
    if tool.output is not None:
        fields["output_schema"] = tool.output.json_schema
    return ManifestTool.model_validate(fields)


def _manifest_command(command: CommandContract) -> ManifestCommand:
    shown, result = command.input.json_schema, command.output.json_schema
    return ManifestCommand(name=command.name, input_schema=shown, output_schema=result)


def _named_tool(tool: ManifestTool) -> ToolContract:
    return ToolContract(
        name=tool.name,
        tool_id=tool.tool_id,
        executor=tool.executor,
        description=tool.description,
        needs_approval=tool.needs_approval,
        suspends={each.name: SuspendContract() for each in tool.suspends},
        data={each.name: ValueContract() for each in tool.data_channels} or None,
    )


def _json_schema_of(schema: ValueSchema) -> JSONObject:
    """Return the JSON schema of a type; nothing for a function that parses, or for what JSON has no word for."""
    if not isinstance(schema, type | TypeAdapter) and not hasattr(schema, "__origin__"):
        return {}
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter[Any](cast("Any", schema))
    try:
        return adapter.json_schema()
    except (PydanticInvalidForJsonSchema, PydanticUserError):
        return {}


_QUOTED_PATH: Final = re.compile(r"^`(?:input|value|the value)?([^`]*)`:? ?")


def _problem_of(error: Exception, value: object, root: str) -> ValueProblem:
    found = error if isinstance(error, ValidationError) else error.__cause__
    if isinstance(found, ValidationError):
        first = found.errors(include_url=False, include_context=False)[0]
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        return ValueProblem(f"{root}{path}", first["msg"], first["input"])
    text = str(error) or type(error).__name__
    matched = _QUOTED_PATH.match(text)
    path = matched[1] if matched else ""
    return ValueProblem(f"{root}{path}", text[matched.end() :] if matched else text, value)
