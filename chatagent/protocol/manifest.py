"""The manifest: what a client may know of an agent, as plain JSON (rule DM-52)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from chatagent.protocol.models import PROFILES, Profile
from chatagent.ui.wire import JSONObject, WireModel

__all__ = ["AgentManifest", "Executor", "ManifestChannel", "ManifestCommand", "ManifestSuspend", "ManifestTool"]

Executor: TypeAlias = Literal["server", "client"]
"""Where a tool runs."""


class ManifestChannel(WireModel):
    """Data that is written beside a tool's calls."""

    name: str
    json_schema: JSONObject = Field(default_factory=dict[str, object], alias="schema")


class ManifestSuspend(WireModel):
    """A question that a tool may ask the client while it runs."""

    name: str
    input_schema: JSONObject = Field(default_factory=dict[str, object])
    resume_schema: JSONObject = Field(default_factory=dict[str, object])


class ManifestTool(WireModel):
    """A tool of the agent."""

    name: str
    tool_id: str | None = None
    """What stays when the tool is renamed; a tool without it is shown as a dynamic one."""
    executor: Executor = "server"
    description: str | None = None
    input_schema: JSONObject = Field(default_factory=dict[str, object])
    output_schema: JSONObject | None = None
    needs_approval: bool = False
    suspends: tuple[ManifestSuspend, ...] = ()
    data_channels: tuple[ManifestChannel, ...] = ()


class ManifestCommand(WireModel):
    """A function that clients may call."""

    name: str
    input_schema: JSONObject = Field(default_factory=dict[str, object])
    output_schema: JSONObject = Field(default_factory=dict[str, object])


class AgentManifest(WireModel):
    """What a client may know of an agent; it holds no server code."""

    agent_id: str
    version: str = "1"
    tools: tuple[ManifestTool, ...] = ()
    commands: tuple[ManifestCommand, ...] = ()
    data_parts: tuple[ManifestChannel, ...] = ()
    run_metadata_schema: JSONObject | None = None
    message_metadata_schema: JSONObject | None = None
    client_data_schema: JSONObject | None = None
    action_schema: JSONObject | None = None
    profiles: tuple[Profile, ...] = PROFILES

    def tool(self, name: str) -> ManifestTool | None:
        """Return the tool of this name."""
        return next((each for each in self.tools if each.name == name), None)
