"""What the parts of one client share: its transport, its settings, and the calls that are under way."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CancelScope
from pydantic_core import PydanticSerializationError, ValidationError, to_jsonable_python

from chatagent.errors import InvalidArgumentError
from chatagent.protocol import ClientClosedError
from chatagent.ui import problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from chatagent.client.reader import WatchReader
    from chatagent.client.transport import AgentClientTransport
    from chatagent.clock import Clock
    from chatagent.protocol import AgentContract

__all__ = ["ClientContext", "as_json", "checked"]

ResultT = TypeVar("ResultT")


def as_json(value: object) -> Any:
    """Return a value as JSON data; pydantic models and other typed values are dumped.

    Raises:
        InvalidArgumentError: it is nothing that could go over a wire.
    """
    try:
        return to_jsonable_python(value, by_alias=True)
    except PydanticSerializationError as refused:
        problem = f"it is no JSON data, and nothing that pydantic makes some of: {refused}"
        raise InvalidArgumentError(argument="value", value=value, problem=problem) from refused


@contextmanager
def checked(argument: str, value: object) -> Generator[None]:
    """Say of an argument that a request cannot be made of which one it is, and what is wrong with it.

    Raises:
        InvalidArgumentError: the request that is made inside refuses it.
    """
    try:
        yield
    except ValidationError as refused:
        raise InvalidArgumentError(argument=argument, value=value, problem=problem_of(refused)) from refused


class ClientContext:
    """The settings of a client, and its calls.

    Args:
        transport: the way to the backend.
        clock: what back-off and polling wait on.
        contract: what values are checked by before they are sent.
        wait_timeout: real seconds that a wait may take; `None` for any time.
        new_request_id: makes the id of a request that was given none.
    """

    def __init__(
        self,
        transport: AgentClientTransport,
        *,
        clock: Clock,
        contract: AgentContract | None,
        wait_timeout: float | None,
        new_request_id: Callable[[], str],
    ) -> None:
        self.transport, self.clock, self.contract = transport, clock, contract
        self.wait_timeout, self.new_request_id = wait_timeout, new_request_id
        self.is_closed = False
        self.readers: set[WatchReader[Any]] = set()
        """The readers of watches that are open."""
        self._calls: set[CancelScope] = set()

    async def call(self, operation: str, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Ask the transport; a client that is closed meanwhile ends the call.

        Raises:
            ClientClosedError: the client is closed.
        """
        self.check_open(operation)
        scope = CancelScope()
        self._calls.add(scope)
        try:
            with scope:
                return await ask()
        finally:
            self._calls.discard(scope)
        raise ClientClosedError(operation=operation)

    def check_open(self, operation: str) -> None:
        """Refuse a call of a client that is closed.

        Raises:
            ClientClosedError: it is.
        """
        if self.is_closed:
            raise ClientClosedError(operation=operation)

    async def close(self) -> None:
        """Refuse later calls, end those under way, and leave the watches."""
        self.is_closed = True
        for scope in tuple(self._calls):
            scope.cancel()
        for reader in tuple(self.readers):
            await reader.close()
