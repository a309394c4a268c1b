"""Cases of the profile `core`: answers, what is kept of them, and who sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import AgentManifest, ClientClosedError, ownership_of
from chatagent.ui import StepStartUIPart
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.contract import CONTRACT, RUN_METADATA
from chatagent_test.conformance.looking import data_parts, last_answer, plain, roles, text_parts, texts, tool_part
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent_test.conformance.stage import Stage

LOOKUP = reply.tool("lookup").result({"query": "parcel"}, {"found": "in Oslo"})


@case("core-text-answer", "EV-6", "CK-2")
async def text_answer(stage: Stage) -> None:
    """An answer of one text is one message of the agent's, with the text complete."""
    stage.answer(reply.assistant("hello"))

    state = await stage.answered()

    stage.equal("the roles of the messages", roles(state), ["user", "assistant"])
    stage.equal("text and state of the answer's texts", text_parts(last_answer(state)), [["hello", "done"]])
    owner = ownership_of((await stage.snapshot()).messages[-1])
    told = [owner.producer, owner.relation, owner.run_id]
    stage.equal("producer, relation and run of the answer", told, ["model", "output", state.runs[0].run_id])


@case("core-settles-idle", "EV-9", "DM-3", "DM-10")
async def settles_idle(stage: Stage) -> None:
    """After the answer the run is completed, and the thread idle."""
    stage.answer(reply.assistant("hello"))

    state = await stage.answered()
    stored = await stage.snapshot()

    for where, runs, head in (("state", state.runs, state.thread), ("snapshot", stored.runs, stored.thread)):
        told = [runs[0].status, runs[0].settled_at is not None, head.status, head.active_run_id]
        stage.equal(f"status, end, thread and active run in the {where}", told, ["completed", True, "idle", None])


@case("core-two-turns", "DM-23", "TP-24")
async def two_turns(stage: Stage) -> None:
    """Two turns stand one behind the other, each with its run."""
    stage.answer(reply.assistant("one"), reply.assistant("two"))

    await stage.answered("first")
    state = await stage.answered("second")

    stage.equal("the texts", texts(state), ["first", "one", "second", "two"])
    first, second = [run.run_id for run in state.runs]
    stage.equal("the runs of the messages", [m.run_id for m in state.messages], [first, first, second, second])


@case("core-ids-stable", "DM-25", "TP-2")
async def ids_stable(stage: Stage) -> None:
    """Messages, runs and tool calls keep their ids, however often the thread is read."""
    stage.answer(reply.assistant(LOOKUP, "It is in Oslo."))
    told = await stage.answered()

    first = await stage.thread().refresh()
    second = await stage.thread().refresh()

    for state in (first, second):
        stage.equal(
            "the ids of the messages", [m.message_id for m in state.messages], [m.message_id for m in told.messages]
        )
        stage.equal("the ids of the runs", [run.run_id for run in state.runs], [run.run_id for run in told.runs])
        calls = [part.tool_call_id for m in state.messages for part in m.tool_parts]
        stage.equal("the ids of the calls", calls, [part.tool_call_id for m in told.messages for part in m.tool_parts])
    stage.true("no two messages have one id", len({m.message_id for m in told.messages}) == 2, told.messages)


@case("core-tool-result", "DM-31", "CK-5")
async def tool_result(stage: Stage) -> None:
    """A tool's call stands in the answer with its input, its output, and whose tool it is."""
    stage.answer(reply.assistant(LOOKUP))

    part = stage.the("a tool call in the answer", tool_part(await stage.answered()))

    stage.equal("type and state of the part", [part.type, part.state], ["tool-lookup", "output-available"])
    stage.equal("input and output", [part.input, part.output], [{"query": "parcel"}, {"found": "in Oslo"}])
    told = {"executor": "server", "toolId": "lookup"}
    stage.equal("its provenance", (part.tool_metadata or {}).get("chatagent"), told)


@case("core-tool-error-keeps-run", "CK-6", "RQ-8")
async def tool_error_keeps_run(stage: Stage) -> None:
    """A tool that fails is told in its part; the run is completed all the same."""
    stage.answer(reply.assistant(reply.tool("lookup").error("no network", {"query": "parcel"}), "I could not look."))

    state = await stage.answered()

    part = stage.the("a tool call in the answer", tool_part(state))
    stage.equal("the state of the part", part.state, "output-error")
    stage.true("its text says `no network`", "no network" in (part.error_text or ""), part.error_text)
    stage.equal("the thread's error", state.error, None)


@case("core-step-border", "CK-11")
async def step_border(stage: Stage) -> None:
    """A border of steps stands between a tool's result and the text of the next model call."""
    stage.answer(reply.assistant(LOOKUP, "It is in Oslo."))

    answer = stage.the("an answer", last_answer(await stage.answered()))

    kinds = [part.type for part in answer.parts]
    stage.equal("the parts", kinds[-3:], ["tool-lookup", "step-start", "text"])
    borders = [part for part in answer.parts if isinstance(part, StepStartUIPart)]
    stage.equal("how many steps there are", len(borders), 2)


@case("core-transient-data", "EV-16")
async def transient_data(stage: Stage) -> None:
    """Transient data is told and not kept."""
    stage.answer(reply.assistant(reply.data("mood", {"is": "good"}, transient=True), "hello"))

    state = await stage.answered()
    stored = await stage.snapshot()

    stage.equal("the data in the state", data_parts(state, "data-mood"), [])
    kinds = [part.type for message in stored.messages for part in message.parts]
    stage.true("no part of the snapshot is `data-mood`", "data-mood" not in kinds, kinds)
    stage.equal("the text of the answer", texts(state)[-1], "hello")


@case("core-data-replaced", "DM-25", "CK-9")
async def data_replaced(stage: Stage) -> None:
    """Data under an id that is there takes the place of what was there."""
    stage.answer(reply.assistant(reply.data("mood", 1, "d-1"), reply.data("mood", 2, "d-1"), "hello"))

    state = await stage.answered()
    again = await stage.thread().refresh()

    stage.equal("the data in the state", data_parts(state, "data-mood"), [["d-1", 2]])
    stage.equal("the data after a refresh", data_parts(again, "data-mood"), [["d-1", 2]])


@case("core-run-metadata-default", "DM-13", "MP-24")
async def run_metadata_default(stage: Stage) -> None:
    """A new run has the agent's own metadata, and shares them with no other run."""
    stage.answer(reply.assistant("one"), reply.assistant("two"))

    await stage.answered()
    state = await stage.answered()
    stored = await stage.snapshot()

    for where, runs in (("state", state.runs), ("snapshot", stored.runs)):
        stage.equal(f"the metadata in the {where}", [run.metadata for run in runs], [RUN_METADATA, RUN_METADATA])
        first, second = runs
        stage.true(f"the runs of the {where} have each their own", first.metadata is not second.metadata, "one object")


@case("core-second-client-sees-all", "DM-47", "CL-8")
async def second_client_sees_all(stage: Stage) -> None:
    """A client that comes later sees the same thread."""
    stage.answer(reply.assistant(LOOKUP, reply.data("mood", 1, "d-1"), "hello"), reply.error("boom"))
    await stage.answered()
    state, _ = await stage.settled(await stage.thread().send("again"))

    far = await stage.far_client()
    seen = await far.thread("t-1").refresh()

    stage.equal("what the second client sees", seen, state)


@case("core-manifest", "DM-52", "TP-1")
async def manifest(stage: Stage) -> None:
    """The manifest says the agent's tools and commands, and survives JSON."""
    wanted = CONTRACT.manifest()

    found = await stage.transport.get_manifest()
    again = AgentManifest.model_validate_json(found.model_dump_json(by_alias=True, exclude_unset=True))

    stage.equal("the agent", found.agent_id, wanted.agent_id)
    waits = stage.has("actions")
    stage.equal("the tools", _tools(found, waits=waits), _tools(wanted, waits=waits))
    if stage.has("commands"):
        stage.equal("the commands", sorted(each.name for each in found.commands), ["echo", "explode"])
    stage.true("the profile `core` is declared", "core" in found.profiles, found.profiles)
    stage.equal("the manifest after a round trip", again, found)
    stage.equal("the client's manifest", await stage.client.get_manifest(), found)


def _tools(manifest: AgentManifest, *, waits: bool) -> object:
    """Return what tools are called and who runs them; if the backend has actions, also how they wait."""
    told = [
        {
            "name": tool.name,
            "id": tool.tool_id,
            "executor": tool.executor,
            "approval": tool.needs_approval,
            "suspends": sorted(each.name for each in tool.suspends if waits),
            "channels": sorted(each.name for each in tool.data_channels if waits),
        }
        for tool in manifest.tools
    ]
    return plain(sorted(told, key=lambda tool: str(tool["name"])))


@case("core-closed", "TP-29", "ER-14")
async def closed(stage: Stage) -> None:
    """A transport that is closed refuses every call, and may be closed again."""
    await stage.transport.aclose()

    with stage.refuses("send on a closed transport", ClientClosedError):
        await stage.send()
    with stage.refuses("get_thread on a closed transport", ClientClosedError):
        await stage.transport.get_thread("t-1")
    await stage.transport.aclose()
