"""Builds the agent that a scenario declares: its hooks, `run`, tools, schemas and options, all of which log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from chatagent import chat
from conformance.chat_agent.extras import compaction, pending_messages
from conformance.chat_agent.moments import Moment
from conformance.chat_agent.schemas import parser
from conformance.chat_agent.streams import stream_options
from conformance.chat_agent.tools import make_tools
from conformance.chat_agent.values import snake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent import ChatAgent
    from conformance.chat_agent.directives import Performer
    from conformance.chat_agent.gates import Gates
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire

DEFAULT_RUN = [{"do": "streamText"}]


def build_agent(declared: Wire, performer: Performer, gates: Gates, recorder: Recorder) -> ChatAgent[Any]:
    """Return the agent of a scenario.

    Args:
        declared: the scenario's `agent`.
        performer: performs the directives.
        gates: the gates that tools wait for.
        recorder: where every call is logged.
    """
    calls: Counter[str] = Counter()

    def hook(name: str, directives: list[Wire]) -> Callable[[Any], Awaitable[Any]]:
        async def called(event: Any) -> Any:
            calls[name] += 1
            moment = Moment.of_event(name, event, calls[name])
            recorder.event(name, _shown(name, moment))
            return await recorder.noting_errors(name, performer.perform(directives, moment))

        return called

    options: dict[str, Any] = {_option(name): value for name, value in declared.get("options", {}).items()}
    options |= {snake(name): hook(name, directives) for name, directives in declared.get("hooks", {}).items()}
    for key in ("clientDataSchema", "actionSchema"):
        if key in declared:
            options[snake(key)] = parser(declared[key])
    if "uiMessageStream" in declared:
        options["ui_message_stream_options"] = stream_options(declared["uiMessageStream"])
    if "pendingMessages" in declared:
        options["pending_messages"] = pending_messages(declared["pendingMessages"], recorder)
    if "compaction" in declared:
        options["compaction"] = compaction(declared["compaction"], recorder)
    if "tools" in declared:
        options["tools"] = _tools_option(declared, performer, gates, recorder, hook)
    return chat.agent(id="scenario", run=hook("run", declared.get("run", DEFAULT_RUN)), **options)


def _tools_option(
    declared: Wire,
    performer: Performer,
    gates: Gates,
    recorder: Recorder,
    hook: Callable[[str, list[Wire]], Callable[[Any], Awaitable[Any]]],
) -> Any:
    tools = make_tools(declared["tools"], performer, gates, recorder)
    if declared.get("toolsForm") != "function":
        return tools
    perform = hook("tools", declared.get("toolsDo", []))

    async def resolve(event: Any) -> Any:
        await perform(event)
        return tools

    return resolve


def _shown(name: str, moment: Moment) -> Wire:
    """Return the fields of an event for the log; `run` shows two that stand for live objects."""
    if name != "run":
        return moment.wire
    return {**moment.wire, "toolNames": list(moment.event.tools), "aborted": moment.event.signal.aborted}


def _option(name: str) -> str:
    """Return our name of an agent's option: durations are seconds without saying so."""
    return snake(name.removesuffix("InSeconds"))
