"""As much of a run as the rooms below the agent may ask for."""

from __future__ import annotations

from typing import Any

from chatagent.ids import random_id
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
        self.new_id = random_id
        self.store: Any = None
        self.in_turn = in_turn
