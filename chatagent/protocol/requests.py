"""What a client asks of a transport, and the receipts that it gets (rules TP-1 to TP-28).

Every generation request carries a `request_id`: repeating a call under the same one does nothing a second time.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from pydantic import ConfigDict, Field, SkipValidation

from chatagent.protocol.models import Run, ThreadHead, WireMessage
from chatagent.ui.wire import JSONObject, WireModel

__all__ = [
    "AbortRequest",
    "ActionReceipt",
    "CommandRequest",
    "GenerationRequest",
    "RegenerateRequest",
    "RetryRequest",
    "RunReceipt",
    "SendActionRequest",
    "SendRequest",
    "SubmitActionRequest",
    "ThreadHeadPage",
    "ThreadQuery",
    "ToolDataRequest",
    "UploadFileRequest",
]


class SendRequest(WireModel):
    """A user message; an empty id is filled by the backend."""

    request_id: str
    thread_id: str
    message: WireMessage
    client_data: object = None


class RetryRequest(WireModel):
    """The failed last generation, once more."""

    request_id: str
    thread_id: str
    client_data: object = None


class RegenerateRequest(WireModel):
    """Another answer to the input of `message_id`; without it, to the last one."""

    request_id: str
    thread_id: str
    message_id: str | None = None
    client_data: object = None


class SendActionRequest(WireModel):
    """A custom action of the agent."""

    request_id: str
    thread_id: str
    action: object
    client_data: object = None


class SubmitActionRequest(WireModel):
    """The answer to a pending action."""

    request_id: str
    thread_id: str
    action_id: str
    value: object


GenerationRequest = SendRequest | RetryRequest | RegenerateRequest | SendActionRequest | SubmitActionRequest
"""What may begin a generation."""


class AbortRequest(WireModel):
    """Stop a run; without `run_id`, the active one."""

    thread_id: str
    run_id: str | None = None
    reason: str | None = None


class ToolDataRequest(WireModel):
    """Data that the client writes beside a tool call."""

    request_id: str
    thread_id: str
    message_id: str
    tool_call_id: str
    channel: str
    data_id: str | None = None
    value: object


class CommandRequest(WireModel):
    """A call of a function that the agent has declared for clients."""

    request_id: str
    thread_id: str
    command: str
    input: object = None
    client_data: object = None


class UploadFileRequest(WireModel):
    """A file for the agent; the body may come in pieces."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    filename: str
    media_type: str
    body: SkipValidation[bytes | AsyncIterable[bytes]]
    metadata: JSONObject = Field(default_factory=dict[str, Any])


class ThreadQuery(WireModel):
    """Which page of the list of threads."""

    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = None


class RunReceipt(WireModel):
    """A generation was admitted; `seq` is the number of its `generation.started` or `generation.queued` (TP-20)."""

    thread_id: str
    run_id: str
    message_id: str | None = None
    seq: int

    @classmethod
    def of(cls, thread_id: str, run: Run, seq: int) -> RunReceipt:
        """Make the receipt of a run that was admitted by the event of this number."""
        fields: dict[str, Any] = {"thread_id": thread_id, "run_id": run.run_id, "seq": seq}
        if run.input_message_id is not None:
            fields["message_id"] = run.input_message_id
        return cls.model_validate(fields)


class ActionReceipt(WireModel):
    """An answer was taken; `run_id` is there if it was the last one and the run goes on (TP-28)."""

    thread_id: str
    run_id: str | None = None
    seq: int

    @classmethod
    def of(cls, thread_id: str, run: Run | None, seq: int) -> ActionReceipt:
        """Make the receipt of an answer that was taken by the event of this number, and of the run that goes on."""
        fields: dict[str, Any] = {"thread_id": thread_id, "seq": seq}
        if run is not None:
            fields["run_id"] = run.run_id
        return cls.model_validate(fields)


class ThreadHeadPage(WireModel):
    """A page of the list of threads, newest first; a watch with `after=seq` tells what changes later."""

    heads: tuple[ThreadHead, ...]
    next_cursor: str | None = None
    seq: int
