"""Block ids that are unique over a whole call (rule 5.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatagent.ids import IdGenerator

__all__ = ["BlockIds"]


class BlockIds:
    """The ids of one kind of block. The first use of an id keeps it, a later block of that id gets another one.

    Args:
        generate_id: makes the other ones.
    """

    __slots__ = ("_generate_id", "_used", "open")

    def __init__(self, generate_id: IdGenerator) -> None:
        self._generate_id = generate_id
        self._used: set[str] = set()
        self.open: dict[str, str] = {}
        """The open blocks: the model's id, and the unique one."""

    def start(self, model_id: str) -> str:
        """Open a block, and return its unique id."""
        unique = self._generate_id() if model_id in self._used else model_id
        self._used.add(unique)
        self.open[model_id] = unique
        return unique
