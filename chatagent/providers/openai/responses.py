"""Models behind OpenAI's Responses API.

Here the request is put together and sent; prompts are mapped in `responses_prompt`, answers in `responses_stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from chatagent.errors import StreamProviderError
from chatagent.model import (
    GenerateResult,
    JsonResponseFormat,
    SpecificationVersion,
    StreamResult,
    SupportedUrls,
)
from chatagent.providers.calls import RawAnswer, call_of, call_whole, stream_result, whole_result
from chatagent.providers.events import open_stream
from chatagent.providers.failures import as_call_error
from chatagent.providers.openai.client import RESPONSES_PARAMETERS, Response, client_or_default, translated
from chatagent.providers.openai.responses_items import hosted_names
from chatagent.providers.openai.responses_prompt import API, responses_input, responses_tool_choice, responses_tools
from chatagent.providers.openai.responses_stream import ResponsesReader, responses_answer
from chatagent.providers.requests import Body, merge_options, options_of, warn_of_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openai import AsyncOpenAI, AsyncStream
    from openai.types.responses import ResponseStreamEvent

    from chatagent.model import CallOptions, CallWarning

__all__ = ["OpenAIResponsesModel"]

_SETTINGS: Final = ("max_output_tokens", "temperature", "top_p")
_MISSING: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop_sequences")


class OpenAIResponsesModel:
    """A model that is asked through the Responses API.

    `provider_options["openai"]` holds members of the request (`{"store": False}`), and of ours `reasoningEffort`,
    `reasoningSummary`, `textVerbosity`, and `strictJsonSchema` (whether the schema of a JSON answer is enforced).

    Args:
        model_id: the model's name at its provider, such as `gpt-5.2`.
        client: an `openai.AsyncOpenAI`, or anything with the same interface. It is not closed, and used without its
            own retries. Without one, a client is made from the environment when the model is first called, and shared
            by all models of the event loop.
        provider: the name of the provider, for messages and logs.
    """

    specification_version: SpecificationVersion = "v4"

    def __init__(self, model_id: str, *, client: AsyncOpenAI | None = None, provider: str = "openai.responses") -> None:
        self.model_id, self.provider = model_id, provider
        self._client = client

    def __repr__(self) -> str:
        return f"OpenAIResponsesModel({self.model_id!r})"

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
        body, warnings = self._request(options)
        body = {**body, "stream": True}
        create = cast(
            "Callable[..., Awaitable[AsyncStream[ResponseStreamEvent]]]",
            client_or_default(self._client).responses.create,
        )
        stream, source = await open_stream(
            call_of(create, body, known=RESPONSES_PARAMETERS, options=options),
            ResponsesReader(hosted_names(options.tools or ())),
            provider=self.provider,
            options=options,
            warnings=warnings,
            translate=translated,
        )
        return stream_result(stream, source, body)

    async def do_generate(self, options: CallOptions, /) -> GenerateResult:
        """Answer in one piece; errors as for `do_stream`."""
        body, warnings = self._request(options)
        create = cast(
            "Callable[..., Awaitable[RawAnswer]]",
            client_or_default(self._client).responses.with_raw_response.create,
        )
        response, headers = await call_whole(
            call_of(create, body, known=RESPONSES_PARAMETERS, options=options),
            Response,
            provider=self.provider,
            options=options,
            translate=translated,
        )
        try:
            answer = responses_answer(response, hosted_names(options.tools or ()))
        except StreamProviderError as exc:
            raise as_call_error(exc) from exc
        return whole_result(answer, body, warnings=warnings, headers=headers)

    def _request(self, options: CallOptions) -> tuple[Body, list[CallWarning]]:
        warnings = list(warn_of_settings(options, API, _MISSING))
        given = options_of(options.provider_options, "openai")
        body: Body = {"model": self.model_id, "input": responses_input(options.prompt, warnings)}
        body |= {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
        tools = responses_tools(options.tools or (), warnings)
        if tools:
            body["tools"] = tools
            choice = responses_tool_choice(options.tool_choice, options.tools or ())
            if choice is not None:
                body["tool_choice"] = choice
        effort = None if options.reasoning == "provider-default" else options.reasoning
        thinking = {"effort": given.pop("reasoning_effort", effort), "summary": given.pop("reasoning_summary", None)}
        strict, verbosity = given.pop("strict_json_schema", None), given.pop("text_verbosity", None)
        text: Body = {} if verbosity is None else {"verbosity": verbosity}
        if isinstance(options.response_format, JsonResponseFormat):
            text["format"] = _json_format(options.response_format, strict)
        for member, content in (("reasoning", thinking), ("text", text)):
            known = {key: value for key, value in content.items() if value is not None}
            if known:
                body[member] = known
        merge_options(body, given, nested=("reasoning", "text"))
        return body, warnings


def _json_format(wanted: JsonResponseFormat, strict: object) -> Body:
    if wanted.schema is None:
        return {"type": "json_object"}
    made: Body = {"type": "json_schema", "name": wanted.name or "response", "schema": dict(wanted.schema)}
    if wanted.description is not None:
        made["description"] = wanted.description
    if strict is not None:
        made["strict"] = strict
    return made
