"""What a thread knows of the agent's conversation, and when it takes it over (rule MP-25).

The agent tells it behind each turn. It counts once the thread has read as far on `.out`, and if the agent has seen all
that the thread shows: the data that clients have written, and the input of the generation that is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.service.chain import ChainWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent.agent import TurnReport
    from chatagent.protocol import ThreadModel
    from chatagent.ui import UIMessage

__all__ = ["AgentConversation"]


class AgentConversation:
    """The agent's side of one thread.

    Args:
        show: adds what clients are told of a message's tools.
    """

    def __init__(self, show: Callable[[UIMessage], UIMessage]) -> None:
        self.messages: Sequence[UIMessage] | None = None
        """The conversation as the last turn has left it; `None` before the first one here."""
        self._settled: tuple[int, Sequence[UIMessage]] | None = None
        """One that was not compared yet, and the number on `.out` from which on it counts."""
        self._watch = ChainWatch(show)
        self._unsent: set[str] = set()
        self._tool_data: set[int] = set()
        """The numbers of the actions that bring data of clients', and that the agent has not dealt with."""
        self._tool_data_open = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to come: no data is on its way to the agent, and no conversation waits to be compared."""
        return not self._tool_data_open and self._settled is None

    def never_gets(self, message_id: str) -> None:
        """Take it that an input of the thread never reached the agent."""
        self._unsent.add(message_id)

    def gets_tool_data(self) -> None:
        """Take it that data which the thread shows is on its way to the agent."""
        self._tool_data_open += 1

    def lost_tool_data(self) -> None:
        """Take it that the data never reached the agent."""
        self._tool_data_open -= 1

    def numbered_tool_data(self, in_seq: int) -> None:
        """Take the number of the record on `.in` that brings the data."""
        self._tool_data.add(in_seq)

    def settled(self, report: TurnReport) -> None:
        """Take the conversation as a turn or an action has left it."""
        self.messages = report.chain
        if report.in_seq in self._tool_data:
            self._tool_data.discard(report.in_seq)
            self._tool_data_open -= 1
        self._settled = (-1 if report.out_seq is None else report.out_seq), report.chain

    def taken_over(self, model: ThreadModel, *, out_seq: int) -> tuple[UIMessage, ...] | None:
        """Return the messages that the thread is to have instead of its own, where the agent has changed them.

        Args:
            model: the thread.
            out_seq: the number on `.out` up to which it has read.

        Returns:
            The messages; `None` if they say the same, or nothing can be said now: the next turn's end brings more.
        """
        if self._settled is None or out_seq < self._settled[0]:
            return None
        chain, self._settled = self._settled[1], None
        active = model.active_run
        if self._tool_data_open or (active is not None and active.status == "running"):
            return None  # the agent has not seen all that the thread shows
        return self._watch.taken_over(model, chain, unsent=frozenset(self._unsent))
