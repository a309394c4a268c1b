"""Making the HTTP call of a request through an SDK's method, and reading an answer that comes in one piece."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from chatagent.errors import APICallError
from chatagent.model import RequestInfo, ResponseInfo, StreamResult
from chatagent.providers.events import raise_translated, until_aborted
from chatagent.providers.requests import Body, split_body, without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from chatagent.model import CallOptions, CallWarning, GenerateResult, ModelStreamPart

__all__ = ["RawAnswer", "call_of", "call_whole", "stream_result", "whole_result"]

ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")


class RawAnswer(Protocol):
    """What the `with_raw_response` methods of both SDKs return, as far as it matters here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def parse(self) -> object:
        """Return the answer, or what it can be awaited from."""
        ...


def call_of(
    create: Callable[..., Awaitable[ResultT]], body: Body, *, known: Collection[str], options: CallOptions
) -> Callable[[], Awaitable[ResultT]]:
    """Return what makes the HTTP call.

    Args:
        create: the SDK's method.
        body: the JSON body.
        known: the members of the body that the method has parameters for.
        options: what the model is asked with.
    """

    def send(content: Body) -> Awaitable[ResultT]:
        arguments, others = split_body(content, known)
        headers = dict(options.headers) if options.headers else None
        return create(**cast("dict[str, Any]", arguments), extra_body=others or None, extra_headers=headers)

    async def call() -> ResultT:
        try:
            return await send(body)
        except UnicodeEncodeError:
            # Half a character, as JavaScript clients cut them, would make the whole conversation unsendable for ever.
            return await send(cast("Body", without_lone_surrogates(body)))

    return call


async def call_whole(
    call: Callable[[], Awaitable[RawAnswer]],
    expected: type[AnswerT],
    *,
    provider: str,
    options: CallOptions,
    translate: Callable[[Exception], Exception],
) -> tuple[AnswerT, dict[str, str]]:
    """Make a call whose answer comes in one piece.

    Args:
        call: makes the HTTP call.
        expected: the SDK's class of the answer.
        provider: who answers, for error texts.
        options: what the model is asked with.
        translate: turns an SDK's error into one of the package; returns others as they are.

    Returns:
        The answer, and its headers with lower-case names.

    Raises:
        APICallError: the provider refused the call, or answered with something else.
        AbortError: the call was aborted.
    """
    try:
        raw = await until_aborted(options.abort_signal, call)
        parsed = raw.parse()
        answer = await cast("Awaitable[object]", parsed) if inspect.isawaitable(parsed) else parsed
    except Exception as exc:
        raise_translated(exc, translate)
        raise
    headers = _headers_of(raw)
    if isinstance(answer, expected):
        return answer, headers
    kind = headers.get("content-type", "an unknown type")
    msg = f"{provider} answered with {kind} where JSON was asked for"
    raise APICallError(msg, status_code=200, response_headers=headers, is_retryable=False, response_body=str(answer))


def stream_result(stream: AsyncIterator[ModelStreamPart], source: object, body: Body) -> StreamResult:
    """Return a stream with the body that asked for it, and the headers of the SDK's stream that it comes from."""
    return StreamResult(
        stream=stream, request=RequestInfo(body=body), response=ResponseInfo(headers=_headers_of(source))
    )


def whole_result(
    answer: GenerateResult, body: Body, *, warnings: Iterable[CallWarning], headers: Mapping[str, str]
) -> GenerateResult:
    """Return an answer with the body that asked for it, the warnings of that, and the headers that it came with."""
    assert answer.response is not None
    return replace(
        answer,
        warnings=tuple(warnings),
        request=RequestInfo(body=body),
        response=replace(answer.response, headers=headers),
    )


def _headers_of(response: object) -> dict[str, str]:
    """Return the headers of an SDK's response or stream, names in lower case; none if it does not tell."""
    inner: object = getattr(response, "response", response)
    headers: object = getattr(inner, "headers", None)
    if not isinstance(headers, Mapping):
        return {}
    return {name.lower(): value for name, value in cast("Mapping[str, str]", headers).items()}
