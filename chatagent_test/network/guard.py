"""`deny_network`: no HTTP request that nobody mocked, in one context, one thread, or one harness's run.

Whether a request may pass is decided when it is sent, by the guard of the context that sends it. Tasks inherit the
context of whoever starts them, and so do `anyio.to_thread` and `asyncio.to_thread`; other threads do not.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, get_args

from chatagent.current import current_run, current_work
from chatagent.errors import InvalidArgumentError
from chatagent_test.network.errors import NetworkDeniedError
from chatagent_test.network.hook import TransportHook

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from types import TracebackType
    from typing import Self

__all__ = ["LOOPBACK", "NetworkGuard", "allow_network", "current_guard", "deny_network"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The hosts that a guard lets pass by default: a mock server of the test's own is there."""

Scope = Literal["context", "thread"]
"""Whom a guard watches: what runs in the context of the block, or whatever runs in its thread."""


class NetworkGuard:
    """Refuses HTTP requests that nobody mocked, while it is entered. Made by `deny_network`."""

    def __init__(self, *, allowed_hosts: Iterable[str], scope: Scope, parent: NetworkGuard | None = None) -> None:
        self.allowed_hosts = frozenset(host.lower().strip("[]") for host in allowed_hosts)
        """Hosts to which requests pass."""
        self.denied: list[NetworkDeniedError] = []
        """What was refused so far, in order, also if the code that asked has swallowed the error."""
        self._scope: Scope = scope
        self._parent = parent
        self._holds = 0
        self._lock = threading.Lock()
        self._entered: list[ExitStack] = []

    @property
    def is_active(self) -> bool:
        """Whether anybody has entered it; else it refuses nothing, wherever a context still knows it."""
        return self._holds > 0

    def __enter__(self) -> Self:
        """Begin to refuse. A guard may be entered again while it is entered."""
        stack = ExitStack()
        stack.enter_context(self.bound() if self._scope == "context" else self._in_thread())
        self._entered.append(stack)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let requests pass again."""
        self._entered.pop().close()

    @contextmanager
    def bound(self) -> Generator[None]:
        """Refuse in the current context, and in what is started in it, until the block ends."""
        with self._held():
            token = _guards.set((*_guards.get(), self))
            try:
                yield
            finally:
                # A fixture may end in another context than it began in. There is nothing to take back in that one.
                with suppress(ValueError):
                    _guards.reset(token)

    @contextmanager
    def _in_thread(self) -> Generator[None]:
        guards: list[NetworkGuard] = vars(_of_thread).setdefault("guards", [])
        guards.append(self)
        try:
            with self._held():
                yield
        finally:
            guards.remove(self)

    @contextmanager
    def _held(self) -> Generator[None]:
        _HOOK.hold()
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)
            _HOOK.release()

    def _count(self, change: int) -> None:
        with self._lock:
            self._holds += change

    def judge(self, request: Any) -> Callable[[], object] | None:
        """Return what refuses a request once it reaches the network; `None` if its host is allowed."""
        if request.url.host.lower() in self.allowed_hosts:
            return None
        denied = NetworkDeniedError(method=request.method, url=_shown(request.url), asked_by=_who_asks())

        def refuse() -> None:
            self.note(denied)
            raise denied

        return refuse

    def note(self, denied: NetworkDeniedError) -> None:
        """Keep what was refused, here and in the guard that this one was derived from."""
        self.denied.append(denied)
        if self._parent is not None:
            self._parent.note(denied)

    def derive(self, denied: list[NetworkDeniedError]) -> NetworkGuard:
        """Return a guard with the same rules that also puts what it refuses into a list of its own."""
        derived = NetworkGuard(allowed_hosts=self.allowed_hosts, scope="context", parent=self)
        derived.denied = denied
        return derived


class _Allowing:
    """Stands where a guard may stand, and lets everything pass."""


_guards: ContextVar[tuple[NetworkGuard | _Allowing, ...]] = ContextVar("chatagent_network_guards", default=())
"""The guards around the current context, the innermost last; some may have ended since it began."""
_of_thread = threading.local()


def current_guard() -> NetworkGuard | None:
    """Return the guard that watches the current context, or else the current thread."""
    for guard in reversed(_guards.get()):
        if isinstance(guard, _Allowing):
            return None
        if guard.is_active:
            return guard
    active = [each for each in getattr(_of_thread, "guards", ()) if each.is_active]
    return active[-1] if active else None


@contextmanager
def allow_network() -> Generator[None]:
    """Let requests pass in the current context, whatever guard is around it."""
    token = _guards.set((*_guards.get(), _Allowing()))
    try:
        yield
    finally:
        _guards.reset(token)


def deny_network(*, allowed_hosts: Iterable[str] = LOOPBACK, scope: Scope = "context") -> NetworkGuard:
    """Make every HTTP request through httpx or httpx2 that nobody mocked fail.

    Use it as a context manager, or give it to a harness: `mock_chat_agent(agent, network=deny_network(…))`. Harnesses
    whose run begins inside the block are under it too, unless they say `network="allow"`.

    Requests that another transport of the client answers (`MockTransport`, `ASGITransport`, one of your own) or that
    respx answers pass. `requests`, `urllib`, `aiohttp` and bare sockets are not seen.

    Args:
        allowed_hosts: hosts to which requests pass, exactly as they stand in the URL; loopback by default.
        scope: whom to watch. `"context"`: the block, the tasks that it starts and the threads that inherit its context.
            `"thread"`: in the thread that enters, everything whose context has no guard of its own, which is what a
            fixture needs, since the test need not run in the fixture's context.

    Raises:
        InvalidArgumentError: there is no such scope, or `allowed_hosts` is a single string.
    """
    if scope not in get_args(Scope):
        raise InvalidArgumentError(argument="scope", value=scope, problem=f"one of {', '.join(get_args(Scope))}")
    if isinstance(allowed_hosts, str):
        raise InvalidArgumentError(argument="allowed_hosts", value=allowed_hosts, problem="a list of hosts")
    return NetworkGuard(allowed_hosts=allowed_hosts, scope=scope)


def _judge(request: Any) -> Callable[[], object] | None:
    guard = current_guard()
    return None if guard is None else guard.judge(request)


_HOOK = TransportHook(_judge)


def _who_asks() -> str:
    work = current_work.get()
    if work is not None:
        return work
    return "code of the test" if current_run.get() is None else "code of the run, outside hooks and tools,"


def _shown(url: Any) -> str:
    """Return a URL without user, password and query, which may hold secrets."""
    shown = url.copy_with(username=None, password=None, query=None, fragment=None)
    return str(shown).rstrip("?")
