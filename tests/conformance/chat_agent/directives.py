"""Performs directives: what the hooks, `run`, tools and deferred work of a scenario do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent import chat, is_step_count, locals, stream_text
from chatagent.agent import RecoveryResult
from chatagent.ui import parse_ui_message
from conformance.chat_agent.errors import UnsupportedScenarioError, scenario_error
from conformance.chat_agent.gates import first_steps
from conformance.chat_agent.sources import ChunkSource, given
from conformance.chat_agent.streams import stream_options
from conformance.chat_agent.values import applies, resolve, snake
from conformance.chat_agent.wire import value_to_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from chatagent.ui import UIMessage
    from conformance.chat_agent.gates import Gates
    from conformance.chat_agent.model import ScriptedModel
    from conformance.chat_agent.moments import Moment
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire

GO_ON: Any = object()
"""What a directive gives that does not return from its hook."""
MAX_STEPS = 15


class Performer:
    """Performs directives against the runtime's `chat` namespace.

    Args:
        agent: the declaration of the agent.
        model: the scripted model.
        gates: the gates of the scenario.
        recorder: where `mark` and its like are logged.
    """

    def __init__(self, agent: Wire, model: ScriptedModel, gates: Gates, recorder: Recorder) -> None:
        self._model, self._gates, self._recorder = model, gates, recorder
        self._db: list[UIMessage] = [parse_ui_message(each) for each in agent.get("db", ())]
        self._chat_locals: dict[str, Any] = {each: chat.local(dict, id=each) for each in agent.get("chatLocals", ())}

    async def perform(self, directives: Iterable[Wire], moment: Moment) -> Any:
        """Perform directives in order until one returns or raises; give what it returned, else `None`."""
        for directive in directives:
            if not applies(directive, moment.wire, moment.call):
                continue
            given_back = await self._one(directive, moment)
            if given_back is not GO_ON:
                return given_back
        return None

    async def _one(self, directive: Wire, moment: Moment) -> Any:
        arguments = {key: value if key in NESTED else resolve(value, moment.wire) for key, value in directive.items()}
        return await DIRECTIVES[directive["do"]](self, arguments, moment)

    # --- ending a hook -------------------------------------------------------------------------------------

    async def _throw(self, it: Wire, moment: Moment) -> Any:
        raise scenario_error(it["message"], it.get("errorName", "Error"))

    async def _return(self, it: Wire, moment: Moment) -> Any:
        return it.get("value")

    async def _return_incoming(self, it: Wire, moment: Moment) -> Any:
        return _incoming(moment)

    async def _return_previous_and_incoming(self, it: Wire, moment: Moment) -> Any:
        return [*moment.event.previous_messages, *moment.event.incoming_messages]

    async def _return_messages_plus(self, it: Wire, moment: Moment) -> Any:
        return [*it.get("before", ()), *moment.event.messages, *it.get("after", ())]

    async def _return_db(self, it: Wire, moment: Moment) -> Any:
        return list(self._db)

    async def _return_recovery(self, it: Wire, moment: Moment) -> Any:
        async def before_boot() -> None:
            self._recorder.event("beforeBoot")
            await self.perform(it["beforeBoot"], moment)

        return RecoveryResult(
            chain=it.get("chain"),
            recovered_turns=it.get("recoveredTurns"),
            before_boot=before_boot if "beforeBoot" in it else None,
        )

    async def _stream_text(self, it: Wire, moment: Moment) -> Any:
        options: dict[str, Any] = chat.to_stream_text_options() if it.get("toOptions") else {}
        if getattr(moment.event, "tools", None):
            options["tools"] = moment.event.tools
        if "system" in it:
            options["instructions"] = it["system"]
        options |= {
            "model": self._model,
            "messages": moment.event.messages,
            "abort_signal": moment.signal,
            "max_retries": 0,
            "stop_when": is_step_count(it.get("maxSteps", MAX_STEPS)),
        }
        result = stream_text(**options)
        if not it.get("pipe"):
            return result
        await chat.pipe(result)
        return None

    async def _return_chunks(self, it: Wire, moment: Moment) -> Any:
        return ChunkSource(it["chunks"], break_with=it.get("breakWith"), raw=it.get("raw", False))

    # --- writing -------------------------------------------------------------------------------------------

    async def _pipe_chunks(self, it: Wire, moment: Moment) -> Any:
        await chat.pipe(given(it["chunks"]))
        return GO_ON

    async def _write(self, it: Wire, moment: Moment) -> Any:
        moment.event.writer.write(it["chunk"])
        return GO_ON

    async def _response_write(self, it: Wire, moment: Moment) -> Any:
        chat.response.write(it["chunk"])
        return GO_ON

    async def _stream_write(self, it: Wire, moment: Moment) -> Any:
        await chat.stream.writer(execute=lambda writer: writer.write(it["chunk"])).wait_until_complete()
        return GO_ON

    # --- history, store, locals ----------------------------------------------------------------------------

    async def _history(self, it: Wire, moment: Moment) -> Any:
        getattr(chat.history, snake(it["op"]))(*it.get("args", ()))
        return GO_ON

    async def _log_history(self, it: Wire, moment: Moment) -> Any:
        result = getattr(chat.history, snake(it["op"]))(*it.get("args", ()))
        self._recorder.event("history", {"op": it["op"], "result": value_to_wire(result)})
        return GO_ON

    async def _db_append_incoming(self, it: Wire, moment: Moment) -> Any:
        self._db.extend(_incoming(moment))
        return GO_ON

    async def _db_upsert_incoming(self, it: Wire, moment: Moment) -> Any:
        self._recorder.event("upsert", {"result": chat.upsert_incoming_message(self._db, moment.event)})
        return GO_ON

    async def _db_set(self, it: Wire, moment: Moment) -> Any:
        self._db = list(moment.event.ui_messages)
        return GO_ON

    async def _local(self, it: Wire, moment: Moment) -> Any:
        local = self._chat_locals[it["id"]]
        match it["op"]:
            case "init":
                local.init(it["value"])
            case "set":
                setattr(local, it["key"], it["value"])
            case "increment":
                setattr(local, it["key"], (getattr(local, it["key"]) or 0) + 1)
            case "log":
                value = value_to_wire(local.get())
                self._recorder.event("local", {"id": it["id"], "value": value, "changed": local.has_changed()})
            case other:
                raise UnsupportedScenarioError(f"operation {other!r} of directive local")
        return GO_ON

    async def _log_local(self, it: Wire, moment: Moment) -> Any:
        self._recorder.event("locals", {"key": it["key"], "value": value_to_wire(locals.get(locals.create(it["key"])))})
        return GO_ON

    # --- the run -------------------------------------------------------------------------------------------

    async def _inject(self, it: Wire, moment: Moment) -> Any:
        chat.inject(it["messages"])
        return GO_ON

    async def _end_run(self, it: Wire, moment: Moment) -> Any:
        chat.end_run()
        return GO_ON

    async def _request_upgrade(self, it: Wire, moment: Moment) -> Any:
        chat.request_upgrade()
        return GO_ON

    async def _set_stream_options(self, it: Wire, moment: Moment) -> Any:
        chat.set_ui_message_stream_options(stream_options(it["options"]))
        return GO_ON

    async def _is_stopped(self, it: Wire, moment: Moment) -> Any:
        self._recorder.event("isStopped", {"value": chat.is_stopped()})
        return GO_ON

    async def _defer(self, it: Wire, moment: Moment) -> Any:
        async def work() -> None:
            if "gate" in it:
                await self._gates.wait(it["gate"])
            await self.perform(it.get("then", ()), moment.first())

        chat.defer(work)
        await first_steps()
        return GO_ON

    async def _mark(self, it: Wire, moment: Moment) -> Any:
        self._recorder.event("mark", {"label": it["label"]})
        return GO_ON

    async def _sleep(self, it: Wire, moment: Moment) -> Any:
        await chat.sleep(it["ms"] / 1000)
        return GO_ON

    async def _wait_gate(self, it: Wire, moment: Moment) -> Any:
        await self._gates.wait(it["gate"])
        return GO_ON

    async def _wait_abort(self, it: Wire, moment: Moment) -> Any:
        await moment.signal.wait()
        stop, cancel = (getattr(moment.event, f"{kind}_signal", None) for kind in ("stop", "cancel"))
        self._recorder.event(
            "aborted",
            {
                "reason": str(moment.signal.reason),
                "stop": stop is not None and stop.aborted,
                "cancel": cancel is not None and cancel.aborted,
            },
        )
        return GO_ON

    async def _throw_if_aborted(self, it: Wire, moment: Moment) -> Any:
        moment.signal.raise_if_aborted()
        return GO_ON


def _incoming(moment: Moment) -> list[UIMessage]:
    """Return what a turn brings; the event of `onValidateMessages` calls it `messages`."""
    event = moment.event
    return list(event.incoming_messages if hasattr(event, "incoming_messages") else event.messages)


NESTED = frozenset({"then", "beforeBoot"})
"""Arguments that are directives, which look at the event themselves."""

DIRECTIVES: dict[str, Callable[[Performer, Wire, Moment], Awaitable[Any]]] = {
    "throw": Performer._throw,
    "return": Performer._return,
    "returnIncoming": Performer._return_incoming,
    "returnPreviousAndIncoming": Performer._return_previous_and_incoming,
    "returnMessagesPlus": Performer._return_messages_plus,
    "returnDb": Performer._return_db,
    "returnRecovery": Performer._return_recovery,
    "streamText": Performer._stream_text,
    "returnChunks": Performer._return_chunks,
    "pipeChunks": Performer._pipe_chunks,
    "write": Performer._write,
    "responseWrite": Performer._response_write,
    "streamWrite": Performer._stream_write,
    "history": Performer._history,
    "logHistory": Performer._log_history,
    "dbAppendIncoming": Performer._db_append_incoming,
    "dbUpsertIncoming": Performer._db_upsert_incoming,
    "dbSet": Performer._db_set,
    "local": Performer._local,
    "logLocal": Performer._log_local,
    "inject": Performer._inject,
    "endRun": Performer._end_run,
    "requestUpgrade": Performer._request_upgrade,
    "setStreamOptions": Performer._set_stream_options,
    "isStopped": Performer._is_stopped,
    "defer": Performer._defer,
    "mark": Performer._mark,
    "sleep": Performer._sleep,
    "waitGate": Performer._wait_gate,
    "waitAbort": Performer._wait_abort,
    "throwIfAborted": Performer._throw_if_aborted,
}
