"""Cases of the profile `watch`: connections that break, and events that are lost, repeated or unknown.

What is done to events is done between the transport and a client: so these cases show that the transport gives a
client what it needs to mend itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import create_task_group
from anyio.lowlevel import checkpoint

from chatagent.protocol import GenerationMessageChunk
from chatagent.ui import DataChunk, TextDelta
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import last_answer, text_parts, texts
from chatagent_test.conformance.tampering import TamperedTransport, lost, repeated, unknown
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatagent.protocol import ThreadEvent, ThreadState
    from chatagent_test.conformance.stage import Stage


@case("watch-reconnect", "EV-36", "RH-9")
async def reconnect(stage: Stage) -> None:
    """A lost connection in the middle of an answer is made again: who waits gets the whole, and nothing twice."""
    held = stage.session.hold()
    run = await stage.thread().send("hi")
    states: list[ThreadState] = []

    async def wait() -> None:
        state, _ = await stage.settled(run)
        states.append(state)

    async with create_task_group() as tasks:
        tasks.start_soon(wait)
        await held.emit_text("one ")
        await stage.until(stage.thread(), "the first words in the state", lambda state: texts(state)[-1:] == ["one "])
        await stage.session.disconnect()
        await checkpoint()
        await held.emit_text("two")
        await held.finish()

    stage.equal("the texts", text_parts(last_answer(states[0])), [["one two", "done"]])
    stage.equal("the state of a client that comes later", await _late(stage), states[0])


async def _late(stage: Stage) -> ThreadState:
    return await stage.client_over(stage.recorded(stage.session.transport)).thread("t-1").refresh()


@case("watch-gap-one-refresh", "EV-35", "EV-1")
async def gap_one_refresh(stage: Stage) -> None:
    """A client that misses an event reads the thread once, and is right again."""
    state, reads = await _tampered(stage, _is_delta, lost)

    stage.equal("how often the thread was read for it", reads, 1)
    stage.equal("the state of a client that comes later", await _late(stage), state)


@case("watch-duplicates-ignored", "EV-35")
async def duplicates_ignored(stage: Stage) -> None:
    """An event that comes twice counts once."""
    state, reads = await _tampered(stage, _is_delta, repeated)

    stage.equal("how often the thread was read for it", reads, 0)
    stage.equal("the state of a client that comes later", await _late(stage), state)


@case("watch-unknown-event", "EV-19", "EV-16")
async def unknown_event(stage: Stage) -> None:
    """An event of a type that a client does not know moves the number, and nothing else."""
    state, reads = await _tampered(stage, _is_transient, unknown)

    stage.equal("how often the thread was read for it", reads, 0)
    stage.equal("the state of a client that comes later", await _late(stage), state)


async def _tampered(
    stage: Stage,
    chosen: Callable[[ThreadEvent], bool],
    become: Callable[[ThreadEvent], Iterable[ThreadEvent]],
) -> tuple[ThreadState, int]:
    """Play an answer before a client to whom something happens on the way.

    Returns:
        The client's state, and how often it read the thread besides the first time.
    """
    stage.answer(
        reply.assistant(
            reply.data("mood", 1, transient=True), reply.text("one two three", chunks=["one ", "two ", "three"])
        )
    )
    tampered = TamperedTransport(stage.session.transport, chosen=chosen, become=become)
    recorder = stage.recorded(tampered)
    thread = stage.client_over(recorder).thread("t-1")
    await thread.refresh()
    before = recorder.reads["t-1"]

    state, _ = await stage.settled(await thread.send("hi"))

    stage.true("such an event came", tampered.is_done, "none")
    stage.equal("the text of the answer", texts(state)[-1], "one two three")
    return state, recorder.reads["t-1"] - before


def _is_delta(event: ThreadEvent) -> bool:
    """Whether it is the second delta: the repair then meets a text in the middle."""
    chunk = event.chunk if isinstance(event, GenerationMessageChunk) else None
    return isinstance(chunk, TextDelta) and chunk.delta == "two "


def _is_transient(event: ThreadEvent) -> bool:
    return isinstance(event, GenerationMessageChunk) and isinstance(event.chunk, DataChunk)
