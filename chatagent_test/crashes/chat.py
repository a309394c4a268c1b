"""The client's side of a conversation whose runs may die at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import WaitTimeoutError
from chatagent.ui import TextUIPart, ToolPart, UIMessage, to_wire
from chatagent_test.harness.harness import ChatAgentHarness
from chatagent_test.harness.watch import Streaming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.session import Record, Snapshot
    from chatagent_test.harness.crash_plan import CrashPlan

__all__ = ["CrashingChat", "CrashingHarness"]

MOST_ENDS = 10
"""How many runs may end by themselves, one after the other, over the same input."""


class CrashingHarness(ChatAgentHarness):
    """A harness that begins another run whenever one has died and something is left to do."""

    _messages_before: Sequence[UIMessage] = ()

    async def begin(self, plan: CrashPlan) -> None:
        """Create the session, and begin its first run; the runs die by this plan."""
        self._platform.crash_plan = plan
        await self._platform.open(self._seeds)
        self._boot()

    @property
    def records(self) -> Sequence[Record]:
        """Every record of `.out`, over all runs."""
        return self._watch.records

    @property
    def messages(self) -> Sequence[UIMessage]:
        """The conversation as the last run has it; of an agent that keeps it itself the last one that had a turn."""
        return self._run.messages or self._messages_before

    @property
    def is_kept_by_agent(self) -> bool:
        """Whether the agent keeps the conversation itself."""
        return self._agent.has("hydrate_messages")

    @property
    def failed(self) -> Sequence[str]:
        """The errors of the turns that have failed."""
        errors = (None if turn.report is None else turn.report.error for turn in self._watch.turns)
        return [f"{type(error).__name__}: {error}" for error in errors if error is not None]

    def client_message(self, message: UIMessage | Mapping[str, Any]) -> UIMessage:
        """Return a message as a client may send it."""
        return self._client_message(message)

    def payload(self, trigger: str, **fields: Any) -> dict[str, Any]:
        """Return what a client sends."""
        return {**self._payload(trigger), **fields}

    async def put(self, data: Mapping[str, Any]) -> int:
        """Put a record on `.in` as a client does; returns its number."""
        await self._alive()
        return self._platform.send(data)

    async def rest(self, seqs: Sequence[int]) -> None:
        """Wait until the run waits for input and needs none of these records, over as many runs as that takes.

        Raises:
            WaitTimeoutError: the conversation does not come to rest.
            BaseException: what has ended a run.
        """
        watch = self._watch
        for _ in range(MOST_ENDS):
            await self._alive()
            await self._driver.until(
                lambda: watch.ended or (watch.is_waiting and self._needs_none(seqs)), "the conversation goes on"
            )
            self._failures.raise_run_error()
            if not watch.ended or (not self._run.was_killed and self._needs_none(seqs)):
                return
        raise WaitTimeoutError(f"{MOST_ENDS} runs have ended, and the conversation has not come to rest")

    async def stream_shows(self, text: str | None, seqs: Sequence[int]) -> None:
        """Wait until the answer that is on contains a text, or nothing of it will come."""
        watch, streaming = self._watch, Streaming(self._watch, text)
        stop = watch.listen(streaming.see)
        try:
            while not streaming.seen:
                await self._alive()
                await self._driver.until(
                    lambda: streaming.seen or watch.ended or (watch.is_waiting and self._needs_none(seqs)),
                    f"nobody has streamed {text!r}",
                )
                if not watch.ended:
                    return
        finally:
            stop()

    async def _alive(self) -> None:
        if self._watch.ended:
            if self.is_kept_by_agent:
                self._messages_before = self.messages
            await self.continue_run()
        else:
            self._boot()

    def _needs_none(self, seqs: Sequence[int]) -> bool:
        return all(self._run.is_done_with(seq) for seq in seqs)


class CrashingChat:
    """What a scenario of `explore_crashes` talks to: it sends as a client does and never learns of a crash.

    Where a run dies, the next one is begun as the platform would, and a wait goes on with it.
    """

    def __init__(self, harness: CrashingHarness) -> None:
        self._harness = harness
        self._seqs: list[int] = []
        self._user_number = 0
        self.sent: dict[int, UIMessage] = {}
        """The user messages sent so far, by the number of their record."""
        self.stopped: set[str] = set()
        """The ids of the messages behind which a stop was sent before they were answered for certain."""
        self.answered_calls: set[str] = set()
        """The tool calls whose outcome the client has sent itself."""
        self.last_rewrite = -1
        """The number of the last record that may change what was said before: an action, or a regenerate."""

    @property
    def messages(self) -> Sequence[UIMessage]:
        """The conversation as the run has it now."""
        return self._harness.messages

    @property
    def snapshot(self) -> Snapshot | None:
        """The last snapshot that was saved."""
        return self._harness.get_snapshot()

    async def send_message(self, message: str | UIMessage | Mapping[str, Any]) -> None:
        """Send a user message, or an answer to a tool call, and wait until the conversation rests."""
        await self.begin_message(message)
        await self.wait_idle()

    async def begin_message(self, message: str | UIMessage | Mapping[str, Any]) -> None:
        """Send a message and go on at once."""
        if isinstance(message, str):
            self._user_number += 1
            message = UIMessage(id=f"user-{self._user_number}", role="user", parts=[TextUIPart(text=message)])
        parsed = self._harness.client_message(message)
        seq = await self._put(self._harness.payload("submit-message", message=to_wire(parsed)))
        if parsed.role == "user":
            self.sent[seq] = parsed
        outcomes = [part for part in parsed.parts if isinstance(part, ToolPart) and part.state.startswith("output-")]
        self.answered_calls |= {part.tool_call_id for part in outcomes}

    async def send_regenerate(self) -> None:
        """Ask for the last answer anew, and wait until the conversation rests."""
        self.last_rewrite = await self._put(self._harness.payload("regenerate-message"))
        await self.wait_idle()

    async def send_action(self, action: Any) -> None:
        """Send an action, and wait until the conversation rests."""
        await self.begin_action(action)
        await self.wait_idle()

    async def begin_action(self, action: Any) -> None:
        """Send an action and go on at once."""
        self.last_rewrite = await self._put(self._harness.payload("action", action=action))

    async def send_stop(self) -> None:
        """Stop the answer that is on, and wait until the conversation rests."""
        if self.sent:
            self.stopped.add(list(self.sent.values())[-1].id)
        await self._harness.put({"kind": "stop"})
        await self.wait_idle()

    async def wait_streaming(self, text: str | None = None) -> None:
        """Wait until the answer that is on has streamed a text, or anything; returns too if it never will."""
        await self._harness.stream_shows(text, self._seqs)

    async def wait_idle(self) -> None:
        """Wait until everything that was sent is dealt with and the run waits for more."""
        await self._harness.rest(self._seqs)

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass; a run that dies or ends meanwhile is continued by the next send."""
        await self._harness.advance(seconds)

    async def _put(self, payload: Mapping[str, Any]) -> int:
        seq = await self._harness.put({"kind": "message", "payload": payload})
        self._seqs.append(seq)
        return seq
