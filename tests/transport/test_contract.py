"""Drift is caught: scripts, seeds and values are checked by the agent's contract when they are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from chatagent import chat, tool
from chatagent.client import AgentClient
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import (
    ActionValueError,
    AgentContract,
    AgentManifest,
    CommandInputError,
    CommandNotFoundError,
    ToolDataError,
)
from chatagent_test import (
    MockAgentClient,
    ScriptError,
    SeedError,
    UnknownToolError,
    UnusedScriptsError,
    create_mock_agent_client,
    given,
    reply,
)
from transport.following import last_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Refund(BaseModel):
    amount: int


class Question(BaseModel):
    amount: int


class Verdict(BaseModel):
    approved: bool


class Undo(BaseModel):
    type: str


class Brief(BaseModel):
    text: str


@tool
async def refund_order(order: int) -> Refund:
    """Refund an order."""
    return Refund(amount=order)


@tool(output_schema={"type": "object", "required": ["found"], "properties": {"found": {"type": "boolean"}}})
async def find(q: str) -> dict[str, bool]:
    """Find something."""
    return {"found": bool(q)}


pick_file = tool(name="pick_file", input_schema=Question, output_schema=Brief)


def make_agent():
    return chat.agent(id="support", tools=[refund_order, find, pick_file], action_schema=Undo, run=lambda event: None)


CONTRACT = make_agent().contract(
    data_parts={"progress": int},
    message_metadata=Brief,
    commands={"refreshBrief": (Brief, Brief)},
    suspends={"refund_order": {"approval": (Question, Verdict)}},
    tool_data={"find": {"percent": int}},
)


@pytest.fixture
async def mock(anyio_backend: str) -> AsyncIterator[MockAgentClient]:
    async with create_mock_agent_client(contract=CONTRACT) as made:
        yield made


SCRIPTS: dict[str, tuple[Any, str]] = {
    "an unknown tool": (
        reply.tool("refund_ordr").result(input={}, output=1),
        "part 2: reply.tool('refund_ordr').result: no tool is called 'refund_ordr'; did you mean 'refund_order'?",
    ),
    "an input of the wrong type": (
        reply.tool("refund_order").result(input={"order": "seven"}, output={"amount": 1}),
        "part 2: reply.tool('refund_order').result(input.order): Input should be a valid integer",
    ),
    "an output of the wrong type": (
        reply.tool("refund_order").result(input={"order": 7}, output={"amount": "all"}),
        "part 2: reply.tool('refund_order').result(output.amount): Input should be a valid integer, unable to parse "
        "string as an integer; it is 'all'",
    ),
    "an output that fails a JSON schema": (
        reply.tool("find").result(input={"q": "x"}, output={}),
        "part 2: reply.tool('find').result(output.found): is required; it is {}",
    ),
    "a question that the tool does not ask": (
        reply.tool("refund_order").waiting(input={"order": 7}, action=reply.action("aproval", {"amount": 1})),
        "part 2: reply.tool('refund_order').waiting: tool 'refund_order' asks no question called 'aproval'; "
        "did you mean 'approval'?",
    ),
    "a question that shows something else": (
        reply.tool("refund_order").waiting(input={"order": 7}, action=reply.action("approval", {"amount": None})),
        "part 2: reply.tool('refund_order').waiting(action.input.amount): Input should be a valid integer",
    ),
    "the output of a server tool asked of the client": (
        reply.tool("refund_order").waiting(input={"order": 7}, action=reply.action("output")),
        "part 2: reply.tool('refund_order').waiting: tool 'refund_order' runs on the server, so nobody waits for its "
        "output; its questions: approval",
    ),
    "data that the agent does not send": (
        reply.data("progres", 1),
        "part 2: reply.data('progres'): the agent sends no data called 'progres'; did you mean 'progress'?",
    ),
    "data of the wrong type": (
        reply.data("progress", "half"),
        "part 2: reply.data('progress')(value): Input should be a valid integer",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_script_that_the_agent_could_not_say_is_refused_where_it_is_written(
    mock: MockAgentClient, name: str
) -> None:
    part, text = SCRIPTS[name]

    with pytest.raises(ScriptError, match=rf"^test_contract\.py:\d+: {re.escape(text)}"):
        mock.responses.queue(reply.assistant("fine"), reply.assistant("Well:", part))

    assert mock.responses.size() == 0


async def test_message_metadata_is_checked(mock: MockAgentClient) -> None:
    with pytest.raises(ScriptError, match=r"reply\.assistant\(metadata\.text\): Field required; it is \{'txt': 'x'\}$"):
        mock.responses.queue(reply.assistant("x", metadata={"txt": "x"}))


async def test_what_a_responder_says_is_checked_too(mock: MockAgentClient) -> None:
    mock.responses.respond(lambda request: reply.assistant(reply.data("progress", "half")))

    with pytest.raises(ScriptError, match=r"^the responder: part 1: reply\.data\('progress'\)\(value\)"):
        await mock.client.thread("t-1").send("x")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (
            given.tool("refund_order").result(input={"order": "x"}, output={"amount": 1}),
            r"given\.tool\('refund_order'\)\.result\(input\.order\)",
        ),
        (
            given.tool("refund_order").result(input={"order": 1}, output={"amount": "x"}),
            r"given\.tool\('refund_order'\)\.result\(output\.amount\)",
        ),
        (
            {"type": "tool-find", "toolCallId": "c", "state": "input-available", "input": {"q": 7}},
            r"^a native part of tool 'find'\(input\.q\): Input should be a valid string",
        ),
        (
            {"type": "tool-find", "toolCallId": "c", "state": "output-available", "input": {"q": "x"}, "output": 1},
            r"^a native part of tool 'find'\(output\): ",
        ),
        (
            given.tool("refund_order").waiting(input={"order": 1}, action=given.action("nope", {})),
            r"asks no question called 'nope'; there are approval",
        ),
    ],
)
async def test_seeds_are_checked(mock: MockAgentClient, part: Any, text: str) -> None:
    with pytest.raises(SeedError, match=text):
        mock.seed(given.thread("t-1", given.run(given.input("x"), given.output(part))))

    with pytest.raises(UnknownToolError, match=r"given\.tool\('nope'\)\.running: no tool is called 'nope'"):
        mock.seed(given.thread("t-1", given.run(given.input("x"), given.output(given.tool("nope").running({})))))
    assert mock.inspect.threads() == ()


async def test_each_step_of_a_streamed_response_is_checked(mock: MockAgentClient) -> None:
    response = mock.responses.stream()
    await mock.client.thread("t-1").send("x")

    with pytest.raises(UnknownToolError, match=r"^response\.tool\('nope'\): no tool is called 'nope'"):
        response.tool("nope")
    part = response.tool("refund_order")
    with pytest.raises(ScriptError, match=r"^tool\('refund_order'\)\.input\.available\(input\.order\)"):
        await part.input.available({"order": "x"})
    await part.input.available({"order": 1})
    with pytest.raises(ScriptError, match=r"^tool\('refund_order'\)\.output\(output\.amount\)"):
        await part.output({"amount": "x"})
    with pytest.raises(ScriptError, match=r"asks no question called 'nope'"):
        await part.waiting(reply.action("nope", {}))
    with pytest.raises(ScriptError, match=r"^tool\('refund_order'\)\.data\('other'\): the agent sends no data called"):
        await part.data("other", 1)
    with pytest.raises(ScriptError, match=r"^response\.write_data\('progress'\)\(value\)"):
        await response.write_data("progress", "half")
    await part.output({"amount": 1})
    await response.complete()


async def test_commands_are_checked_on_both_sides(mock: MockAgentClient) -> None:
    thread = mock.client.thread("t-1")
    with pytest.raises(ScriptError, match=r"^commands\.set\('refresh'\): the agent has no such command; did you mean"):
        mock.commands.set("refresh", lambda call: None)
    mock.commands.set("refreshBrief", lambda call: call.input)

    result = await thread.commands.refresh_brief(text="x")
    with pytest.raises(CommandInputError, match=r"^the input of command 'refreshBrief' does not fit: `input\.text`"):
        await thread.commands.refresh_brief(text=1)
    with pytest.raises(CommandNotFoundError, match=r"^there is no command 'nope'; there are refreshBrief$"):
        await thread.commands.nope()
    asked = len(mock.inspect.requests.execute_command())
    mock.commands.set("refreshBrief", lambda call: {"text": 7})
    with pytest.raises(ScriptError, match=r"^the handler of command 'refreshBrief': result\.text: .*; it is 7$"):
        await thread.commands.refresh_brief(text="x")

    assert result == Brief(text="x")
    assert asked == 1


async def test_a_command_of_the_agent_that_nobody_handles_fails_the_test_at_its_end() -> None:
    mock = create_mock_agent_client(contract=CONTRACT)
    with pytest.raises(CommandNotFoundError, match=r"^there is no command 'refreshBrief'; there are none$"):
        await mock.client.thread("t-1").commands.refresh_brief(text="an application may swallow this")

    with pytest.raises(UnusedScriptsError, match=r"  - command 'refreshBrief' was called, and no commands\.set"):
        await mock.__aexit__(None, None, None)


async def test_answers_to_actions_are_checked_before_they_are_sent(mock: MockAgentClient) -> None:
    thread = mock.client.thread("t-1")
    question = reply.tool("refund_order").waiting(input={"order": 7}, action=reply.action("approval", {"amount": 1}))
    client_tool = reply.tool("pick_file").waiting(input={"amount": 1}, action=reply.action("output"))
    mock.responses.queue(reply.assistant(question, client_tool))
    await thread.send("x")
    asked, picked = thread.pending_actions

    with pytest.raises(
        ActionValueError, match=r"^the value for 'refund_order\.approval' does not fit: `value\.approved`"
    ):
        await asked.submit({"approved": "perhaps"})
    with pytest.raises(ActionValueError, match=r"^the value for 'pick_file\.output' does not fit: `value\.text`"):
        await picked.submit({"name": "a"})

    assert mock.inspect.requests.submit_action() == ()
    assert asked.input == Question(amount=1)
    await asked.submit(Verdict(approved=True))
    mock.responses.queue(reply.nothing())
    assert (await picked.submit(Brief(text="a"))).run is not None


async def test_custom_actions_are_checked(mock: MockAgentClient) -> None:
    thread = mock.client.thread("t-1")

    with pytest.raises(
        ActionValueError, match=r"^the value for 'send_action' does not fit: `action\.type`: Field required"
    ):
        await thread.send_action({"typ": "undo"})
    mock.responses.queue(reply.assistant("Undone."))
    await thread.send_action(Undo(type="undo"))

    assert thread.get_state().messages[-1].text == "Undone."


async def test_tool_data_goes_to_a_channel_of_the_tool(mock: MockAgentClient) -> None:
    thread = mock.client.thread("t-1")
    mock.responses.queue(reply.assistant(reply.tool("find").result(input={"q": "x"}, output={"found": True})))
    await thread.send("x")

    with pytest.raises(
        ToolDataError, match=r"^tool 'find', channel 'other': there is no such channel; there are percent$"
    ):
        await thread.write_tool_data(*last_call(thread), "other", 1)
    with pytest.raises(
        ToolDataError, match=r"^tool 'find', channel 'percent': `value`: Input should be a valid integer"
    ):
        await thread.write_tool_data(*last_call(thread), "percent", "half")
    await thread.write_tool_data(*last_call(thread), "percent", 50)


async def test_renaming_a_tool_of_the_agent_breaks_the_tests_that_script_the_old_name() -> None:
    renamed = chat.agent(id="support", tools={"refund": refund_order}, run=lambda event: None)
    script = reply.assistant(reply.tool("refund_order").result(input={"order": 7}, output={"amount": 1}))

    async with create_mock_agent_client(contract=make_agent()) as mock:
        mock.responses.queue(script)
        await mock.client.thread("t-1").send("x")
    async with create_mock_agent_client(contract=renamed) as mock:
        with pytest.raises(UnknownToolError, match=r"did you mean 'refund'\?"):
            mock.responses.queue(script)


async def test_without_a_contract_everything_goes() -> None:
    async with create_mock_agent_client() as mock:
        mock.responses.queue(
            reply.assistant(
                reply.tool("anything").result(input=[1], output=None),
                reply.data("whatever", {"deep": [None]}),
                metadata={"any": "thing"},
            )
        )
        await mock.client.thread("t-1").send("x")
        mock.commands.set("free", lambda call: call.input)

        assert await mock.client.thread("t-1").commands.free([1]) == [1]


# --- the contract itself ------------------------------------------------------------------------------------------


def test_the_contract_is_what_the_definition_says() -> None:
    contract = AgentContract.from_agent(make_agent())

    assert contract.tools is not None
    assert {name: each.executor for name, each in contract.tools.items()} == {
        "refund_order": "server",
        "find": "server",
        "pick_file": "client",
    }
    assert contract.action.problem({"type": 1}, "action") is not None
    assert contract.commands is None


def test_equal_definitions_give_equal_manifests() -> None:
    one, two = make_agent().contract().manifest(), make_agent().contract().manifest()
    full = CONTRACT.manifest()

    assert one.model_dump_json(by_alias=True) == two.model_dump_json(by_alias=True)
    assert [each.name for each in full.tools] == ["find", "pick_file", "refund_order"]
    assert AgentManifest.model_validate_json(full.model_dump_json(by_alias=True)) == full
    assert full.tools[2].tool_id == "refund_order"
    assert full.tools[2].suspends[0].name == "approval"
    assert full.action_schema is not None


def test_a_manifest_makes_a_contract_of_names() -> None:
    contract = AgentContract.from_manifest(CONTRACT.manifest())

    assert contract.tools is not None
    assert contract.tools["refund_order"].input.problem("anything", "input") is None
    assert sorted(contract.commands or {}) == ["refreshBrief"]


def test_tools_that_depend_on_the_turn_are_not_known() -> None:
    agent = chat.agent(id="a", tools=lambda event: [], run=lambda event: None)

    assert agent.contract().tools is None
    with pytest.raises(InvalidArgumentError, match=r"^`suspends` is 'nope': no such tool; there are find"):
        chat.agent(id="a", tools=[find], run=lambda event: None).contract(suspends={"nope": {}})


async def test_a_client_may_have_a_contract_over_any_transport() -> None:
    async with create_mock_agent_client() as mock:
        client = AgentClient(mock.transport, owns_transport=False, contract=CONTRACT)

        with pytest.raises(CommandNotFoundError):
            await client.thread("t-1").commands.nope()
        await client.aclose()


async def test_streamed_input_that_does_not_fit_is_refused_before_any_of_it_is_written(mock: MockAgentClient) -> None:
    response = mock.responses.stream()
    await mock.client.thread("t-1").send("x")
    call = response.tool("find")
    before = mock.inspect.events("t-1")

    with pytest.raises(
        ScriptError, match=r"^tool\('find'\)\.input\.stream\(input\.q\): Input should be a valid string"
    ):
        await call.input.stream({"q": 7})
    with pytest.raises(ScriptError, match=r"^tool\.input\.stream\(delay=-1\): a delay is 0 seconds or more$"):
        await call.input.stream({"q": "x"}, delay=-1)

    assert mock.inspect.events("t-1") == before
    await response.abort()
