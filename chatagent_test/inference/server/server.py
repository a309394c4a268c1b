"""The mock inference server: one object that a test starts, tells what to answer, asks what came, and closes."""

from __future__ import annotations

import contextlib
import os
import weakref
from importlib import import_module
from typing import TYPE_CHECKING

import anyio

from chatagent.errors import MissingExtraError
from chatagent_test.inference.errors import ServerClosedError, ServerNotStartedError, StrictInferenceError
from chatagent_test.inference.expectations.classifying import as_classifier
from chatagent_test.inference.server.adjusting import Adjusting
from chatagent_test.inference.server.asgi import ASGIApp
from chatagent_test.inference.server.clients import DUMMY_KEY, ClientFactories
from chatagent_test.inference.server.core import Core
from chatagent_test.inference.server.expecting import Expecting
from chatagent_test.inference.server.host import Host
from chatagent_test.inference.server.options import check_options
from chatagent_test.inference.server.recorder import create_recorder
from chatagent_test.inference.server.requests import MAX_BODY_BYTES
from chatagent_test.inference.server.watching import Watching

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from chatagent_test.inference.server.models import MockModel
    from chatagent_test.inference.server.options import ServerOptions

__all__ = ["MockInferenceServer"]


class MockInferenceServer(Adjusting, Expecting, Watching, ClientFactories):
    """A model provider on a loopback port, and in process, with answers that a test decides.

    Enter it with `async with` or `with`. It runs on a thread of its own, so blocking clients, async clients on any loop
    and child processes can all be served, and every method may be called from any thread.

    Args:
        models: what `/v1/models` lists; `test-model` by default.
        required_auth: the key that inference requests need which no script answers.
        options: see `ServerOptions`.

    Raises:
        TypeError: there is no option of that name.
        InvalidArgumentError: an option has a value that it cannot have.
    """

    def __init__(
        self,
        models: Sequence[MockModel] | None = None,
        *,
        required_auth: str | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        check_options(options)
        self._port, self._listens = options.get("port", 0), options.get("listen", True)
        self._core = core = Core(
            as_classifier(options.get("classifier")),
            strict=options.get("strict", False),
            allow_echo=options.get("allow_echo", False),
            max_body_bytes=options.get("max_body_bytes", MAX_BODY_BYTES),
        )
        self._core.knobs.configure(options)
        self._core.recorder = create_recorder(options)
        if models is not None:
            self.set_models(models)
        self.set_required_auth(required_auth)

        def connect(host: Host) -> asyncio.Protocol:
            from chatagent_test.inference.server.connection import Connection

            return Connection(core, host)

        self._host = Host(connect)
        self._finalizer = weakref.finalize(self, _shut, core, self._host)
        self._app = ASGIApp(core, self._host)

    # Starting ----------------------------------------------------------------------------------------------------

    @classmethod
    async def start(cls, **options: Unpack[ServerOptions]) -> Self:
        """Start a server with one model, `test-model`; close it with `aclose`.

        Raises:
            OSError: the port cannot be had.
        """
        return cls(**options)._open()

    @classmethod
    async def start_with_models(cls, models: Sequence[MockModel], **options: Unpack[ServerOptions]) -> Self:
        """Start a server with these models."""
        return cls(models, **options)._open()

    @classmethod
    async def start_with_required_auth(
        cls, models: Sequence[MockModel], token: str, **options: Unpack[ServerOptions]
    ) -> Self:
        """Start a server with these models that asks for a key."""
        return cls(models, required_auth=token, **options)._open()

    def _open(self) -> Self:
        if self._core.is_closed:
            raise ServerClosedError
        if self._listens and self._host.port is None:
            _need_httptools()
            self._host.listen(self._port)
        return self

    def __enter__(self) -> Self:
        return self._open()

    async def __aenter__(self) -> Self:
        return self._open()

    # Where it is -------------------------------------------------------------------------------------------------

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:PORT`.

        Raises:
            ServerNotStartedError: it listens to no port.
        """
        if self._host.port is None:
            raise ServerNotStartedError
        return f"http://127.0.0.1:{self._host.port}"

    @property
    def url(self) -> str:
        """The origin with `/v1`."""
        return f"{self.origin}/v1"

    @property
    def openai_base_url(self) -> str:
        """What `openai` clients take as `base_url`."""
        return self.url

    @property
    def anthropic_base_url(self) -> str:
        """What `anthropic` clients take as `base_url`; they add `/v1/messages` themselves."""
        return self.origin

    @property
    def app(self) -> ASGIApp:
        """The same server as an ASGI application; it needs no port."""
        return self._app

    def environment(self) -> dict[str, str]:
        """Return the variables by which SDKs that are made without arguments find the server.

        They are `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY`, and `NO_PROXY`, so
        that a proxy of the machine is not asked for it. The keys are what `required_auth` asks for, or dummies.

        Raises:
            ServerNotStartedError: it listens to no port.
        """
        key = self._core.knobs.required_auth or DUMMY_KEY
        unproxied = ",".join(filter(None, [os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1"]))
        return {
            "OPENAI_BASE_URL": self.openai_base_url,
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.anthropic_base_url,
            "ANTHROPIC_API_KEY": key,
            "NO_PROXY": unproxied,
            "no_proxy": unproxied,
        }

    # Closing -----------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more requests."""
        return self._core.is_closed

    def problems(self) -> list[str]:
        """Return what a strict server raises at its close, as things stand."""
        return self._core.problems()

    def close(self) -> None:
        """Stop the server: open every barrier, give answers a second to end, break off the rest.

        Raises:
            StrictInferenceError: the server is strict, and something came that no script answers, or did not come that
                was expected. The server is closed all the same, and closing it again is harmless.
        """
        problems = self._begin_close()
        self._host.stop()
        self._close_clients()
        if problems:
            raise StrictInferenceError(problems)

    async def aclose(self) -> None:
        """Do the same without blocking the loop."""
        problems = self._begin_close()
        with anyio.CancelScope(shield=True):
            await self._host.stopped.wait()
            self._host.join()
            await self._aclose_clients()
        if problems:
            raise StrictInferenceError(problems)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _noting(error):
            self.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _noting(error):
            await self.aclose()

    def _begin_close(self) -> list[str]:
        if self._core.is_closed:
            self._host.begin_stop()
            return []
        problems = self._core.problems() if self._core.strict else []
        self._finalizer.detach()
        _begin_shut(self._core, self._host)
        return problems


@contextlib.contextmanager
def _noting(error: BaseException | None):
    """Let a test's own failure be the one that is seen, with what a strict server saw in its notes."""
    try:
        yield
    except StrictInferenceError as strict:
        if error is None:
            raise
        error.add_note(str(strict))


def _need_httptools() -> None:
    try:
        import_module("httptools")  # the socket server alone needs it
    except ImportError as exc:
        raise MissingExtraError(package="httptools", extra="test") from exc


def _begin_shut(core: Core, host: Host) -> None:
    with core.board.lock:
        core.is_closed = True
        core.board.changed()
    core.release_all()
    host.begin_stop()


def _shut(core: Core, host: Host) -> None:
    """Close a server that nobody closed, when it is collected or the interpreter exits."""
    _begin_shut(core, host)
    host.stop()
