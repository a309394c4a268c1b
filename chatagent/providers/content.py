"""Prompt content in the forms that providers share: files as data URLs, outputs of tools as text or as parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from chatagent.model import (
    BareData,
    FileData,
    FilePart,
    ImagePart,
    InlineData,
    ProviderOptions,
    ReferenceData,
    TextPart,
    ToolResultOutput,
    UrlData,
    tagged_data,
    to_base64,
)
from chatagent.model.files import detect_image_type, parse_file_data
from chatagent.providers.requests import json_text, member_of

__all__ = [
    "as_file",
    "data_url",
    "media_type_of",
    "metadata_text",
    "output_parts",
    "output_text",
    "parts_of",
    "reference_of",
]

DENIED = "Tool execution denied."


def parts_of(content: str | Sequence[TextPart | ImagePart | FilePart]) -> Sequence[TextPart | FilePart]:
    """Return the content of a user message as parts; an image is a file."""
    if isinstance(content, str):
        return (TextPart(content),)
    return [as_file(part) if isinstance(part, ImagePart) else part for part in content]


def as_file(image: ImagePart) -> FilePart:
    """Return an image as a file."""
    return FilePart(image.image, image.media_type or "image", provider_options=image.provider_options)


def media_type_of(part: FilePart) -> str:
    """Return the full media type of a file; that of an image of no known kind is taken to be PNG."""
    if "/" in part.media_type and not part.media_type.endswith("/*"):
        return part.media_type
    data = tagged_data(part.data)
    detected = detect_image_type(data.data) if isinstance(data, InlineData) else None
    return detected or f"{part.media_type.partition('/')[0]}/png"


def data_url(media_type: str, data: InlineData) -> str:
    """Return inline data as a `data:` URL."""
    return f"data:{media_type};base64,{to_base64(data.data)}"


def metadata_text(options: ProviderOptions | None, provider: str, key: str) -> str | None:
    """Return a text that a provider gave with a part, and that it wants to see again; `None` if it is not there."""
    value = member_of(member_of(options, provider), key)
    return value if isinstance(value, str) else None


def output_text(output: ToolResultOutput) -> str | None:
    """Return the outcome of a tool call as text; `None` if it is a list of content items."""
    match output.type:
        case "text" | "error-text":
            return str(output.value)
        case "json" | "error-json":
            return json_text(output.value)
        case "execution-denied":
            return output.reason or DENIED
        case "content":
            return None


def output_parts(output: ToolResultOutput) -> Iterator[TextPart | FilePart | None]:
    """Yield the content items of an outcome as parts; `None` for an item of a kind that nobody knows."""
    for item in cast("Sequence[Mapping[str, object]]", output.value):
        yield _output_part(item)


def _output_part(item: Mapping[str, object]) -> TextPart | FilePart | None:
    kind = str(item.get("type"))
    options = cast("ProviderOptions | None", item.get("providerOptions"))
    if kind == "text":
        return TextPart(str(item.get("text", "")), provider_options=options)
    data = _output_data(kind, item)
    if data is None:
        return None
    default = "image" if kind.startswith("image") else "application/octet-stream"
    filename = item.get("filename")
    return FilePart(
        data,
        str(item.get("mediaType") or default),
        filename=filename if isinstance(filename, str) else None,
        provider_options=options,
    )


def _output_data(kind: str, item: Mapping[str, object]) -> BareData | FileData | None:
    """Return the data of a file among the content items, in one of the forms of either protocol version."""
    match kind:
        case "file" | "file-data" | "image-data" | "media":
            return parse_file_data(item.get("data"))
        case "file-url" | "image-url":
            return UrlData(str(item.get("url")))
        case "file-id" | "image-file-id":
            ids = item.get("fileId", item.get("id"))
            return ReferenceData(cast("Mapping[str, str]", ids) if isinstance(ids, Mapping) else {"": str(ids)})
        case _:
            return None


def reference_of(data: ReferenceData, provider: str) -> str | None:
    """Return the id under which a provider holds a file; one without a provider's name fits all."""
    return data.reference.get(provider, data.reference.get(""))
