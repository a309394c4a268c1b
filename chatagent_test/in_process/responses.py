"""`responses` of an in-process client: the agent's model says what `reply` scripts describe (rule BT-15).

So a test that was written for a scripted backend runs over the agent itself. A script answers one turn. The model says
its texts and makes its tool calls; the tools are the agent's own, and what comes of them is theirs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from chatagent import chat
from chatagent.protocol import check_thread_id
from chatagent.waiting import Waiter
from chatagent_test.in_process.speaking import model_calls, speak
from chatagent_test.language_model import MockLanguageModel, RawStreamResult
from chatagent_test.transport.checking import check_script
from chatagent_test.transport.errors import MockConfigError, ScriptError, UnusedScriptsError
from chatagent_test.transport.places import calling_place
from chatagent_test.transport.scripts import (
    AssistantScript,
    ErrorScript,
    NothingScript,
    PauseReply,
    ReplyPart,
    Script,
    StepReply,
    ToolReply,
)
from chatagent_test.transport.tools import ToolBook

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from chatagent.model import CallOptions, ModelStreamPart
    from chatagent.protocol import AgentContract

__all__ = ["InProcessResponses", "ReplyingModel"]


@dataclass(frozen=True, slots=True)
class _Queued:
    script: Script
    place: str
    thread_id: str | None

    def __str__(self) -> str:
        of_thread = "" if self.thread_id is None else f" (for thread {self.thread_id!r})"
        return f"{self.script!r}{of_thread}, queued at {self.place}"


@dataclass(slots=True)
class _Claimed:
    """The script of a turn, and what the model has not said of it."""

    queued: _Queued
    turn: int
    calls: deque[list[ReplyPart]]
    count: int


class ReplyingModel(MockLanguageModel):
    """A model that says what the next script describes, and waits for one if there is none.

    Args:
        turn_count: how many turns of a thread have begun.
    """

    def __init__(self, turn_count: Callable[[str], int]) -> None:
        super().__init__(do_stream=self._answer)
        self.queued: list[_Queued] = []
        self.unexpected: list[str] = []
        self._turn_count = turn_count
        self._claimed: dict[str, _Claimed] = {}
        self._waiters: list[Waiter] = []
        self._call_numbers = count(1)

    def give(self, scripts: list[_Queued]) -> None:
        """Queue scripts, and let whoever waits for one look."""
        self.queued += scripts
        for waiter in self._waiters:
            waiter.wake()

    def check_unused(self) -> None:
        """Refuse what is left over at the end of a test.

        Raises:
            UnusedScriptsError: scripts that no turn claimed, or that the agent did not ask for to the end, or calls of
                the model that no script foresaw.
        """
        unsaid = [f"the rest of {each.queued}" for each in self._claimed.values() if any(each.calls)]
        unused = [*map(str, self.queued), *unsaid, *self.unexpected]
        if unused:
            raise UnusedScriptsError(unused)

    async def _answer(self, _: CallOptions) -> RawStreamResult:
        thread_id = chat.session_id
        claimed = await self._claim(thread_id)
        script = claimed.queued.script
        if isinstance(script, ErrorScript):
            raise RuntimeError(script.message)  # noqa: TRY004 - what the script says
        if not claimed.calls:
            problem = (
                f"the model was asked {claimed.count + 1} times in one turn of thread {thread_id!r}, and says "
                f"{claimed.queued} in {claimed.count}"
            )
            self.unexpected.append(problem)
            raise ScriptError(problem)
        return {"stream": self._speak(claimed.calls.popleft())}

    async def _claim(self, thread_id: str) -> _Claimed:
        """Return the script of the turn that is on; its first call takes one from the queue."""
        turn = self._turn_count(thread_id)
        claimed = self._claimed.get(thread_id)
        if claimed is not None and claimed.turn == turn:
            return claimed
        queued = self._take(thread_id)
        while queued is None:
            await self._wait()
            queued = self._take(thread_id)
        if claimed is not None and any(claimed.calls):
            self.unexpected.append(f"the rest of {claimed.queued}")
        calls = model_calls(queued.script) if isinstance(queued.script, AssistantScript) else []
        claimed = self._claimed[thread_id] = _Claimed(queued, turn, deque(calls), len(calls))
        return claimed

    def _take(self, thread_id: str) -> _Queued | None:
        for wanted in (thread_id, None):
            for queued in self.queued:
                if queued.thread_id == wanted:
                    self.queued.remove(queued)
                    return queued
        return None

    async def _wait(self) -> None:
        """Wait for a script; the clock stands still."""
        waiter = Waiter("a script for its answer: call responses.queue(...)", stops_time=True)
        self._waiters.append(waiter)
        try:
            await waiter.wait()
        finally:
            self._waiters.remove(waiter)

    def _speak(self, parts: list[ReplyPart]) -> AsyncGenerator[ModelStreamPart]:
        return speak(parts, self._ids_of(parts))

    def _ids_of(self, parts: list[ReplyPart]) -> Iterator[str]:
        for part in parts:
            if isinstance(part, ToolReply):
                yield part.call_id or f"call-{next(self._call_numbers)}"


class InProcessResponses:
    """What the agent's model says in the turns to come, first in, first out.

    Args:
        model: the model that is to say it; `None` if the test scripts the agent's model itself.
        contract: the agent's; scripts are checked by it.
        thread_id: whose turns alone are meant.
    """

    def __init__(self, model: ReplyingModel | None, contract: AgentContract, thread_id: str | None = None) -> None:
        self._model, self._contract, self._thread_id = model, contract, thread_id
        self._book = ToolBook(contract, contract.manifest(), {})

    def queue(self, *scripts: Script) -> None:
        """Queue scripts; each answers one turn. A turn that waits for a script takes it.

        What a script says that comes of a tool is checked by the agent's contract, and otherwise left to the tool.

        Raises:
            MockConfigError: the client was given a model with a script of its own.
            ScriptError: the agent could not have said it, or its model cannot be made to; nothing was queued.
        """
        model, place = self._needed(), calling_place()
        for script in scripts:
            check_script(script, self._book, place=place, can_pause=True)
            _check_sayable(script, place)
        model.give([_Queued(script, place, self._thread_id) for script in scripts])

    def for_thread(self, thread_id: str) -> InProcessResponses:
        """Return the queue of one thread, which goes before the common one; size and clear are its own."""
        check_thread_id(thread_id)
        return InProcessResponses(self._model, self._contract, thread_id)

    def size(self) -> int:
        """Return how many scripts no turn has claimed."""
        return len(self._own())

    def clear(self) -> int:
        """Drop the scripts that no turn has claimed; returns how many."""
        own = self._own()
        for queued in own:
            self._needed().queued.remove(queued)
        return len(own)

    def _own(self) -> list[_Queued]:
        return [each for each in self._needed().queued if self._thread_id in (None, each.thread_id)]

    def _needed(self) -> ReplyingModel:
        if self._model is None:
            raise MockConfigError("responses: this client was given model=..., which says what its own script says")
        return self._model


def _check_sayable(script: Script, place: str) -> None:
    if isinstance(script, NothingScript):
        raise ScriptError(f"{place}: {script!r}: a model cannot be made to say nothing at all")
    if not isinstance(script, AssistantScript):
        return
    for name in ("message_id", "metadata", "finish_reason"):
        if getattr(script, name) is not None:
            raise ScriptError(f"{place}: reply.assistant({name}=...): an agent makes its own; leave it out")
    for number, part in enumerate(script.parts, 1):
        if isinstance(part, StepReply | PauseReply):
            raise ScriptError(
                f"{place}: part {number}: {part!r}: an agent begins a step behind a tool call only, and a model that "
                "pauses is given as model=script.pause(...)"
            )
