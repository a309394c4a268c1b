"""From the records of `.out` to the events of a thread (rules MP-5 to MP-9, MP-13, MP-41, MP-42).

Plain calls, one record at a time. The tap decides to which generation a chunk belongs and how a turn has ended; who
reads the log, and what happens next, is the thread's business.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from chatagent.agent import CONTEXT_TYPE, RUN_METADATA_TYPE, SUSPEND_TYPE
from chatagent.errors import ChunkError, UIMessageStreamError
from chatagent.protocol import SuspensionMark, is_reserved, mark_of, suspension_chunk, tool_name_of
from chatagent.service.store import TapState
from chatagent.session import (
    RUN_BOOT_ID,
    SESSION_IN_EVENT_ID,
    STOPPED,
    TURN_COMPLETE,
    TURN_IN_EVENT_ID,
    control_type,
    header,
    is_command,
)
from chatagent.ui import (
    UNSET,
    Abort,
    Chunk,
    DataChunk,
    Error,
    FinishStep,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputError,
    ToolInputStart,
    ToolPart,
    UIMessage,
    parse_chunk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent.protocol import BackendThread
    from chatagent.service.provenance import ToolLooks
    from chatagent.service.store import OutboxEntry
    from chatagent.session import Record

__all__ = ["Tap"]

logger = logging.getLogger("chatagent")

_NOTED: Final = frozenset({Start, Error, Abort, DataChunk, ToolInputStart, ToolInputAvailable, ToolInputError})
"""The chunks that mean something to the tap; all others pass as they are."""

_TEXTS: Final = frozenset(
    {
        FinishStep,
        ReasoningDelta,
        ReasoningEnd,
        ReasoningStart,
        StartStep,
        TextDelta,
        TextEnd,
        TextStart,
        ToolInputDelta,
    }
)
"""The chunks that come often and hold texts; nobody can change anything in them."""


class Tap:
    """Reads the records of one session for its thread.

    Args:
        backend: the thread.
        looks: how calls of tools are shown.
        active: gives the generation that the agent is at work on, if there is one.
        found_number: told the number of a generation's record, where a chunk tells it before the append has.
        context: shows messages of the agent's as context of a run.
        run_metadata: takes what clients can read of a run.
        settled: called once a generation has ended.
        new_id: makes ids.
        state: where to go on.
    """

    def __init__(
        self,
        backend: BackendThread,
        looks: ToolLooks,
        *,
        active: Callable[[], OutboxEntry | None],
        found_number: Callable[[OutboxEntry, int], None],
        context: Callable[[str, Sequence[UIMessage]], None],
        run_metadata: Callable[[str, Mapping[str, Any]], None],
        settled: Callable[[OutboxEntry], None],
        new_id: Callable[[str], str],
        state: TapState,
    ) -> None:
        self._backend, self._looks = backend, looks
        self._active, self._found_number, self._settled, self._new_id = active, found_number, settled, new_id
        self._context, self._run_metadata = context, run_metadata
        self.out_seq = state.out_seq
        self.is_doubtful = False
        """Whether a chunk was refused, so that the thread may lack something of the answer."""
        self._turn = state.turn
        self._message_id = state.message_id
        self._error = state.error
        self._is_closed = state.is_closed
        self._run_id: str | None = None
        """The generation that the turn's chunks belong to; `None` while that is not known, or if it is none."""
        self._early: list[Chunk] = []
        """What came before the message had begun."""
        self._at_boot = False
        self._boot: list[DataChunk] = []
        """What the agent has said before there was an answer, for the turn that comes."""
        self._asked: dict[str, tuple[str, object]] = {}
        """What calls of the turn ask the client: the question and what it shows, by the call's id."""
        self._resolve_run()

    @property
    def state(self) -> TapState:
        """How far the log was read."""
        return TapState(
            out_seq=self.out_seq,
            turn=self._turn,
            message_id=self._message_id,
            error=self._error,
            is_closed=self._is_closed,
        )

    def take(self, record: Record) -> None:
        """Take one record; one that was taken already is passed by."""
        if record.seq <= self.out_seq:
            return
        self.out_seq = record.seq
        if record.headers and not self._take_headers(record):
            return
        if self._run_id is None or self._at_boot:
            self._take_stray(record)
            return
        chunk: Any = record.data
        if type(chunk) is dict:
            chunk = _parsed(cast("dict[str, Any]", chunk))
        if type(chunk) in _NOTED or self._message_id is None:
            self._note(chunk)
        else:
            self._write(chunk)

    def forget_turn(self) -> None:
        """Take it that no more comes of the turn that is being read."""
        self._turn = self._message_id = self._error = self._run_id = None
        self._is_closed = self._at_boot = False
        self._early.clear()
        self._asked.clear()

    # Headers ------------------------------------------------------------------------------------------------------

    def _take_headers(self, record: Record) -> bool:
        """Return whether the record has a chunk to be taken."""
        if is_command(record):
            return False
        control = control_type(record)
        if control is not None:
            if control == TURN_COMPLETE:
                self._turn_complete(record)
            return False
        if header(record, RUN_BOOT_ID) is not None:
            self.forget_turn()
            self._at_boot = True
            self._boot.clear()
        answers = header(record, TURN_IN_EVENT_ID)
        if answers is not None and answers.isdecimal():
            self._turn_begins(int(answers))
        return True

    def _turn_begins(self, in_seq: int) -> None:
        behind = [] if self._message_id is not None else self._early[:]
        self.forget_turn()
        for chunk in behind:
            self._tell_beside(chunk)  # it was not the beginning of this one
        self._early, self._boot = [*self._boot], []
        self._turn = in_seq
        entry = self._active()
        if entry is not None and entry.in_seq is None:
            self._found_number(entry, in_seq)
        self._resolve_run()

    def _resolve_run(self) -> None:
        entry = self._active()
        if entry is not None and self._turn is not None and entry.in_seq == self._turn:
            self._run_id = entry.run_id

    def _take_stray(self, record: Record) -> None:
        """Take a chunk that says of no turn that it belongs to it: it may be the beginning of one that does not say."""
        entry = self._active()
        chunk: Any = record.data
        if type(chunk) is dict:
            chunk = _parsed(cast("dict[str, Any]", chunk))
        if self._at_boot:
            self._tell_with(None, chunk)
        elif self._turn is None and (entry is None or entry.in_seq is None):
            self._tell_beside(chunk)
        elif self._turn is None and entry is not None:
            self._run_id = entry.run_id
            self._note(chunk)

    def _tell_beside(self, chunk: object) -> None:
        """Tell what came outside of turns with the last answer, or with the first one if there is none yet."""
        model = self._backend.model
        answers = (each for each in reversed(model.message_ids()) if model.ownership(each).relation == "output")
        self._tell_with(next(answers, None), chunk)

    def _tell_with(self, message_id: str | None, chunk: object) -> None:
        """Tell data with a message, or with the one to come; nothing keeps it, since the agent does not."""
        if not isinstance(chunk, DataChunk) or is_reserved(chunk.type):
            return  # what else there is makes sense inside an answer only
        told = replace(copy.deepcopy(chunk), transient=True)
        if message_id is None:
            self._boot.append(told)
        else:
            run_id = self._backend.model.ownership(message_id).run_id or ""
            self._backend.chunk(run_id, message_id, told, "lifecycle")

    # Chunks -------------------------------------------------------------------------------------------------------

    def _note(self, chunk: Any) -> None:
        if isinstance(chunk, Start):
            self._begin(chunk)
        elif isinstance(chunk, Error):
            self._error = chunk.error_text
            if self._message_id is not None:
                self._write(chunk)
        elif isinstance(chunk, DataChunk) and is_reserved(chunk.type):
            self._take_reserved(chunk)
        elif self._message_id is None:
            if isinstance(getattr(chunk, "type", None), str):
                self._early.append(chunk)
        else:
            self._is_closed = self._is_closed or isinstance(chunk, Abort)
            self._write(self._looks.show(chunk))

    def _take_reserved(self, chunk: DataChunk) -> None:
        """Take what the agent's code tells clients beside the answer; what else is reserved is not its to say."""
        assert self._run_id is not None
        data = cast("dict[str, Any]", chunk.data)
        if chunk.type == CONTEXT_TYPE:
            self._context(self._run_id, [UIMessage.model_validate(each) for each in data["messages"]])
        elif chunk.type == RUN_METADATA_TYPE:
            self._run_metadata(self._run_id, data)
        elif chunk.type == SUSPEND_TYPE:
            self._asked[data["toolCallId"]] = data["name"], data["input"]

    def _begin(self, chunk: Start) -> None:
        self._message_id = chunk.message_id or self._new_id("msg")
        self._is_closed = False
        self._write(chunk)
        early, self._early = self._early, []
        for each in early:
            self._write(self._looks.show(each))

    def _write(self, chunk: Chunk) -> None:
        assert self._run_id is not None
        assert self._message_id is not None
        if type(chunk) not in _TEXTS:
            chunk = copy.deepcopy(chunk)  # what a client does to it must not reach the session's record
        try:
            self._backend.chunk(self._run_id, self._message_id, chunk)
        except UIMessageStreamError as refused:
            self.is_doubtful = True
            logger.warning("thread %r: a chunk does not fit its message: %s", self._backend.thread_id, refused)

    # The end of a turn --------------------------------------------------------------------------------------------

    def _turn_complete(self, record: Record) -> None:
        entry = self._active()
        cursor = header(record, SESSION_IN_EVENT_ID)
        if entry is not None and (self._run_id == entry.run_id or _reaches(cursor, entry.in_seq)):
            self._settle(entry, stopped=header(record, STOPPED) is not None)
        self.forget_turn()

    def _settle(self, entry: OutboxEntry, *, stopped: bool) -> None:
        backend, run_id = self._backend, entry.run_id
        self._run_id = run_id
        if self._error is not None:
            backend.fail(run_id, self._error)
        elif stopped:
            if self._message_id is not None and not self._is_closed:
                self._write(Abort(reason=entry.abort_reason))
            backend.abort(run_id, entry.abort_reason)
        else:
            self._mark_waiting(run_id)
            backend.complete(run_id)
        self._settled(entry)

    def _mark_waiting(self, run_id: str) -> None:
        """Say of each call that is left to the client that it waits (MP-13)."""
        backend = self._backend
        for message_id in backend.model.message_ids(run_id):
            message = backend.model.message(message_id)
            parts = () if message is None else message.parts
            marks = [mark for part in parts if (mark := mark_of(part)) is not None]
            waiting = {mark.tool_call_id for mark in marks if mark.resolution is UNSET}
            for part in parts:
                if isinstance(part, ToolPart) and part.tool_call_id not in waiting:
                    mark = self._mark(part)
                    if mark is not None:
                        backend.chunk(run_id, message_id, suspension_chunk(mark))

    def _mark(self, part: ToolPart) -> SuspensionMark | None:
        """Return what says that a call waits; `None` if it does not."""
        name, asked = tool_name_of(part), self._asked.get(part.tool_call_id)
        if asked is not None and part.state == "input-available":
            question, shown = asked
            full_name = f"{name}.{question}"
            return SuspensionMark(self._new_id("action"), part.tool_call_id, name, full_name, question, shown)
        if self._looks.waits_for_client(part):
            action_id = self._new_id("action")
            return SuspensionMark(action_id, part.tool_call_id, name, f"{name}.output", None, part.input)
        return None


def _reaches(cursor: str | None, in_seq: int | None) -> bool:
    """Return whether a committed cursor says that a record is dealt with."""
    return cursor is not None and in_seq is not None and cursor.isdecimal() and int(cursor) >= in_seq


def _parsed(wire: dict[str, Any]) -> object:
    """Return the chunk of a record that was stored as JSON; `None` if it is none."""
    try:
        return parse_chunk(wire, allow_unknown=True)
    except ChunkError as exc:
        logger.warning("a record of `.out` is no chunk: %s", exc)
        return None
