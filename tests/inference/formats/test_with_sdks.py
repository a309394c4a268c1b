"""What builders give, read by the public SDKs: by stream helpers (`sdk` profile) and as raw streams (`minimal`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chatagent_test.inference.sse import render_sse
from inference.formats.building import BUILDERS, CALL, ECHO, TEXT, THOUGHT, all_builders
from providers.serving import Answer, Provider

if TYPE_CHECKING:
    from chatagent_test.inference.sse import SseEvent

pytestmark = [
    pytest.mark.anyio,
    # The SDKs leave generators half read behind `[DONE]`, at which trio's garbage collection complains.
    pytest.mark.filterwarnings("ignore:Async generator '(openai|anthropic|httpx2):ResourceWarning"),
]

HI: Any = [{"role": "user", "content": "hi"}]

SAYS: dict[str, tuple[str, tuple[str, str, str] | None]] = {
    "chat_completion_events": (ECHO, None),
    "chat_completion_events_exact": (TEXT, None),
    "chat_reasoning_events": (TEXT, None),
    "chat_tool_call_events": ("", CALL),
    "chat_completions_reasoning_then_tool_call_events": ("", CALL),
    "responses_api_events": (ECHO, None),
    "responses_api_events_exact": (TEXT, None),
    "responses_api_reasoning_only_events": ("", None),
    "responses_api_reasoning_and_text_events": (ECHO, None),
    "responses_api_reasoning_then_tool_call_events": ("", CALL),
    "responses_api_tool_call_events": ("", CALL),
    "responses_api_doom_loop_check_events": ("", None),
    "responses_api_doom_loop_terminal_only_events": (ECHO, None),
    "responses_api_with_doom_loop_frame": (ECHO, None),
    "messages_api_events": (TEXT, None),
    "messages_tool_use_events": (TEXT, CALL),
    "messages_thinking_events": (TEXT, None),
    "messages_redacted_thinking_events": (TEXT, None),
}
"""What each builder says: a text, and a call if there is one."""

REFUSALS = {"chat_refusal_events", "responses_api_refusal_events"}
NEVER_COMPLETED = {"responses_api_incomplete_events", "responses_api_failed_events", "responses_api_error_events"}


def provider(events: list[SseEvent]) -> Provider:
    return Provider(Answer([render_sse(event) for event in events]))


def test_every_builder_is_tried() -> None:
    assert set(BUILDERS) == all_builders()
    assert set(SAYS) | REFUSALS | NEVER_COMPLETED == set(BUILDERS)


@pytest.mark.parametrize("name", SAYS)
async def test_a_stream_helper_reads_what_was_said(name: str) -> None:
    """FMT-019."""
    serving = provider(BUILDERS[name](profile="sdk"))

    said = await HELPERS[name.split("_")[0]](serving)

    text, call = SAYS[name]
    assert said == (text, [call] if call else [])


@pytest.mark.parametrize("name", sorted(REFUSALS))
async def test_a_stream_helper_reads_a_refusal(name: str) -> None:
    """FMT-019."""
    client = provider(BUILDERS[name](profile="sdk")).openai()

    if name.startswith("chat"):
        async with client.chat.completions.stream(model="m", messages=HI) as stream:
            refusal = (await stream.get_final_completion()).choices[0].message.refusal
    else:
        async with client.responses.stream(model="m", input=HI) as stream:
            (message,) = (await stream.get_final_response()).to_dict()["output"]  # pyright: ignore[reportGeneralTypeIssues]
            refusal = message["content"][0]["refusal"]

    assert refusal == TEXT


@pytest.mark.parametrize("name", sorted(NEVER_COMPLETED))
async def test_a_stream_helper_misses_the_end_of_what_never_completes(name: str) -> None:
    client = provider(BUILDERS[name](profile="sdk")).openai()

    async with client.responses.stream(model="m", input=HI) as stream:
        async for _ in stream:
            pass
        with pytest.raises(RuntimeError, match=r"^Didn't receive a `response.completed` event.$"):
            await stream.get_final_response()


async def chat_helper(serving: Provider) -> tuple[str, list[Any]]:
    async with serving.openai().chat.completions.stream(model="m", messages=HI) as stream:
        message = (await stream.get_final_completion()).choices[0].message
    calls: list[Any] = list(message.tool_calls or ())
    return message.content or "", [(call.id, call.function.name, call.function.arguments) for call in calls]


async def responses_helper(serving: Provider) -> tuple[str, list[Any]]:
    async with serving.openai().responses.stream(model="m", input=HI) as stream:
        response = await stream.get_final_response()
    calls = [item for item in response.output if item.type == "function_call"]
    thoughts = [item.summary[0].text for item in response.output if item.type == "reasoning"]
    assert thoughts in ([], [THOUGHT])
    return response.output_text, [(call.call_id, call.name, call.arguments) for call in calls]


async def messages_helper(serving: Provider) -> tuple[str, list[Any]]:
    client = serving.anthropic()
    async with client.messages.stream(model="m", messages=HI, max_tokens=9) as stream:
        content = (await stream.get_final_message()).content
    text = "".join(block.text for block in content if block.type == "text")
    assert [block.thinking for block in content if block.type == "thinking"] in ([], [THOUGHT])
    calls = [block for block in content if block.type == "tool_use"]
    return text, [(call.id, call.name, json.dumps(call.input, separators=(",", ":"))) for call in calls]


HELPERS = {"chat": chat_helper, "responses": responses_helper, "messages": messages_helper}


@pytest.mark.parametrize("name", BUILDERS)
async def test_a_raw_stream_gives_every_frame_of_the_minimal_profile(name: str) -> None:
    """FMT-020: but of Messages, whose SDK drops every frame without a name."""
    events = BUILDERS[name](profile="minimal")
    serving = provider(events)
    sent = [json.loads(event.data) for event in events if event.data != "[DONE]"]

    kind = name.split("_")[0]
    if kind == "chat":
        raw: Any = await serving.openai().chat.completions.create(model="m", messages=HI, stream=True)
    elif kind == "responses":
        raw = await serving.openai().responses.create(model="m", input=HI, stream=True)
    else:
        raw = await serving.anthropic().messages.create(model="m", messages=HI, max_tokens=9, stream=True)
    seen = [each.to_dict(mode="json") async for each in raw]

    assert seen == ([] if kind == "messages" else sent)


async def test_the_stream_helper_refuses_the_minimal_profile() -> None:
    """Which is why the other one is the default (4.2.5, 4.3.2)."""
    responses = provider(BUILDERS["responses_api_events"](profile="minimal")).openai()
    messages = provider(BUILDERS["messages_api_events"](profile="minimal")).anthropic()

    with pytest.raises(RuntimeError):
        async with responses.responses.stream(model="m", input=HI) as stream:
            await stream.get_final_response()
    with pytest.raises(AssertionError):
        async with messages.messages.stream(model="m", messages=HI, max_tokens=9) as events:
            await events.get_final_message()
