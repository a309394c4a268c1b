"""`metadata`: facts about a run that whoever watches it may read, such as how far it has come.

They lie in the run, which its tools and deferred work share. Outside any run there are none: reading gives `None` or
nothing, writing is a no-op.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

from chatagent.current import current_surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Metadata", "RunMetadata", "metadata"]


class RunMetadata:
    """The metadata of one run: JSON values by key."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(values or {})

    def get_key(self, key: str) -> Any:
        """Return a copy of the value under a key; `None` if there is none."""
        return copy.deepcopy(self._values.get(key))

    def current(self) -> dict[str, Any]:
        """Return a copy of everything."""
        return copy.deepcopy(self._values)

    def set(self, key: str, value: Any) -> None:
        """Put a value under a key."""
        self._values[key] = copy.deepcopy(value)

    def del_(self, key: str) -> None:
        """Remove a key; does nothing if it is not there."""
        self._values.pop(key, None)

    def append(self, key: str, value: Any) -> None:
        """Add a value to the list under a key; what is no list, or not there, becomes the list of this value."""
        kept = self._values.get(key)
        self._values[key] = [*(cast("list[Any]", kept) if isinstance(kept, list) else ()), copy.deepcopy(value)]

    def remove(self, key: str, value: Any) -> None:
        """Take all values that equal this one out of the list under a key; does nothing if it is no list."""
        kept = self._values.get(key)
        if isinstance(kept, list):
            self._values[key] = [each for each in cast("list[Any]", kept) if each != value]

    def increment(self, key: str, by: float = 1) -> None:
        """Add to the number under a key; one that is not there, and what is no number, counts as 0."""
        kept = self._values.get(key)
        self._values[key] = (kept if isinstance(kept, int | float) else 0) + by

    def decrement(self, key: str, by: float = 1) -> None:
        """Take from the number under a key; one that is not there counts as 0."""
        self.increment(key, -by)

    def update(self, values: Mapping[str, Any]) -> None:
        """Replace everything by these values."""
        self._values = copy.deepcopy(dict(values))


class Metadata:
    """The functions behind `chatagent.task.metadata`: those of the current run's `RunMetadata`."""

    __slots__ = ()

    def get_key(self, key: str) -> Any:
        """Return a copy of the value under a key; `None` if there is none."""
        return _of_run().get_key(key)

    def current(self) -> dict[str, Any]:
        """Return a copy of everything."""
        return _of_run().current()

    def set(self, key: str, value: Any) -> None:
        """Put a value under a key."""
        _of_run().set(key, value)

    def del_(self, key: str) -> None:
        """Remove a key; does nothing if it is not there."""
        _of_run().del_(key)

    def append(self, key: str, value: Any) -> None:
        """Add a value to the list under a key; what is no list, or not there, becomes the list of this value."""
        _of_run().append(key, value)

    def remove(self, key: str, value: Any) -> None:
        """Take all values that equal this one out of the list under a key; does nothing if it is no list."""
        _of_run().remove(key, value)

    def increment(self, key: str, by: float = 1) -> None:
        """Add to the number under a key; one that is not there, and what is no number, counts as 0."""
        _of_run().increment(key, by)

    def decrement(self, key: str, by: float = 1) -> None:
        """Take from the number under a key; one that is not there counts as 0."""
        _of_run().decrement(key, by)

    def update(self, values: Mapping[str, Any]) -> None:
        """Replace everything by these values."""
        _of_run().update(values)

    async def flush(self) -> None:
        """Return once what was written can be read elsewhere: at once, since it lies in the run."""

    async def refresh(self) -> None:
        """Return once what others have written can be read here: at once, since nobody else writes."""

    @property
    def parent(self) -> Metadata:
        """The metadata of the run that started this one; in one process that is this one."""
        return self

    @property
    def root(self) -> Metadata:
        """The metadata of the first run of all; in one process that is this one."""
        return self


def _of_run() -> RunMetadata:
    surroundings = current_surroundings()
    return RunMetadata() if surroundings is None else surroundings.metadata


metadata = Metadata()
"""Facts about the current run: `metadata.set`, `metadata.get_key`, `metadata.increment`, and more."""
