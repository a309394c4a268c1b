"""A server that a script file tells what to answer, also as a program for tests in other languages (7.16)."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

from chatagent.errors import InvalidArgumentError, MissingExtraError
from chatagent_test.inference.errors import StrictInferenceError
from chatagent_test.inference.script_files.reading import LoadedScripts, load_scripts
from chatagent_test.inference.server import MockInferenceServer, MockModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent_test.inference.expectations import Expectation

__all__ = ["main", "register_scripts", "server_of"]


def register_scripts(server: MockInferenceServer, scripts: LoadedScripts) -> list[Expectation]:
    """Register everything that a script file expects; keep the handles as long as they matter.

    Raises:
        DuplicateExpectationError: a name is in use; the expectations before it are registered.
    """
    expectations: list[Expectation] = []
    for each in scripts.expectations:
        expectation = server.expect_response(each.name, each.matcher, each.answers)
        if each.times is None:
            expectation.always()
        elif each.times > 1:
            expectation.times(each.times)
        expectations.append(expectation)
    return expectations


def server_of(scripts: LoadedScripts, *, port: int = 0, listen: bool = True) -> MockInferenceServer:
    """Return a server that is set up as a script file says; enter it to start it.

    Args:
        scripts: what the file says.
        port: where it listens; by default the system chooses.
        listen: whether it listens at all.
    """
    file = scripts.file
    server = MockInferenceServer(
        None if file.models is None else [MockModel(model) for model in file.models],
        port=port,
        listen=listen,
        strict=file.strict,
        stream_mode=file.stream_mode,
        profile=file.profile,
        validate=file.validate_requests,
    )
    if file.text is not None:
        server.set_response(file.text)
    register_scripts(server, scripts)
    return server


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a script file until the process is told to stop.

    One line of JSON on standard output says where the server is; what was expected and did not come is told on standard
    error at the end, and makes the exit code 1. A file that is wrong makes it 2, and so does a port that cannot be had.
    """
    parser = argparse.ArgumentParser(
        prog="python -m chatagent_test.inference", description="A mock of the model providers' HTTP APIs."
    )
    parser.add_argument("--script", help="the script file (JSON or YAML); without one, the server echoes")
    parser.add_argument("--port", type=int, default=0, help="the port; by default the system chooses")
    given = parser.parse_args(arguments)
    try:
        scripts = LoadedScripts.echo() if given.script is None else load_scripts(given.script)
        server = server_of(scripts, port=given.port)
    except (InvalidArgumentError, MissingExtraError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    return _serve(server)


def _serve(server: MockInferenceServer) -> int:
    stopped = Event()

    def stop(number: int, frame: object) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(server)
            except OSError as exc:
                sys.stderr.write(f"{exc}\n")
                return 2
            where = {
                "url": server.url,
                "openai_base_url": server.openai_base_url,
                "anthropic_base_url": server.anthropic_base_url,
            }
            sys.stdout.write(json.dumps(where) + "\n")
            sys.stdout.flush()
            stopped.wait()
    except StrictInferenceError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0
