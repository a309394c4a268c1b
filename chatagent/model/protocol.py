"""What a language model is to the runtime: two calls, and what they return.

Adapters to providers and test doubles implement `LanguageModel`; they inherit from nothing.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from datetime import datetime

    from chatagent.model.options import CallOptions
    from chatagent.model.parts import CallWarning, FinishReason, ModelContent, ModelStreamPart, ProviderMetadata
    from chatagent.model.usage import Usage

__all__ = [
    "GenerateResult",
    "LanguageModel",
    "RequestInfo",
    "ResponseInfo",
    "SpecificationVersion",
    "StreamResult",
    "SupportedUrls",
]

SpecificationVersion = Literal["v3", "v4"]
"""`v3`: bare file data. `v4`: tagged file data, and the parts that only v4 has."""

SupportedUrls = Mapping[str, Sequence[str | re.Pattern[str]]]
"""Media type (`*` and `image/*` are allowed) -> patterns; the model reads the URLs in which one of them is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """What was sent to the provider."""

    body: object = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInfo:
    """What the provider said about its answer."""

    id: str | None = None
    timestamp: datetime | None = None
    model_id: str | None = None
    headers: Mapping[str, str] | None = None
    body: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResult:
    """An answer that streams."""

    stream: AsyncIterable[ModelStreamPart | Mapping[str, object]]
    """The parts in order, as objects or in wire form. Read once, and closed (`aclose`, if it has one) by the reader."""
    request: RequestInfo | None = None
    response: ResponseInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateResult:
    """An answer that is complete."""

    content: Sequence[ModelContent]
    finish_reason: FinishReason
    usage: Usage
    warnings: Sequence[CallWarning] = ()
    provider_metadata: ProviderMetadata | None = None
    request: RequestInfo | None = None
    response: ResponseInfo | None = None
    structured_output_text: str | None = None


@runtime_checkable
class LanguageModel(Protocol):
    """A language model. The `do_` calls are made by the runtime, not by users."""

    @property
    def specification_version(self) -> SpecificationVersion:
        """The protocol that it speaks."""
        ...

    @property
    def provider(self) -> str:
        """Name of the provider, for messages and logs."""
        ...

    @property
    def model_id(self) -> str:
        """Name of the model at its provider."""
        ...

    @property
    def supported_urls(self) -> SupportedUrls | Awaitable[SupportedUrls]:
        """The URLs that it reads by itself; all others are resolved to data before the call."""
        ...

    async def do_generate(self, options: CallOptions, /) -> GenerateResult:
        """Answer in one piece.

        Raises:
            APICallError: the provider failed; `is_retryable` says whether another try may help.
            AbortError: `options.abort_signal` was aborted.
        """
        ...

    async def do_stream(self, options: CallOptions, /) -> StreamResult:
        """Begin an answer. The call returns once the provider has accepted it; the parts come through `stream`.

        Raises:
            APICallError: the provider failed before the first part; `is_retryable` as for `do_generate`.
            AbortError: `options.abort_signal` was aborted.
        """
        ...
