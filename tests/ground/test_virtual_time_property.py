"""Random programs under a driver: time moves only when nothing of the run can go on, and every program ends.

The ledger says when nothing can go on. Here an oracle of its own says it too: each task notes what it waits for, and
whoever lets another go on (by a gate, by a cancellation, by its own end, by the clock) notes that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from chatagent.timers import wait_until
from chatagent.waiting import Gate, Waiter
from chatagent_test.clock import VirtualClock
from ground.fake_run import a_driver, a_run

if TYPE_CHECKING:
    from chatagent.tasks import OwnedTask
    from ground.fake_run import FakeRun

GATES = 3
LAST_CALL = 1000.0
"""When every gate opens at the latest, so that no program waits for ever; somebody sleeps for some time after it, since
time does not move for the end of a wait alone."""

CAN_GO_ON, ENDED = "can go on", "ended"

Operation = tuple[Any, ...]
SECONDS = st.integers(0, 4).map(lambda quarters: quarters / 4)
OPERATIONS = st.one_of(
    st.tuples(st.just("sleep"), SECONDS),
    st.tuples(st.just("deadline"), SECONDS, st.sampled_from(["sleep", "limit", "wait"])),
    st.tuples(st.just("busy"), st.integers(1, 4)),
    st.tuples(st.just("pass"), st.integers(0, GATES - 1)),
    st.tuples(st.just("open"), st.integers(0, GATES - 1)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("close child"), st.integers(0, 5)),
    st.tuples(st.just("join child"), st.integers(0, 5)),
)
CLEAN_UPS = st.lists(st.one_of(st.just(("busy", 2)), st.tuples(st.just("sleep"), SECONDS)), max_size=2)


def programs(depth: int) -> st.SearchStrategy[list[Operation]]:
    if depth == 0:
        return st.lists(OPERATIONS, min_size=1, max_size=4)
    spawn = st.tuples(st.just("spawn"), programs(depth - 1), CLEAN_UPS)
    mixed = st.lists(st.one_of(OPERATIONS, spawn), max_size=4)
    return st.tuples(st.lists(spawn, min_size=1, max_size=2), mixed).map(lambda parts: [*parts[0], *parts[1]])


class CheckedClock(VirtualClock):
    """Asks the oracle before each move, and tells it who has become due."""

    def __init__(self) -> None:
        super().__init__(start=0.0)
        self.processes: list[Process] = []
        self.moves = 0

    def move_to(self, at: float) -> None:
        able = [process.name for process in self.processes if process.state == CAN_GO_ON]
        assert able == [], f"time moves to {at} while {able} can go on"
        passed = [process.name for process in self.processes if process.until is not None and process.until < at]
        assert passed == [], f"time moves to {at}, past the deadline of {passed}"
        self.moves += 1
        super().move_to(at)
        for process in self.processes:
            if process.until is not None and process.until <= at:
                process.can_go_on()


class Process:
    """One task of a program, and what the oracle knows of it."""

    def __init__(self, world: World, program: list[Operation], clean_up: list[Operation]) -> None:
        self.world, self.program, self.clean_up = world, program, clean_up
        self.name = f"task {len(world.processes)}"
        self.state: object = CAN_GO_ON
        self.until: float | None = None
        self.children: list[Process] = []
        self.task: OwnedTask
        self._asked_to_end = self._is_shielded = False
        world.processes.append(self)

    def start(self) -> None:
        self.task = self.world.run.tasks.start(self._main, name=self.name)

    def can_go_on(self) -> None:
        if self.state != ENDED:
            self.state, self.until = CAN_GO_ON, None

    def cancel(self) -> None:
        self._asked_to_end = True
        if not self._is_shielded:
            self.can_go_on()
        self.task.cancel()

    def _waits(self, what: object, until: float | None = None) -> None:
        if self._is_shielded or not self._asked_to_end:
            self.state, self.until = what, until

    async def _main(self) -> None:
        try:
            for operation in self.program:
                await self._do(*operation)
        except anyio.get_cancelled_exc_class():
            self._is_shielded = True
            self.can_go_on()
            # In real seconds: when the test has failed, nobody moves the clock for this any more.
            with anyio.move_on_after(2, shield=True):
                for operation in self.clean_up:
                    await self._do(*operation)
            raise
        finally:
            self.state, self.until = ENDED, None
            self.world.let_go(self)

    async def _do(self, name: str, argument: Any, *more: Any) -> None:
        world = self.world
        match name:
            case "sleep":
                await self._sleep(argument)
            case "deadline":
                await self._wait_for_deadline(argument, *more)
            case "busy":
                for _ in range(argument):
                    await checkpoint()
            case "pass":
                await self._pass(argument)
            case "open":
                world.open(argument)
            case "cancel":
                number: int = argument
                world.processes[number % len(world.processes)].cancel()
            case "spawn":
                child = Process(world, argument, *more)
                self.children.append(child)
                child.start()
            case _:
                await self._wait_for_child(argument, close=name == "close child")

    async def _sleep(self, seconds: float) -> None:
        clock = self.world.clock
        due = clock.now() + seconds
        if seconds:
            self._waits("a sleep", due)
        await clock.sleep(seconds)
        assert clock.now() == due, f"{self.name} slept until {due} and woke at {clock.now()}"

    async def _wait_for_deadline(self, seconds: float, kind: Any) -> None:
        clock = self.world.clock
        due = clock.now() + seconds
        if seconds:
            self._waits("a deadline", due)
        assert not await wait_until(Waiter(kind), clock, due, kind=kind)
        assert clock.now() == due, f"{self.name} waited until {due} and woke at {clock.now()}"

    async def _pass(self, number: int) -> None:
        gate = self.world.gates[number]
        if not gate.is_open:
            self._waits(gate)
        await gate.wait()

    async def _wait_for_child(self, number: int, *, close: bool) -> None:
        if not self.children:
            return
        child = self.children[number % len(self.children)]
        if close:
            child.cancel()
        was_shielded, self._is_shielded = self._is_shielded, self._is_shielded or close
        if child.state != ENDED:
            self._waits(child)
        await (child.task.close() if close else child.task.join())
        self._is_shielded = was_shielded
        self.can_go_on()


class World:
    """A run, its gates, and all tasks of a program."""

    def __init__(self, run: FakeRun) -> None:
        self.run = run
        self.clock: CheckedClock = run.clock
        self.processes: list[Process] = self.clock.processes
        self.gates: list[Gate] = [Gate(f"gate {number}") for number in range(GATES)]

    def open(self, number: int) -> None:
        gate = self.gates[number]
        gate.open()
        self.let_go(gate)

    def let_go(self, what: object) -> None:
        for process in self.processes:
            if process.state is what:
                process.can_go_on()

    async def last_call(self) -> None:
        await self.clock.sleep(LAST_CALL)
        for number in range(GATES):
            self.open(number)
        await self.clock.sleep(LAST_CALL)


async def play(program: list[Operation], outside: list[tuple[int, int]]) -> None:
    async with a_run(CheckedClock()) as run:
        world = World(run)
        driver = a_driver(run)
        root = Process(world, program, [])
        run.start(world.last_call)

        async def open_from_outside() -> None:
            for checkpoints, number in outside:
                for _ in range(checkpoints):
                    await checkpoint()
                world.open(number)

        async def start_root() -> None:
            root.start()

        run.start(start_root)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_from_outside)
            await driver.until(lambda: not run.tasks.active, "the program goes on")

    assert [process.name for process in world.processes if process.state != ENDED] == []
    assert [process.task.error for process in world.processes if process.task.error is not None] == []
    assert (run.ledger.alive, len(run.ledger.parked), world.clock.pending, world.clock.sleeping) == (0, 0, [], 0)
    assert run.clock.now() == 2 * LAST_CALL


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=200, deadline=None)
@given(program=programs(2), outside=st.lists(st.tuples(st.integers(1, 5), st.integers(0, GATES - 1)), max_size=2))
def test_time_never_moves_while_a_task_of_the_run_can_go_on(
    backend: str, program: list[Operation], outside: list[tuple[int, int]]
) -> None:
    anyio.run(play, program, outside, backend=backend)
