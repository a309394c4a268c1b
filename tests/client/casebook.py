"""The cases that every transport must show, and what each is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from chatagent.client import AgentClient
from chatagent.protocol import GenerationMessageChunk
from chatagent.ui import StepStartUIPart

if TYPE_CHECKING:
    from chatagent.client import RunHandle, Thread
    from chatagent.protocol import ThreadEvent, ThreadMessage, ThreadSnapshot, ToolPart
    from chatagent_test import ReplyScript
    from client.backends import Session

__all__ = ["CASES", "Case", "Stage", "case", "kinds", "read_log"]


class Stage:
    """What a case plays on: a session, its client, and the thread `t-1`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.client = AgentClient(session.transport, owns_transport=False, wait_timeout=5.0)
        self.thread: Thread = self.client.thread("t-1")

    @property
    def transport(self) -> Any:
        return self.session.transport

    async def ask(
        self, *scripts: ReplyScript, text: str = "hi", thread: Thread | None = None, **named: Any
    ) -> RunHandle:
        """Send a message that these scripts answer, and wait until its run settles or waits."""
        self.session.answer(*scripts)
        run = await (thread or self.thread).send(text, **named)
        await run.wait()
        return run

    async def raw(self, thread_id: str = "t-1") -> ThreadSnapshot:
        """Return the thread as it is stored."""
        snapshot = await self.transport.get_thread(thread_id)
        assert snapshot is not None
        return snapshot

    async def log(self, thread_id: str = "t-1", after: int = 0) -> list[ThreadEvent]:
        """Return what the thread's log has."""
        return await read_log(self.transport, thread_id, after)

    def texts(self) -> list[str]:
        """Return the texts of the thread's messages."""
        return [message.text for message in self.thread.get_state().messages]

    def roles(self) -> list[str]:
        """Return the roles of the thread's messages."""
        return [message.role for message in self.thread.get_state().messages]

    def last_call(self) -> tuple[ThreadMessage, ToolPart]:
        """Return the last tool call, with its message."""
        message = next(each for each in reversed(self.thread.get_state().messages) if each.tool_parts)
        return message, message.tool_parts[-1]

    def part_types(self) -> list[str]:
        """Return the types of the last message's parts, without the borders of steps."""
        parts = self.thread.get_state().messages[-1].parts
        return [part.type for part in parts if not isinstance(part, StepStartUIPart)]


Play: TypeAlias = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """One case."""

    case_id: str
    profiles: tuple[str, ...]
    play: Play

    @property
    def title(self) -> str:
        return self.play.__doc__ or ""


CASES: dict[str, Case] = {}


def case(case_id: str, *profiles: str) -> Callable[[Play], Play]:
    """Put a case into the book."""

    def add(play: Play) -> Play:
        assert case_id not in CASES
        CASES[case_id] = Case(case_id, profiles, play)
        return play

    return add


def kinds(events: list[ThreadEvent]) -> list[str]:
    """Return the types of events; the chunks between two others are one `C`."""
    found: list[str] = []
    for event in events:
        kind = "C" if isinstance(event, GenerationMessageChunk) else event.type
        if kind != "C" or found[-1:] != ["C"]:
            found.append(kind)
    return found


async def read_log(transport: Any, thread_id: str, after: int | None) -> list[ThreadEvent]:
    """Return the events that a new watch has ready."""
    found: list[ThreadEvent] = []
    async with transport.watch_thread(thread_id, after=after) as stream:
        while (event := stream.receive_nowait()) is not None:
            found.append(event)
    return found
