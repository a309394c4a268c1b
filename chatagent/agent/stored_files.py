"""Files that messages refer to by a `chatagent-file:` URL: a model is shown their bytes (MP-21)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from chatagent.current import current_run
from chatagent.errors import InvalidMessageError
from chatagent.model import FilePart, InlineData, UrlData
from chatagent.ui import FileUIPart

if TYPE_CHECKING:
    from chatagent.model import ModelMessage
    from chatagent.ui import UIMessage

__all__ = ["LoadFile", "has_stored_files", "with_stored_files"]

SCHEME: Final = "chatagent-file:"

LoadFile: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Returns the bytes of the file of this id, or raises."""


def has_stored_files(message: UIMessage) -> bool:
    """Return whether a message refers to files of the agent's own."""
    return any(isinstance(part, FileUIPart) and part.url.startswith(SCHEME) for part in message.parts)


async def with_stored_files(message: ModelMessage) -> ModelMessage:
    """Return the message with the bytes in the place of the references.

    Raises:
        InvalidMessageError: the run was given no files, so the URL leads nowhere.
        Exception: what loading a file raised.
    """
    content: Any = message.content
    if isinstance(content, str):
        return message
    changed = tuple([await _with_bytes(part) for part in content])
    return cast("ModelMessage", replace(cast("Any", message), content=changed))


async def _with_bytes(part: object) -> object:
    if not isinstance(part, FilePart) or not isinstance(part.data, UrlData) or not part.data.url.startswith(SCHEME):
        return part
    load = cast("LoadFile | None", getattr(current_run.get(), "load_file", None))
    if load is None:
        raise InvalidMessageError(field="url", value=part.data.url, problem="this run was given no store of files")
    body = await load(part.data.url.removeprefix(SCHEME))
    return replace(part, data=InlineData(body))
