"""Making the mock: what it is, what it answers by default, how tools are shown."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from chatagent.client import AgentClient, AgentClientTransport, RunHandle, Thread
from chatagent.protocol import PROFILES, AgentContract, AgentManifest, ValueContract
from chatagent_test import (
    MockAgentClient,
    MockConfigError,
    RegisteredTool,
    create_mock_agent_client,
    create_mock_agent_transport,
    given,
    reply,
)
from transport.following import last_tool, provenance

pytestmark = pytest.mark.anyio

CONTROLS = ("seed", "reset", "responses", "events", "commands", "files", "inspect")
INVOICE = AgentManifest.model_validate(
    {"agentId": "support", "tools": [{"name": "find_invoice", "toolId": "findInvoice", "executor": "server"}]}
)


class BareTransport:
    """A transport without any control, over a mock's."""

    def __init__(self, inner: AgentClientTransport) -> None:
        for name in vars(AgentClientTransport):
            if not name.startswith("_"):
                setattr(self, name, getattr(inner, name))


async def tool_part_of(mock: MockAgentClient, name: str = "find_invoice") -> Any:
    mock.responses.queue(reply.assistant(reply.tool(name).result(input={"q": 1}, output={"n": 2})))
    await mock.client.thread("t-1").send("go")
    return last_tool(mock)


async def test_a_normal_client_works_over_the_transport() -> None:
    """MTR-001, MTR-002: the mock is a transport like any other."""
    transport = create_mock_agent_transport()

    async with AgentClient(transport) as client:
        run = await client.thread("t-1").send("hi")

    assert isinstance(transport, AgentClientTransport)
    assert run.run_id == "run-1"


def test_the_transport_has_the_controls_of_a_test() -> None:
    """MTR-003."""
    transport = create_mock_agent_transport()

    assert [name for name in CONTROLS if not hasattr(transport, name)] == []


async def test_no_control_is_part_of_the_protocol() -> None:
    """MTR-004: a client over a transport without the controls works."""
    inner = create_mock_agent_transport()
    inner.responses.queue(reply.assistant("Done."))
    bare = BareTransport(inner)

    async with AgentClient(bare) as client:  # pyright: ignore[reportArgumentType] - its methods are set one by one
        run = await client.thread("t-1").send("hi")
        state = await run.wait_until_idle()

    assert [name for name in CONTROLS if hasattr(AgentClientTransport, name)] == []
    assert not any(hasattr(bare, name) for name in CONTROLS)
    assert state.messages[-1].text == "Done."


async def test_the_controls_of_the_mock_client_are_those_of_its_transport() -> None:
    """MTR-005."""
    async with create_mock_agent_client() as mock:
        assert mock.client is not None
        for name in CONTROLS:
            assert getattr(mock, name) is getattr(mock.transport, name)


async def test_the_facade_is_the_real_one(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-006, MTR-007."""
    mock.responses.queue(reply.assistant("Done."))

    run = await thread.send("Hello")
    state = await run.wait_until_idle()

    assert (type(mock.client), type(thread), type(run)) == (AgentClient, Thread, RunHandle)
    assert AgentClient.__module__.startswith("chatagent.client")
    assert state.messages[-1].text == "Done."


def test_a_mock_test_loads_no_turn_loop() -> None:
    """MTR-008: nor anything that speaks over a network (see MTR-149)."""
    program = (
        "import sys, anyio\n"
        "from chatagent_test import create_mock_agent_client, given, reply\n"
        "async def main():\n"
        "    async with create_mock_agent_client() as mock:\n"
        "        mock.seed(given.thread('t-2'))\n"
        "        mock.responses.queue(reply.assistant('hi'))\n"
        "        await (await mock.client.thread('t-1').send('x')).wait_until_idle()\n"
        "anyio.run(main)\n"
        "wanted = ('chatagent.agent', 'chatagent.generate', 'chatagent.session', 'chatagent.task', 'trio',\n"
        "          'httpx', 'httpx2', 'pytest', 'chatagent_test.harness')\n"
        "print([name for name in wanted if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_the_default_manifest_is_empty(mock: MockAgentClient) -> None:
    """MTR-009."""
    manifest = await mock.client.get_manifest()

    assert (manifest.agent_id, manifest.tools, manifest.commands) == ("mock-agent", (), ())
    assert manifest.profiles == PROFILES


async def test_a_manifest_that_is_given_is_answered() -> None:
    """MTR-010, MTR-011: and it goes over the wire as it is."""
    async with create_mock_agent_client(manifest=INVOICE) as mock:
        manifest = await mock.client.get_manifest()

    assert manifest == INVOICE
    assert AgentManifest.model_validate_json(manifest.model_dump_json(by_alias=True)) == manifest


async def test_every_run_has_its_own_copy_of_the_initial_metadata() -> None:
    """MTR-012."""
    async with create_mock_agent_client(initial_metadata={"rating": None}) as mock:
        thread = mock.client.thread("t-1")
        mock.responses.queue(reply.assistant("a"), reply.assistant("b"))
        first, second = await thread.send("x"), await thread.send("y")

        first.record.metadata["rating"] = 5

        assert second.record.metadata == {"rating": None}


async def test_without_initial_metadata_runs_have_none(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-013."""
    assert (await thread.send("x")).record.metadata == {}


@dataclass
class Rated:
    rating: int | None


def test_run_metadata_that_the_contract_needs_must_be_given() -> None:
    """MTR-014."""
    contract = AgentContract(agent_id="support", run_metadata=ValueContract.of(Rated))

    with pytest.raises(MockConfigError, match=r"^initial_metadata.rating: Field required; the agent's run metadata"):
        create_mock_agent_transport(contract=contract)
    create_mock_agent_transport(contract=contract, initial_metadata={"rating": None})


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a log of no events": ({"event_log_size": 0}, r"^event_log_size=0: a log keeps at least one event$"),
    "an unknown profile": (
        {"profiles": {"core", "wach"}},
        r"^profiles: there is no profile 'wach'; did you mean 'watch'",
    ),
    "profiles without the core": ({"profiles": {"watch"}}, r"^profiles: every transport has the profile 'core'$"),
    "a contract that is none": ({"contract": 5}, r"^contract=5: give an agent, or what its contract\(\) returns$"),
    "a manifest that is none": ({"manifest": {}}, r"^manifest=\{\}: give an AgentManifest$"),
    "a clock that is none": ({"clock": 5}, r"^clock=5: give a Clock$"),
    "a tool that is none": (
        {"registered_tool_metadata": {"find": "server"}},
        r"^registered_tool_metadata\['find'\] is 'server': give a RegisteredTool$",
    ),
    "metadata that is no JSON": ({"initial_metadata": {"at": object()}}, r"^initial_metadata: .* is no JSON data"),
    "no time to wait": ({"wait_timeout": 0}, r"^wait_timeout=0: it is more than 0 seconds, or None for any time$"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_no_mock_can_have_is_refused(name: str) -> None:
    options, text = OPTIONS[name]

    with pytest.raises(MockConfigError, match=text):
        create_mock_agent_client(**options)


async def test_seeded_run_metadata_stays_as_it_is() -> None:
    """MTR-015."""
    async with create_mock_agent_client(initial_metadata={"rating": None}) as mock:
        mock.seed(given.thread("t-1", given.run(given.input("x"), metadata={"rating": 5})))

        state = await mock.client.thread("t-1").refresh()

    assert state.runs[0].metadata == {"rating": 5}


async def test_a_tool_of_the_manifest_is_shown_by_its_name() -> None:
    """MTR-016."""
    async with create_mock_agent_client(manifest=INVOICE) as mock:
        part = await tool_part_of(mock)

    assert part.type == "tool-find_invoice"
    assert provenance(part) == {"executor": "server", "toolId": "findInvoice"}


async def test_a_registered_tool_with_an_id_is_shown_by_its_name() -> None:
    """MTR-017."""
    tools = {"find_invoice": RegisteredTool("server", tool_id="findInvoice")}
    async with create_mock_agent_client(registered_tool_metadata=tools) as mock:
        part = await tool_part_of(mock)

    assert (part.type, provenance(part)["toolId"]) == ("tool-find_invoice", "findInvoice")


async def test_a_registered_tool_without_an_id_is_a_dynamic_one() -> None:
    """MTR-018."""
    async with create_mock_agent_client(registered_tool_metadata={"pick_photo": RegisteredTool("client")}) as mock:
        part = await tool_part_of(mock, "pick_photo")

    assert (part.type, part.tool_name) == ("dynamic-tool", "pick_photo")
    assert provenance(part) == {"executor": "client"}


async def test_the_registration_wins_over_the_manifest() -> None:
    """MTR-019."""
    tools = {"find_invoice": RegisteredTool("client", tool_id="other")}
    async with create_mock_agent_client(manifest=INVOICE, registered_tool_metadata=tools) as mock:
        part = await tool_part_of(mock)

    assert provenance(part) == {"executor": "client", "toolId": "other"}
