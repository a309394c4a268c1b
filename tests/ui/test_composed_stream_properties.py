"""Whatever a function writes and merges: the stream ends, nothing is lost or doubled, and the order rule holds."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatagent.ui import DataChunk, Error, create_ui_message_stream
from support.virtual_run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.ui import StreamEndEvent, UIMessageStreamWriter


@dataclass(frozen=True)
class Write:
    """Write one chunk."""


@dataclass(frozen=True)
class Merge:
    """Merge a stream of so many chunks, each after a delay if there is one."""

    count: int
    delay: float | None
    fails: bool


@dataclass(frozen=True)
class Wait:
    """Sleep; `None` only lets others have a turn."""

    seconds: float | None


@dataclass(frozen=True)
class Throw:
    """Raise."""


@dataclass(frozen=True)
class Later:
    """Do this in another task, which nobody waits for."""

    operations: tuple[Operation, ...]


Operation = Write | Merge | Wait | Throw | Later

DELAYS = st.none() | st.sampled_from([0.0, 1.0, 2.5])
OPERATIONS: st.SearchStrategy[Operation] = st.recursive(
    st.just(Write())
    | st.builds(Merge, count=st.integers(0, 4), delay=DELAYS, fails=st.booleans())
    | st.builds(Wait, DELAYS),
    lambda inner: st.builds(Later, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
PROGRAMS = st.tuples(st.lists(OPERATIONS, max_size=6), st.lists(st.just(Throw()), max_size=1)).map(
    lambda parts: (*parts[0], *parts[1])
)


@dataclass
class Play:
    """One play of a program, and what it must come to."""

    run: VirtualRun = field(default_factory=VirtualRun)
    sources: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """What each task and each merged stream has given, in its order."""
    rules: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """A chunk that was written, and a stream that was merged right before it."""
    unwaited: set[str] = field(default_factory=set[str])
    """The tasks that nobody waits for."""
    errors: int = 0
    ends: list[StreamEndEvent] = field(default_factory=list["StreamEndEvent"])

    async def read(self, program: tuple[Operation, ...], cancel_after: int | None) -> list[str]:
        """Return the chunks by their names; errors are `!`."""
        stream = create_ui_message_stream(
            execute=lambda writer: self.perform(program, writer, "execute"), on_end=self.ends.append
        )
        names: list[str] = []
        async with aclosing(stream):
            async for chunk in stream:
                names.append(str(chunk.data) if isinstance(chunk, DataChunk) else "!")
                assert isinstance(chunk, DataChunk | Error)
                if len(names) == cancel_after:
                    break
        return names

    async def perform(self, program: tuple[Operation, ...], writer: UIMessageStreamWriter, name: str) -> None:
        just_merged: list[str] = []
        given = self.sources.setdefault(name, [])
        for index, operation in enumerate(program):
            inner = f"{name}/{index}"
            match operation:
                case Write():
                    given.append(inner)
                    self.rules += [(inner, merged) for merged in just_merged]
                    writer.write(DataChunk("data-x", inner))
                case Merge():
                    just_merged.append(inner)
                    writer.merge(self.chunks(operation, inner))
                case Wait(seconds):
                    just_merged.clear()
                    await (anyio.lowlevel.checkpoint() if seconds is None else self.run.clock.sleep(seconds))
                case Throw():
                    self.errors += 1
                    raise LookupError(inner)
                case Later(operations):
                    self.unwaited.add(inner)
                    self.run.tasks.start(
                        lambda operations=operations, inner=inner: self.perform(operations, writer, inner), name=inner
                    )

    async def chunks(self, merge: Merge, name: str) -> AsyncIterator[DataChunk]:
        given = self.sources.setdefault(name, [])
        for number in range(merge.count):
            if merge.delay is not None:
                await self.run.clock.sleep(merge.delay)
            given.append(f"{name}:{number}")
            yield DataChunk("data-x", given[-1])
        if merge.fails:
            self.errors += 1
            raise LookupError(name)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(deadline=None, max_examples=60)
@given(program=PROGRAMS)
def test_every_program_ends_with_all_its_chunks_in_order(backend: str, program: tuple[Operation, ...]) -> None:
    play = Play()

    names = anyio.run(play.run.play, lambda: play.read(program, None), backend=backend)

    assert names.count("!") == play.errors
    for source, given_names in play.sources.items():
        mine = [name for name in names if name in set(given_names)]
        assert mine == given_names[: len(mine)]
        # A task that nobody waits for may write when all is over; that is ignored.
        assert len(mine) == len(given_names) or source in play.unwaited
    _check_order(play, names)
    assert [event.is_cancelled for event in play.ends] == [False]
    assert play.ends[0].outcome.status == ("failed" if play.errors else "unknown")
    assert [part.type for part in play.ends[0].response_message.parts] == ["data-x"] * (len(names) - play.errors)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(deadline=None, max_examples=40)
@given(program=PROGRAMS, cancel_after=st.integers(1, 5))
def test_a_stream_can_be_left_anywhere(backend: str, program: tuple[Operation, ...], cancel_after: int) -> None:
    play = Play()

    names = anyio.run(play.run.play, lambda: play.read(program, cancel_after), backend=backend)

    for given_names in play.sources.values():
        mine = [name for name in names if name in set(given_names)]
        assert mine == given_names[: len(mine)]
    _check_order(play, names)
    was_left = len(names) == cancel_after
    assert [event.is_cancelled for event in play.ends] == [was_left and play.ends[0].outcome.status == "unknown"]


def _check_order(play: Play, names: list[str]) -> None:
    """What is written right after a merge comes before all that the merged stream gives."""
    for written, merged in play.rules:
        firsts = [names.index(name) for name in play.sources.get(merged, ()) if name in names]
        if written in names and firsts:
            assert names.index(written) < min(firsts)
