"""Abort signals: one source, several, and whoever listens."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from chatagent.errors import AbortError
from chatagent.signals import AbortController, AbortSignal
from ground.fake_run import a_run


def listeners(signal: AbortSignal) -> int:
    """Return how many callbacks a signal holds."""
    return len(signal._callbacks)  # pyright: ignore[reportPrivateUsage]


def test_a_signal_shows_that_it_is_aborted_and_why() -> None:
    controller = AbortController()
    before = (controller.signal.aborted, controller.signal.reason)

    controller.abort("stopped")
    controller.abort("again")

    assert before == (False, None)
    assert (controller.signal.aborted, controller.signal.reason) == (True, "stopped")


def test_a_signal_that_is_aborted_raises_when_asked() -> None:
    controller = AbortController()
    controller.signal.raise_if_aborted()

    controller.abort("stopped")

    with pytest.raises(AbortError, match=r"^This operation was aborted: stopped$") as caught:
        controller.signal.raise_if_aborted()
    assert caught.value.reason == "stopped"


def test_an_abort_needs_no_reason() -> None:
    controller = AbortController()

    controller.abort()

    assert controller.signal.aborted
    with pytest.raises(AbortError, match=r"^This operation was aborted$"):
        controller.signal.raise_if_aborted()


def test_a_callback_is_called_once_in_the_order_of_registration() -> None:
    controller, called = AbortController(), list[str]()
    controller.signal.add_callback(lambda: called.append("first"))
    controller.signal.add_callback(lambda: called.append("second"))

    controller.abort()
    controller.abort()

    assert called == ["first", "second"]
    assert listeners(controller.signal) == 0


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    controller, called = AbortController(), list[str]()
    controller.abort()

    unsubscribe = controller.signal.add_callback(lambda: called.append("late"))
    unsubscribe()

    assert called == ["late"]


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    controller, called = AbortController(), list[str]()
    take_back = controller.signal.add_callback(lambda: called.append("gone"))
    controller.signal.add_callback(lambda: called.append("here"))

    take_back()
    take_back()
    controller.abort()
    take_back()

    assert called == ["here"]


def test_the_same_callback_may_listen_twice() -> None:
    controller, called = AbortController(), list[str]()

    def call() -> None:
        called.append("call")

    take_back = controller.signal.add_callback(call)
    controller.signal.add_callback(call)
    take_back()
    take_back()
    controller.abort()

    assert called == ["call"]


def test_every_callback_is_called_even_if_one_fails() -> None:
    controller, called = AbortController(), list[str]()

    def fail(text: str) -> None:
        called.append(text)
        raise ValueError(text)

    controller.signal.add_callback(lambda: fail("first"))
    controller.signal.add_callback(lambda: called.append("second"))
    controller.signal.add_callback(lambda: fail("third"))
    with pytest.raises(ValueError, match=r"^first$"):
        controller.abort("stopped")

    assert called == ["first", "second", "third"]
    assert (controller.signal.aborted, controller.signal.reason) == (True, "stopped")


def test_a_failing_listener_of_a_combined_signal_keeps_nobody_from_hearing() -> None:
    controller, called = AbortController(), list[str]()
    combined = AbortSignal.any(controller.signal, AbortController().signal)

    def fail() -> None:
        raise ValueError("broken")

    combined.add_callback(fail)
    combined.add_callback(lambda: called.append("combined"))
    controller.signal.add_callback(lambda: called.append("source"))
    with pytest.raises(ValueError, match=r"^broken$"):
        controller.abort()

    assert called == ["combined", "source"]


def test_a_callback_may_listen_and_abort_in_turn() -> None:
    first, second, called = AbortController(), AbortController(), list[str]()

    def chain() -> None:
        first.signal.add_callback(lambda: called.append("added meanwhile"))
        second.abort(first.signal.reason)

    first.signal.add_callback(chain)
    second.signal.add_callback(lambda: called.append(f"second: {second.signal.reason}"))
    first.abort("stopped")

    assert called == ["added meanwhile", "second: stopped"]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_combined_signal_is_aborted_with_any_of_its_sources(position: int) -> None:
    controllers = [AbortController() for _ in range(3)]
    combined = AbortSignal.any(*(controller.signal for controller in controllers))
    called: list[object] = []
    combined.add_callback(lambda: called.append(combined.reason))

    controllers[position].abort(f"source {position}")
    controllers[(position + 1) % 3].abort("too late")

    assert (combined.aborted, combined.reason) == (True, f"source {position}")
    assert called == [f"source {position}"]


def test_a_combined_signal_may_be_aborted_from_the_beginning() -> None:
    controller = AbortController()
    controller.abort("before")
    called: list[str] = []

    combined = AbortSignal.any(AbortController().signal, controller.signal)
    combined.add_callback(lambda: called.append("at once"))

    assert (combined.aborted, combined.reason, called) == (True, "before", ["at once"])


def test_a_combination_of_none_is_never_aborted() -> None:
    combined = AbortSignal.any(None, None)

    assert not combined.aborted
    assert combined.reason is None


def test_a_combination_of_one_is_that_one() -> None:
    controller = AbortController()

    assert AbortSignal.any(None, controller.signal) is controller.signal


def test_combinations_combine() -> None:
    controller, called = AbortController(), list[str]()
    inner = AbortSignal.any(controller.signal, AbortController().signal)
    outer = AbortSignal.any(inner, AbortController().signal)
    outer.add_callback(lambda: called.append("outer"))

    controller.abort("deep")

    assert (outer.aborted, outer.reason, called) == (True, "deep", ["outer"])


def test_combined_signals_leave_nothing_on_a_source_that_outlives_them() -> None:
    source = AbortController()

    for _ in range(100):
        combined = AbortSignal.any(source.signal, AbortController().signal)
        assert not combined.aborted
        take_back = [combined.add_callback(lambda: None) for _ in range(3)]
        assert listeners(source.signal) == 1, "however many listen, a source is asked once"
        for each in take_back:
            each()

    assert listeners(source.signal) == 0


def test_a_combined_signal_that_has_fired_lets_go_of_its_other_sources() -> None:
    source, turn = AbortController(), AbortController()
    combined = AbortSignal.any(source.signal, turn.signal)
    combined.add_callback(lambda: None)

    turn.abort()

    assert (listeners(source.signal), listeners(combined)) == (0, 0)


def test_a_combined_signal_listens_anew_after_it_has_let_go() -> None:
    source, called = AbortController(), list[str]()
    combined = AbortSignal.any(source.signal, AbortController().signal)
    combined.add_callback(lambda: called.append("gone"))()

    combined.add_callback(lambda: called.append("here"))
    source.abort()

    assert called == ["here"]


@pytest.mark.anyio
async def test_a_wait_is_over_when_the_signal_is_aborted() -> None:
    async with a_run() as run:
        controller = AbortController()
        combined = AbortSignal.any(controller.signal, AbortController().signal)
        tasks = [run.start(controller.signal.wait), run.start(combined.wait)]
        await run.settled()
        waiting = [waiter.label for waiter in run.ledger.parked]

        controller.abort()

        for task in tasks:
            await task.wait()
        await controller.signal.wait()

    assert waiting == ["an abort signal", "an abort signal"]


@pytest.mark.anyio
async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    source = AbortController()
    combined = AbortSignal.any(source.signal, AbortController().signal)

    for signal in (source.signal, combined):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(signal.wait)
            await anyio.wait_all_tasks_blocked()
            assert listeners(source.signal) == 1
            tasks.cancel_scope.cancel()

    assert listeners(source.signal) == 0


@pytest.mark.anyio
async def test_code_under_a_signal_goes_on_until_it_looks() -> None:
    controller, steps = AbortController(), list[str]()

    async def work() -> None:
        await controller.signal.wait()
        await checkpoint()
        steps.append("last words")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        controller.abort()

    assert steps == ["last words"]
