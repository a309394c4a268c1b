"""Goldens of `wire`: recorded HTTP exchanges, served to the real SDKs and read through the models of the providers.

A golden passes if the request that goes out is the recorded one, the SDK reads what was recorded (which events, how
many, up to which failure), and the parts of the model say the same: texts, calls, usage, reason, error. Two
exchanges read otherwise on purpose: a stream without any event, and an answer that is no JSON where JSON was asked
for, are errors here, where the SDKs are content. No model reads a model list; there the SDKs alone are checked.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import anyio
import httpx2

from chatagent.errors import APICallError, StreamProviderError
from chatagent.model import (
    CallOptions,
    FunctionTool,
    GenerateResult,
    LanguageModel,
    ModelError,
    ModelFinish,
    ModelRaw,
    ModelReasoning,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelStreamPart,
    ModelText,
    ModelTextDelta,
    ModelTextStart,
    ModelToolCall,
    UserMessage,
)
from chatagent.providers.anthropic import AnthropicModel
from chatagent.providers.openai import OpenAIChatModel, OpenAIResponsesModel
from chatagent_test.inference.recording import case_response
from chatagent_test.inference.scripted import JsonBody, RawBody
from chatagent_test.inference.sse import parse_sse
from providers.serving import Answer, Provider, cut


@dataclass
class Heard:
    """What an answer says."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """Id, name and input of each."""
    reason: str | None = None
    """The provider's own word for why it stopped; `None` if the answer is not complete."""
    usage: object = None
    has_failed: bool = field(default=False, compare=False)
    """The provider says, in an event of its own, that it failed."""

    def recorded(self) -> dict[str, object]:
        """Return what goldens record of a stream, under the names that they use."""
        calls = [{"id": call_id, "name": name, "arguments": given} for call_id, name, given in self.calls]
        return {
            "text": self.text,
            "reasoning": self.reasoning,
            "thinking": self.reasoning,
            "refusal": self.refusal,
            "tool_calls": calls,
            "tool_json": "".join(given for _, _, given in self.calls),
            "finish_reason": self.reason,
            "stop_reason": self.reason,
            "usage": self.usage,
        }


CALLS = {
    "/v1/chat/completions": ("openai", "chat.completions.create"),
    "/v1/responses": ("openai", "responses.create"),
    "/v1/messages": ("anthropic", "messages.create"),
}


def replay(golden: dict[str, Any]) -> None:
    chunks = _chunks(golden)
    _check_rendering(golden, b"".join(chunks))
    one_byte_at_a_time = [piece for chunk in chunks for piece in cut(chunk, 1)]
    for backend, pieces in (("asyncio", chunks), ("trio", one_byte_at_a_time)):
        with warnings.catch_warnings():
            # The SDK leaves generators half read behind `[DONE]`, at which trio's garbage collection complains.
            warnings.filterwarnings("ignore", "Async generator '(openai|anthropic|httpx2)", ResourceWarning)
            anyio.run(_replay, golden, pieces, backend=backend)


async def _replay(golden: dict[str, Any], chunks: list[bytes]) -> None:
    end: list[Exception] = [httpx2.RemoteProtocolError("cut off")] if golden["connection_end"] == "abrupt" else []
    provider = Provider(Answer([*chunks, *end], golden["status"], golden["headers"]))
    if golden["endpoint"] not in CALLS:
        await _check_model_list(golden, provider)
        return
    vendor, method = CALLS[golden["endpoint"]]
    request = golden["request"]
    streams = bool(request.get("stream"))
    observed = golden["sdk_observed"][f"{vendor}:{method}({'stream=True' if streams else ''})"]
    options = _options(request, vendor)

    answer = await _ask(_model(golden["endpoint"], provider, request["model"]), options, streams=streams)

    _check_request(golden, provider)
    if isinstance(answer, APICallError):
        _check_call_error(answer, observed)
    elif isinstance(answer, GenerateResult):
        _check_whole(answer, observed["returned"])
    else:
        _check_stream(answer, observed, golden)


# The exchange -----------------------------------------------------------------------------------------------------


def _chunks(golden: dict[str, Any]) -> list[bytes]:
    """Return what a mock server would send, write for write; it must parse to the same events in any pieces."""
    body = case_response(golden).body
    if isinstance(body, JsonBody):
        return [body.content]
    if isinstance(body, RawBody):
        return list(body.chunks)
    wire = b"".join(body.frames)
    assert parse_sse(wire) == parse_sse(cut(wire, 1)) == list(body.events)
    return list(body.frames)


def _check_rendering(golden: dict[str, Any], body: bytes) -> None:
    assert len(body) == golden["body_length"]
    assert hashlib.sha256(body).hexdigest() == golden["body_sha256"]


def _model(endpoint: str, provider: Provider, model_id: str) -> LanguageModel:
    if endpoint == "/v1/messages":
        return AnthropicModel(model_id, client=provider.anthropic())
    if endpoint == "/v1/responses":
        return OpenAIResponsesModel(model_id, client=provider.openai())
    return OpenAIChatModel(model_id, client=provider.openai())


def _options(request: Mapping[str, Any], vendor: str) -> CallOptions:
    """Return what a model has to be asked with so that the request goes out; what is unusual goes as it is."""
    rest: dict[str, Any] = {
        key: value for key, value in request.items() if key not in ("model", "stream", "stream_options")
    }
    messages: Any = rest.pop("messages", None) or rest.pop("input", None)
    if isinstance(messages, str) or not all(_is_plain(message) for message in messages):
        rest["messages" if "messages" in request else "input"] = messages
        messages = []
    return CallOptions(
        prompt=[UserMessage(message["content"]) for message in messages],
        tools=[_tool(tool) for tool in rest.pop("tools", ())] or None,
        max_output_tokens=rest.pop("max_tokens", None) if vendor == "anthropic" else None,
        include_raw_chunks=True,
        provider_options={vendor: rest},
    )


def _is_plain(message: Mapping[str, Any]) -> bool:
    return set(message) == {"role", "content"} and message["role"] == "user" and isinstance(message["content"], str)


def _tool(tool: Mapping[str, Any]) -> FunctionTool:
    source = tool.get("function", tool)
    schema = source.get("parameters", source.get("input_schema"))
    return FunctionTool(
        name=source["name"],
        input_schema=schema,
        description=source.get("description"),
        strict=source.get("strict"),
    )


async def _ask(
    model: LanguageModel, options: CallOptions, *, streams: bool
) -> list[ModelStreamPart] | GenerateResult | APICallError:
    try:
        if not streams:
            return await model.do_generate(options)
        result = await model.do_stream(options)
    except APICallError as error:
        return error
    return [part async for part in result.stream if not isinstance(part, Mapping)]


def _check_request(golden: dict[str, Any], provider: Provider) -> None:
    (request,), (body,) = provider.requests, provider.bodies
    expected = dict(golden["request"])
    if golden["endpoint"] == "/v1/chat/completions" and expected.get("stream"):
        expected.setdefault("stream_options", {"include_usage": True})
    assert body == expected
    assert request.url.path == golden["endpoint"]
    assert request.headers["x-stainless-retry-count"] == "0"


# What came of it --------------------------------------------------------------------------------------------------


def _check_call_error(error: APICallError, observed: dict[str, Any]) -> None:
    if observed["outcome"] == "ok":
        is_text = observed.get("returned", {}).get("python_type") == "str"
        assert is_text or observed["items"] == 0
        assert ("where JSON was asked for" if is_text else "without a single event") in str(error)
        return
    assert observed["items_before_error"] == 0
    assert error.status_code == observed.get("status_code")
    assert error.response_headers.get("retry-after") == observed.get("retry_after")
    status = error.status_code
    assert error.is_retryable is (status is not None and (status in (408, 409, 429) or status >= 500))
    if " - " in observed["message"]:  # the SDK puts its own words in front of the provider's
        assert str(error) in observed["message"]


def _check_stream(parts: list[ModelStreamPart], observed: dict[str, Any], golden: dict[str, Any]) -> None:
    events: list[Any] = [part.raw_value for part in parts if isinstance(part, ModelRaw)]
    heard = HEARD[golden["endpoint"]](events)
    assert len(events) == observed.get("items", observed.get("items_before_error"))
    types = observed.get("types", observed.get("types_before_error"))
    assert types is None or _run_lengths(event["type"] for event in events) == types
    for key, value in heard.recorded().items():
        assert key not in observed or observed[key] == value, key
    assert _heard_in(parts) == heard
    _check_end(parts, observed, heard)
    if golden["endpoint"] == "/v1/messages":
        _check_signatures(parts, golden["sdk_observed"].get("anthropic:messages.stream()", {}).get("final"))


def _check_signatures(parts: list[ModelStreamPart], final: dict[str, Any] | None) -> None:
    """Check that thinking ends with what it needs to go back."""
    if final is None:
        return
    thoughts = [block for block in final["content"] if block["type"] in ("thinking", "redacted_thinking")]
    recorded = [block.get("signature") or block.get("data") for block in thoughts]
    told: list[Any] = [
        (part.provider_metadata or {}).get("anthropic", {}) for part in parts if isinstance(part, ModelReasoningEnd)
    ]
    assert [each.get("signature") or each.get("redactedData") for each in told] == recorded


def _check_end(parts: list[ModelStreamPart], observed: dict[str, Any], heard: Heard) -> None:
    """Check that a failure is the last word, told as what it is, and a complete answer the only one with a finish."""
    if observed["outcome"] == "ok":
        last = parts[-1]
        assert isinstance(last, ModelFinish) is (heard.reason is not None)
        assert any(isinstance(part, ModelError) for part in parts) is heard.has_failed
        return
    assert isinstance(parts[-1], ModelError)
    error = parts[-1].error
    match observed["error_type"]:
        case "json.JSONDecodeError":
            assert isinstance(error, APICallError)
            assert not error.is_retryable
        case "openai.APIError" | "anthropic.APIStatusError":
            assert isinstance(error, StreamProviderError)
            assert str(error) in observed["message"]
            assert error.code == observed.get("code")
        case _:
            assert isinstance(error, APICallError)
            assert error.is_retryable
            assert error.status_code is None


def _check_whole(answer: GenerateResult, returned: dict[str, Any]) -> None:
    heard = WHOLE[returned.get("object", "message")](returned)
    said = Heard(reason=answer.finish_reason.raw, usage=answer.usage.raw)
    for content in answer.content:
        match content:
            case ModelText() if content.provider_metadata and content.provider_metadata["openai"].get("refusal"):
                said.refusal += content.text
            case ModelText():
                said.text += content.text
            case ModelReasoning():
                said.reasoning += content.text
            case ModelToolCall():
                said.calls.append((content.tool_call_id, content.tool_name, json.loads(content.input)))
            case _:
                raise AssertionError(content)
    assert said == heard


def _heard_in(parts: list[ModelStreamPart]) -> Heard:
    heard = Heard()
    refusals: set[str] = set()
    for part in parts:
        match part:
            case ModelTextStart():
                told = (part.provider_metadata or {}).get("openai", {})
                (refusals.add if told.get("refusal") else refusals.discard)(part.id)
            case ModelTextDelta():
                if part.id in refusals:
                    heard.refusal += part.delta
                else:
                    heard.text += part.delta
            case ModelReasoningDelta():
                heard.reasoning += part.delta
            case ModelToolCall():
                heard.calls.append((part.tool_call_id, part.tool_name, part.input))
            case ModelFinish():
                heard.reason, heard.usage = part.finish_reason.raw, part.usage.raw
            case ModelError():
                heard.has_failed = isinstance(part.error, StreamProviderError)
            case _:
                pass
    return heard


# What the SDK read ------------------------------------------------------------------------------------------------


def _chat_events(events: list[Any]) -> Heard:
    heard = Heard()
    calls: dict[int, list[str]] = {}
    for event in events:
        heard.usage = event.get("usage") or heard.usage
        for choice in event.get("choices") or ():
            delta = choice["delta"]
            heard.text += delta.get("content") or ""
            heard.refusal += delta.get("refusal") or ""
            heard.reasoning += delta.get("reasoning_content") or ""
            heard.reason = choice.get("finish_reason") or heard.reason
            for call in delta.get("tool_calls") or ():
                known = calls.setdefault(call["index"], ["", "", ""])
                new = (call.get("id"), call["function"].get("name"), call["function"].get("arguments"))
                calls[call["index"]] = [old + (piece or "") for old, piece in zip(known, new, strict=True)]
    heard.calls = [(call_id, name, given) for call_id, name, given in calls.values()]
    return heard


def _responses_events(events: list[Any]) -> Heard:
    heard = Heard()
    calls: dict[str, tuple[str, str, Any]] = {}
    for event in events:
        items: list[Any] = []
        match event["type"]:
            case "response.output_text.delta":
                heard.text += event["delta"]
            case "response.refusal.delta":
                heard.refusal += event["delta"]
            case "response.reasoning_summary_text.delta":
                heard.reasoning += event["delta"]
            case "response.output_item.done":
                items = [event["item"]]
            case "response.completed" | "response.incomplete" | "response.failed":
                response = event["response"]
                items = response["output"]
                heard.reason = _reason_of(response)
                heard.usage = response.get("usage")
                heard.has_failed |= response["status"] == "failed"
            case "error":
                heard.has_failed = True
            case _:
                pass
        for item in items:
            if item["type"] == "function_call":
                calls[item["call_id"]] = (item["call_id"], item["name"], item["arguments"])
    heard.calls = list(calls.values())
    return heard


def _messages_events(events: list[Any]) -> Heard:
    heard = Heard()
    calls: dict[int, tuple[str, str]] = {}
    given: dict[int, str] = {}
    usage: dict[str, Any] = {}
    for event in events:
        index, delta = event.get("index", -1), event.get("delta", {})
        match event["type"]:
            case "message_start":
                usage |= event["message"].get("usage", {})
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                calls[index] = (event["content_block"]["id"], event["content_block"]["name"])
            case "content_block_delta":
                heard.text += delta.get("text", "")
                heard.reasoning += delta.get("thinking", "")
                given[index] = given.get(index, "") + delta.get("partial_json", "")
            case "content_block_stop" if index in calls:
                heard.calls.append((*calls[index], given.get(index) or "{}"))
            case "message_delta":
                heard.reason = delta.get("stop_reason") or heard.reason
                usage |= event.get("usage", {})
            case _:
                pass
    heard.usage = usage if heard.reason is not None else None
    return heard


def _chat_answer(answer: dict[str, Any]) -> Heard:
    (choice,) = answer["choices"]
    message = choice["message"]
    return Heard(
        text=message.get("content", ""),
        refusal=message.get("refusal", ""),
        reasoning=message.get("reasoning_content", ""),
        calls=[_parsed(call["id"], call["function"]) for call in message.get("tool_calls", ())],
        reason=choice["finish_reason"],
        usage=answer.get("usage"),
    )


def _response_answer(answer: dict[str, Any]) -> Heard:
    said = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    thoughts = [part for item in answer["output"] if item["type"] == "reasoning" for part in item["summary"]]
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    return Heard(
        text="".join(part.get("text", "") for part in said),
        refusal="".join(part.get("refusal", "") for part in said),
        reasoning="".join(part["text"] for part in thoughts),
        calls=[_parsed(call["call_id"], call) for call in calls],
        reason=_reason_of(answer),
        usage=answer.get("usage"),
    )


def _message_answer(answer: dict[str, Any]) -> Heard:
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    return Heard(
        text="".join(block.get("text", "") for block in answer["content"]),
        reasoning="".join(block.get("thinking", "") for block in answer["content"]),
        calls=[(block["id"], block["name"], block["input"]) for block in calls],
        reason=answer["stop_reason"],
        usage=answer.get("usage"),
    )


HEARD = {"/v1/chat/completions": _chat_events, "/v1/responses": _responses_events, "/v1/messages": _messages_events}
WHOLE = {"chat.completion": _chat_answer, "response": _response_answer, "message": _message_answer}


def _reason_of(response: dict[str, Any]) -> str:
    incomplete: Any = response.get("incomplete_details")
    return incomplete["reason"] if incomplete else response["status"]


def _parsed(call_id: str, function: dict[str, Any]) -> tuple[str, str, Any]:
    return call_id, function["name"], json.loads(function["arguments"])


def _run_lengths(types: Iterable[str]) -> list[str]:
    runs = ((name, len(list(run))) for name, run in groupby(types))
    return [name if length == 1 else f"{name} x{length}" for name, length in runs]


async def _check_model_list(golden: dict[str, Any], provider: Provider) -> None:
    for client in (provider.openai(), provider.anthropic()):
        vendor = type(client).__name__.removeprefix("Async").lower()
        items = [item.to_dict(mode="json") async for item in client.models.list()]
        assert items == golden["sdk_observed"][f"{vendor}:models.list()"]["items"]
