"""Changes of what is expected that concern records on `.out` and whole turns.

Whoever adds or removes records carries along what follows from it: their log entries, the counts of what comes behind,
and for a turn its model calls and its number. The other changes are in `differences.py`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.chat_agent.comparing import recorded
from conformance.chat_agent.differences import Entry, objects_in
from conformance.chat_agent.recording import stands_in_log
from conformance.chat_agent.windows import TURN_COMPLETE, split_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.chat_agent.differences import Expected
    from conformance.chat_agent.values import Wire

COUNTS = frozenset({"lastEventId", "lastOutEventId"})
"""Fields that count records on `.out`."""
OF_THE_CHAT = frozenset({"onBoot", "onPreload", "onChatStart"})
"""Log entries in front of the first turn that are not its own."""
OF_NO_HOOK = frozenset({"run", "modelCall", "out", "runEnd"})
"""Log entries that are there whichever hooks an agent has."""
ONE_CALL: dict[str, Any] = {
    "inputTokens": 10,
    "inputTokenDetails": {"noCacheTokens": 10},
    "outputTokens": 5,
    "outputTokenDetails": {"textTokens": 5},
    "totalTokens": 15,
}
"""What each scripted model call has used, if it ended well."""


@dataclass(frozen=True)
class AsIn:
    """All is as another golden has it, of whose log the hooks count that are registered here."""

    name: str

    def apply(self, it: Expected) -> None:
        it.observed = copy.deepcopy(recorded(it.look_up(self.name)["observed"]))
        known = OF_NO_HOOK | it.golden["agent"]["hooks"].keys()
        it.observed["log"] = [entry for entry in it.log if entry["event"] in known]


@dataclass(frozen=True)
class Unwritten:
    """Some records are not on `.out`."""

    start: int
    stop: int

    def apply(self, it: Expected) -> None:
        gone = range(self.start, self.stop)
        shown = [index for index, chunk in enumerate(it.observed["out"]) if stands_in_log(chunk)]
        entries = [entry for entry in it.log if entry["event"] == "out"]
        removed = [id(entry) for index, entry in zip(shown, entries, strict=True) if index in gone]
        it.observed["log"] = [entry for entry in it.log if id(entry) not in removed]
        del it.observed["out"][self.start : self.stop]
        _recount(it.observed, lambda count: count - sum(index < count for index in gone))


@dataclass(frozen=True)
class Written:
    """Some records more are on `.out`, none of which the log shows."""

    at: int
    records: tuple[Wire, ...]

    def apply(self, it: Expected) -> None:
        it.observed["out"][self.at : self.at] = copy.deepcopy(list(self.records))
        _recount(it.observed, lambda count: count + (len(self.records) if count > self.at else 0))


@dataclass(frozen=True)
class NoTurn:
    """A turn is not there, nor the empty answer that it gave; what stands in front of all turns stays."""

    turn: int

    def apply(self, it: Expected) -> None:
        entries = [each for each in _entries_of(it.log, self.turn) if each["event"] not in OF_THE_CHAT]
        calls = {each["n"] for each in entries if each["event"] == "modelCall"}
        turns = split_turns(it.observed["out"])
        first = sum(len(records) for records in turns[: self.turn])
        Unwritten(first, first + len(turns[self.turn])).apply(it)
        it.observed["log"] = [each for each in it.log if not any(each is other for other in entries)]
        it.observed["modelCalls"] = [call for n, call in enumerate(it.observed["modelCalls"]) if n not in calls]
        for entry in it.log:
            if entry.get("turn", -1) > self.turn:
                entry["turn"] -= 1
        _drop_empty_answers(it.observed)


@dataclass(frozen=True)
class OneMoreTurn:
    """Behind the last turn another message is answered, as every message is: by one model call that says a text."""

    user: Wire
    answer: str

    def apply(self, it: Expected) -> None:
        before = it.entry(Entry("onTurnComplete", -1))
        asking: Wire = {
            "messages": [*before["messages"], {"role": self.user["role"], "content": self.user["parts"]}],
            "uiMessages": [*before["uiMessages"], self.user],
            "turn": before["turn"] + 1,
            "previousTurnUsage": before["usage"],
            "totalUsage": before["totalUsage"],
        }
        answer_id = f"<id:{900 + asking['turn']}>"
        it.observed["out"] += _records(answer_id, self.answer)
        complete = _completed(before, asking, answer_id, self.answer) | {"lastEventId": str(len(it.observed["out"]))}
        entries = [
            *(_like(it.entry(Entry(event, -1)), asking) for event in ("onTurnStart", "run") if _logs(it.log, event)),
            {"event": "modelCall", "n": len(it.observed["modelCalls"])},
            {"event": "out", "chunk": it.observed["out"][-1]},
            complete,
        ]
        place = it.place_of(Entry("onTurnComplete", -1)) + 1
        it.log[place:place] = copy.deepcopy(entries)
        it.observed["modelCalls"].append({**it.observed["modelCalls"][-1], "prompt": asking["messages"]})
        it.observed["snapshot"] |= {"messages": complete["uiMessages"], "lastOutEventId": complete["lastEventId"]}


def _records(answer_id: str, text: str) -> list[Wire]:
    return [
        {"type": "start", "messageId": answer_id},
        {"type": "start-step"},
        {"type": "text-start", "id": "t1"},
        {"type": "text-delta", "id": "t1", "delta": text},
        {"type": "text-end", "id": "t1"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
        {"type": TURN_COMPLETE},
    ]


def _completed(before: Wire, asking: Wire, answer_id: str, text: str) -> Wire:
    """Return the entry of a completed turn, made from that of the turn before."""
    said: Wire = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    parts = [{"type": "step-start"}, {"type": "text", "text": text, "state": "done"}]
    answer: Wire = {"id": answer_id, "role": "assistant", "parts": parts}
    return {
        **before,
        "messages": [*asking["messages"], said],
        "uiMessages": [*asking["uiMessages"], answer],
        "newMessages": [asking["messages"][-1], said],
        "newUIMessages": [asking["uiMessages"][-1], answer],
        "responseMessage": answer,
        "rawResponseMessage": answer,
        "turn": asking["turn"],
        "usage": ONE_CALL,
        "totalUsage": _sum(asking["totalUsage"], ONE_CALL),
    }


def _like(entry: Wire, fields: Wire) -> Wire:
    """Return an entry with those of the fields anew that it has; the usage of the turn before may be new to it."""
    return {**entry, **{name: fields[name] for name in fields if name in entry or name == "previousTurnUsage"}}


def _logs(log: list[Wire], event: str) -> bool:
    return any(entry["event"] == event for entry in log)


def _sum(one: Wire, other: Wire) -> Wire:
    """Add usages field by field."""
    return {
        name: one.get(name, 0) + value if isinstance(value, int) else _sum(one.get(name, {}), value)
        for name, value in other.items()
    }


def _entries_of(log: list[Wire], turn: int) -> list[Wire]:
    """Return the entries from behind the turn before to the turn's end, its completion hook included."""
    turns: list[list[Wire]] = [[]]
    for entry in log:
        if entry["event"] == "onTurnComplete":
            turns[-2].append(entry)
            continue
        turns[-1].append(entry)
        if entry["event"] == "out" and entry["chunk"]["type"] == TURN_COMPLETE:
            turns.append([])
    return turns[turn]


def _recount(value: Any, count: Callable[[int], int]) -> None:
    """Change the counts in a value, however deep."""
    for holder in objects_in(value):
        for name in COUNTS & holder.keys():
            holder[name] = str(count(int(holder[name])))


def _drop_empty_answers(value: Any) -> None:
    """Remove the messages without parts from all lists of messages."""
    for holder in objects_in(value):
        for name in ("messages", "uiMessages", "newUIMessages"):
            if name in holder:
                holder[name] = [each for each in holder[name] if each.get("parts") != []]
