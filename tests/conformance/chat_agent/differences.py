"""What a guarantee makes of a recording: the changes, as data, that turn what was recorded into what has to happen.

Whatever no change names stays as recorded, and is compared in full. Changes are applied in order, each to what the ones
before it have left. Those of records and whole turns are in `differing_turns.py`; which golden is changed how stands in
the test; how two observations are compared, in `comparing.py`.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from conformance.chat_agent.comparing import problems_between, recorded
from conformance.chat_agent.windows import split_turns, without_control

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conformance.chat_agent.values import Wire

RETURNED: dict[str, Any] = {"event": "runEnd", "outcome": "returned"}
"""The log entry of a run that has ended well."""


class Entry(NamedTuple):
    """Which log entry: the first of its event, unless told otherwise."""

    event: str
    nth: int = 0


Path = tuple[str | int | Entry, ...]
"""Where something stands in an observation: keys, indexes, and entries of the log."""


class Change(Protocol):
    """One change of what is expected."""

    def apply(self, it: Expected) -> None:
        """Make the change in place."""
        ...


class Expected:
    """What has to happen in a scenario: what was recorded, changed.

    Args:
        golden: the golden file.
        changes: what a guarantee changes about it.
        look_up: finds another golden by its name.
    """

    def __init__(self, golden: Wire, changes: Sequence[Change], look_up: Callable[[str], Wire]) -> None:
        self.golden, self.look_up = golden, look_up
        self.observed: Wire = copy.deepcopy(recorded(golden["observed"]))
        self.raised: dict[int, Raises] = {}
        self.beyond: dict[str, list[str]] = {}
        for change in changes:
            change.apply(self)

    @property
    def log(self) -> list[Wire]:
        return self.observed["log"]

    def find(self, path: Path) -> Any:
        """Return what stands at a path."""
        found: Any = self.observed
        for key in path:
            found = self.entry(key) if isinstance(key, Entry) else found[key]
        return found

    def entry(self, which: Entry) -> Wire:
        """Return a log entry."""
        return [each for each in self.log if each["event"] == which.event][which.nth]

    def place_of(self, which: Entry) -> int:
        """Return the index of a log entry."""
        entry = self.entry(which)
        return next(index for index, each in enumerate(self.log) if each is entry)

    def problems(self, actual: Wire) -> list[str]:
        """Return how an observation differs from what has to happen; empty if it does not.

        Args:
            actual: what was observed, with what is `beyond` the format.
        """
        steps, errors = list(self.observed["steps"]), actual["beyond"]["raised"]
        found: list[str] = []
        for step, wanted in self.raised.items():
            if wanted.accepts(errors.get(step)):
                steps[step] = {**steps[step], "throws": str(errors[step])}
            else:
                found.append(f"steps[{step}]: expected {wanted}, got {errors.get(step)!r}")
        for name, value in self.beyond.items():
            if actual["beyond"][name] != value:
                found.append(f"{name}: expected {value}, got {actual['beyond'][name]}")
        return found + problems_between(self.golden, {**self.observed, "steps": steps}, actual, exact_windows=True)


# --- all of it ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NothingHappens:
    """Nothing is written, called or saved; all that the log has is given."""

    log: tuple[Wire, ...] = field(default=())

    def apply(self, it: Expected) -> None:
        it.observed |= {"out": [], "log": copy.deepcopy(list(self.log)), "modelCalls": [], "snapshot": None}


@dataclass(frozen=True)
class Beyond:
    """Something that the format does not show: the numbers that were `committed`, the users `suppressed` at boot."""

    name: str
    value: tuple[str, ...]

    def apply(self, it: Expected) -> None:
        it.beyond[self.name] = list(self.value)


# --- steps -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raises:
    """A step raises."""

    step: int
    kinds: type[Exception] | tuple[type[Exception], ...]
    says: str = ""
    """What its text must match somewhere; the rest of the text is free."""

    def apply(self, it: Expected) -> None:
        it.raised[self.step] = self
        it.observed["steps"][self.step] = {"do": it.golden["steps"][self.step]["do"], "throws": self.says}

    def accepts(self, error: Exception | None) -> bool:
        return isinstance(error, self.kinds) and re.search(self.says, str(error), re.DOTALL) is not None


@dataclass(frozen=True)
class Returns:
    """A step returns exactly one turn: all of its records, and no other."""

    step: int
    turn: int
    """Which of the turns on `.out`, from 0, actions counted."""

    def apply(self, it: Expected) -> None:
        records = split_turns(it.observed["out"])[self.turn]
        do = it.golden["steps"][self.step]["do"]
        it.observed["steps"][self.step] = {"do": do, "chunks": without_control(records), "rawChunks": records}


# --- single values -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Is:
    """A value is another one, or is there at all."""

    path: Path
    value: Any

    def apply(self, it: Expected) -> None:
        it.find(self.path[:-1])[self.path[-1]] = copy.deepcopy(self.value)


@dataclass(frozen=True)
class Lacks:
    """A field is not there."""

    path: Path

    def apply(self, it: Expected) -> None:
        del it.find(self.path[:-1])[self.path[-1]]


@dataclass(frozen=True)
class Keeps:
    """Of a list, only the first items are there."""

    path: Path
    count: int

    def apply(self, it: Expected) -> None:
        del it.find(self.path)[self.count :]


@dataclass(frozen=True)
class Holds:
    """A list holds one item more."""

    path: Path
    at: int
    value: Wire

    def apply(self, it: Expected) -> None:
        it.find(self.path).insert(self.at, copy.deepcopy(self.value))


@dataclass(frozen=True)
class Identifies:
    """A user message that came without an id has one, wherever it stands."""

    as_: str

    def apply(self, it: Expected) -> None:
        for holder in objects_in(it.observed):
            if "parts" in holder and "role" in holder:
                holder.setdefault("id", self.as_)


# --- the log -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renumbers:
    """What the log calls one turn is another one."""

    turn: int
    to: int

    def apply(self, it: Expected) -> None:
        for entry in it.log:
            if entry.get("turn") == self.turn:
                entry["turn"] = self.to


@dataclass(frozen=True)
class NotCalled:
    """A log entry is not there."""

    entry: Entry

    def apply(self, it: Expected) -> None:
        del it.log[it.place_of(self.entry)]


@dataclass(frozen=True)
class CalledFirst:
    """A log entry stands at the beginning."""

    entry: Entry

    def apply(self, it: Expected) -> None:
        it.log.insert(0, it.log.pop(it.place_of(self.entry)))


@dataclass(frozen=True)
class Called:
    """A hook is called in front of an entry, with the event of another one except for some fields."""

    event: str
    before: Entry
    like: Entry
    without: frozenset[str]

    def apply(self, it: Expected) -> None:
        told = {name: value for name, value in it.entry(self.like).items() if name not in self.without}
        it.log.insert(it.place_of(self.before), {**copy.deepcopy(told), "event": self.event})


@dataclass(frozen=True)
class Suspends:
    """Behind each entry of an event the run is suspended, and resumed by the record that comes next."""

    after: str
    phase: str

    def apply(self, it: Expected) -> None:
        log: list[Wire] = []
        for entry in it.log:
            log.append(entry)
            if entry["event"] == self.after:
                told = ("chatId", "runId", "turn", "messages", "uiMessages")
                shown = {"phase": self.phase, **{name: entry[name] for name in told if name in entry}}
                log += [{"event": "onChatSuspend", **shown}, {"event": "onChatResume", **shown}]
        it.observed["log"] = log


@dataclass(frozen=True)
class Ends:
    """The run has returned at the end."""

    def apply(self, it: Expected) -> None:
        it.log.append(RETURNED)


# --- helpers -----------------------------------------------------------------------------------------------------


def text_message(message_id: str, role: str, text: str) -> Wire:
    """Return a UI message of one text."""
    return {"id": message_id, "role": role, "parts": [{"type": "text", "text": text}]}


def objects_in(value: Any) -> Iterator[Wire]:
    """Yield the objects in a JSON value, outer ones first."""
    inner: list[Any] = []
    if isinstance(value, dict):
        yield value
        inner = [*value.values()]
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    for item in inner:
        yield from objects_in(item)
