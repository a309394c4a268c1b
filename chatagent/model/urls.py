"""Files by URL that a model does not read itself: which they are, and their data in their place.

The core has no network. Whoever wants such files fetched gives a `Download`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chatagent.errors import InvalidPromptError
from chatagent.model.files import InlineData, UrlData, bare_data, detect_image_type, tagged_data
from chatagent.model.prompt import FilePart, UserMessage

if TYPE_CHECKING:
    from chatagent.model.prompt import UserContentPart
    from chatagent.model.protocol import LanguageModel, SupportedUrls

__all__ = ["Download", "DownloadedFile", "resolve_urls"]


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file that was fetched for a model."""

    data: bytes
    media_type: str | None = None


Download = Callable[[Sequence[str]], Awaitable[Sequence[DownloadedFile | None]]]
"""Fetches URLs, all at once; gives a file for each, in order, or `None` to leave the URL to the model."""


async def resolve_urls(
    messages: Sequence[UserMessage], model: LanguageModel, download: Download | None
) -> list[UserMessage]:
    """Return messages in which only such URLs stand as the model reads itself.

    Args:
        messages: messages whose content is a list of texts and files.
        model: who will read them.
        download: fetches all the other URLs; those that it does not give stay.

    Raises:
        InvalidPromptError: there are other URLs, and no `download`.
    """
    supported = model.supported_urls
    patterns = await supported if inspect.isawaitable(supported) else supported
    wanted = dict.fromkeys(
        url for message in messages for part in message.content if (url := _unread_url(part, patterns)) is not None
    )
    if not wanted:
        return list(messages)
    if download is None:
        msg = (
            f"Invalid prompt: {model.provider} {model.model_id} does not read {next(iter(wanted))!r:.200} by itself; "
            "send the file's data, or list the URL in the model's `supported_urls`"
        )
        raise InvalidPromptError(msg)
    files = dict(zip(wanted, await download(list(wanted)), strict=True))

    def fetched(part: UserContentPart | str) -> UserContentPart | str:
        url = _unread_url(part, patterns)
        file = None if url is None else files[url]
        return _inlined(part, file, bare=model.specification_version == "v3") if file is not None else part

    return [replace(message, content=tuple(map(fetched, message.content))) for message in messages]


def _unread_url(part: UserContentPart | str, patterns: SupportedUrls) -> str | None:
    """Return the URL of a file that the model does not read itself; `None` for everything else."""
    data = tagged_data(part.data) if isinstance(part, FilePart) else None
    if not isinstance(part, FilePart) or not isinstance(data, UrlData):
        return None
    return None if _is_supported(data.url, part.media_type, patterns) else data.url


def _is_supported(url: str, media_type: str, patterns: SupportedUrls) -> bool:
    url, wanted = url.lower(), media_type.lower() if "/" in media_type else f"{media_type.lower()}/*"
    return any(
        re.search(expression, url)
        for key, expressions in patterns.items()
        if _covers(key.lower(), wanted)
        for expression in expressions
    )


def _covers(key: str, media_type: str) -> bool:
    if key in ("*", "*/*"):
        return True
    return media_type.startswith(key[:-1]) if key.endswith("/*") else media_type == key


def _inlined(part: UserContentPart | str, file: DownloadedFile, *, bare: bool) -> UserContentPart | str:
    if not isinstance(part, FilePart):
        return part
    media_type, data = part.media_type, InlineData(file.data)
    if "/" not in media_type:
        media_type = detect_image_type(file.data) or file.media_type or media_type
    return replace(part, data=bare_data(data) if bare else data, media_type=media_type)
