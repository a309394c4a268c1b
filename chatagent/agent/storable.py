"""Messages that user code gives a conversation: read, and refused if no snapshot could hold them.

A message with a number that JSON does not have would do no harm until the turn is over, and then make this snapshot and
every later one fail. So it is refused where it enters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from chatagent.errors import InvalidArgumentError, InvalidMessageError
from chatagent.session.values import weigh
from chatagent.ui import UIMessage, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.ids import IdGenerator

__all__ = ["storable_message"]


def storable_message(message: UIMessage | Mapping[str, Any], *, new_id: IdGenerator) -> UIMessage:
    """Return user code's message as an object.

    Args:
        message: a message, or its wire form.
        new_id: makes an id for one that has none.

    Raises:
        InvalidMessageError: it is no message, or JSON cannot hold it.
    """
    parsed = parse_ui_message(cast("Any", message), generate_id=new_id)
    try:
        weigh(parsed, "message")
    except InvalidArgumentError as error:
        field = error.argument.removeprefix("message").removeprefix(".")
        raise InvalidMessageError(field=field or "message", value=error.value, problem=error.problem) from None
    return parsed
