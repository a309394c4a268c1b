"""`chat.local`: a record that belongs to a run, declared at module level, reached by attribute (rules N-35 to N-38)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from chatagent.agent.run import AgentRun, this_run
from chatagent.current import current_run
from chatagent.errors import ChatContextError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ChatLocal"]

T = TypeVar("T")


class _Slot:
    """One record of one run."""

    __slots__ = ("changed", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.changed = False


class ChatLocal(Generic[T]):
    """A record that belongs to the current run. Set it up in `on_boot`, which every run calls.

    Attributes are read and set on this object; before `init` reading one gives `None`.
    """

    def __init__(self, schema: type[T], local_id: str) -> None:
        object.__setattr__(self, "_schema", schema)
        object.__setattr__(self, "_id", local_id)

    def init(self, value: T | Mapping[str, Any]) -> None:
        """Store the run's record; it counts as unchanged.

        Args:
            value: an instance, or the fields of one.
        """
        schema, record = self._schema, cast("Any", value)
        if isinstance(value, Mapping) and schema is not dict:
            record = schema(**cast("Mapping[str, Any]", value))
        this_run("chat.local.init").state.local_records[self._id] = _Slot(copy.copy(record))

    def get(self) -> T:
        """Return a shallow copy of the record.

        Raises:
            ChatContextError: it was not initialised in this run.
        """
        slot = self._slot()
        if slot is None:
            raise self._uninitialised("get() was")
        return copy.copy(slot.value)

    def has_changed(self) -> bool:
        """Return whether an attribute was set since `init` or the last call of this."""
        slot = self._slot()
        if slot is None:
            return False
        changed, slot.changed = slot.changed, False
        return changed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        slot = self._slot()
        if slot is None:
            return None
        value: Any = slot.value
        return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else getattr(value, name)

    def __setattr__(self, name: str, value: Any) -> None:
        slot = self._slot()
        if slot is None:
            raise self._uninitialised(f"setting {name!r} was")
        changed = copy.copy(slot.value)
        if isinstance(changed, dict):
            changed[name] = value
        else:
            setattr(changed, name, value)
        slot.value, slot.changed = changed, True

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __contains__(self, name: object) -> bool:
        return name in self._fields()

    def _fields(self) -> dict[str, Any]:
        slot = self._slot()
        if slot is None:
            return {}
        value: Any = slot.value
        return (
            dict(cast("dict[str, Any]", value))
            if isinstance(value, dict)
            else dict(cast("dict[str, Any]", vars(value)))
        )

    def _slot(self) -> _Slot | None:
        run = current_run.get()
        return run.state.local_records.get(self._id) if isinstance(run, AgentRun) else None

    def _uninitialised(self, what: str) -> ChatContextError:
        error = ChatContextError(f"chat.local(id={self._id!r})")
        error.args = (
            f"chat.local(id={self._id!r}): {what} called before the record was initialised in this run; call init() in "
            "`on_boot`, which every run calls (`on_chat_start` is not called when a conversation goes on in a new run)",
        )
        return error
