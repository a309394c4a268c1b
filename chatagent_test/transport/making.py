"""Making a scripted backend: its options, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.protocol import PROFILES, AgentContract, AgentManifest
from chatagent_test.clock import VirtualClock
from chatagent_test.transport.errors import MockConfigError
from chatagent_test.transport.tools import ToolBook
from chatagent_test.transport.transport import MockAgentTransport
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chatagent.clock import Clock
    from chatagent.protocol import HasContract, Profile
    from chatagent_test.transport.tools import RegisteredTool

__all__ = ["create_mock_agent_transport"]


def create_mock_agent_transport(
    *,
    contract: AgentContract | HasContract | None = None,
    manifest: AgentManifest | None = None,
    initial_metadata: Mapping[str, object] | None = None,
    registered_tool_metadata: Mapping[str, RegisteredTool] | None = None,
    profiles: Collection[Profile] | None = None,
    file_urls: bool = True,
    clock: Clock | None = None,
    event_log_size: int = 10_000,
    strict: bool = True,
) -> MockAgentTransport:
    """Make a backend that says what the test scripts.

    Args:
        contract: an agent, or its contract: scripts, seeds and values are checked by it when they are given.
        manifest: what `get_manifest()` answers; by default the contract's, or an empty one.
        initial_metadata: the metadata of every run that the mock makes; copied for each.
        registered_tool_metadata: tools that the manifest does not list, by name; they win over it.
        profiles: what the transport can; everything by default.
        file_urls: whether files have URLs.
        clock: the time; a virtual clock of its own by default.
        event_log_size: how many events of a thread are kept.
        strict: whether scripts and faults that nobody met are an error at the end of `async with`.

    Raises:
        MockConfigError: the contract's run metadata does not take `initial_metadata`.
    """
    agreed = contract if isinstance(contract, AgentContract) or contract is None else AgentContract.from_agent(contract)
    known = manifest or (agreed.manifest() if agreed is not None else None)
    has = frozenset(PROFILES if profiles is None else profiles)
    told = json_value(dict(initial_metadata or {}))
    if agreed is not None:
        problem = agreed.run_metadata.problem(told, "initial_metadata")
        if problem is not None:
            raise MockConfigError(
                f"{problem.field}: {problem.text}; the agent's run metadata needs initial_metadata={{...}}"
            )
    if known is not None and manifest is None and profiles is not None:
        known = known.model_copy(update={"profiles": tuple(each for each in PROFILES if each in has)})
    if known is None:
        default: dict[str, Any] = {
            "agent_id": "mock-agent",
            "profiles": tuple(each for each in PROFILES if each in has),
        }
        shown = AgentManifest.model_validate(default)
    else:
        shown = known
    return MockAgentTransport(
        contract=agreed,
        manifest=shown,
        book=ToolBook(agreed, known, registered_tool_metadata or {}),
        run_metadata=told,
        profiles=has,
        file_urls=file_urls,
        clock=clock or VirtualClock(),
        event_log_size=event_log_size,
        strict=strict,
    )
