"""Making a scripted backend: its options, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.clock import Clock
from chatagent.protocol import PROFILES, AgentContract, AgentManifest
from chatagent_test.clock import VirtualClock
from chatagent_test.transport.errors import MockConfigError, ScriptError, nearest
from chatagent_test.transport.tools import RegisteredTool, ToolBook
from chatagent_test.transport.transport import MockAgentTransport
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chatagent.protocol import HasContract, Profile

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
        MockConfigError: an option with a value that it cannot have, or run metadata that the contract does not take.
    """
    has = frozenset(PROFILES if profiles is None else profiles)
    _check_options(manifest, registered_tool_metadata or {}, has, clock, event_log_size)
    agreed = _contract_of(contract)
    known = manifest or (agreed.manifest() if agreed is not None else None)
    told = _run_metadata_of(initial_metadata or {}, agreed)
    declared = tuple(each for each in PROFILES if each in has)
    if known is not None and manifest is None and profiles is not None:
        known = known.model_copy(update={"profiles": declared})
    default: dict[str, Any] = {"agent_id": "mock-agent", "profiles": declared}
    return MockAgentTransport(
        contract=agreed,
        manifest=known or AgentManifest.model_validate(default),
        book=ToolBook(agreed, known, registered_tool_metadata or {}),
        run_metadata=told,
        profiles=has,
        file_urls=file_urls,
        clock=clock or VirtualClock(),
        event_log_size=event_log_size,
        strict=strict,
    )


def _contract_of(given: AgentContract | HasContract | None) -> AgentContract | None:
    if given is None or isinstance(given, AgentContract):
        return given
    if not hasattr(given, "contract"):  # callers may be untyped
        raise MockConfigError(f"contract={given!r:.100}: give an agent, or what its contract() returns")
    return AgentContract.from_agent(given)


def _run_metadata_of(given: Mapping[str, object], contract: AgentContract | None) -> dict[str, object]:
    try:
        told = json_value(dict(given))
    except ScriptError as refused:
        raise MockConfigError(f"initial_metadata: {refused}") from refused
    problem = None if contract is None else contract.run_metadata.problem(told, "initial_metadata")
    if problem is not None:
        raise MockConfigError(
            f"{problem.field}: {problem.text}; the agent's run metadata needs initial_metadata={{...}}"
        )
    return told


def _check_options(
    manifest: object, registered: Mapping[str, object], profiles: frozenset[str], clock: object, event_log_size: int
) -> None:
    """Refuse options that no mock could be made of; callers may be untyped."""
    if manifest is not None and not isinstance(manifest, AgentManifest):
        raise MockConfigError(f"manifest={manifest!r:.100}: give an AgentManifest")
    for name, each in registered.items():
        if not isinstance(each, RegisteredTool):
            raise MockConfigError(f"registered_tool_metadata[{name!r}] is {each!r:.100}: give a RegisteredTool")
    for name in sorted(profiles - set(PROFILES)):
        raise MockConfigError(f"profiles: there is no profile {name!r}; {nearest(name, PROFILES)}")
    if "core" not in profiles:
        raise MockConfigError("profiles: every transport has the profile 'core'")
    if clock is not None and not isinstance(clock, Clock):
        raise MockConfigError(f"clock={clock!r:.100}: give a Clock")
    if event_log_size < 1:
        raise MockConfigError(f"event_log_size={event_log_size!r}: a log keeps at least one event")
