"""A PostgreSQL server for one test session: on a directory of its own, reached by a unix socket in it, then gone.

It uses the binaries that are installed (Debian's lie in `/usr/lib/postgresql/VERSION/bin`) and touches no server that
runs already. PostgreSQL refuses to work for root, so for root it runs as the user `postgres`, or else `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

DEBIAN = Path("/usr/lib/postgresql")
USERS = ("postgres", "nobody")
LIMIT = 60.0
"""Seconds that making, starting and stopping the server may take, each."""


class NoServerError(Exception):
    """There can be no server here; the text says why."""


@contextmanager
def a_postgres_server() -> Generator[str]:
    """Start a server, and stop it at the end; yields how to connect.

    Raises:
        NoServerError: PostgreSQL is not installed, or root has no user to run it as.
    """
    binaries, account = _binaries(), _somebody_else()
    # Short, since the path of a socket must be; and outside of pytest's folders, which are their owner's alone.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        data, log = folder / "data", folder / "log"
        _run([binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"], account)
        settings = f"-k {folder} -c listen_addresses= -c fsync=off"
        _run([binaries / "pg_ctl", "-D", data, "-l", log, "-o", settings, "-w", "start"], account)
        try:
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            _run([binaries / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop"], account)
    finally:
        shutil.rmtree(folder)


def _binaries() -> Path:
    """Return the folder with the programs of the newest PostgreSQL."""
    versions = [folder for folder in DEBIAN.glob("*/bin") if folder.parent.name.isdecimal()]
    folders = sorted(versions, key=lambda folder: int(folder.parent.name), reverse=True)
    found = shutil.which("pg_ctl")
    if found is not None:
        folders.append(Path(found).resolve().parent)
    for folder in folders:
        if all((folder / name).is_file() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    raise NoServerError(f"no PostgreSQL server is installed: neither below {DEBIAN} nor on PATH (initdb, pg_ctl)")


def _somebody_else() -> pwd.struct_passwd | None:
    """Return the user to run programs as, if root is running this."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoServerError(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)} to run it as")


def _run(command: Sequence[str | Path], account: pwd.struct_passwd | None) -> None:
    """Run one program to its end; its output goes to a file, since a server that it starts keeps it open."""
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                [str(each) for each in command],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
                check=False,
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else [],
            )
        except PermissionError as exc:
            raise NoServerError(f"root may not run {command[0]} as another user here: {exc}") from exc
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{command[0]} failed:\n{output.read().decode(errors='replace')}")
