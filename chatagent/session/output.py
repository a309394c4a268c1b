"""How a run writes to a session's `.out`: chunks, and the controls between turns (rules C-10 to C-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import ChatChunkTooLargeError, InvalidArgumentError, RecordTooLargeError
from chatagent.session.records import (
    RUN_BOOT_ID,
    SESSION_IN_EVENT_IDS_AHEAD,
    STOPPED,
    TURN_IN_EVENT_ID,
    NewRecord,
    control_record,
    trim_record,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.session.records import Headers
    from chatagent.session.writer import ChannelWriter

__all__ = ["RunOutput"]

MOST_AHEAD = 1000
"""Characters of the numbers that a turn-complete tells; a header has little room."""


class RunOutput:
    """A run's end of `.out`: chunks in, numbered records out.

    Args:
        writer: what appends the records, in the order of the calls.
    """

    __slots__ = ("_opening", "_writer", "keeps_unsaved", "last_saved", "last_turn_complete")

    def __init__(self, writer: ChannelWriter) -> None:
        self.last_turn_complete: int | None = None
        """Number of the last turn-complete record; the next one trims back to it (C-15)."""
        self.keeps_unsaved = False
        """Whether what no snapshot covers is kept, since nobody else has it."""
        self.last_saved: int | None = None
        """Number of the last record that a snapshot covers."""
        self._writer = writer
        self._opening: Headers = ()
        """What the next data record says it begins."""

    def begin_boot(self, run_id: str) -> None:
        """Let the next data record say that it belongs to no turn: it is not part of what a crash cut off before it."""
        self._opening = ((RUN_BOOT_ID, run_id),)

    def begin_turn(self, in_seq: int | None) -> None:
        """Let the next data record name the input record that the turn answers (ST-34)."""
        self._opening = () if in_seq is None else ((TURN_IN_EVENT_ID, str(in_seq)),)

    @property
    def is_silent(self) -> bool:
        """Whether nothing was written since the turn began, if it answers a record of input."""
        return bool(self._opening)

    def write(self, chunk: object) -> None:
        """Write one chunk as a data record; a plain call.

        Raises:
            ChatChunkTooLargeError: it is above the limit of a record; nothing was written.
            InvalidArgumentError: JSON cannot hold it; nothing was written.
        """
        try:
            if self._opening:
                self._writer.write(NewRecord(chunk, self._opening))
                self._opening = ()  # only now: a refused chunk is no record, so the next one is the first
            else:
                self._writer.write_data(chunk)
        except RecordTooLargeError as exc:
            kind = str(getattr(chunk, "type", type(chunk).__name__))
            raise ChatChunkTooLargeError(chunk_type=kind, chunk_size=exc.size, max_size=exc.limit) from exc
        except InvalidArgumentError as exc:
            field = exc.argument.replace("records[0].data", "chunk", 1)
            raise InvalidArgumentError(argument=field, value=exc.value, problem=exc.problem) from exc

    async def append(self, chunk: object) -> int:
        """Write one chunk and return its number once it is stored."""
        self.write(chunk)
        return await self.flush()

    async def flush(self) -> int:
        """Return the last number once everything written before is stored."""
        return await self._writer.flush()

    async def ready(self) -> None:
        """Return once there is room for more."""
        await self._writer.ready()

    async def write_turn_complete(
        self, *, token: str | None, in_cursor: int | None, ahead: Sequence[int] = (), stopped: bool = False
    ) -> int:
        """Close a turn on the wire and trim back to the one before, or to the last one that was saved (C-12, C-15).

        Args:
            token: a refreshed access token for clients; empty or `None` for none.
            in_cursor: the committed `.in` cursor; `None` before any record was consumed.
            ahead: the records above it that are done with, in order; as many as there is room for are told.
            stopped: whether the client has stopped the turn.

        Returns:
            The number of the turn-complete record.
        """
        headers: dict[str, str] = {}
        if token:
            headers["public-access-token"] = token
        if in_cursor is not None:
            headers["session-in-event-id"] = str(in_cursor)
        if ahead:
            headers[SESSION_IN_EVENT_IDS_AHEAD] = _listed(ahead)
        if stopped:
            headers[STOPPED] = "true"
        self._opening = ()
        number = self._writer.write(control_record("turn-complete", **headers), commit_in=in_cursor)
        await self._writer.flush()
        number = self._writer.last_control if number is None else number
        previous, self.last_turn_complete = self.last_turn_complete, number
        if previous is not None and self.keeps_unsaved:
            previous = None if self.last_saved is None else min(previous, self.last_saved)
        if previous is not None:
            self._writer.write(trim_record(before=previous))
        return number

    async def write_upgrade_required(self) -> int:
        """Tell clients that the session goes on in another run (C-13)."""
        self._writer.write(control_record("upgrade-required"))
        return await self._writer.flush()


def _listed(numbers: Sequence[int]) -> str:
    text = ",".join(map(str, numbers))
    return text if len(text) <= MOST_AHEAD else text[:MOST_AHEAD].rpartition(",")[0]
