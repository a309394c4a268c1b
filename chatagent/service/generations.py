"""Generations: what clients send, answer and ask for again, admitted to a thread and handed to the agent."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from chatagent.agent import TOOL_DATA_ACTION, is_tool_data, tool_data_action
from chatagent.protocol import (
    ActionReceipt,
    MessageExistsError,
    ReservedNameError,
    RunReceipt,
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
from chatagent.service.answers import answers_of
from chatagent.service.state import ServiceState, as_json
from chatagent.ui import DataChunk, UIMessage, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.protocol import (
        AbortRequest,
        AnswerPlan,
        Initiator,
        RegenerateRequest,
        RetryRequest,
        Run,
        SendActionRequest,
        SendRequest,
        SubmitActionRequest,
        ToolDataRequest,
    )
    from chatagent.service.thread import ServiceThread

__all__ = ["Generations"]


class Generations(ServiceState):
    """The part of a service that generations begin, go on and end through."""

    def send(self, request: SendRequest, client_data: object) -> RunReceipt:
        """Admit a user message (MP-3, MP-40)."""
        check_thread_id(request.thread_id)
        thread = self.thread(request.thread_id)

        def admit() -> tuple[Run, int]:
            check_message(request.message)
            known = thread.backend.model.message(request.message.id) if request.message.id else None
            if known is not None:
                raise MessageExistsError(thread_id=thread.thread_id, message_id=request.message.id)
            return self._admit_message(thread, copy.deepcopy(request.message), client_data, initiator="send")

        return self._generate(thread, request.request_id, admit)

    def retry(self, request: RetryRequest, client_data: object) -> RunReceipt:
        """Admit another try of the failed last generation (MP-10)."""
        thread = self.existing(request.thread_id)

        def admit() -> tuple[Run, int]:
            plan = plan_retry(thread.backend.model)
            return self._admit_again(thread, plan, client_data, initiator="retry")

        return self._generate(thread, request.request_id, admit)

    def regenerate(self, request: RegenerateRequest, client_data: object) -> RunReceipt:
        """Admit another answer to an input (MP-10)."""
        thread = self.existing(request.thread_id)

        def admit() -> tuple[Run, int]:
            plan = plan_regenerate(thread.backend.model, request.message_id)
            return self._admit_again(thread, plan, client_data, initiator="regenerate")

        return self._generate(thread, request.request_id, admit)

    def send_action(self, request: SendActionRequest, client_data: object) -> RunReceipt:
        """Admit a custom action of the agent (MP-12)."""
        check_thread_id(request.thread_id)
        thread = self.thread(request.thread_id)

        def admit() -> tuple[Run, int]:
            action, data = as_json(request.action), as_json(client_data)
            if is_tool_data(action):
                raise ReservedNameError(field="action.type", name=TOOL_DATA_ACTION)
            check_action(self.contract, action)
            check_free(thread.backend.model)
            run, seq = thread.backend.admit(initiator="action", metadata=self._run_metadata())
            thread.admitted(run, self._payload(thread, "action", data, action=action))
            return run, seq

        return self._generate(thread, request.request_id, admit)

    def submit_action(self, request: SubmitActionRequest, client_data: object) -> ActionReceipt:
        """Take the answer to a pending action; with the last one the run goes on (MP-14, MP-16)."""
        thread = self.existing(request.thread_id)
        known = thread.backend.receipts.get(request.request_id)
        if isinstance(known, ActionReceipt):
            return known
        action = thread.backend.pending_action(request.action_id)
        value = as_json(request.value)
        check_answer(self.contract, action, value)
        run, seq = thread.backend.resolve(request.action_id, value)
        if run is not None:
            message = thread.backend.model.message(action.message_id)
            assert message is not None, "a pending action belongs to a message"
            answers = answers_of(message)
            data = as_json(client_data) if client_data is not None else thread.client_data
            thread.resumed(run, self._payload(thread, "submit-message", data, message=answers))
        receipt = ActionReceipt.of(thread.thread_id, run, seq)
        thread.backend.remember(request.request_id, receipt)
        thread.flush((request.request_id, receipt))
        return receipt

    def write_tool_data(self, request: ToolDataRequest, client_data: object) -> None:
        """Write data beside a tool call (MP-19): the thread shows it at once, the agent's history takes it in order.

        Args:
            request: the data, and where they belong.
            client_data: what the agent gets with them if the thread knows of none, as after it was let go.
        """
        thread = self.existing(request.thread_id)
        receipt = thread.backend.receipts.get(request.request_id)
        if receipt is not None:
            return
        message, call = call_beside(
            thread.backend.model, message_id=request.message_id, tool_call_id=request.tool_call_id
        )
        check_tool_data(self.contract, tool_name_of(call), request.channel, request.value)
        data_id, value = request.data_id or request.tool_call_id, as_json(request.value)
        run_id = ownership_of(message).run_id or ""
        thread.backend.chunk(run_id, message.id, DataChunk(f"data-{request.channel}", value, data_id), "user")
        receipt = ActionReceipt.of(thread.thread_id, None, thread.backend.model.seq)
        thread.backend.remember(request.request_id, receipt)
        if not self._setting.agent.options.is_custom:
            if thread.client_data is None:
                thread.client_data = as_json(client_data)
            action = tool_data_action(message_id=message.id, channel=request.channel, data_id=data_id, value=value)
            thread.write_tool_data(action, key=f"data/{request.request_id}")
        thread.flush((request.request_id, receipt))

    def abort(self, request: AbortRequest) -> bool:
        """Stop a run (MP-9); returns whether there was something to stop."""
        check_thread_id(request.thread_id)
        thread = self.thread(request.thread_id)
        target = abort_target(thread.backend.model, request.run_id)
        if target is None:
            return False
        thread.stop(target, request.reason)
        thread.flush()
        return True

    def _admit_message(
        self, thread: ServiceThread, message: UIMessage, client_data: object, *, initiator: Initiator
    ) -> tuple[Run, int]:
        message = message.model_copy(update={"id": message.id or self._new_message_id(thread)})
        data = as_json(client_data)
        run, seq = thread.backend.admit(
            initiator=initiator,
            metadata=self._run_metadata(),
            message=message,
            producer="trigger" if initiator == "trigger" else "user",
        )
        thread.admitted(run, self._payload(thread, "submit-message", data, message=to_wire(message)))
        return run, seq

    def _admit_again(
        self, thread: ServiceThread, plan: AnswerPlan, client_data: object, *, initiator: Initiator
    ) -> tuple[Run, int]:
        data = as_json(client_data)
        run, seq = thread.backend.admit(
            initiator=initiator,
            metadata=self._run_metadata(),
            input_message_id=plan.input_message_id,
            removed=plan.removed,
        )
        payload = self._payload(thread, "regenerate-message", data, messageId=plan.input_message_id)
        thread.admitted(run, payload)
        return run, seq

    def _new_message_id(self, thread: ServiceThread) -> str:
        """Return an id that no message of the thread has."""
        while True:
            made = self._setting.new_id("msg")
            if thread.backend.model.message(made) is None:
                return made

    def _payload(self, thread: ServiceThread, trigger: str, client_data: Any, **fields: Any) -> dict[str, Any]:
        thread.client_data = client_data
        payload: dict[str, Any] = {"chatId": thread.thread_id, "trigger": trigger, **fields}
        if client_data is not None:
            payload["metadata"] = client_data
        return payload

    def _generate(self, thread: ServiceThread, request_id: str, admit: Callable[[], tuple[Run, int]]) -> RunReceipt:
        """Admit a generation, unless this request did so already (TP-22)."""
        known = thread.backend.receipts.get(request_id)
        if isinstance(known, RunReceipt):
            return known
        run, seq = admit()
        receipt = RunReceipt.of(thread.thread_id, run, seq)
        thread.backend.remember(request_id, receipt)
        thread.flush((request_id, receipt))
        return receipt

    def _run_metadata(self) -> Mapping[str, object]:
        """Return what a run begins with: a copy of its own (MP-24)."""
        return copy.deepcopy(self._first_metadata)
