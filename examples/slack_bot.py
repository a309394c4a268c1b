"""A bot that brings a chat agent into a chat workspace: one thread of the workspace is one thread of the agent.

It knows the agent's client and the workspace, and nothing of how the agent is run. `test_slack_bot.py` beside it tests
it over a scripted backend, and over the agent of `support_agent.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from chatagent.client import AgentClient, PendingAction, RunHandle, Thread, ThreadUpdate

ENDS = ("generation.waiting", "generation.completed", "generation.failed", "generation.aborted")
"""The events behind which a run has nothing more to say for now."""


class Workspace(Protocol):
    """What the bot needs of a chat workspace."""

    async def post(self, channel: str, text: str, *, buttons: tuple[str, ...] = ()) -> str:
        """Post a message; returns its id."""
        ...

    async def update(self, message_id: str, text: str, *, buttons: tuple[str, ...] = ()) -> None:
        """Change a message that was posted."""
        ...


@dataclass
class SlackBot:
    """Answers messages, asks for approvals with buttons, and offers a second try when an answer fails."""

    client: AgentClient
    workspace: Workspace
    questions: dict[str, PendingAction] = field(default_factory=dict[str, "PendingAction"])
    """What the buttons of a posted message answer."""

    async def on_message(self, channel: str, text: str) -> None:
        """Answer a message that somebody has written."""
        thread = self.client.thread(channel)
        await self._answer(thread, lambda: thread.send(text))

    async def on_button(self, message_id: str, button: str) -> None:
        """Take a click on a button of a posted message."""
        action = self.questions.pop(message_id)
        await self.workspace.update(message_id, f"{_question(action)} {button}.")
        thread = self.client.thread(message_id.partition("/")[0])

        async def go_on() -> RunHandle | None:
            return (await action.submit({"approved": button == "Approve"})).run

        await self._answer(thread, go_on)

    async def on_retry(self, channel: str) -> None:
        """Try the last answer once more."""
        thread = self.client.thread(channel)
        await self._answer(thread, thread.retry)

    async def _answer(self, thread: Thread, begin: Callable[[], Awaitable[RunHandle | None]]) -> None:
        """Begin a run, and show what comes of it: its text as it grows, then what it asks, or why it failed."""
        async with thread.watch() as updates:  # opened first, so that no step of the answer is missed
            run = await begin()
            if run is None:
                return  # other questions are still open
            message_id = await self.workspace.post(thread.thread_id, "…")
            shown = await self._follow(run, message_id, updates)
        state = thread.get_state()
        if run.status == "failed" and state.error is not None:
            await self.workspace.update(message_id, f"That failed: {state.error.message}", buttons=("Retry",))
        elif not shown:
            await self.workspace.update(message_id, "I need your answer first." if run.status == "waiting" else "Done.")
        for action in thread.pending_actions:
            asked = await self.workspace.post(thread.thread_id, _question(action), buttons=("Approve", "Refuse"))
            self.questions[asked] = action

    async def _follow(self, run: RunHandle, message_id: str, updates: AsyncIterator[ThreadUpdate]) -> str:
        """Show the run's text until it settles or waits, and return it."""
        shown = ""
        async for update in updates:
            last = update.state.messages[-1] if update.state.messages else None
            if last is not None and (last.run_id, last.relation) == (run.run_id, "output") and last.text != shown:
                shown = last.text
                await self.workspace.update(message_id, shown)
            if update.event is not None and update.event.type in ENDS and run.status != "queued":
                break
        return shown


def _question(action: PendingAction) -> str:
    given = to_jsonable_python(action.input)  # a model, if the client knows what the agent's tools take
    return f"May I call {action.tool_name} with {given}?"
