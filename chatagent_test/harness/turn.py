"""What a driver returns: one turn, with everything that a test wants to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.session import control_type, header
from chatagent.ui import Chunk, Error, TextDelta, to_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from chatagent.agent import HookCall
    from chatagent.session import Record
    from chatagent.ui import UIMessage
    from chatagent_test.harness.watch import SeenTurn

__all__ = ["PendingTurn", "Turn", "chunks_of", "raw_chunks_of"]


def chunks_of(records: Sequence[Record]) -> list[Chunk]:
    """Return the chunks of data records, in order."""
    return [record.data for record in records if control_type(record) is None]  # type: ignore[misc] - data is a chunk


def raw_chunks_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return wire dicts, those of control records included (X-1)."""
    return [_raw(record) for record in records]


def _raw(record: Record) -> dict[str, Any]:
    subtype = control_type(record)
    if subtype is None:
        return to_wire(record.data)  # type: ignore[return-value] - a chunk's wire form is a dict
    raw = {"type": f"trigger:{subtype}"}
    token = header(record, "public-access-token")
    return raw if token is None else {**raw, "publicAccessToken": token}


class Turn:
    """One turn, as the client and the hooks saw it.

    Chunks are those between the send and the moment the driver waited for. What was asked for at `"turn_complete"`
    fills up as the turn settles: `hooks`, `error`.
    """

    def __init__(self, seen: SeenTurn | None, records: Sequence[Record]) -> None:
        self._seen = seen
        self._records = records
        self._chunks: list[Chunk] | None = None

    def __repr__(self) -> str:
        error = None if self._report is None else self._report.error
        return f"Turn(index={self.index}, text={self.text!r}, finish_reason={self.finish_reason!r}, error={error!r})"

    @property
    def index(self) -> int | None:
        """Zero-based number within the run; of an action the number of the turn that comes next."""
        return None if self._report is None else self._report.turn

    @property
    def chunks(self) -> list[Chunk]:
        """The UI chunks of this turn, in the order in which the client saw them."""
        if self._chunks is None:
            self._chunks = chunks_of(self._records)
        return list(self._chunks)

    @property
    def raw_chunks(self) -> list[dict[str, Any]]:
        """The same as wire dicts, with control records as `{"type": "trigger:turn-complete"}`."""
        return raw_chunks_of(self._records)

    @property
    def text(self) -> str:
        """All text deltas joined."""
        return "".join(chunk.delta for chunk in self.chunks if isinstance(chunk, TextDelta))

    @property
    def message(self) -> UIMessage | None:
        """The answer as it was stored; `None` if nothing was captured."""
        return None if self._report is None else self._report.response

    @property
    def hooks(self) -> list[HookCall]:
        """The hook calls of this turn (`run` and a `tools` function included), in order."""
        return [] if self._seen is None else list(self._seen.hooks)

    @property
    def error(self) -> BaseException | None:
        """The exception that failed the turn, itself; `None` if none did."""
        if self._seen is not None and self._seen.report is not None:
            self._seen.told = True
        return None if self._report is None else self._report.error

    @property
    def error_texts(self) -> list[str]:
        """The texts of the `error` chunks."""
        return [chunk.error_text for chunk in self.chunks if isinstance(chunk, Error)]

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped; `error` for a failed turn; `None` after a stop or a manual pipe."""
        return None if self._report is None else self._report.finish_reason

    @property
    def stopped(self) -> bool:
        """Whether a stop ended it."""
        return self._report is not None and self._report.stopped

    @property
    def _report(self) -> Any:
        return None if self._seen is None else self._seen.report


class PendingTurn:
    """A turn that was asked for and not waited for; `await` it to get the turn."""

    def __init__(self, wait: Callable[[], Awaitable[Turn]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, Turn]:
        """Wait until the turn has settled."""
        return self._wait().__await__()

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> Any:
            way_out = ": it is not a turn yet, `await` it to get one" if hasattr(Turn, name) else ""
            raise AttributeError(f"'PendingTurn' object has no attribute {name!r}{way_out}", name=name, obj=self)
