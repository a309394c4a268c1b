"""File data, in the forms in which messages and models carry it.

Data is either bare (base64 text, bytes, or a `Url`) or tagged (`InlineData`, `UrlData`, `ReferenceData`, `TextData`).
A model of protocol v3 gets and gives the bare forms, one of v4 the tagged ones; callers may write either (rule 1.2).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, cast
from urllib.parse import unquote_to_bytes

from chatagent.errors import InvalidPromptError

__all__ = [
    "BareData",
    "FileData",
    "InlineData",
    "ReferenceData",
    "TextData",
    "Url",
    "UrlData",
    "bare_data",
    "detect_image_type",
    "file_data_to_wire",
    "is_url",
    "media_type_of_data_url",
    "parse_file_data",
    "split_data_url",
    "tagged_data",
    "to_base64",
    "to_bytes",
]


class Url(str):
    """A URL, where plain text would mean base64."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class InlineData:
    """The file itself: bytes, or their base64 text."""

    type: ClassVar[Literal["data"]] = "data"
    data: str | bytes


@dataclass(frozen=True, slots=True)
class UrlData:
    """Where the file can be fetched."""

    type: ClassVar[Literal["url"]] = "url"
    url: str


@dataclass(frozen=True, slots=True)
class ReferenceData:
    """The ids under which providers hold the file already, by provider name."""

    type: ClassVar[Literal["reference"]] = "reference"
    reference: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TextData:
    """A file that is plain text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


BareData = str | bytes | Url
"""Base64 text, bytes, or a URL. Plain text that reads as a URL is taken for one."""

FileData = InlineData | UrlData | ReferenceData | TextData
"""File data that says what it is."""


def tagged_data(data: BareData | FileData) -> FileData:
    """Return file data in its tagged form; a `data:` URL becomes inline data."""
    if isinstance(data, bytes):
        return InlineData(data)
    if isinstance(data, UrlData) or (isinstance(data, str) and (isinstance(data, Url) or is_url(data))):
        url = str(data.url if isinstance(data, UrlData) else data)
        return InlineData(split_data_url(url)[1]) if url.startswith("data:") else UrlData(url)
    return InlineData(data) if isinstance(data, str) else data


def bare_data(data: FileData) -> BareData | ReferenceData:
    """Return tagged file data in its bare form; a provider's reference has none, and stays as it is."""
    match data:
        case InlineData():
            return data.data
        case UrlData():
            return Url(data.url)
        case TextData():
            return base64.b64encode(data.text.encode()).decode()
        case ReferenceData():
            return data


def to_base64(data: str | bytes) -> str:
    """Return inline data as base64 text."""
    return data if isinstance(data, str) else base64.b64encode(data).decode()


def to_bytes(data: str | bytes) -> bytes:
    """Return inline data as bytes; base64 text may be of the URL-safe kind, and unpadded.

    Raises:
        InvalidPromptError: the text is no base64.
    """
    if isinstance(data, bytes):
        return data
    text = data.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as exc:
        msg = f"file data is no base64: {exc}"
        raise InvalidPromptError(msg) from exc


def is_url(text: str) -> bool:
    """Return whether plain text reads as a URL; base64 has no colon, so it never does."""
    scheme, colon, rest = text.partition(":")
    return bool(colon and rest) and scheme[:1].isalpha() and all(char.isalnum() or char in "+-." for char in scheme)


def split_data_url(url: str) -> tuple[str | None, str]:
    """Return the media type (`None` if it has none) and the base64 text of a `data:` URL.

    Raises:
        InvalidPromptError: it has no comma, so no data.
    """
    head, comma, body = url.removeprefix("data:").partition(",")
    if not comma:
        msg = f"{url[:80]!r} is no data URL: it has no comma, behind which the data stands"
        raise InvalidPromptError(msg)
    media_type = head.split(";", 1)[0].strip() or None
    if head.rstrip().endswith("base64"):
        return media_type, body
    return media_type, base64.b64encode(unquote_to_bytes(body)).decode()


def media_type_of_data_url(data: BareData | FileData) -> str | None:
    """Return the media type that a `data:` URL names; `None` for all other file data."""
    url = data.url if isinstance(data, UrlData) else data
    return split_data_url(url)[0] if isinstance(url, str) and url.startswith("data:") else None


_IMAGE_SIGNATURES: tuple[tuple[str, int, bytes], ...] = (
    ("image/gif", 0, b"GIF"),
    ("image/png", 0, b"\x89PNG"),
    ("image/jpeg", 0, b"\xff\xd8"),
    ("image/bmp", 0, b"BM"),
    ("image/tiff", 0, b"II*\x00"),
    ("image/tiff", 0, b"MM\x00*"),
    ("image/avif", 4, b"ftypavif"),
    ("image/heic", 4, b"ftypheic"),
    ("image/webp", 8, b"WEBP"),
)


def detect_image_type(data: str | bytes) -> str | None:
    """Return the media type that the first bytes of an image tell; `None` if they tell none."""
    head = data[:16] if isinstance(data, bytes) else _decoded_head(data)
    for media_type, offset, signature in _IMAGE_SIGNATURES:
        if head.startswith(signature, offset):
            return media_type
    return None


def _decoded_head(data: str) -> bytes:
    try:
        return to_bytes(data[:24])
    except InvalidPromptError:
        return b""


_TAGGED: dict[str, tuple[str, type]] = {
    "data": ("data", InlineData),
    "url": ("url", UrlData),
    "reference": ("reference", ReferenceData),
    "text": ("text", TextData),
}


def parse_file_data(value: object) -> BareData | FileData:
    """Read file data from its wire form; objects stay as they are.

    Raises:
        InvalidPromptError: it is none of the forms.
    """
    if isinstance(value, (str, bytes, InlineData, UrlData, ReferenceData, TextData)):
        return value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Mapping):
        source = cast("Mapping[str, object]", value)
        key, tagged = _TAGGED.get(str(source.get("type")), ("", None))
        if tagged is not None and key in source:
            return tagged(source[key])
    msg = (
        f"file data is {value!r:.200}: it must be base64 text, bytes, a URL, "
        "or one of the tagged forms `data`, `url`, `reference`, `text`"
    )
    raise InvalidPromptError(msg)


def file_data_to_wire(data: BareData | FileData) -> object:
    """Return the wire form of file data; bytes become base64 text."""
    match data:
        case str():
            return str(data)
        case bytes():
            return to_base64(data)
        case InlineData():
            return {"type": "data", "data": to_base64(data.data)}
        case UrlData():
            return {"type": "url", "url": data.url}
        case ReferenceData():
            return {"type": "reference", "reference": dict(data.reference)}
        case TextData():
            return {"type": "text", "text": data.text}
