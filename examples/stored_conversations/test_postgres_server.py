"""The PostgreSQL example says why it is skipped, and leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from stored_conversations import postgres_server
from stored_conversations.postgres_server import NoServerError, a_postgres_server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_without_a_server_it_says_where_it_looked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "DEBIAN", folder / "none")
    monkeypatch.setenv("PATH", str(folder))

    with pytest.raises(NoServerError, match=r"^no PostgreSQL server is installed: neither below .*none nor on PATH"):
        a_postgres_server().__enter__()


def test_root_without_a_user_for_it_is_told_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_user(name: str) -> Any:
        raise KeyError(name)

    monkeypatch.setattr(postgres_server, "_binaries", lambda: folder)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", no_such_user)

    with pytest.raises(
        NoServerError, match=r"^PostgreSQL does not run as root, and there is no user postgres or nobody"
    ):
        a_postgres_server().__enter__()


def test_what_fails_leaves_no_folder_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(postgres_server, "_binaries", lambda: folder)
    broken = folder / "initdb"
    broken.write_text("#!/bin/sh\necho no space left\nexit 1\n")
    broken.chmod(0o755)

    with pytest.raises(RuntimeError, match=r"initdb failed:\nno space left\n$"):
        a_postgres_server().__enter__()

    assert [each.name for each in folder.iterdir()] == ["initdb"]
