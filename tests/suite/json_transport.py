"""A transport that turns everything into JSON text and back, as one over a wire does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_jsonable_python

from chatagent.protocol import ThreadSnapshot, event_to_wire, parse_head_event, parse_thread_event
from chatagent_test.conformance import ForwardingTransport
from chatagent_test.conformance.streams import AlteredWatch

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from chatagent.protocol import (
        AbortRequest,
        ActionReceipt,
        AgentManifest,
        CommandRequest,
        EventStream,
        RegenerateRequest,
        RetryRequest,
        RunReceipt,
        SendActionRequest,
        SendRequest,
        SubmitActionRequest,
        ThreadEvent,
        ThreadHead,
        ThreadHeadEvent,
        ThreadHeadPage,
        ThreadQuery,
        ToolDataRequest,
    )
    from chatagent.ui import WireModel

__all__ = ["JsonTransport"]

ModelT = TypeVar("ModelT", bound="WireModel")


def again(model: ModelT) -> ModelT:
    """Return what the other side makes of a model."""
    return type(model).model_validate_json(json.dumps(model.to_wire()))


class JsonTransport(ForwardingTransport):
    """Everything but the bytes of files goes through JSON, on the way there and on the way back."""

    async def get_manifest(self) -> AgentManifest:
        return again(await super().get_manifest())

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        found = await super().get_thread(thread_id)
        return None if found is None else again(found)

    async def send(self, request: SendRequest) -> RunReceipt:
        return again(await super().send(again(request)))

    async def abort(self, request: AbortRequest) -> bool:
        return await super().abort(again(request))

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        def through(event: ThreadEvent) -> list[ThreadEvent]:
            return [parse_thread_event(json.loads(json.dumps(event_to_wire(event))))]

        return AlteredWatch(super().watch_thread(thread_id, after=after), through)

    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        return again(await super().list_threads(again(query)))

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        def through(event: ThreadHeadEvent) -> list[ThreadHeadEvent]:
            return [parse_head_event(json.loads(json.dumps(event_to_wire(event))))]

        return AlteredWatch(super().watch_thread_heads(after=after), through)

    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        return again(await super().rename_thread(thread_id, title))

    async def retry(self, request: RetryRequest) -> RunReceipt:
        return again(await super().retry(again(request)))

    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        return again(await super().regenerate(again(request)))

    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        return again(await super().submit_action(again(request)))

    async def send_action(self, request: SendActionRequest) -> RunReceipt:
        return again(await super().send_action(again(request)))

    async def write_tool_data(self, request: ToolDataRequest) -> None:
        await super().write_tool_data(again(request))

    async def execute_command(self, request: CommandRequest) -> Any:
        return json.loads(json.dumps(to_jsonable_python(await super().execute_command(again(request)))))
