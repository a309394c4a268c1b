"""The handle on a tool call that waits for the client (rules PA-1 to PA-7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.client.context import as_json
from chatagent.client.run import RunHandle
from chatagent.protocol import check_answer, input_contract

if TYPE_CHECKING:
    from chatagent.client.core import ThreadCore
    from chatagent.client.thread import Thread
    from chatagent.protocol import ActionRecord, ThreadState

__all__ = ["ActionResult", "PendingAction"]


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of an answer."""

    run: RunHandle | None
    """The run that goes on; `None` while other actions of it wait."""
    state: ThreadState


class PendingAction:
    """A question to the client. `Thread.get_pending_action` finds the one that belongs to a part."""

    def __init__(self, thread: Thread, record: ActionRecord, core: ThreadCore) -> None:
        self._thread, self._record, self._core = thread, record, core

    def __repr__(self) -> str:
        return f"PendingAction(name={self.name!r}, action_id={self.action_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingAction) and (self._thread, self._record) == (other._thread, other._record)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - its input need not be hashable

    @property
    def action_id(self) -> str:
        """The action's id."""
        return self._record.action_id

    @property
    def name(self) -> str:
        """The full name, `<tool>.<action>`."""
        return self._record.name

    @property
    def action_name(self) -> str:
        """The name without the tool's: a question's own, `output` for a client tool, `approval` for an approval."""
        return self._record.action_name

    @property
    def tool_name(self) -> str:
        """The tool that was called."""
        return self._record.tool_name

    @property
    def tool_call_id(self) -> str:
        """The call that waits."""
        return self._record.tool_call_id

    @property
    def message_id(self) -> str:
        """The message that the call stands in."""
        return self._record.message_id

    @property
    def run_id(self) -> str:
        """The run that waits."""
        return self._record.run_id

    @property
    def input(self) -> object:
        """What the client is asked about: of the declared type if the client has a contract, else JSON."""
        contract = input_contract(self._core.context.contract, self._record)
        return self._record.input if contract is None else contract.parsed(self._record.input)

    @property
    def suspend_name(self) -> str | None:
        """The question's declared name; `None` for a client tool's output and for an approval."""
        return self._record.suspend_name

    async def submit(self, value: object) -> ActionResult:
        """Answer. With the last answer the same run goes on, in the same message.

        Args:
            value: the tool's output, the answer to the question, or `{"approved": bool, "reason": str}`.

        Raises:
            ActionValueError: the value does not fit; the action is still pending.
            ActionNotPendingError: it was answered already, or its run is over; the reason says which.
        """
        answer = as_json(value)
        check_answer(self._core.context.contract, self._record, answer)
        receipt = await self._core.submit(self.action_id, answer)
        run = None if receipt.run_id is None else RunHandle(self._thread, receipt.run_id, self._core)
        return ActionResult(run, self._core.state())
