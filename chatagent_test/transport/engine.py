"""Runs and the scripts that they claim (rules RQ-1 to RQ-6, RQ-14).

Everything happens inside the call that causes it: a send, a script that is given, a step of the clock. No task is
started and nothing waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from chatagent.protocol import GenerationRequest
from chatagent_test.transport.checking import check_script
from chatagent_test.transport.errors import ScriptError
from chatagent_test.transport.player import ScriptPlayer, resolutions
from chatagent_test.transport.scripts import AssistantScript, ErrorScript, NothingScript, Script
from chatagent_test.transport.streamed import StreamedResponse
from chatagent_test.transport.writer import ResponseWriter

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.protocol import BackendThread
    from chatagent.ui import UIMessage
    from chatagent_test.transport.store import MockStore
    from chatagent_test.transport.tools import ToolBook

__all__ = ["Engine", "Generation", "QueueEntry", "Responder"]

Responder: TypeAlias = Callable[[GenerationRequest], Script | None]
"""Answers a request when no script is queued; `None` leaves the run without an answer."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A script in the queue."""

    script: Script | StreamedResponse
    place: str
    """The line of the test that queued it."""
    thread_id: str | None
    """The thread that alone may claim it."""

    def __str__(self) -> str:
        of_thread = "" if self.thread_id is None else f" (for thread {self.thread_id!r})"
        return f"{self.script!r}{of_thread}, queued at {self.place}"


@dataclass(slots=True, eq=False)
class Generation:
    """A run at work."""

    thread: BackendThread
    run_id: str
    request: GenerationRequest | None = None
    resumes: str | None = None
    """The message that a resumed run goes on with."""
    writer: ResponseWriter | None = None
    response: StreamedResponse | None = None
    steps: Iterator[float] | None = None
    take_back: Callable[[], None] = field(default=lambda: None)
    """Takes back the deadline of a pause."""

    @property
    def waited(self) -> UIMessage | None:
        """The message whose calls waited."""
        return None if self.resumes is None else self.thread.model.message(self.resumes)


class Engine:
    """Plays scripts for runs.

    Args:
        store: where the threads are.
        book: how tools are shown, and what values are checked by.
        clock: what pauses wait on.
    """

    def __init__(self, store: MockStore, book: ToolBook, clock: Clock) -> None:
        self._store, self.book, self._clock = store, book, clock
        self.entries: list[QueueEntry] = []
        self.responders: dict[str | None, Responder] = {}
        self.generations: dict[str, Generation] = {}
        self.unclaimed: dict[str, Generation] = {}
        """The runs at work that have no script, the one that waits longest first."""
        self._requests: dict[str, GenerationRequest] = {}
        self._todo: deque[Generation] = deque()
        self._is_working = False

    # Scripts ------------------------------------------------------------------------------------------------------

    def give(self, entries: list[QueueEntry]) -> None:
        """Queue scripts, and let runs that wait for one claim them."""
        for entry in entries:
            if not isinstance(entry.script, StreamedResponse):
                check_script(entry.script, self.book, place=entry.place, can_pause=self.can_pause)
        self.entries += entries
        self.feed()

    def take_id(self, kind: str, given: str | None) -> str:
        """Return the id that was given, or a new one."""
        return self._store.ids.take(kind, given)

    async def let_pass(self, seconds: float) -> None:
        """Let time pass: a virtual clock is moved, a real one is slept on."""
        clock: Any = self._clock
        if self.can_pause:
            clock.advance(seconds)
        else:
            await clock.sleep(seconds)

    @property
    def can_pause(self) -> bool:
        """Whether the test moves the clock."""
        return hasattr(self._clock, "advance")

    def feed(self) -> None:
        """Let runs that wait for a script claim those that are there."""
        for run_id, generation in tuple(self.unclaimed.items()):
            if run_id in self.unclaimed and self._has_answer(generation):
                del self.unclaimed[run_id]
                self._work(generation)

    def peek(self, thread_id: str) -> QueueEntry | None:
        """Return the script that a run of this thread would claim next."""
        own = (entry for entry in self.entries if entry.thread_id == thread_id)
        return next(own, None) or next((entry for entry in self.entries if entry.thread_id is None), None)

    def check_fit(self, thread_id: str, waited: UIMessage | None) -> None:
        """Refuse the next script if it does not fit a run that goes on from this message.

        Raises:
            ScriptError: it settles a call that does not wait; it stays queued.
        """
        entry = self.peek(thread_id)
        if entry is not None and isinstance(entry.script, AssistantScript):
            resolutions(entry.script, waited)
            self._check_message_id(thread_id, entry.script.message_id)

    def _check_message_id(self, thread_id: str, message_id: str | None) -> None:
        thread = self._store.threads.get(thread_id)
        if message_id is not None and thread is not None and thread.model.message(message_id) is not None:
            raise ScriptError(
                f"reply.assistant(message_id={message_id!r}): thread {thread_id!r} has a message of this id already"
            )

    def _has_answer(self, generation: Generation) -> bool:
        thread_id = generation.thread.thread_id
        return self.peek(thread_id) is not None or bool({thread_id, None} & self.responders.keys())

    def _claim(self, generation: Generation) -> Script | StreamedResponse | None:
        thread_id = generation.thread.thread_id
        entry = self.peek(thread_id)
        if entry is not None:
            self.check_fit(thread_id, generation.waited)
            self.entries.remove(entry)
            return entry.script
        responder = self.responders.get(thread_id) or self.responders.get(None)
        if responder is None or generation.request is None:
            return None
        script = responder(generation.request)
        if script is not None:
            check_script(script, self.book, place="the responder", can_pause=self.can_pause)
            if isinstance(script, AssistantScript):
                resolutions(script, generation.waited)
        return script

    # Runs ---------------------------------------------------------------------------------------------------------

    def admitted(self, run_id: str, request: GenerationRequest) -> None:
        """Remember what a queued run answers, until it starts."""
        self._requests[run_id] = request

    def begin(
        self, thread: BackendThread, run_id: str, request: GenerationRequest | None, resumes: str | None = None
    ) -> None:
        """Let a run that has started, or resumed, claim its script."""
        self._work(Generation(thread, run_id, request, resumes))

    def seeded(self, thread: BackendThread, run_id: str) -> None:
        """Take a run that a seed left at work: the next script that is given goes on with it."""
        self.generations[run_id] = self.unclaimed[run_id] = Generation(thread, run_id)

    def _work(self, generation: Generation) -> None:
        """Play what there is to play, run after run, however many are queued behind."""
        self._todo.append(generation)
        self.generations[generation.run_id] = generation
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._todo:
                self._start(self._todo[0])
                self._todo.popleft()
        finally:
            self._is_working = False
            for each in self._todo:
                self.unclaimed[each.run_id] = each
            self._todo.clear()

    def _start(self, generation: Generation) -> None:
        script = self._claim(generation)
        if script is None:
            self.unclaimed[generation.run_id] = generation
            return
        thread = generation.thread
        generation.writer = writer = ResponseWriter(thread, generation.run_id, self._store.ids, generation.resumes)
        match script:
            case ErrorScript():
                self.fail(generation, script.message, script.code)
            case NothingScript():
                self.complete(generation)
            case AssistantScript():
                player = ScriptPlayer(script, writer, self.book, self._store.ids, generation.waited)
                generation.steps = player.play()
                self._step(generation)
            case StreamedResponse():
                generation.response = script
                script.attach(generation, writer)

    def _step(self, generation: Generation) -> None:
        """Play on to the next pause, or to the end."""
        assert generation.steps is not None
        for seconds in generation.steps:
            if seconds > 0:
                clock: Any = self._clock
                at = clock.now() + seconds
                generation.take_back = clock.call_at(at, lambda: self._step(generation), kind="sleep")
                return
        self.complete(generation)

    # Ends ---------------------------------------------------------------------------------------------------------

    def complete(self, generation: Generation) -> None:
        """End a generation well."""
        self._ended(generation)
        generation.thread.complete(generation.run_id)
        self.start_next(generation.thread)

    def fail(self, generation: Generation, text: str, code: str | None) -> None:
        """End a generation with an error."""
        self._ended(generation)
        if generation.writer is not None:
            generation.writer.fail(text)
        generation.thread.fail(generation.run_id, text, code=code)
        self.start_next(generation.thread)

    def abort(self, thread: BackendThread, run_id: str, reason: str | None, *, why: str) -> None:
        """End a run on purpose.

        Args:
            thread: its thread.
            run_id: the run.
            reason: what the run's record says.
            why: what a streamed response says that is played later.
        """
        generation = self.generations.get(run_id)
        if generation is not None:
            self._ended(generation)
            if generation.writer is not None:
                generation.writer.abort(reason)
            if generation.response is not None:
                generation.response.aborted(why)
        thread.abort(run_id, reason)
        self.start_next(thread)

    def detach(self, thread_id: str | None, why: str, *, run_id: str | None = None) -> None:
        """Take the scripts away from runs: of a thread, of one run, or of all."""
        for generation in tuple(self.generations.values()):
            if thread_id in (None, generation.thread.thread_id) and run_id in (None, generation.run_id):
                self._ended(generation)
                if generation.response is not None:
                    generation.response.detach(why)

    def start_next(self, thread: BackendThread) -> None:
        """Start the next queued run of a thread, if nothing is at work there."""
        run = thread.start_next()
        if run is not None:
            self.begin(thread, run.run_id, self._requests.pop(run.run_id, None))

    def drop(self, entries: list[QueueEntry], why: str = "it was cleared from the queue") -> int:
        """Drop scripts that no run has claimed; returns how many."""
        for entry in entries:
            self.entries.remove(entry)
            if isinstance(entry.script, StreamedResponse):
                entry.script.detach(why)
        return len(entries)

    def reset(self) -> None:
        """Forget everything."""
        why = "the mock was reset"
        self.detach(None, why)
        self.drop(list(self.entries), why)
        self.responders.clear()
        self._requests.clear()

    def _ended(self, generation: Generation) -> None:
        generation.take_back()
        self.generations.pop(generation.run_id, None)
        self.unclaimed.pop(generation.run_id, None)
