"""`locals`: values that belong to one run, injected before it starts and reached by key (rules X-40 to X-42).

The values lie in the run's own store, which its tools and deferred work share. Outside any run there is none: reading
gives `None`, writing is a no-op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from chatagent.current import current_run
from chatagent.errors import InvalidArgumentError, LocalNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LocalKey", "LocalValues", "Locals", "locals"]

T = TypeVar("T")


class LocalKey(Generic[T]):
    """The name of a value that belongs to a run; two keys with the same id name the same value."""

    __slots__ = ("id",)

    def __init__(self, local_id: str) -> None:
        self.id = local_id

    def __repr__(self) -> str:
        return f"LocalKey({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalKey) and cast("LocalKey[Any]", other).id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class LocalValues:
    """The values of one run. `setup_locals` of the harness gets this object."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {} if values is None else values

    def set(self, key: LocalKey[T], value: T) -> T:
        """Store a value and return it."""
        self._values[_id_of(key)] = value
        return value

    def get(self, key: LocalKey[T]) -> T | None:
        """Return the value, or `None` if it was never set."""
        return self._values.get(_id_of(key))

    def get_or_throw(self, key: LocalKey[T]) -> T:
        """Return the value.

        Raises:
            LocalNotFoundError: it was never set; `None`, `0` and `""` are values like any other.
        """
        local_id = _id_of(key)
        if local_id not in self._values:
            raise LocalNotFoundError(local_id)
        return self._values[local_id]

    def __contains__(self, key: LocalKey[Any]) -> bool:
        return key.id in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)


def _id_of(key: LocalKey[Any]) -> str:
    try:
        return key.id
    except AttributeError:
        problem = "a key, which `locals.create(id, type)` makes once, at module level"
        raise InvalidArgumentError(argument="key", value=key, problem=problem) from None


class Locals:
    """The functions behind `chatagent.locals`."""

    __slots__ = ()

    @overload
    def create(self, id: str, type: type[T]) -> LocalKey[T]: ...
    @overload
    def create(self, id: str) -> LocalKey[Any]: ...
    def create(self, id: str, type: type[T] | None = None) -> LocalKey[Any]:
        """Make a key.

        Args:
            id: names the value; keys with the same id name the same value.
            type: the value's type, for the type checker; nothing is checked at run time, so that a test can set a fake.
        """
        del type
        return LocalKey(id)

    def get(self, key: LocalKey[T]) -> T | None:
        """Return the current run's value; `None` if it was never set, and outside any run."""
        run = current_run.get()
        return None if run is None else LocalValues(run.local_values).get(key)

    def get_or_throw(self, key: LocalKey[T]) -> T:
        """Return the current run's value.

        Raises:
            LocalNotFoundError: it was never set, or there is no current run.
        """
        run = current_run.get()
        if run is None:
            raise LocalNotFoundError(_id_of(key))
        return LocalValues(run.local_values).get_or_throw(key)

    def set(self, key: LocalKey[T], value: T) -> T:
        """Store a value for the rest of the current run and return it; outside any run nothing is stored."""
        run = current_run.get()
        return value if run is None else LocalValues(run.local_values).set(key, value)


locals = Locals()
"""Values that belong to the current run: `locals.create`, `locals.get`, `locals.get_or_throw`, `locals.set`."""
