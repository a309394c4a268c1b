"""What the runs of a harness may ask the network for, and whether the test has heard of what was refused."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from chatagent.errors import InvalidArgumentError
from chatagent_test.network.guard import NetworkGuard, allow_network, current_guard, deny_network

if TYPE_CHECKING:
    from collections.abc import Generator

    from chatagent_test.network.errors import NetworkDeniedError

__all__ = ["NetworkOption", "RunNetwork"]

NetworkOption = Literal["allow", "deny"] | NetworkGuard | None


class RunNetwork:
    """The network as the runs of one harness have it.

    Args:
        option: `"allow"`, `"deny"`, a guard of the test's own, or `None` for whatever guard the run is started under.

    Raises:
        InvalidArgumentError: it is none of these.
    """

    def __init__(self, option: NetworkOption) -> None:
        # Callers may be untyped.
        if option not in ("allow", "deny", None) and not isinstance(option, NetworkGuard):  # pyright: ignore[reportUnnecessaryIsInstance]
            problem = "'allow', 'deny', or what deny_network(…) returns"
            raise InvalidArgumentError(argument="network", value=option, problem=problem)
        self._option = deny_network() if option == "deny" else option
        self._denied: list[NetworkDeniedError] = []
        self._told = 0

    @contextmanager
    def around_run(self) -> Generator[None]:
        """Let the rules hold in the current context, which is that of a run, until the run is over."""
        if self._option == "allow":
            with allow_network():
                yield
            return
        guard = self._option if isinstance(self._option, NetworkGuard) else current_guard()
        if guard is None:
            yield
            return
        with guard.derive(self._denied).bound():
            yield

    def take_untold(self) -> NetworkDeniedError | None:
        """Return the first refusal since the last call; the test then has heard of it and of those behind it."""
        untold = self._denied[self._told :]
        self._told = len(self._denied)
        return untold[0] if untold else None
