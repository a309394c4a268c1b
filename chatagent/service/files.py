"""Files of the agent: the `FileStore` protocol, and stores in memory and in a folder (MP-21).

A file belongs to the agent, not to a thread. A message refers to one by a `file` part with a `chatagent-file:` URL,
which the runtime turns into the bytes when it shows the message to a model.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio.to_thread

from chatagent.protocol import FileContent, FileInfo, StoredFileNotFoundError

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["DirectoryFileStore", "FileStore", "InMemoryFileStore"]

_FILE_ID: Final = re.compile(r"[\w-]{1,128}")


class FileStore(Protocol):
    """Where files are. Implement these methods; inherit from nothing."""

    async def save(self, content: FileContent) -> None:
        """Store a file under its id, whole or not at all."""
        ...

    async def load(self, file_id: str) -> FileContent:
        """Return a file.

        Raises:
            StoredFileNotFoundError: there is none of this id.
        """
        ...

    async def url(self, file_id: str) -> str | None:
        """Return a URL at which clients can have the file; `None` if the store makes none.

        Raises:
            StoredFileNotFoundError: there is none of this id.
        """
        ...


class InMemoryFileStore:
    """A `FileStore` in memory; it dies with its process, and makes no URLs."""

    def __init__(self) -> None:
        self._files: dict[str, FileContent] = {}

    async def save(self, content: FileContent) -> None:
        """Store a file."""
        self._files[content.info.file_id] = content

    async def load(self, file_id: str) -> FileContent:
        """Return a file."""
        content = self._files.get(file_id)
        if content is None:
            raise StoredFileNotFoundError(file_id=file_id)
        return content

    async def url(self, file_id: str) -> str | None:
        """Return `None`, if there is such a file."""
        await self.load(file_id)
        return None


class DirectoryFileStore:
    """A `FileStore` in a folder: for each file its bytes, and beside them what is known of it as JSON.

    Args:
        folder: the folder; it is made if it is not there.
        base_url: what the URLs of files begin with, if something serves the folder's files under their ids.
    """

    def __init__(self, folder: str | PathLike[str], *, base_url: str | None = None) -> None:
        self._folder, self._base_url = Path(folder), base_url

    async def save(self, content: FileContent) -> None:
        """Store a file: the bytes first, so that what is known of is there."""
        await anyio.to_thread.run_sync(self._save, content)

    async def load(self, file_id: str) -> FileContent:
        """Return a file."""
        return await anyio.to_thread.run_sync(self._load, file_id)

    async def url(self, file_id: str) -> str | None:
        """Return the file's URL, if the store was told how they begin."""
        await anyio.to_thread.run_sync(self._info, file_id)
        return None if self._base_url is None else f"{self._base_url.rstrip('/')}/{file_id}"

    def _save(self, content: FileContent) -> None:
        body, info = self._paths(content.info.file_id)
        self._folder.mkdir(parents=True, exist_ok=True)
        body.write_bytes(content.body)
        unfinished = info.with_suffix(".new")
        unfinished.write_text(content.info.model_dump_json(by_alias=True, exclude_unset=True), encoding="utf-8")
        unfinished.replace(info)

    def _load(self, file_id: str) -> FileContent:
        info = self._info(file_id)
        return FileContent(info=info, body=self._paths(file_id)[0].read_bytes())

    def _info(self, file_id: str) -> FileInfo:
        try:
            text = self._paths(file_id)[1].read_text(encoding="utf-8")
        except FileNotFoundError:
            raise StoredFileNotFoundError(file_id=file_id) from None
        return FileInfo.model_validate_json(text)

    def _paths(self, file_id: str) -> tuple[Path, Path]:
        if not _FILE_ID.fullmatch(file_id):
            raise StoredFileNotFoundError(file_id=file_id)  # an id of ours names no path outside the folder
        return self._folder / file_id, self._folder / f"{file_id}.json"
