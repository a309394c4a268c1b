"""As much of a run as the rooms below the agent may ask for."""

from __future__ import annotations

import itertools
from typing import Any

from chatagent.tasks import TaskSet
from chatagent.waiting import Ledger
from chatagent_test.clock import VirtualClock


class BareRun:
    """A run with a clock, tasks, locals and ids, and nothing to do."""

    def __init__(self, *, clock: Any = None, in_turn: bool = False) -> None:
        self.clock: Any = clock or VirtualClock()
        self.ledger = Ledger()
        self.tasks = TaskSet(self.ledger)
        self.local_values: dict[str, Any] = {}
        numbers = itertools.count()
        self.new_id = lambda: f"made-{next(numbers)}"
        self.store: Any = None
        self.surroundings: Any = None
        self.in_turn = in_turn

    def model_called(self, model: Any, options: Any) -> None:
        """Nobody looks at it."""
