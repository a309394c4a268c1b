"""Models behind OpenAI's Chat Completions API, and behind the many servers that speak it too.

Here the request is put together and sent; prompts are mapped in `chat_prompt`, answers in `chat_stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from chatagent.errors import APICallError
from chatagent.model import (
    GenerateResult,
    JsonResponseFormat,
    SpecificationVersion,
    StreamResult,
    SupportedUrls,
)
from chatagent.providers.calls import RawAnswer, call_of, call_whole, stream_result, whole_result
from chatagent.providers.events import open_stream
from chatagent.providers.openai.chat_prompt import API, chat_messages, chat_tool_choice, chat_tools
from chatagent.providers.openai.chat_stream import ChatReader, chat_answer
from chatagent.providers.openai.client import (
    CHAT_PARAMETERS,
    ChatCompletion,
    client_or_default,
    translated,
)
from chatagent.providers.requests import Body, merge_options, options_of, warn_of_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk

    from chatagent.model import CallOptions, CallWarning

__all__ = ["OpenAIChatModel"]

_SETTINGS: Final = {
    "max_output_tokens": "max_completion_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "stop_sequences": "stop",
    "seed": "seed",
}


class OpenAIChatModel:
    """A model that is asked through the Chat Completions API.

    `provider_options["openai"]` holds members of the request (`{"parallelToolCalls": False}`), and of ours
    `strictJsonSchema` (whether the schema of a JSON answer is enforced) and `textVerbosity`.

    Args:
        model_id: the model's name at its provider, such as `gpt-5.2`.
        client: an `openai.AsyncOpenAI`, or anything with the same interface. It is not closed, and used without its
            own retries. Without one, a client is made from the environment when the model is first called, and shared
            by all models of the event loop.
        provider: the name of the provider, for messages and logs.
    """

    specification_version: SpecificationVersion = "v4"

    def __init__(self, model_id: str, *, client: AsyncOpenAI | None = None, provider: str = "openai") -> None:
        self.model_id, self.provider = model_id, provider
        self._client = client

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model_id!r})"

    @property
    def supported_urls(self) -> SupportedUrls:
        """Images at any web address."""
        return {"image/*": ("^https?://",)}

    async def do_stream(self, options: CallOptions, /) -> StreamResult:
        """Begin an answer; see `LanguageModel.do_stream`.

        Raises:
            APICallError: the provider refused the call, or failed before its first word.
            AbortError: the call was aborted.
            InvalidPromptError: a file has a form that the API does not take.
            MissingAPIKeyError: there is no client, and no key in the environment.
        """
        body, warnings = self._request(options)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        merge_options(body, _members(options))
        create = cast(
            "Callable[..., Awaitable[AsyncStream[ChatCompletionChunk]]]",
            client_or_default(self._client).chat.completions.create,
        )
        stream, source = await open_stream(
            call_of(create, body, known=CHAT_PARAMETERS, options=options),
            ChatReader(),
            provider=self.provider,
            options=options,
            warnings=warnings,
            translate=translated,
        )
        return stream_result(stream, source, body)

    async def do_generate(self, options: CallOptions, /) -> GenerateResult:
        """Answer in one piece; errors as for `do_stream`."""
        body, warnings = self._request(options)
        merge_options(body, _members(options))
        create = cast(
            "Callable[..., Awaitable[RawAnswer]]",
            client_or_default(self._client).chat.completions.with_raw_response.create,
        )
        completion, headers = await call_whole(
            call_of(create, body, known=CHAT_PARAMETERS, options=options),
            ChatCompletion,
            provider=self.provider,
            options=options,
            translate=translated,
        )
        if not completion.choices:
            msg = f"{self.provider} answered without a choice: {completion.to_json(indent=None)[:500]}"
            raise APICallError(msg, status_code=200, response_headers=headers, is_retryable=False)
        answer = chat_answer(completion)
        return whole_result(answer, body, warnings=warnings, headers=headers)

    def _request(self, options: CallOptions) -> tuple[Body, list[CallWarning]]:
        """Return the body without what only a streaming call has, and without provider options."""
        warnings = list(warn_of_settings(options, API, ("top_k",)))
        body: Body = {"model": self.model_id, "messages": chat_messages(options.prompt, warnings)}
        for name, member in _SETTINGS.items():
            value = getattr(options, name)
            if value is not None:
                body[member] = value
        if options.reasoning not in (None, "provider-default"):
            body["reasoning_effort"] = options.reasoning
        tools = chat_tools(options.tools or (), warnings)
        if tools:
            body["tools"] = tools
            choice = chat_tool_choice(options.tool_choice)
            if choice is not None:
                body["tool_choice"] = choice
        if isinstance(options.response_format, JsonResponseFormat):
            strict = options_of(options.provider_options, "openai").get("strict_json_schema")
            body["response_format"] = _json_format(options.response_format, strict)
        return body, warnings


def _members(options: CallOptions) -> dict[str, object]:
    """Return the provider options that are members of the request."""
    given = options_of(options.provider_options, "openai")
    given.pop("strict_json_schema", None)
    if "text_verbosity" in given:
        given["verbosity"] = given.pop("text_verbosity")
    return given


def _json_format(wanted: JsonResponseFormat, strict: object) -> Body:
    if wanted.schema is None:
        return {"type": "json_object"}
    schema: Body = {"name": wanted.name or "response", "schema": dict(wanted.schema)}
    if wanted.description is not None:
        schema["description"] = wanted.description
    if strict is not None:
        schema["strict"] = strict
    return {"type": "json_schema", "json_schema": schema}
