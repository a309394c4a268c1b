"""Uploads: what was accepted, and how often it was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.inference.server.models import KEPT_UPLOAD_BYTES, StorageUpload

if TYPE_CHECKING:
    from chatagent_test.inference.server.knobs import Knobs
    from chatagent_test.inference.server.requests import Request
    from chatagent_test.inference.waiting import Board

__all__ = ["StorageRoute"]


class StorageRoute:
    """`POST /v1/storage` (1.9.4). It stands beside the request log."""

    def __init__(self, board: Board, knobs: Knobs) -> None:
        self._board, self._knobs = board, knobs
        self._uploads: list[StorageUpload] = []
        self.attempts = 0

    def upload(self, request: Request) -> ScriptedResponse:
        """Take an upload, or refuse it."""
        with self._board.lock:
            self.attempts += 1
            if self._knobs.storage_unauthorized:
                return ScriptedResponse.json(401, {"error": "Invalid or expired credentials (mock)"})
            size, path = len(request.body), request.header("x-storage-path") or ""
            body = request.body if size <= KEPT_UPLOAD_BYTES else b""
            self._uploads.append(StorageUpload(path, size, body, request.header("authorization")))
        receipt = {"bucket": "mock-bucket", "path": path, "size": size}
        return ScriptedResponse.json(200, {**receipt, "content_type": "application/octet-stream", "generation": 1})

    def uploads(self) -> list[StorageUpload]:
        """Return what was accepted, in order."""
        with self._board.lock:
            return list(self._uploads)
