"""`mock.files`: the files of the agent, in memory (rules FL-1 to FL-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import FileContent, FileInfo, StoredFileNotFoundError
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.protocol import UploadFileRequest
    from chatagent_test.transport.store import MockStore

__all__ = ["MockFiles"]


class MockFiles:
    """The files that the backend holds."""

    def __init__(self, store: MockStore, *, has_urls: bool) -> None:
        self._store, self._has_urls = store, has_urls

    def add(
        self,
        *,
        filename: str,
        media_type: str,
        body: bytes,
        file_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> FileInfo:
        """Store a file, as if somebody had uploaded it; an id that is there already is replaced."""
        info = FileInfo(
            file_id=self._store.ids.take("file", file_id),
            filename=filename,
            media_type=media_type,
            size_bytes=len(body),
            metadata=json_value(dict(metadata or {})),
            created_at=self._store.now(),
        )
        self._store.files[info.file_id] = FileContent(info=info, body=bytes(body))
        return info.model_copy(deep=True)

    def remove(self, file_id: str) -> None:
        """Delete a file.

        Raises:
            StoredFileNotFoundError: there is none of this id.
        """
        self.read(file_id)
        del self._store.files[file_id]

    # For the transport --------------------------------------------------------------------------------------------

    async def upload(self, request: UploadFileRequest) -> FileInfo:
        """Store what a client uploads; a body that breaks off stores nothing."""
        body = request.body
        if not isinstance(body, bytes | bytearray | memoryview):
            body = b"".join([piece async for piece in body])
        return self.add(
            filename=request.filename, media_type=request.media_type, body=bytes(body), metadata=request.metadata
        )

    def read(self, file_id: str) -> FileContent:
        """Return a file."""
        content = self._store.files.get(file_id)
        if content is None:
            raise StoredFileNotFoundError(file_id=file_id)
        return content.model_copy(deep=True)

    def url(self, file_id: str) -> str | None:
        """Return a URL of a file, if the mock makes some."""
        self.read(file_id)
        return f"mock://files/{file_id}" if self._has_urls else None
