"""Requests of clients that the code under test builds for itself, led to a mock server instead of the network.

While an interception is on, the default transports of `httpx` and `httpx2` ask it first. It takes the requests to its
origins and lets all others through, so a mock of another library below goes on working. The hook and its list of
interceptions live on the transport classes, and are gone with the last interception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from chatagent.errors import InvalidArgumentError, MissingExtraError
from chatagent_test.inference.errors import OriginTakenError
from chatagent_test.inference.transport.exchange import HTTPLibrary, import_library
from chatagent_test.inference.transport.transports import create_transport

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.host import Host

__all__ = ["PROVIDER_ORIGINS", "Interception", "Others"]

_LIBRARIES: tuple[HTTPLibrary, ...] = ("httpx2", "httpx")

PROVIDER_ORIGINS = ("https://api.openai.com", "https://api.anthropic.com")

Others: TypeAlias = Literal["pass", "refuse"]
"""What becomes of requests to other origins: they go where they would have gone, or fail."""


class Interception:
    """Leads requests to some origins to a server, as long as it is entered.

    It holds in the whole process, since clients may be built and used on any thread; so no two of them may be on for
    one origin at a time.
    """

    def __init__(self, core: Core, host: Host, origins: tuple[str, ...], others: Others) -> None:
        if others not in get_args(Others):
            raise InvalidArgumentError(argument="others", value=others, problem="it is 'pass' or 'refuse'")
        self.origins, self.others = tuple(map(_checked_origin, origins)), others
        self._core, self._host = core, host
        self._hooks: list[_Hook] = []

    def transport(self, library: HTTPLibrary, *, is_async: bool) -> Any:
        """Return what asks the server."""
        return create_transport(self._core, self._host, library=library, is_async=is_async)

    def __enter__(self) -> Self:
        try:
            for library in _LIBRARIES:
                for is_async in (False, True):
                    self._hook_into(library, is_async=is_async)
        except BaseException:
            self._unhook()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unhook()

    def _hook_into(self, library: HTTPLibrary, *, is_async: bool) -> None:
        try:
            http = import_library(library)
        except MissingExtraError:
            return  # what is not installed asks nobody
        hook = _Hook.on(http, library, is_async=is_async)
        hook.add(self)
        self._hooks.append(hook)

    def _unhook(self) -> None:
        while self._hooks:
            self._hooks.pop().remove(self)


class _Hook:
    """The method of one transport class, and the interceptions that it asks first."""

    def __init__(self, owner: Any, name: str, library: HTTPLibrary, http: Any) -> None:
        self._owner, self._name, self._http = owner, name, http
        self._library: HTTPLibrary = library
        self._original: Callable[..., Any] = getattr(owner, name)
        self._interceptions: list[Interception] = []

    @classmethod
    def on(cls, http: Any, library: HTTPLibrary, *, is_async: bool) -> _Hook:
        """Return the hook of a library's default transport, put in place if it is not there yet."""
        owner = http.AsyncHTTPTransport if is_async else http.HTTPTransport
        name = "handle_async_request" if is_async else "handle_request"
        there: _Hook | None = getattr(getattr(owner, name), "mock_inference_hook", None)
        if there is not None:
            return there
        hook = cls(owner, name, library, http)
        method: Any = hook._async_method() if is_async else hook._method()
        method.mock_inference_hook = hook
        setattr(owner, name, method)
        return hook

    def add(self, interception: Interception) -> None:
        for origin in interception.origins:
            if any(origin in other.origins for other in self._interceptions):
                raise OriginTakenError(origin=origin)
        self._interceptions.append(interception)

    def remove(self, interception: Interception) -> None:
        self._interceptions.remove(interception)
        if not self._interceptions:
            setattr(self._owner, self._name, self._original)

    def _method(self) -> Callable[..., Any]:
        def handle_request(transport: Any, request: Any) -> Any:
            taken = self._taken(request)
            if taken is None:
                return self._original(transport, request)
            return taken.transport(self._library, is_async=False).handle_request(request)

        return handle_request

    def _async_method(self) -> Callable[..., Any]:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            taken = self._taken(request)
            if taken is None:
                return await self._original(transport, request)
            return await taken.transport(self._library, is_async=True).handle_async_request(request)

        return handle_async_request

    def _taken(self, request: Any) -> Interception | None:
        origin = _origin_of(request.url)
        for interception in self._interceptions:
            if origin in interception.origins:
                return interception
        if any(interception.others == "refuse" for interception in self._interceptions):
            text = f"{origin} is not intercepted, and requests to other origins are refused"
            raise self._http.ConnectError(text, request=request)
        return None


def _origin_of(url: Any) -> str:
    port = f":{url.port}" if url.port is not None else ""
    return f"{url.scheme}://{url.host}{port}"


def _checked_origin(origin: str) -> str:
    scheme, separator, rest = origin.partition("://")
    if scheme not in ("http", "https") or not separator or not rest or "/" in rest:
        problem = "give scheme and host only, such as https://api.openai.com"
        raise InvalidArgumentError(argument="origins", value=origin, problem=problem)
    return origin.lower()
