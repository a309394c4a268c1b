"""What the Responses API answers, event by event or in one piece, as parts of the model protocol.

A complete stream announces each item, streams it, and closes it. Servers that leave out the announcements are
understood too: blocks open at their first delta, and what no event told is taken from the completed response.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from chatagent.model import (
    GenerateResult,
    ModelContent,
    ModelError,
    ModelFinish,
    ModelReasoning,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelResponseMetadata,
    ModelSource,
    ModelStreamPart,
    ModelText,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputEnd,
    ModelToolInputStart,
    ResponseInfo,
)
from chatagent.providers.openai.client import failure_of
from chatagent.providers.openai.responses_items import (
    HOSTED_CALLS,
    hosted_name,
    item_content,
    metadata_of,
    reasoning_metadata,
    source_of,
)
from chatagent.providers.openai.usage import created_at, responses_finish_reason, responses_usage
from chatagent.providers.requests import member_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openai.types.responses import (
        Response,
        ResponseErrorEvent,
        ResponseFunctionCallArgumentsDeltaEvent,
        ResponseOutputItem,
        ResponseOutputItemAddedEvent,
        ResponseOutputItemDoneEvent,
        ResponseOutputTextAnnotationAddedEvent,
        ResponseReasoningSummaryTextDeltaEvent,
        ResponseReasoningTextDeltaEvent,
        ResponseRefusalDeltaEvent,
        ResponseStreamEvent,
        ResponseTextDeltaEvent,
    )

    from chatagent.ui import ProviderMetadata

__all__ = ["ResponsesReader", "responses_answer"]

_Kind = Literal["text", "refusal", "reasoning"]


@dataclass(slots=True)
class _Block:
    """The block of text or reasoning that is open; items come one after the other, so there is one at most."""

    kind: _Kind
    id: str
    item_id: str
    metadata: ProviderMetadata | None


class ResponsesReader:
    """Reads the events of one answer.

    Args:
        names: the names of the declared tools that the provider runs, by the API's type of the tool.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._parts: list[ModelStreamPart] = []
        self._is_told = False
        self._open: _Block | None = None
        self._phases: dict[str, str | None] = {}
        self._calls: dict[str, str] = {}
        """Ids of the function calls that stream, by item id."""
        self._inputs: dict[str, int] = {}
        """How many characters of input have streamed, by call id."""
        self._thoughts: set[str] = set()
        """Ids of the items whose reasoning has streamed."""
        self._cited: set[str] = set()
        """Ids of the items whose sources have been told."""
        self._told: set[str] = set()
        """Ids of items, and of calls, that are complete."""
        self._has_text = self._has_calls = self._has_refused = False
        self._finish: ModelFinish | None = None

    def read(self, event: ResponseStreamEvent, /) -> list[ModelStreamPart]:
        """Return the parts that an event stands for; none for an event of a type that nobody knows."""
        handler = self._HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event)
        return self._taken()

    def end(self) -> list[ModelStreamPart]:
        """Return the finish, if the response came to its end."""
        self._close_block()
        if self._finish is not None:
            self._parts.append(self._finish)
        return self._taken()

    def _taken(self) -> list[ModelStreamPart]:
        parts, self._parts = self._parts, []
        return parts

    # The response -------------------------------------------------------------------------------------------------

    def _created(self, event: Any) -> None:
        self._tell(event.response)

    def _tell(self, response: Response) -> None:
        """Pass on what the first event with a response tells about it."""
        if self._is_told:
            return
        self._is_told = True
        self._parts.append(
            ModelResponseMetadata(
                id=response.id, timestamp=created_at(response.created_at), model_id=response.model or None
            )
        )

    def _ended(self, event: Any) -> None:
        """Take in the whole response: what has not streamed is told now."""
        response: Response = event.response
        self._tell(response)
        for item in response.output or ():
            self._complete(item)
        self._close_block()
        if response.status == "failed" or response.error is not None:
            self._parts.append(ModelError(error=_failure_of(response)))
        self._finish = _finish_of(response, has_calls=self._has_calls, has_refused=self._has_refused)

    def _error(self, event: ResponseErrorEvent) -> None:
        payload = event.to_dict(mode="json")
        self._parts.append(ModelError(error=failure_of(event.message, code=event.code, payload=payload)))

    # Text, refusals and reasoning ---------------------------------------------------------------------------------

    def _text(self, event: ResponseTextDeltaEvent) -> None:
        self._has_text = True
        self._say("text", event.item_id, _block_id(event.item_id, event.content_index), event.delta)

    def _refusal(self, event: ResponseRefusalDeltaEvent) -> None:
        self._has_text = True
        self._say("refusal", event.item_id, _block_id(event.item_id, event.content_index), event.delta)

    def _summary(self, event: ResponseReasoningSummaryTextDeltaEvent) -> None:
        self._say("reasoning", event.item_id, f"{event.item_id}:{event.summary_index or 0}", event.delta)

    def _thought(self, event: ResponseReasoningTextDeltaEvent) -> None:
        self._say("reasoning", event.item_id, f"{event.item_id}:{event.content_index or 0}", event.delta)

    def _say(self, kind: _Kind, item_id: str, block_id: str, text: str) -> None:
        block = self._open
        if block is None or block.id != block_id or block.kind != kind:
            self._open_block(kind, item_id, block_id)
        delta = ModelReasoningDelta if kind == "reasoning" else ModelTextDelta
        self._parts.append(delta(id=block_id, delta=text))

    def _open_block(self, kind: _Kind, item_id: str, block_id: str) -> None:
        self._close_block()
        self._has_refused |= kind == "refusal"
        if kind == "reasoning":
            self._thoughts.add(item_id)
        told = {} if kind == "reasoning" else {"phase": self._phases.get(item_id), "refusal": kind == "refusal" or None}
        metadata = metadata_of(item_id, **told)
        self._open = _Block(kind, block_id, item_id, metadata)
        start = ModelReasoningStart if kind == "reasoning" else ModelTextStart
        self._parts.append(start(id=block_id, provider_metadata=metadata))

    def _close_block(self, metadata: ProviderMetadata | None = None) -> None:
        block, self._open = self._open, None
        if block is not None:
            end = ModelReasoningEnd if block.kind == "reasoning" else ModelTextEnd
            self._parts.append(end(id=block.id, provider_metadata=metadata or block.metadata))

    def _annotation(self, event: ResponseOutputTextAnnotationAddedEvent) -> None:
        annotation = event.to_dict(mode="json").get("annotation")
        source = source_of(annotation)
        self._cited.add(event.item_id)
        if source is not None:
            self._parts.append(source)

    # Items --------------------------------------------------------------------------------------------------------

    def _added(self, event: ResponseOutputItemAddedEvent) -> None:
        item = event.item
        if item.type == "message":
            self._phases[item.id] = item.phase
        elif item.type == "reasoning":
            self._open_block("reasoning", item.id, f"{item.id}:0")
        elif item.type == "function_call":
            self._calls[item.id or item.call_id] = item.call_id
            self._begin_input(ModelToolInputStart(id=item.call_id, tool_name=item.name))
        elif item.type in HOSTED_CALLS:
            name, dynamic = hosted_name(item, self._names)
            item_id = cast("str", _id_of(item))
            self._begin_input(ModelToolInputStart(id=item_id, tool_name=name, provider_executed=True, dynamic=dynamic))

    def _begin_input(self, start: ModelToolInputStart) -> None:
        self._close_block()
        self._inputs[start.id] = 0
        self._parts.append(start)

    def _arguments(self, event: ResponseFunctionCallArgumentsDeltaEvent) -> None:
        """Pass on a fragment of a call that was announced; one that was not has no name before the response ends."""
        call_id = self._calls.get(event.item_id)
        if call_id is not None:
            self._inputs[call_id] += len(event.delta)
            self._parts.append(ModelToolInputDelta(id=call_id, delta=event.delta))

    def _done(self, event: ResponseOutputItemDoneEvent) -> None:
        self._complete(event.item)

    def _complete(self, item: ResponseOutputItem) -> None:
        """Tell what has not been told of a complete item."""
        key = _id_of(item)
        if key is None or key in self._told:
            return
        self._told.add(key)
        self._has_calls |= item.type == "function_call"
        metadata = reasoning_metadata(item) if item.type == "reasoning" else None
        self._close_block(metadata if self._open is not None and self._open.item_id == key else None)
        has_streamed = self._has_text if item.type == "message" else key in self._thoughts
        if not has_streamed:
            for content in item_content(item, self._names):
                if not (isinstance(content, ModelSource) and key in self._cited):
                    self._tell_whole(content)

    def _tell_whole(self, content: ModelContent) -> None:
        """Tell content that no event told before."""
        match content:
            case ModelText():
                refused = bool(member_of(member_of(content.provider_metadata, "openai"), "refusal"))
                item_id = str(member_of(member_of(content.provider_metadata, "openai"), "itemId") or "")
                self._say("refusal" if refused else "text", item_id, item_id, content.text)
            case ModelReasoning():
                item_id = str(member_of(member_of(content.provider_metadata, "openai"), "itemId") or "")
                self._say("reasoning", item_id, item_id, content.text)
                self._close_block(content.provider_metadata)
            case ModelToolCall():
                self._end_input(content)
            case _:
                self._parts.append(content)

    def _end_input(self, call: ModelToolCall) -> None:
        """Tell a complete call; its input too, as far as it has not streamed."""
        call_id = call.tool_call_id
        if call_id not in self._inputs:
            self._begin_input(
                ModelToolInputStart(
                    id=call_id,
                    tool_name=call.tool_name,
                    provider_executed=call.provider_executed,
                    dynamic=call.dynamic,
                )
            )
        if not self._inputs[call_id]:
            self._parts.append(ModelToolInputDelta(id=call_id, delta=call.input))
        self._parts.append(ModelToolInputEnd(id=call_id))
        self._parts.append(call)

    _HANDLERS: ClassVar[dict[str, Callable[[ResponsesReader, Any], None]]] = {
        "response.created": _created,
        "response.in_progress": _created,
        "response.queued": _created,
        "response.output_item.added": _added,
        "response.output_item.done": _done,
        "response.output_text.delta": _text,
        "response.output_text.annotation.added": _annotation,
        "response.refusal.delta": _refusal,
        "response.reasoning_summary_text.delta": _summary,
        "response.reasoning_text.delta": _thought,
        "response.function_call_arguments.delta": _arguments,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.failed": _ended,
        "error": _error,
    }


def responses_answer(response: Response, names: Mapping[str, str]) -> GenerateResult:
    """Return an answer in one piece; request, warnings and headers are for the caller to add.

    Args:
        response: the whole response.
        names: as for `ResponsesReader`.

    Raises:
        StreamProviderError: the response says that it failed.
    """
    if response.status == "failed" or response.error is not None:
        raise _failure_of(response)
    content = tuple(each for item in response.output or () for each in item_content(item, names))
    finish = _finish_of(
        response,
        has_calls=any(isinstance(each, ModelToolCall) and not each.provider_executed for each in content),
        has_refused=any(member_of(member_of(each.provider_metadata, "openai"), "refusal") for each in content),
    )
    return GenerateResult(
        content=content,
        finish_reason=finish.finish_reason,
        usage=finish.usage,
        provider_metadata=finish.provider_metadata,
        response=ResponseInfo(
            id=response.id, timestamp=created_at(response.created_at), model_id=response.model, body=response
        ),
    )


def _finish_of(response: Response, *, has_calls: bool, has_refused: bool) -> ModelFinish:
    incomplete = response.incomplete_details.reason if response.incomplete_details is not None else None
    told = {"responseId": response.id, "serviceTier": response.service_tier}
    return ModelFinish(
        finish_reason=responses_finish_reason(
            response.status, incomplete, has_calls=has_calls, has_refused=has_refused
        ),
        usage=responses_usage(response.usage),
        provider_metadata={"openai": {key: value for key, value in told.items() if value is not None}},
    )


def _failure_of(response: Response) -> Exception:
    error = response.error
    message = "the response failed" if error is None else error.message
    payload = {"id": response.id, "status": response.status, "error": None if error is None else error.to_dict()}
    return failure_of(message, code=None if error is None else error.code, payload=payload)


def _block_id(item_id: str, index: int) -> str:
    return f"{item_id}:{index}" if index else item_id


def _id_of(item: ResponseOutputItem) -> str | None:
    """Return the id of an item; that of the call, if it is a function call of a server that gives items none."""
    if item.type == "function_call":
        return item.call_id
    return getattr(item, "id", None)
