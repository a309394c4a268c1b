"""What the network guard raises.

```text
HarnessError
└── NetworkDeniedError              an HTTP request that nobody mocked (AssertionError)
```
"""

from __future__ import annotations

from chatagent.errors import HarnessError

__all__ = ["NetworkDeniedError"]


class NetworkDeniedError(HarnessError, AssertionError):
    """Code under a network guard asked for a URL that nobody mocked; nothing was sent, no connection was opened.

    It is no `OSError` and none of the HTTP client's errors, so that neither a client's retries nor a fallback for a
    service that is down take it for one.
    """

    def __init__(self, *, method: str, url: str, asked_by: str) -> None:
        super().__init__(
            f"{method} {url} was not mocked, and the network is denied here; {asked_by} asked for it. Mock it (a "
            "transport of the client, respx, a server on loopback), or allow its host: "
            "deny_network(allowed_hosts=[…])"
        )
        self.method, self.url, self.asked_by = method, url, asked_by
