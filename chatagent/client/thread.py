"""One thread of a client: its state, what can be sent to it, and its handles (rules TH-1 to TH-50)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatagent.client.commands import ThreadCommands
from chatagent.client.context import as_json, checked
from chatagent.client.core import ThreadCore
from chatagent.client.pending import PendingAction
from chatagent.client.run import RunHandle
from chatagent.client.watch import ThreadWatch
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import (
    CommandRequest,
    RegenerateRequest,
    RetryRequest,
    SendActionRequest,
    SendRequest,
    ToolDataRequest,
    check_action,
    check_command,
    check_message,
    check_thread_id,
    check_tool_data,
)
from chatagent.ui import TextUIPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from chatagent.client.context import ClientContext
    from chatagent.client.watch import ThreadUpdate
    from chatagent.protocol import RunReceipt, ThreadHead, ThreadMessage, ThreadState, ToolPart
    from chatagent.ui import UIPart

__all__ = ["Thread"]


class Thread:
    """One thread. `AgentClient.thread` gives the same object for the same id."""

    def __init__(self, context: ClientContext, thread_id: str) -> None:
        check_thread_id(thread_id)
        self.thread_id = thread_id
        self.commands = ThreadCommands(self)
        self._core = ThreadCore(context, thread_id)

    def __repr__(self) -> str:
        return f"Thread({self.thread_id!r})"

    # State --------------------------------------------------------------------------------------------------------

    def get_state(self) -> ThreadState:
        """Return the state as far as it is known here, without asking: what has arrived is taken in first.

        Before the first awaited call it is an empty, idle state with `seq == 0`.
        """
        return self._core.state()

    @property
    def is_stale(self) -> bool:
        """Whether the backend is known to be ahead, so that the next awaited call reads the thread anew first."""
        self._core.feed.drain()
        return self._core.feed.is_stale

    @property
    def pending_actions(self) -> tuple[PendingAction, ...]:
        """What waits for an answer, in the order of the parts."""
        return tuple(PendingAction(self, record, self._core) for record in self.get_state().pending_actions)

    async def refresh(self) -> ThreadState:
        """Read the thread from the backend and return its state; a thread that does not exist is empty."""
        await self._core.refresh()
        return self._core.state()

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[ThreadUpdate]]:
        """Watch the thread: `async with thread.watch() as updates:` gives the current state, then one per event.

        It ends when the thread is deleted, or when the backend begins anew.
        """
        return ThreadWatch(self._core)

    def get_pending_action(self, message: ThreadMessage, part: ToolPart) -> PendingAction | None:
        """Return the handle that answers a tool call; `None` if that call of that message does not wait."""
        for record in reversed(self.get_state().pending_actions):
            if (record.message_id, record.tool_call_id) == (message.message_id, part.tool_call_id):
                return PendingAction(self, record, self._core)
        return None

    def run(self, run_id: str) -> RunHandle:
        """Return the handle on a run of the state.

        Raises:
            RunNotFoundError: there is none of this id.
        """
        self.get_state().run(run_id)
        return RunHandle(self, run_id, self._core)

    def active_run(self) -> RunHandle | None:
        """Return the handle on the run that is at work or waits."""
        active = self.get_state().active_run
        return None if active is None else RunHandle(self, active.run_id, self._core)

    # Sending ------------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: str | Sequence[UIPart] | UIMessage,
        *,
        client_data: object = None,
        message_id: str | None = None,
        request_id: str | None = None,
    ) -> RunHandle:
        """Send a user message. When this returns, the state has the message and its run; the answer may be to come.

        Args:
            message: text, parts, or a user message.
            client_data: what the agent is told besides; JSON.
            message_id: the message's id; by default its own, or one that the backend gives.
            request_id: repeating a send under the same one does nothing a second time.

        Raises:
            InvalidArgumentError: it is no message, or one that is not the user's; nothing was sent.
            EmptyMessageError: there is no part, or only blank text; nothing was sent.
            ReservedNameError: a part or the metadata uses a name of the protocol; nothing was sent.
            MessageExistsError: the thread has a message of this id.
            TransportUnavailableError: the outcome is unknown; send again with the same `request_id`.
        """
        made = _user_message(message, message_id)
        check_message(made)
        common = self._common(client_data, request_id)
        request = SendRequest.model_validate({**common, "message": made})
        return await self._generate("send", lambda: self._core.context.transport.send(request))

    async def retry(self, *, client_data: object = None) -> RunHandle:
        """Answer the input of the failed last generation again, in a new run.

        Raises:
            NothingToRetryError: the last generation has not failed, or it had no input.
            ThreadBusyError: a run is at work or queued.
        """
        request = RetryRequest.model_validate(self._common(client_data))
        return await self._generate("retry", lambda: self._core.context.transport.retry(request))

    async def regenerate(self, message_id: str | None = None, *, client_data: object = None) -> RunHandle:
        """Answer an input again, in a new run; everything behind that input goes.

        Args:
            message_id: an answer, or the input itself; by default the last answer.
            client_data: what the agent is told besides.

        Raises:
            MessageNotFoundError: there is no such message.
            NothingToRegenerateError: it answers nothing.
            ThreadBusyError: a run is at work or queued.
        """
        common = self._common(client_data)
        if message_id is not None:
            common["message_id"] = message_id
        request = RegenerateRequest.model_validate(common)
        return await self._generate("regenerate", lambda: self._core.context.transport.regenerate(request))

    async def send_action(self, action: object, *, client_data: object = None) -> RunHandle:
        """Send a custom action of the agent, in a run without an input.

        Raises:
            ActionValueError: the agent takes no such action, as its contract says; nothing was sent.
            ThreadBusyError: a run is at work or queued.
        """
        value = as_json(action)
        check_action(self._core.context.contract, value)
        request = SendActionRequest.model_validate({**self._common(client_data), "action": value})
        return await self._generate("send_action", lambda: self._core.context.transport.send_action(request))

    async def abort(self, reason: str | None = None) -> bool:
        """Stop the active run, else the oldest queued one; returns whether there was one."""
        await self._core.catch_up()
        state = self.get_state()
        target = state.active_run or next((run for run in state.runs if run.status == "queued"), None)
        return False if target is None else await self._core.abort(target.run_id, reason)

    async def rename(self, title: str) -> ThreadHead:
        """Give the thread a title.

        Raises:
            InvalidArgumentError: it is blank.
            ThreadNotFoundError: there is no such thread.
        """
        if not title.strip():
            raise InvalidArgumentError(argument="title", value=title, problem="a title is not blank")
        await self._core.catch_up()
        context = self._core.context
        return await context.call("rename_thread", lambda: context.transport.rename_thread(self.thread_id, title))

    async def delete(self) -> None:
        """Delete the thread. What waits for it gets a `ThreadDeletedError`; a later send begins a new one.

        Raises:
            ThreadNotFoundError: there is no such thread.
        """
        await self._core.catch_up()
        context, feed = self._core.context, self._core.feed
        deletions = feed.deletions
        await context.call("delete_thread", lambda: context.transport.delete_thread(self.thread_id))
        await self._core.wait(lambda: feed.deletions > deletions or not feed.model.exists, None)

    async def execute_command(self, name: str, input: object = None, *, client_data: object = None) -> Any:
        """Call a function that the agent has declared for clients. It is no generation.

        Returns:
            Its result: of the declared type if the client has a contract, else JSON.

        Raises:
            CommandNotFoundError: there is no such command.
            CommandInputError: the input does not fit; with a contract nothing was asked.
            CommandFailedError: the handler raised.
        """
        context = self._core.context
        known, value = self._known_command(name), as_json(input)
        command = check_command(context.contract, known, value)
        request = CommandRequest.model_validate({**self._common(client_data), "command": known, "input": value})
        result = await context.call("execute_command", lambda: context.transport.execute_command(request))
        return result if command is None else command.output.parsed(result)

    async def write_tool_data(
        self, message: ThreadMessage, part: ToolPart, channel: str, value: object, *, data_id: str | None = None
    ) -> None:
        """Write data beside a tool call: a `data-<channel>` part of its message. It is no generation.

        Args:
            message: the message that the call stands in.
            part: the call.
            channel: the name of the data.
            value: the data, as JSON.
            data_id: the same id again replaces the data; by default the call's id.

        Raises:
            ReservedNameError: the channel is the protocol's own.
            ToolDataError: the tool has no such channel, or the value does not fit it.
            ToolCallNotFoundError: the message has no such call.
        """
        context, data = self._core.context, as_json(value)
        check_tool_data(context.contract, part.tool_name, channel, data)
        await self._core.catch_up()
        request = ToolDataRequest(
            request_id=context.new_request_id(),
            thread_id=self.thread_id,
            message_id=message.message_id,
            tool_call_id=part.tool_call_id,
            channel=channel,
            data_id=data_id or part.tool_call_id,
            value=data,
        )
        await context.call("write_tool_data", lambda: context.transport.write_tool_data(request))

    async def _generate(self, operation: str, ask: Callable[[], Awaitable[RunReceipt]]) -> RunHandle:
        receipt = await self._core.admit(operation, ask)
        return RunHandle(self, receipt.run_id, self._core)

    def _common(self, client_data: object, request_id: str | None = None) -> dict[str, Any]:
        """Return what every request of a thread has; client data only if there is some."""
        fields: dict[str, Any] = {
            "request_id": request_id or self._core.context.new_request_id(),
            "thread_id": self.thread_id,
        }
        if client_data is not None:
            fields["client_data"] = as_json(client_data)
        return fields

    def _known_command(self, name: str) -> str:
        """Return the contract's name of a command: `refresh_brief` may be called `refreshBrief` there."""
        contract = self._core.context.contract
        if contract is None or contract.commands is None or name in contract.commands:
            return name
        first, *rest = name.split("_")
        camel = first + "".join(word.capitalize() for word in rest)
        return camel if camel in contract.commands else name


def _user_message(message: str | Sequence[UIPart] | UIMessage, message_id: str | None) -> UIMessage:
    if isinstance(message, UIMessage):
        if message.role != "user":
            raise InvalidArgumentError(argument="message", value=message.role, problem="send a message of the user's")
        return message if message_id is None else message.model_copy(update={"id": message_id})
    if isinstance(message, Mapping):  # callers may be untyped
        raise InvalidArgumentError(argument="message", value=message, problem="give a text, parts, or a UIMessage")
    parts: Sequence[UIPart] = (TextUIPart(text=message),) if isinstance(message, str) else message
    with checked("message", message):
        return UIMessage(id=message_id or "", role="user", parts=parts)
