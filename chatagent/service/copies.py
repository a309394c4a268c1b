"""What a service hands out in its own process: what could be changed in it is the reader's own (MP-33)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, cast

from chatagent.ui import TextUIPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.protocol import ThreadHead, ThreadSnapshot
    from chatagent.ui import UIMessage

__all__ = ["own_head", "own_snapshot"]


def own_head(head: ThreadHead) -> ThreadHead:
    """Return a head that its reader may change."""
    return copy.deepcopy(head) if head.metadata else head


def own_snapshot(kept: ThreadSnapshot) -> ThreadSnapshot:
    """Return a snapshot that its reader may change; messages of mere text are shared."""
    messages = tuple(each if _is_plain(each) else copy.deepcopy(each) for each in kept.messages)
    rest = {name: copy.deepcopy(getattr(kept, name)) for name in ("thread", "runs", "actions")}
    return kept.model_copy(update={"messages": messages, **rest})


def _is_plain(message: UIMessage) -> bool:
    """Return whether a message holds nothing that could be changed, besides who owns it."""
    metadata = cast("Mapping[str, object]", message.metadata or {})
    return len(metadata) <= 1 and all(type(part) is TextUIPart for part in message.parts)
