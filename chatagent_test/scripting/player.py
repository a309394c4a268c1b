"""Plays rendered scripts: the stream that a model double gives, and the places where it stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import anyio

from chatagent.current import current_clock
from chatagent.errors import InvalidArgumentError
from chatagent.timers import wait_until
from chatagent.waiting import Gate, Waiter
from chatagent_test.scripting.steps import BreaksStep, HangStep, HoldStep, PauseStep, WaitStep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable

    from chatagent.model import ModelStreamPart
    from chatagent.signals import AbortSignal
    from chatagent_test.scripting.render import Action

__all__ = ["Hold", "Holds", "ScriptStream"]

_NO_PARTS = frozenset({PauseStep, HoldStep, HangStep, BreaksStep})
"""What in a script waits or fails; all else is a part of the stream."""


@dataclass(slots=True)
class Hold:
    """One named place: who stands there, and who waits for somebody to come."""

    name: str
    waiting: list[Waiter] = field(default_factory=list[Waiter])
    _arrivals: int = 0
    _seen: int = 0
    _permits: int = 0
    _arrived: Gate | None = None

    def arrive(self) -> Waiter:
        """Return what whoever comes here waits on; it is woken already if the place was released in advance."""
        waiter = Waiter(f"script.hold({self.name!r}), until release({self.name!r})", stops_time=True)
        self._arrivals += 1
        if self._permits:
            self._permits -= 1
            waiter.wake()
        else:
            self.waiting.append(waiter)
        gate, self._arrived = self._arrived, None
        if gate is not None:
            gate.open()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Forget somebody who goes on, for whatever reason."""
        if waiter in self.waiting:
            self.waiting.remove(waiter)

    def release(self) -> None:
        """Let everybody go on who stands here; if nobody does, the next one will not stop."""
        if not self.waiting:
            self._permits += 1
        waiting, self.waiting = self.waiting, []
        for waiter in waiting:
            waiter.wake()

    async def reached(self) -> None:
        """Return when somebody stands here, or has come by since the last call."""
        if not self.waiting and self._arrivals == self._seen:
            self._arrived = self._arrived or Gate(f"a model that reaches script.hold({self.name!r})")
            await self._arrived.wait()
        self._seen = self._arrivals


class Holds:
    """The holds of one model, by name.

    Args:
        names: the names that its scripts have; `None` if nobody can know them.
    """

    __slots__ = ("_holds", "_names")

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names
        self._holds: dict[str, Hold] = {}

    def named(self, name: str) -> Hold:
        """Return the hold of a name.

        Raises:
            InvalidArgumentError: no script has one of that name.
        """
        if self._names is not None and name not in self._names:
            known = ", ".join(sorted(self._names)) or "none"
            raise InvalidArgumentError(
                argument="name", value=name, problem=f"no script of this model has a hold of that name; it has {known}"
            )
        return self._holds.setdefault(name, Hold(name))

    @property
    def occupied(self) -> list[str]:
        """The names of the holds at which somebody stands."""
        return [name for name, hold in self._holds.items() if hold.waiting]


class ScriptStream:
    """A stream of parts that waits and fails where its script says so.

    Args:
        actions: what it does, in order.
        holds: the places where it may stop.
        signal: ends every wait when it is aborted.
    """

    __slots__ = ("_given", "_holds", "_signal", "_where", "parts")

    def __init__(self, actions: Iterable[Action], holds: Holds, signal: AbortSignal | None) -> None:
        self._holds = holds
        self._signal = signal
        self.parts = self._play(actions)
        """The parts; who reads them sees that a stream that has ended needs no closing."""
        self._given = 0
        self._where = "nobody has asked for more"

    @property
    def story(self) -> str:
        """What came of it so far, for messages about tests that wait in vain."""
        return f"gave {self._given} {'part' if self._given == 1 else 'parts'}, and {self._where}"

    def __aiter__(self) -> AsyncIterator[ModelStreamPart]:
        return self.parts

    async def __anext__(self) -> ModelStreamPart:
        return await self.parts.__anext__()

    async def aclose(self) -> None:
        """End the stream; nothing more comes."""
        await self.parts.aclose()

    async def _play(self, actions: Iterable[Action]) -> AsyncGenerator[ModelStreamPart, None]:
        before = self._where
        try:
            for action in actions:
                if type(action) not in _NO_PARTS:
                    self._given += 1
                    yield action  # pyright: ignore[reportReturnType] - all but those are parts; a cast would be a call
                else:
                    await self._act(cast("WaitStep | BreaksStep", action))
                    self._where = before
        except BaseException as exc:
            self.end_with(exc)
            raise
        self._where = "has ended"

    def end_with(self, error: BaseException) -> None:
        """Note what ended it; `story` tells."""
        if isinstance(error, GeneratorExit):
            self._where = f"was left where {self._where}"
        elif isinstance(error, anyio.get_cancelled_exc_class()):
            self._where = f"was cancelled ({self._where})"
        else:
            self._where = f"ended with {error!r}"

    async def wait_all(self, waits: Iterable[WaitStep]) -> None:
        """Wait where the call itself waits, before it gives a stream."""
        for wait in waits:
            await self._act(wait)

    async def _act(self, step: WaitStep | BreaksStep) -> None:
        """Wait at a step, or break off.

        Raises:
            AbortError: the call was aborted; nothing more comes from the stream.
            BaseException: what the step breaks off with.
        """
        match step:
            case BreaksStep():
                raise step.exception
            case PauseStep():
                self._where = f"waits in script.pause({step.seconds:g})"
                await self._pause(step.seconds)
            case HoldStep():
                self._where = f"stands at script.hold({step.name!r})"
                await self._hold(self._holds.named(step.name))
            case HangStep():
                self._where = "waits in script.hang()"
                await self._until_woken(Waiter("script.hang()"))

    async def _hold(self, hold: Hold) -> None:
        waiter = hold.arrive()
        try:
            await self._until_woken(waiter)
        finally:
            hold.leave(waiter)

    async def _pause(self, seconds: float) -> None:
        clock = current_clock()
        if self._signal is None or seconds == 0:
            await clock.sleep(seconds)
        else:
            await self._until_woken(Waiter(f"script.pause({seconds:g})"), at=clock.now() + seconds)

    async def _until_woken(self, waiter: Waiter, *, at: float | None = None) -> None:
        signal = self._signal
        if signal is None:
            await waiter.wait()
            return
        unsubscribe = signal.add_callback(waiter.wake)
        try:
            await wait_until(waiter, current_clock(), at, kind="sleep")
        finally:
            unsubscribe()
        signal.raise_if_aborted()
