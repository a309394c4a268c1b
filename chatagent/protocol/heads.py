"""The list of threads: its order and its pages (rule CL-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import InvalidArgumentError
from chatagent.protocol.requests import ThreadHeadPage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent.protocol.models import ThreadHead
    from chatagent.protocol.requests import ThreadQuery

__all__ = ["page_of", "sorted_heads"]


def sorted_heads(heads: Iterable[ThreadHead]) -> tuple[ThreadHead, ...]:
    """Return the heads in the order of a list: what was used last comes first; threads of one moment by their ids."""
    return tuple(sorted(heads, key=_rank))


def page_of(heads: Iterable[ThreadHead], query: ThreadQuery, *, seq: int) -> ThreadHeadPage:
    """Return one page of the list.

    The cursor names the last head that was given, so a page neither repeats nor skips what did not change meanwhile.

    Args:
        heads: all threads, in any order.
        query: how many, and behind which.
        seq: the number of the newest event of the list.

    Raises:
        InvalidArgumentError: the cursor is none of ours.
    """
    rest = sorted_heads(heads)
    if query.cursor is not None:
        behind = _parse_cursor(query.cursor)
        rest = tuple(head for head in rest if _rank(head) > behind)
    page = rest[: query.limit]
    fields: dict[str, object] = {"heads": page, "seq": seq}
    if len(rest) > query.limit:
        last = page[-1]
        fields["next_cursor"] = f"{-_rank(last)[0]!r}/{last.thread_id}"
    return ThreadHeadPage.model_validate(fields)


def _rank(head: ThreadHead) -> tuple[float, str]:
    return -head.updated_at.timestamp(), head.thread_id


def _parse_cursor(cursor: str) -> tuple[float, str]:
    instant, separator, thread_id = cursor.partition("/")
    try:
        return -float(instant if separator else ""), thread_id
    except ValueError:
        problem = "no page has given it; take the `next_cursor` of the page before"
        raise InvalidArgumentError(argument="cursor", value=cursor, problem=problem) from None
