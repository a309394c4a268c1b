"""Clients of the providers' SDKs, set up for a server: base URL, a dummy key, no retries.

The SDKs are imported when such a client is asked for, and by nothing else here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import MissingExtraError

if TYPE_CHECKING:
    import anthropic
    import openai

    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.host import Host
    from chatagent_test.inference.transport import HTTPLibrary, Interception, Others

__all__ = ["ClientFactories"]

DUMMY_KEY = "test-key"
IN_PROCESS_ORIGIN = "http://mock-inference.invalid"


class ClientFactories:
    """Makes clients of this server, and closes them with it. Each takes what the SDK's class takes."""

    _core: Core
    _host: Host

    def openai_client(self, **options: Any) -> openai.OpenAI:
        """Return an `openai.OpenAI`; without a port, it talks to the server in process."""
        return self._client("openai", "OpenAI", f"{self._origin}/v1", options)

    def async_openai_client(self, **options: Any) -> openai.AsyncOpenAI:
        """Return an `openai.AsyncOpenAI`."""
        return self._client("openai", "AsyncOpenAI", f"{self._origin}/v1", options)

    def anthropic_client(self, **options: Any) -> anthropic.Anthropic:
        """Return an `anthropic.Anthropic`."""
        return self._client("anthropic", "Anthropic", self._origin, options)

    def async_anthropic_client(self, **options: Any) -> anthropic.AsyncAnthropic:
        """Return an `anthropic.AsyncAnthropic`."""
        return self._client("anthropic", "AsyncAnthropic", self._origin, options)

    def transport(self, library: HTTPLibrary = "httpx2") -> Any:
        """Return a transport for `httpx2.Client` (or `httpx.Client`) that reaches this server in process.

        Answers stream as over a socket, whatever host the client's URL names. A read timeout of the client holds.

        Args:
            library: whose transport.

        Raises:
            MissingExtraError: the library is not installed.
        """
        return self._transport(library, is_async=False)

    def async_transport(self, library: HTTPLibrary = "httpx2") -> Any:
        """Return the same for `AsyncClient`, on asyncio and on trio."""
        return self._transport(library, is_async=True)

    def intercept(self, *origins: str, others: Others = "pass") -> Interception:
        """Lead requests of `httpx` and `httpx2` clients that others build to this server, within a `with` block.

        Clients with a transport of their own are not seen. While it is on it holds for the whole process, but for
        these origins alone.

        Args:
            origins: such as `https://api.openai.com`; that one and Anthropic's by default.
            others: `"refuse"` has requests to all other origins fail, so that nothing reaches a network.

        Returns:
            A context manager. Entering it raises `OriginTakenError` if one of the origins is intercepted already.
        """
        from chatagent_test.inference.transport import PROVIDER_ORIGINS, Interception

        return Interception(self._core, self._host, origins or PROVIDER_ORIGINS, others)

    def _transport(self, library: HTTPLibrary, *, is_async: bool) -> Any:
        from chatagent_test.inference.transport import create_transport

        return create_transport(self._core, self._host, library=library, is_async=is_async)

    @property
    def _origin(self) -> str:
        return IN_PROCESS_ORIGIN if self._host.port is None else f"http://127.0.0.1:{self._host.port}"

    def _client(self, package: str, name: str, base_url: str, options: dict[str, Any]) -> Any:
        sdk = _imported(package)
        settings = {"base_url": base_url, "api_key": DUMMY_KEY, "max_retries": 0, **options}
        if "http_client" not in options and "base_url" not in options:
            settings["http_client"] = self._http_client(sdk, is_async=name.startswith("Async"))
        client = getattr(sdk, name)(**settings)
        self._clients().append(client)
        return client

    def _http_client(self, sdk: Any, *, is_async: bool) -> Any:
        """Return the SDK's own kind of HTTP client: in process without a port, and else without certificates.

        To read the certificates takes an SDK longer than all else, and nothing here speaks TLS.
        """
        make = sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient
        if self._host.port is None:
            return make(transport=self._transport("httpx2", is_async=is_async))
        return make(verify=False)

    def _clients(self) -> list[Any]:
        return self.__dict__.setdefault("_made_clients", [])

    def _close_clients(self) -> None:
        for client in self._clients():
            if not _is_async(client):
                client.close()

    async def _aclose_clients(self) -> None:
        self._close_clients()
        for client in self._clients():
            if _is_async(client):
                await client.close()


def _is_async(client: object) -> bool:
    return type(client).__name__.startswith("Async")


def _imported(package: str, *, extra: str | None = None) -> Any:
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError as exc:
        raise MissingExtraError(package=package, extra=extra or package) from exc
