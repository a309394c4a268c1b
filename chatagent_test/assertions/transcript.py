"""`transcript`: everything that happened in a harness, as text that is the same each time.

One line an event, in order: what the client sent, hooks with their outcome, model calls, chunks. Deltas that follow one
another are one line, ids and times have stable names, and a duration is told only where time is virtual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.agent import HookCall
from chatagent_test.assertions.normal import Normal
from chatagent_test.clock import VirtualClock
from chatagent_test.harness.story import (
    ClientSent,
    ModelAsked,
    RunBegun,
    RunOver,
    RunSuspended,
    TurnBegun,
    TurnDone,
)
from chatagent_test.harness.turn import raw_chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent.model import ModelMessage
    from chatagent.session import Record
    from chatagent_test.harness import ChatAgentHarness
    from chatagent_test.harness.story import Happening, RunFate

__all__ = ["transcript"]

_PIECES = {"text-delta": "delta", "reasoning-delta": "delta", "tool-input-delta": "inputTextDelta"}
"""Chunks that are pieces of one text, and the key of the piece."""


def transcript(harness: ChatAgentHarness, *, stable: bool = True) -> str:
    """Return what happened in a harness so far, for a snapshot test or for reading.

    Two runs of the same conversation give the same text: ids are numbered in the order of their appearance, instants
    are `<time>`, text deltas in a row are one. It may be asked for at any time, and changes nothing.

    Args:
        harness: the harness, open or closed.
        stable: name the ids; `False` leaves them as the harness has made them, to be found again elsewhere.

    Returns:
        Lines, each ended by a line break. Turns, and what lies between them, begin at the margin; what belongs to one
        is indented.
    """
    teller = _Teller(harness, keeps_ids=not stable)
    records = harness.out_records
    done = 0
    for position, what in harness.story:
        teller.chunks(records[done:position])
        teller.happening(what)
        done = position
    teller.chunks(records[done:])
    return "".join(f"{line}\n" for line in teller.lines)


class _Teller:
    """Writes the lines of one transcript."""

    def __init__(self, harness: ChatAgentHarness, *, keeps_ids: bool) -> None:
        self.lines: list[str] = []
        starts = [call.started_at for call in harness.hooks] or [harness.clock.now()]
        self._normal = Normal(min(starts) - 1, harness.clock.now() + 1, keeps_ids=keeps_ids)
        self._has_virtual_time = isinstance(harness.clock, VirtualClock)
        self._runs = self._calls = 0
        self._fate: RunFate | None = None
        self._ways: dict[type, Callable[[Any], None]] = {
            RunBegun: self._run_begun,
            ClientSent: self._client_sent,
            TurnBegun: self._turn_begun,
            TurnDone: self._turn_done,
            ModelAsked: self._model_asked,
            RunSuspended: lambda _: self._outer("suspended"),
            RunOver: self._run_over,
            HookCall: self._hook,
        }

    def happening(self, what: Happening) -> None:
        """Tell one thing that happened."""
        self._ways[type(what)](what)

    def chunks(self, records: Sequence[Record]) -> None:
        """Tell what was written to `.out` in one go."""
        told: list[dict[str, Any]] = []
        for wire in raw_chunks_of(records):
            piece = _PIECES.get(wire["type"])
            if piece is not None and told and _goes_on(told[-1], wire, piece):
                told[-1] = {**told[-1], piece: told[-1][piece] + wire[piece]}
            else:
                told.append(wire)
        for wire in told:
            rest = {key: value for key, value in wire.items() if key != "type"}
            kind = wire["type"]
            label = kind.removeprefix("trigger:") if kind.startswith("trigger:") else f"chunk {kind}"
            self._inner(f"{label} {self._normal.json(rest)}" if rest else label)

    def _run_begun(self, begun: RunBegun) -> None:
        self._runs, self._fate = self._runs + 1, begun.fate
        payload = begun.payload
        words = [str(payload["trigger"])] if "trigger" in payload else []
        words += ["continuation"] if payload.get("continuation") else []
        words += [self._message(payload["message"])] if payload.get("message") else []
        self._outer(f"run {self._runs} begins: {', '.join(words)}")

    def _run_over(self, _: RunOver) -> None:
        error = None if self._fate is None else self._fate.error
        killed = self._fate is not None and self._fate.was_killed
        how = "is killed" if killed else "ends" if error is None else f"fails with {self._normal.error(error)}"
        self._outer(f"run {self._runs} {how}")

    def _client_sent(self, sent: ClientSent) -> None:
        data: Any = sent.record.data
        kind = data.get("kind")
        if kind == "message":
            self._outer(f"client: {self._payload(data['payload'])}")
        else:
            rest = {key: value for key, value in data.items() if key != "kind"}
            self._outer(f"client: {kind}{f' {self._normal.json(rest)}' if rest else ''}")

    def _payload(self, payload: Mapping[str, Any]) -> str:
        trigger = str(payload.get("trigger"))
        if trigger == "action":
            return f"action {self._normal.json(payload.get('action'))}"
        message = payload.get("message")
        return trigger if message is None else self._message(message)

    def _message(self, message: Mapping[str, Any]) -> str:
        shown = [
            self._normal.json(part["text"]) if part.get("type") == "text" else _part(part)
            for part in message.get("parts", ())
        ]
        return " ".join([str(message.get("role")), *shown])

    def _turn_begun(self, begun: TurnBegun) -> None:
        self._outer(f"turn {begun.number}")

    def _turn_done(self, done: TurnDone) -> None:
        report = done.report
        ways = [report.finish_reason] if report.finish_reason else []
        ways += ["stopped"] if report.stopped else []
        ways += [self._normal.error(report.error)] if report.error is not None else []
        what = "action" if report.is_action else f"turn {report.turn}"
        self._inner(": ".join(filter(None, (f"{what} done", ", ".join(ways)))))

    def _model_asked(self, asked: ModelAsked) -> None:
        self._calls += 1
        prompt: Sequence[ModelMessage] = asked.options.prompt
        tools = [tool.name for tool in asked.options.tools or ()]
        with_tools = f", tools {', '.join(tools)}" if tools else ""
        plural = "message" if len(prompt) == 1 else "messages"
        last = f": {self._prompt_message(prompt[-1])}" if prompt else ""
        self._inner(f"model call {self._calls}, {asked.model.model_id}, {len(prompt)} {plural}{with_tools}{last}")

    def _prompt_message(self, message: ModelMessage) -> str:
        content: Any = message.content
        parts = [content] if isinstance(content, str) else content
        shown = [
            self._normal.json(part)
            if isinstance(part, str)
            else self._normal.json(part.text)
            if part.type == "text"
            else " ".join(filter(None, (part.type, getattr(part, "tool_name", None))))
            for part in parts
        ]
        return " ".join([message.role, *shown])

    def _hook(self, call: HookCall) -> None:
        how = call.outcome or "at work"
        if call.error is not None:
            how += f" {self._normal.error(call.error)}"
        took = (call.ended_at or call.started_at) - call.started_at
        after = f" after {took:g} s" if took and self._has_virtual_time else ""
        line = f"hook {call.name}: {how}{after}"
        (self._outer if call.turn is None else self._inner)(line)

    def _outer(self, line: str) -> None:
        self.lines.append(line)

    def _inner(self, line: str) -> None:
        self.lines.append(f"  {line}")


def _goes_on(before: Mapping[str, Any], wire: Mapping[str, Any], piece: str) -> bool:
    """Return whether a chunk is the next piece of the text that the one before belongs to."""
    return {**before, piece: ""} == {**wire, piece: ""}


def _part(part: Mapping[str, Any]) -> str:
    return " ".join(str(part[key]) for key in ("type", "state") if key in part)
