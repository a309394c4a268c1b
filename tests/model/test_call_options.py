"""Options of a model call, and the protocol."""

from __future__ import annotations

from typing import Any

from chatagent.model import (
    CallOptions,
    FunctionTool,
    JsonResponseFormat,
    LanguageModel,
    ProviderTool,
    ToolChoice,
    UserMessage,
)


def test_only_what_is_given_is_on_the_wire() -> None:
    options = CallOptions(prompt=[UserMessage("Hi")])

    assert options.to_wire() == {
        "toolChoice": {"type": "auto"},
        "prompt": [{"role": "user", "content": "Hi"}],
        "includeRawChunks": False,
    }


def test_settings_and_tools_have_their_wire_names() -> None:
    options = CallOptions(
        prompt=[],
        max_output_tokens=5,
        stop_sequences=["END"],
        temperature=0.0,
        reasoning="low",
        response_format=JsonResponseFormat(schema={"type": "object"}, name="n"),
        tools=[
            FunctionTool(
                name="t",
                input_schema={"type": "object"},
                description="d",
                input_examples=[{"input": {}}],
                provider_options={"p": {"k": 1}},
                strict=True,
            ),
            ProviderTool(id="v.search", name="search", args={"n": 1}),
        ],
        tool_choice=ToolChoice("tool", "t"),
        provider_options={"p": {"x": 1}},
        headers={"a": "b"},
    )

    assert options.to_wire() == {
        "maxOutputTokens": 5,
        "stopSequences": ["END"],
        "temperature": 0.0,
        "reasoning": "low",
        "responseFormat": {"type": "json", "schema": {"type": "object"}, "name": "n"},
        "tools": [
            {
                "type": "function",
                "name": "t",
                "inputSchema": {"type": "object"},
                "description": "d",
                "inputExamples": [{"input": {}}],
                "providerOptions": {"p": {"k": 1}},
                "strict": True,
            },
            {"type": "provider", "id": "v.search", "name": "search", "args": {"n": 1}},
        ],
        "toolChoice": {"type": "tool", "toolName": "t"},
        "prompt": [],
        "providerOptions": {"p": {"x": 1}},
        "headers": {"a": "b"},
        "includeRawChunks": False,
    }


def test_a_model_needs_no_base_class() -> None:
    class Mine:
        specification_version = "v4"
        provider = "mine"
        model_id = "m"
        supported_urls: dict[str, list[str]] = {}  # noqa: RUF012 - as a user would write it

        async def do_generate(self, options: CallOptions, /) -> Any:
            raise NotImplementedError

        async def do_stream(self, options: CallOptions, /) -> Any:
            raise NotImplementedError

    assert isinstance(Mine(), LanguageModel)
