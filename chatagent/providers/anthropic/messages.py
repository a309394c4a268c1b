"""Models behind Anthropic's Messages API.

Here the request is put together and sent; prompts are mapped in `prompt`, answers in `events`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from chatagent.model import (
    GenerateResult,
    JsonResponseFormat,
    SpecificationVersion,
    StreamResult,
    SupportedUrls,
)
from chatagent.providers.anthropic.client import PARAMETERS, Message, client_or_default, translated
from chatagent.providers.anthropic.events import MessagesReader, messages_answer
from chatagent.providers.anthropic.prompt import API, messages_prompt, messages_tool_choice, messages_tools
from chatagent.providers.calls import RawAnswer, call_of, call_whole, stream_result, whole_result
from chatagent.providers.events import open_stream
from chatagent.providers.requests import Body, merge_options, options_of, unsupported, warn_of_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

    from chatagent.model import CallOptions, CallWarning

__all__ = ["AnthropicModel"]

STREAMED_TOKENS: Final = 32_000
"""Most tokens of an answer unless the call says otherwise; the API wants a number."""
WHOLE_TOKENS: Final = 20_000
"""The same for an answer in one piece, for which the SDK refuses to wait longer."""

_SETTINGS: Final = ("temperature", "top_p", "top_k", "stop_sequences")
_MISSING: Final = ("seed", "presence_penalty", "frequency_penalty")
_BUDGETS: Final = {"minimal": 1_024, "low": 4_096, "medium": 10_000, "high": 20_000, "xhigh": 32_000, "max": 48_000}
"""Tokens of thinking for each effort, for the models that take a budget."""
_EFFORTS: Final = {"minimal": "low"}
"""Efforts that have another name in the API."""
_NESTED: Final = ("thinking", "metadata", "output_config", "cache_control", "container", "context_management")


class AnthropicModel:
    """A model that is asked through the Messages API.

    `provider_options["anthropic"]` holds members of the request (`{"thinking": {"type": "adaptive"}}`), and of ours
    `effort` and `disableParallelToolUse`. On messages, parts and tools, `cacheControl` marks where a prompt is cached.

    Args:
        model_id: the model's name at its provider, such as `claude-opus-4-8`.
        client: an `anthropic.AsyncAnthropic`, or anything with the same interface. It is not closed, and used without
            its own retries. Without one, a client is made from the environment when the model is first called, and
            shared by all models of the event loop.
        provider: the name of the provider, for messages and logs.
    """

    specification_version: SpecificationVersion = "v4"

    def __init__(self, model_id: str, *, client: AsyncAnthropic | None = None, provider: str = "anthropic") -> None:
        self.model_id, self.provider = model_id, provider
        self._client = client

    def __repr__(self) -> str:
        return f"AnthropicModel({self.model_id!r})"

    @property
    def supported_urls(self) -> SupportedUrls:
        """Images and PDF files at any web address."""
        return {"image/*": ("^https?://",), "application/pdf": ("^https?://",)}

    async def do_stream(self, options: CallOptions, /) -> StreamResult:
        """Begin an answer; see `LanguageModel.do_stream`.

        Raises:
            APICallError: the provider refused the call, or failed before its first word.
            AbortError: the call was aborted.
            InvalidPromptError: a file has a form that the API does not take.
            MissingAPIKeyError: there is no client, and no key in the environment.
        """
        body, warnings = self._request(options, STREAMED_TOKENS)
        body = {**body, "stream": True}
        create = cast(
            "Callable[..., Awaitable[AsyncStream[RawMessageStreamEvent]]]",
            client_or_default(self._client).messages.create,
        )
        stream, source = await open_stream(
            call_of(create, body, known=PARAMETERS, options=options),
            MessagesReader(_declared(options)),
            provider=self.provider,
            options=options,
            warnings=warnings,
            translate=translated,
        )
        return stream_result(stream, source, body)

    async def do_generate(self, options: CallOptions, /) -> GenerateResult:
        """Answer in one piece; errors as for `do_stream`."""
        body, warnings = self._request(options, WHOLE_TOKENS)
        create = cast(
            "Callable[..., Awaitable[RawAnswer]]", client_or_default(self._client).messages.with_raw_response.create
        )
        message, headers = await call_whole(
            call_of(create, body, known=PARAMETERS, options=options),
            Message,
            provider=self.provider,
            options=options,
            translate=translated,
        )
        answer = messages_answer(message, _declared(options))
        return whole_result(answer, body, warnings=warnings, headers=headers)

    def _request(self, options: CallOptions, default_tokens: int) -> tuple[Body, list[CallWarning]]:
        warnings = list(warn_of_settings(options, API, _MISSING))
        given = options_of(options.provider_options, "anthropic")
        prompt = messages_prompt(options.prompt, warnings)
        body: Body = {
            "model": self.model_id,
            "max_tokens": options.max_output_tokens or default_tokens,
            "messages": prompt.messages,
        }
        if prompt.system:
            body["system"] = prompt.system
        body |= {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
        one_at_a_time = cast("bool | None", given.pop("disable_parallel_tool_use", None))
        tools = messages_tools(options.tools or (), warnings)
        if tools:
            body["tools"] = tools
            choice = messages_tool_choice(options.tool_choice, one_at_a_time=one_at_a_time)
            if choice is not None:
                body["tool_choice"] = choice
        self._think(body, options, has_own="thinking" in given)
        if "effort" in given:
            body["output_config"] = {"effort": given.pop("effort")}
        _ask_for_json(body, options, warnings)
        merge_options(body, given, nested=_NESTED)
        _drop_sampling(body, warnings)
        return body, warnings

    def _think(self, body: Body, options: CallOptions, *, has_own: bool) -> None:
        """Ask for as much thinking as the call wants, in the form that the model knows."""
        effort = options.reasoning
        if effort is None or effort == "provider-default" or has_own:
            return
        if effort == "none":
            body["thinking"] = {"type": "disabled"}
        elif _is_adaptive(self.model_id):
            body["thinking"] = {"type": "adaptive"}
            body["output_config"] = {"effort": _EFFORTS.get(effort, effort)}
        else:
            budget = _BUDGETS[effort]
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
            # Thinking counts towards the limit, which the caller means for the answer.
            body["max_tokens"] = cast("int", body["max_tokens"]) + budget


def _is_adaptive(model_id: str) -> bool:
    """Return whether a model decides itself how much to think: those from version 4.6 on do, and refuse a budget."""
    numbers = [int(each) for each in re.findall(r"(?<=[-.])\d{1,2}(?=[-.@]|$)", model_id)]
    return not numbers or (numbers[0], numbers[1] if len(numbers) > 1 else 0) >= (4, 6)


def _declared(options: CallOptions) -> frozenset[str]:
    return frozenset(tool.name for tool in options.tools or ())


def _ask_for_json(body: Body, options: CallOptions, warnings: list[CallWarning]) -> None:
    wanted = options.response_format
    if not isinstance(wanted, JsonResponseFormat):
        return
    if wanted.schema is None:
        warnings.append(unsupported("response_format without a schema", f"{API} writes JSON only by a schema"))
        return
    config = cast("Body", body.get("output_config") or {})
    body["output_config"] = {**config, "format": {"type": "json_schema", "schema": dict(wanted.schema)}}


def _drop_sampling(body: Body, warnings: list[CallWarning]) -> None:
    """Take out the settings that a model which thinks does not take."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or cast("Body", thinking).get("type") == "disabled":
        return
    for name in ("temperature", "top_k", "top_p"):
        if body.pop(name, None) is not None:
            warnings.append(unsupported(name, "a model that thinks takes no such setting"))
