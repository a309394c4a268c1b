"""What the mock admits, and what it plays for it (rules RQ-2 to RQ-6).

Each method happens in one step: it checks first, changes then, and lets the run claim its script at the end.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from chatagent.protocol import (
    ActionReceipt,
    MessageExistsError,
    RunReceipt,
    ThreadModel,
    abort_target,
    call_beside,
    check_action,
    check_answer,
    check_free,
    check_message,
    check_thread_id,
    check_tool_data,
    ownership_of,
    plan_regenerate,
    plan_retry,
    tool_name_of,
)
from chatagent.ui import DataChunk, TextUIPart
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.protocol import (
        AbortRequest,
        AgentContract,
        AnswerPlan,
        BackendThread,
        RegenerateRequest,
        RetryRequest,
        Run,
        SendActionRequest,
        SendRequest,
        SubmitActionRequest,
        ToolDataRequest,
    )
    from chatagent.ui import UIMessage
    from chatagent_test.transport.engine import Engine
    from chatagent_test.transport.store import MockStore

__all__ = ["Admission"]


class Admission:
    """Admits generations.

    Args:
        store: the threads.
        engine: plays scripts.
        contract: what answers and data are checked by.
        run_metadata: makes the metadata of a new run.
    """

    def __init__(
        self,
        store: MockStore,
        engine: Engine,
        contract: AgentContract | None,
        run_metadata: Callable[[], Mapping[str, object]],
    ) -> None:
        self._store, self._engine, self._contract, self._run_metadata = store, engine, contract, run_metadata

    # Generations --------------------------------------------------------------------------------------------------

    def send(self, request: SendRequest) -> RunReceipt:
        """Admit a user message."""
        check_thread_id(request.thread_id)
        return self._admit(self._store.thread(request.thread_id), request, lambda thread: self._send(thread, request))

    def retry(self, request: RetryRequest) -> RunReceipt:
        """Admit another try of the failed last generation."""
        thread = self._existing(request.thread_id)
        return self._admit(thread, request, lambda thread: self._answer(thread, "retry", plan_retry(thread.model)))

    def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        """Admit another answer to an input."""

        def admit(thread: BackendThread) -> tuple[Run, int]:
            return self._answer(thread, "regenerate", plan_regenerate(thread.model, request.message_id))

        return self._admit(self._existing(request.thread_id), request, admit)

    def send_action(self, request: SendActionRequest) -> RunReceipt:
        """Admit a custom action."""

        def admit(thread: BackendThread) -> tuple[Run, int]:
            check_free(thread.model)
            check_action(self._contract, request.action)
            self._engine.check_fit(thread.thread_id, None)
            return thread.admit(initiator="action", metadata=self._run_metadata())

        check_thread_id(request.thread_id)
        return self._admit(self._store.thread(request.thread_id), request, admit)

    def _send(self, thread: BackendThread, request: SendRequest) -> tuple[Run, int]:
        check_message(request.message)
        if request.message.id and thread.model.message(request.message.id) is not None:
            raise MessageExistsError(thread_id=thread.thread_id, message_id=request.message.id)
        if not any(run.status != "waiting" for run in thread.model.live.values()):
            self._engine.check_fit(thread.thread_id, None)
        ids = self._store.ids
        message = _own(request.message).model_copy(update={"id": ids.take("msg", request.message.id or None)})
        ids.take_message(message)
        return thread.admit(initiator="send", metadata=self._run_metadata(), message=message)

    def _answer(self, thread: BackendThread, initiator: Any, plan: AnswerPlan) -> tuple[Run, int]:
        self._engine.check_fit(thread.thread_id, None)
        return thread.admit(
            initiator=initiator,
            metadata=self._run_metadata(),
            input_message_id=plan.input_message_id,
            removed=plan.removed,
        )

    def _admit(
        self,
        thread: BackendThread,
        request: SendRequest | RetryRequest | RegenerateRequest | SendActionRequest,
        admit: Callable[[BackendThread], tuple[Run, int]],
    ) -> RunReceipt:
        known = thread.receipts.get(request.request_id)
        if isinstance(known, RunReceipt):
            return known
        run, seq = admit(thread)
        receipt = RunReceipt.of(thread.thread_id, run, seq)
        thread.remember(request.request_id, receipt)
        if run.status == "queued":
            self._engine.admitted(run.run_id, request)
        else:
            self._engine.begin(thread, run.run_id, request)
        return receipt

    # Actions and ends ---------------------------------------------------------------------------------------------

    def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        """Take the answer to a pending action; with the last one the run resumes and claims a script."""
        thread = self._existing(request.thread_id)
        known = thread.receipts.get(request.request_id)
        if isinstance(known, ActionReceipt):
            return known
        action = thread.pending_action(request.action_id)
        value = json_value(request.value)
        check_answer(self._contract, action, value)
        if len(thread.model.actions) == 1:
            self._engine.check_fit(thread.thread_id, thread.model.message(action.message_id))
        run, seq = thread.resolve(request.action_id, value)
        receipt = ActionReceipt.of(thread.thread_id, run, seq)
        thread.remember(request.request_id, receipt)
        if run is not None:
            self._engine.begin(thread, run.run_id, request, resumes=action.message_id)
        return receipt

    def abort(self, request: AbortRequest) -> bool:
        """Stop a run; returns whether something was stopped."""
        check_thread_id(request.thread_id)
        thread = self._store.threads.get(request.thread_id)
        target = abort_target(ThreadModel(request.thread_id) if thread is None else thread.model, request.run_id)
        if thread is None or target is None:
            return False
        self._engine.abort(thread, target.run_id, request.reason, why="the client aborted the run")
        return True

    def write_tool_data(self, request: ToolDataRequest) -> None:
        """Write data beside a tool call."""
        thread = self._existing(request.thread_id)
        if request.request_id in thread.receipts:
            return
        message, call = call_beside(thread.model, message_id=request.message_id, tool_call_id=request.tool_call_id)
        check_tool_data(self._contract, tool_name_of(call), request.channel, request.value)
        data_id = request.data_id or request.tool_call_id
        chunk = DataChunk(f"data-{request.channel}", json_value(request.value), data_id)
        thread.chunk(ownership_of(message).run_id or "", message.id, chunk, "user")
        thread.remember(request.request_id, ActionReceipt.of(thread.thread_id, None, thread.model.seq))

    def _existing(self, thread_id: str) -> BackendThread:
        check_thread_id(thread_id)
        return self._store.existing(thread_id)


def _own(message: UIMessage) -> UIMessage:
    """Return a message that shares nothing that could change; mere text cannot."""
    if message.metadata is None and all(type(part) is TextUIPart for part in message.parts):
        return message
    return copy.deepcopy(message)
