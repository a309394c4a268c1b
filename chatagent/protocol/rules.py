"""What may enter: ids of threads, messages of clients, names of channels (rules DM-1, TP-26, TH-31)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from chatagent.errors import InvalidArgumentError
from chatagent.protocol.errors import EmptyMessageError, ReservedNameError, ThreadIdError
from chatagent.protocol.ownership import RESERVED_KEY, RESERVED_PREFIX, is_reserved
from chatagent.ui import TextUIPart

if TYPE_CHECKING:
    from chatagent.ui import UIMessage

__all__ = ["check_channel", "check_message", "check_thread_id"]

_THREAD_ID: Final = re.compile(r"[^\s/]{1,128}")


def check_thread_id(thread_id: object) -> None:
    """Refuse what is no id of a thread.

    Raises:
        ThreadIdError: it is no text, is empty or too long, or has white space or a `/` in it.
    """
    if not isinstance(thread_id, str) or not _THREAD_ID.fullmatch(thread_id):
        raise ThreadIdError(thread_id=thread_id)


def check_message(message: UIMessage) -> None:
    """Refuse a client's message that says nothing, or that uses names of the protocol.

    Raises:
        EmptyMessageError: it has no parts, or nothing but blank text.
        ReservedNameError: a part's type or the metadata is kept for the protocol.
        InvalidArgumentError: the metadata is no object.
    """
    if not message.parts:
        raise EmptyMessageError(problem="give it at least one part")
    for index, part in enumerate(message.parts):
        if is_reserved(part.type):
            raise ReservedNameError(field=f"message.parts[{index}].type", name=part.type)
    if all(isinstance(part, TextUIPart) and not part.text.strip() for part in message.parts):
        raise EmptyMessageError(problem="its text is blank")
    metadata: object = message.metadata
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidArgumentError(argument="message.metadata", value=metadata, problem="metadata is an object")
    if metadata is not None and RESERVED_KEY in cast("dict[str, object]", metadata):
        raise ReservedNameError(field="message.metadata", name=RESERVED_KEY)


def check_channel(channel: str) -> None:
    """Refuse a channel of tool data whose parts would be the protocol's own.

    Raises:
        ReservedNameError: it would.
    """
    if is_reserved(f"data-{channel}") or f"data-{channel}-" == RESERVED_PREFIX:
        raise ReservedNameError(field="channel", name=channel)
