from __future__ import annotations

from typing import Any

import pytest

from chatagent.errors import APICallError, InvalidPromptError, StreamProviderError
from chatagent.model import (
    AssistantMessage,
    FilePart,
    FinishReason,
    InputTokens,
    JsonResponseFormat,
    ModelError,
    ModelFinish,
    ModelReasoningEnd,
    ModelSource,
    ModelStreamStart,
    ModelTextDelta,
    ModelTextStart,
    ModelToolCall,
    ModelToolResult,
    OutputTokens,
    ProviderTool,
    ReasoningPart,
    ReferenceData,
    TextPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolChoice,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UrlData,
    UserMessage,
)
from chatagent.providers.openai import OpenAIResponsesModel
from providers.asking import HI, WEATHER, asked, of, outline, stream_of, tool_turn
from providers.serving import Provider, sse, whole

pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves generators half read when a stream is closed before its end.
    pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2):ResourceWarning"),
]

USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 15},
}
SEARCH = ProviderTool(id="openai.web_search", name="search", args={"searchContextSize": "low"})


def response(*output: dict[str, Any], status: str = "completed", **members: Any) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-x", "status": status}
    return {**base, "output": list(output), "usage": USAGE, **members}


def event(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **members}


def completed(*output: dict[str, Any], **members: Any) -> dict[str, Any]:
    return event(members.get("status", "completed"), response=response(*output, **members))


def message(text: str, item_id: str = "msg_1", **members: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": members.pop("annotations", [])}]
    return {"type": "message", "id": item_id, "role": "assistant", "content": content, **members}


CREATED = event("created", response=response(status="in_progress"))


def model_of(*events: object) -> tuple[OpenAIResponsesModel, Provider]:
    provider = Provider(sse(CREATED, *events))
    return OpenAIResponsesModel("gpt-x", client=provider.openai()), provider


async def body_of(*prompt: Any, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what is sent for a prompt, and what the caller is warned of."""
    model, provider = model_of(completed())
    result = await model.do_stream(asked(*prompt, **options))
    (start,) = of(ModelStreamStart, [part async for part in result.stream])
    return provider.bodies[0], [warning.feature or "" for warning in start.warnings]


async def test_text_keeps_the_id_and_the_phase_of_its_item() -> None:
    model, _ = model_of(
        event("output_item.added", output_index=0, item=message("", phase="final_answer", content=[])),
        event("output_text.delta", item_id="msg_1", content_index=0, delta="Hel"),
        event("output_text.delta", item_id="msg_1", content_index=0, delta="lo"),
        event("output_item.done", output_index=0, item=message("Hello", phase="final_answer")),
        completed(message("Hello", phase="final_answer")),
    )

    parts = await stream_of(model)

    assert outline(parts) == [
        "response-metadata resp_1",
        "text-start msg_1",
        "text-delta msg_1 'Hel'",
        "text-delta msg_1 'lo'",
        "text-end msg_1",
        "finish",
    ]
    assert of(ModelTextStart, parts)[0].provider_metadata == {"openai": {"itemId": "msg_1", "phase": "final_answer"}}


async def test_the_finish_tells_usage_and_the_id_of_the_response() -> None:
    model, _ = model_of(completed(message("x"), service_tier="flex"))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.finish_reason == FinishReason("stop", "completed")
    assert finish.usage.input_tokens == InputTokens(total=100, no_cache=40, cache_read=60, cache_write=0)
    assert finish.usage.output_tokens == OutputTokens(total=20, text=5, reasoning=15)
    assert finish.provider_metadata == {"openai": {"responseId": "resp_1", "serviceTier": "flex"}}


@pytest.mark.parametrize(
    ("reason", "unified"), [("max_output_tokens", "length"), ("content_filter", "content-filter"), ("odd", "other")]
)
async def test_an_incomplete_response_says_why(reason: str, unified: Any) -> None:
    model, _ = model_of(completed(message("x"), status="incomplete", incomplete_details={"reason": reason}))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.finish_reason == FinishReason(unified, reason)


async def test_each_piece_of_a_summary_is_a_block_and_the_last_carries_what_is_encrypted() -> None:
    item: Any = {"type": "reasoning", "id": "rs_1", "summary": []}
    model, _ = model_of(
        event("output_item.added", output_index=0, item=item),
        event("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="One."),
        event("reasoning_summary_text.delta", item_id="rs_1", summary_index=1, delta="Two."),
        event("output_item.done", output_index=0, item={**item, "encrypted_content": "gAAA"}),
        completed({**item, "encrypted_content": "gAAA"}),
    )

    parts = await stream_of(model)

    assert outline(parts)[1:-1] == [
        "reasoning-start rs_1:0",
        "reasoning-delta rs_1:0 'One.'",
        "reasoning-end rs_1:0",
        "reasoning-start rs_1:1",
        "reasoning-delta rs_1:1 'Two.'",
        "reasoning-end rs_1:1",
    ]
    assert [end.provider_metadata for end in of(ModelReasoningEnd, parts)] == [
        {"openai": {"itemId": "rs_1"}},
        {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "gAAA"}},
    ]


async def test_a_function_call_streams_under_its_call_id() -> None:
    item: Any = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": ""}
    done = {**item, "arguments": '{"city":"Oslo"}'}
    model, _ = model_of(
        event("output_item.added", output_index=0, item=item),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"city":'),
        event("function_call_arguments.delta", item_id="fc_1", delta='"Oslo"}'),
        event("output_item.done", output_index=0, item=done),
        completed(done),
    )

    parts = await stream_of(model)

    assert outline(parts)[1:] == [
        "tool-input-start call_1 weather",
        "tool-input-delta call_1 '{\"city\":'",
        "tool-input-delta call_1 '\"Oslo\"}'",
        "tool-input-end call_1",
        'tool-call call_1 weather \'{"city":"Oslo"}\'',
        "finish",
    ]
    assert of(ModelToolCall, parts)[0].provider_metadata == {"openai": {"itemId": "fc_1"}}
    assert of(ModelFinish, parts)[0].finish_reason == FinishReason("tool-calls", "completed")


async def test_what_never_streamed_is_taken_from_the_whole_response() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    model, _ = model_of(completed(thought, message("Yes."), call))

    parts = await stream_of(model)

    assert outline(parts)[1:-1] == [
        "reasoning-start rs_1",
        "reasoning-delta rs_1 'Hm.'",
        "reasoning-end rs_1",
        "text-start msg_1",
        "text-delta msg_1 'Yes.'",
        "text-end msg_1",
        "tool-input-start call_1 weather",
        "tool-input-delta call_1 '{}'",
        "tool-input-end call_1",
        "tool-call call_1 weather '{}'",
    ]


async def test_a_hosted_tool_gives_a_call_and_a_result_of_the_provider() -> None:
    item: Any = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    done = {**item, "status": "completed", "action": {"type": "search", "query": "oslo"}}
    model, _ = model_of(
        event("output_item.added", output_index=0, item=item),
        event("web_search_call.searching", item_id="ws_1", output_index=0),
        event("output_item.done", output_index=0, item=done),
        completed(done, message("x")),
    )

    parts = await stream_of(model, asked(tools=[SEARCH]))

    (call,), (result,) = of(ModelToolCall, parts), of(ModelToolResult, parts)
    assert outline(parts)[1] == "tool-input-start ws_1 search"
    assert (call.tool_call_id, call.tool_name, call.provider_executed, call.dynamic) == ("ws_1", "search", True, None)
    assert call.input == '{"type":"search","query":"oslo"}'
    assert (result.tool_call_id, result.tool_name, result.result) == ("ws_1", "search", {"status": "completed"})
    assert of(ModelFinish, parts)[0].finish_reason == FinishReason("stop", "completed")


async def test_a_tool_of_an_mcp_server_is_dynamic_and_may_fail() -> None:
    item: Any = {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": '{"n":2}', "server_label": "dice"}
    model, _ = model_of(completed({**item, "error": {"type": "mcp_protocol_error", "code": 1, "message": "no dice"}}))

    parts = await stream_of(model)

    (call,), (result,) = of(ModelToolCall, parts), of(ModelToolResult, parts)
    assert (call.tool_name, call.input, call.dynamic) == ("roll", '{"n":2}', True)
    assert result.is_error


async def test_annotations_become_sources() -> None:
    page = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 1}
    file = {"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 0}
    model, _ = model_of(
        event("output_text.delta", item_id="msg_1", content_index=0, delta="x"),
        event("output_text.annotation.added", item_id="msg_1", annotation_index=0, annotation=page),
        event("output_text.annotation.added", item_id="msg_1", annotation_index=1, annotation=file),
        completed(message("x", annotations=[page, file])),
    )

    sources = of(ModelSource, await stream_of(model))

    assert [(each.source_type, each.url, each.title) for each in sources] == [
        ("url", "https://a.test", "A"),
        ("document", None, "a.txt"),
    ]


async def test_a_text_that_did_not_stream_has_each_of_its_sources_once() -> None:
    page = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 1}
    model, _ = model_of(
        event("output_text.annotation.added", item_id="msg_1", annotation_index=0, annotation=page),
        completed(message("x", annotations=[page])),
    )

    parts = await stream_of(model)

    assert [each.delta for each in of(ModelTextDelta, parts)] == ["x"]
    assert [each.url for each in of(ModelSource, parts)] == ["https://a.test"]


async def test_a_failed_response_is_an_error_part_before_the_finish() -> None:
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    model, _ = model_of(completed(status="failed", error=error))

    parts = await stream_of(model)

    (failure,) = of(ModelError, parts)
    assert isinstance(failure.error, StreamProviderError)
    assert str(failure.error) == "slow down"
    assert (failure.error.code, failure.error.status_code, failure.error.is_retryable) == (
        "rate_limit_exceeded",
        429,
        True,
    )
    assert of(ModelFinish, parts)[0].finish_reason == FinishReason("error", "failed")


# Requests ---------------------------------------------------------------------------------------------------------


async def test_what_the_model_said_goes_back_as_the_items_that_it_was() -> None:
    def known(item_id: str, **more: str) -> Any:
        return {"openai": {"itemId": item_id, **more}}

    said = AssistantMessage(
        [
            ReasoningPart("One.", provider_options=known("rs_1")),
            ReasoningPart("Two.", provider_options=known("rs_1", reasoningEncryptedContent="gAAA")),
            TextPart("Let me see.", provider_options=known("msg_1", phase="commentary")),
            ToolCallPart("ws_1", "search", {}, provider_executed=True, provider_options=known("ws_1")),
            ToolResultPart("ws_1", "search", ToolResultOutput("json", {}), provider_options=known("ws_1")),
            ToolCallPart("call_1", "weather", {"city": "Oslo"}, provider_options=known("fc_1")),
        ]
    )
    told = ToolMessage([ToolResultPart("call_1", "weather", ToolResultOutput("text", "sunny"))])

    body, warned = await body_of(HI, said, told, tools=[WEATHER, SEARCH])

    assert body["input"] == [
        {"role": "user", "content": "hi"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
            "encrypted_content": "gAAA",
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {"type": "item_reference", "id": "ws_1"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "weather",
            "arguments": '{"city":"Oslo"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "name": "weather",
            "description": "The weather.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
        {"type": "web_search", "search_context_size": "low"},
    ]
    assert warned == []


async def test_items_without_ids_are_sent_whole() -> None:
    encrypted = {"openai": {"reasoningEncryptedContent": "gAAA"}}
    said = AssistantMessage(
        [
            ReasoningPart("One."),
            ReasoningPart("Two.", provider_options=encrypted),
            ReasoningPart("", provider_options=encrypted),
            TextPart("yes"),
        ]
    )

    body, _ = await body_of(said)

    one_and_two = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    assert body["input"] == [
        {"type": "reasoning", "summary": one_and_two, "encrypted_content": "gAAA"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "yes", "annotations": []}]},
    ]


async def test_what_the_provider_could_not_know_again_is_left_out_and_warned_of() -> None:
    said = AssistantMessage(
        [
            ReasoningPart("hm", provider_options={"anthropic": {"signature": "sig"}}),
            TextPart("No.", provider_options={"openai": {"refusal": True}}),
            ToolCallPart("ws_1", "search", {}, provider_executed=True),
            ToolResultPart("ws_1", "search", ToolResultOutput("json", {})),
        ]
    )

    body, warned = await body_of(said, tools=[ProviderTool(id="anthropic.bash", name="bash", args={})], seed=1)

    assert body["input"] == [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]
    assert warned == ["seed", "reasoning of another model", "call of hosted tool search", "tool anthropic.bash"]


async def test_outcomes_of_tools_may_hold_images_and_approvals_are_passed_on() -> None:
    image = {"type": "image-data", "data": "AAAA", "mediaType": "image/png"}
    output = ToolResultOutput("content", [{"type": "text", "text": "a map"}, image])
    approval = ToolApprovalResponsePart("mcpr_1", approved=True, provider_executed=True)

    body, _ = await body_of(*tool_turn(output), ToolMessage([approval]))

    assert body["input"][-2:] == [
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "a map"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
            ],
        },
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ]


async def test_files_of_the_user_are_sent_by_kind() -> None:
    parts = [
        FilePart(UrlData("https://a.test/a.png"), "image/png"),
        FilePart(ReferenceData({"openai": "file_1"}), "image/png"),
        FilePart(UrlData("https://a.test/a.pdf"), "application/pdf"),
        FilePart(ReferenceData({"openai": "file_2"}), "application/pdf"),
        FilePart(b"%PDF", "application/pdf"),
    ]

    body, _ = await body_of(UserMessage(parts))

    assert body["input"][0]["content"] == [
        {"type": "input_image", "detail": "auto", "image_url": "https://a.test/a.png"},
        {"type": "input_image", "detail": "auto", "file_id": "file_1"},
        {"type": "input_file", "file_url": "https://a.test/a.pdf"},
        {"type": "input_file", "file_id": "file_2"},
        {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    ]


async def test_a_file_that_the_provider_does_not_hold_is_an_invalid_prompt() -> None:
    file = FilePart(ReferenceData({"anthropic": "file_1"}), "application/pdf")

    with pytest.raises(InvalidPromptError, match=r"has no id at `openai`: send its data$"):
        await body_of(UserMessage([file]))


async def test_settings_and_provider_options_have_the_apis_names() -> None:
    options = {
        "reasoningSummary": "auto",
        "textVerbosity": "low",
        "strictJsonSchema": False,
        "previousResponseId": "resp_0",
        "store": False,
        "reasoning": {"contextWindow": 1},
    }

    body, warned = await body_of(
        max_output_tokens=9,
        reasoning="low",
        tools=[SEARCH],
        tool_choice=ToolChoice("tool", "search"),
        response_format=JsonResponseFormat(schema={"type": "object"}),
        provider_options={"openai": options},
    )

    assert {key: body[key] for key in body if key not in ("model", "input", "tools", "stream")} == {
        "max_output_tokens": 9,
        "tool_choice": {"type": "web_search"},
        "reasoning": {"effort": "low", "summary": "auto", "context_window": 1},
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "response", "schema": {"type": "object"}, "strict": False},
        },
        "previous_response_id": "resp_0",
        "store": False,
    }
    assert warned == []


# Answers in one piece ---------------------------------------------------------------------------------------------


async def test_an_answer_in_one_piece_has_the_same_content() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    provider = Provider(whole(response(message("Yes."), call)))

    answer = await OpenAIResponsesModel("gpt-x", client=provider.openai()).do_generate(asked())

    assert [each.type for each in answer.content] == ["text", "tool-call"]
    assert answer.finish_reason == FinishReason("tool-calls", "completed")
    assert answer.response is not None
    assert answer.response.model_id == "gpt-x"


async def test_a_whole_response_that_failed_is_raised() -> None:
    error = {"code": "server_error", "message": "boom"}
    provider = Provider(whole(response(status="failed", error=error)))

    with pytest.raises(APICallError, match=r"^boom$") as raised:
        await OpenAIResponsesModel("gpt-x", client=provider.openai()).do_generate(asked())

    assert raised.value.is_retryable
