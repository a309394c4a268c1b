"""A real client over the scripted backend (rule MK-2)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Self

from chatagent.client import AgentClient
from chatagent_test.transport.errors import MockConfigError
from chatagent_test.transport.making import create_mock_agent_transport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import TracebackType

    from chatagent.clock import Clock
    from chatagent.protocol import AgentContract, AgentManifest, HasContract, Profile
    from chatagent_test.transport.tools import RegisteredTool
    from chatagent_test.transport.transport import MockAgentTransport

__all__ = ["MockAgentClient", "create_mock_agent_client"]


class MockAgentClient:
    """A client, the backend behind it, and the test's controls. Made by `create_mock_agent_client`."""

    def __init__(self, transport: MockAgentTransport, *, wait_timeout: float | None) -> None:
        self.transport = transport
        requests = count(1)
        self.client = AgentClient(
            transport,
            contract=transport.contract,
            clock=transport.clock,
            wait_timeout=wait_timeout,
            request_ids=lambda: f"request-{next(requests)}",
        )
        """A real client."""
        self.seed = transport.seed
        self.reset = transport.reset
        self.responses = transport.responses
        self.events = transport.events
        self.commands = transport.commands
        self.files = transport.files
        self.inspect = transport.inspect
        self.faults = transport.faults

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()
        if kind is None:
            self.transport.check_unused()

    async def advance(self, seconds: float) -> None:
        """Move the mock's virtual clock; pauses that are over go on inside this call."""
        await self.transport.advance(seconds)

    async def aclose(self) -> None:
        """Close the client and the backend."""
        await self.client.aclose()


def create_mock_agent_client(
    *,
    wait_timeout: float | None = 5.0,
    contract: AgentContract | HasContract | None = None,
    manifest: AgentManifest | None = None,
    initial_metadata: Mapping[str, object] | None = None,
    registered_tool_metadata: Mapping[str, RegisteredTool] | None = None,
    profiles: Collection[Profile] | None = None,
    file_urls: bool = True,
    clock: Clock | None = None,
    event_log_size: int = 10_000,
    strict: bool = True,
) -> MockAgentClient:
    """Make a real client over a backend that says what the test scripts.

    Args:
        wait_timeout: real seconds that a wait may take before it says what it waits for; `None` for any time.
        contract: see `create_mock_agent_transport`, likewise for the rest.
        manifest: what `get_manifest()` answers.
        initial_metadata: the metadata of every run that the mock makes.
        registered_tool_metadata: tools that the manifest does not list, by name.
        profiles: what the transport can.
        file_urls: whether files have URLs.
        clock: the time.
        event_log_size: how many events of a thread are kept.
        strict: whether what nobody met is an error at the end of `async with`.

    Raises:
        MockConfigError: an option with a value that it cannot have.
    """
    if wait_timeout is not None and not wait_timeout > 0:
        raise MockConfigError(f"wait_timeout={wait_timeout!r}: it is more than 0 seconds, or None for any time")
    transport = create_mock_agent_transport(
        contract=contract,
        manifest=manifest,
        initial_metadata=initial_metadata,
        registered_tool_metadata=registered_tool_metadata,
        profiles=profiles,
        file_urls=file_urls,
        clock=clock,
        event_log_size=event_log_size,
        strict=strict,
    )
    return MockAgentClient(transport, wait_timeout=wait_timeout)
