"""Plays a list of steps on a scripted backend, and gives the events that it logged and the snapshots in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from chatagent.errors import ChatAgentError
from chatagent_test import create_mock_agent_client, reply
from chatagent_test.transport.errors import MockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from chatagent.client import Thread
    from chatagent.protocol import ThreadEvent, ThreadSnapshot
    from chatagent_test import MockAgentClient

Snapshots = list["ThreadSnapshot | None"]


async def _send(thread: Thread, mock: MockAgentClient) -> None:
    await thread.send("hi")


def _answered(*parts: object) -> Callable[[Thread, MockAgentClient], Awaitable[None]]:
    async def step(thread: Thread, mock: MockAgentClient) -> None:
        mock.responses.queue(reply.assistant(*parts))  # pyright: ignore[reportArgumentType]
        await _send(thread, mock)

    return step


async def _fail(thread: Thread, mock: MockAgentClient) -> None:
    async with mock.responses.stream() as response:
        await _send(thread, mock)
        text = response.text()
        await text.delta("so far")
        response.tool("find")
        await response.fail("cut")


async def _abort(thread: Thread, mock: MockAgentClient) -> None:
    await thread.abort("enough")


async def _retry(thread: Thread, mock: MockAgentClient) -> None:
    await thread.retry()


async def _regenerate(thread: Thread, mock: MockAgentClient) -> None:
    await thread.regenerate()


async def _submit(thread: Thread, mock: MockAgentClient) -> None:
    for action in thread.pending_actions[:1]:
        await action.submit({"approved": True})


async def _rename(thread: Thread, mock: MockAgentClient) -> None:
    await thread.rename("New")


async def _data(thread: Thread, mock: MockAgentClient) -> None:
    for message in thread.get_state().messages:
        for part in message.tool_parts[:1]:
            await thread.write_tool_data(message, part, "note", 1)


async def _delete(thread: Thread, mock: MockAgentClient) -> None:
    await thread.delete()


STEPS: dict[str, Callable[[Thread, MockAgentClient], Awaitable[None]]] = {
    "send": _answered("hello", reply.data("note", {"a": 1}, "n")),
    "text": _answered(reply.text("abc", chunks=["a", "b", "c"]), reply.reasoning("hm")),
    "tool": _answered(reply.tool("find").result(input={}, output=1), "so"),
    "wait": _answered(
        reply.tool("refund").approval({"order": 1}), reply.tool("ask").waiting(input={}, action=reply.action("q", {}))
    ),
    "queue": _send,
    "fail": _fail,
    "abort": _abort,
    "retry": _retry,
    "regenerate": _regenerate,
    "submit": _submit,
    "rename": _rename,
    "data": _data,
    "delete": _delete,
}


def play(steps: Sequence[str]) -> tuple[list[ThreadEvent], Snapshots]:
    """Return every event of the thread, and the stored snapshot after each of them."""
    events: list[ThreadEvent] = []
    snapshots: Snapshots = []

    async def main() -> None:
        async with create_mock_agent_client(strict=False) as mock:
            thread = mock.client.thread("t-1")
            stored = mock.transport._store.thread("t-1")  # pyright: ignore[reportPrivateUsage] - to see each moment
            logged = stored.publish

            def publish(event: ThreadEvent) -> None:
                events.append(event)
                snapshots.append(stored.model.snapshot() if stored.model.exists else None)
                logged(event)

            stored.publish = publish
            for step in steps:
                try:
                    await STEPS[step](thread, mock)
                except MockError:
                    raise
                except ChatAgentError:
                    continue  # not possible now: refused, and nothing has changed

    anyio.run(main)
    return events, snapshots
