"""The files of an agent (rule CL-5)."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, cast

from chatagent.client.context import as_json, checked
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import UploadFileRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.client.context import ClientContext
    from chatagent.protocol import FileContent, FileInfo

__all__ = ["ClientFiles"]


class ClientFiles:
    """Uploads and reads files. They belong to the agent; a message refers to one by `chatagent-file:<file_id>`."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    async def upload(
        self,
        *,
        filename: str,
        media_type: str,
        body: bytes | AsyncIterable[bytes],
        metadata: Mapping[str, object] | None = None,
    ) -> FileInfo:
        """Store a file.

        Args:
            filename: its name.
            media_type: such as `application/pdf`.
            body: its bytes, whole or in pieces; if they break off, nothing is stored.
            metadata: what is kept beside it, as JSON.

        Raises:
            InvalidArgumentError: a name, a type or a body that is none.
        """
        if not isinstance(cast("object", body), bytes | bytearray | memoryview | AsyncIterable):  # untyped callers
            raise InvalidArgumentError(argument="body", value=body, problem="give bytes, or an async iterable of them")
        told = as_json(dict(metadata or {}))
        with checked("file", filename):
            request = UploadFileRequest(filename=filename, media_type=media_type, body=body, metadata=told)
        return await self._context.call("upload_file", lambda: self._context.transport.upload_file(request))

    async def read(self, file_id: str) -> FileContent:
        """Return a file with its bytes.

        Raises:
            StoredFileNotFoundError: there is none of this id.
        """
        return await self._context.call("read_file", lambda: self._context.transport.read_file(file_id))

    async def url(self, file_id: str) -> str | None:
        """Return a URL at which the file can be had; `None` if the backend makes none.

        Raises:
            StoredFileNotFoundError: there is none of this id.
        """
        return await self._context.call("create_file_url", lambda: self._context.transport.create_file_url(file_id))
