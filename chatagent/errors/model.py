"""What goes wrong around a model call; tool calls are in `tool.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors.base import ChatAgentError, short

if TYPE_CHECKING:
    from collections.abc import Sequence


class ModelError(ChatAgentError):
    """What goes wrong around a model call."""


class APICallError(ModelError):
    """The provider answered with an error, or did not answer at all.

    Args:
        message: the provider's own words.
        status_code: HTTP status; `None` when there was no answer.
        response_headers: headers of the answer, lower-case names.
        is_retryable: whether another try may help; by default 408, 409, 429 and 5xx are, and so is no answer at all.
        url: what was called.
        response_body: the answer's text.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        response_headers: dict[str, str] | None = None,
        is_retryable: bool | None = None,
        url: str | None = None,
        response_body: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.response_headers = dict(response_headers or {})
        self.url, self.response_body = url, response_body
        if is_retryable is None:
            is_retryable = status_code is None or status_code in (408, 409, 429) or status_code >= 500
        self.is_retryable = is_retryable


class StreamProviderError(ModelError):
    """The provider reported an error inside its stream, as a payload instead of an exception.

    Args:
        message: the provider's own words.
        error_type: the provider's name for the kind of error.
        code: the provider's code for it.
        status_code: HTTP status, if the payload names one.
        is_retryable: whether the payload says that another try may help; `None` if it says nothing.
        payload: what the provider sent, unchanged.
    """

    def __init__(
        self,
        message: str,
        *,
        error_type: str | None = None,
        code: str | int | None = None,
        status_code: int | None = None,
        is_retryable: bool | None = None,
        payload: object = None,
    ) -> None:
        super().__init__(message)
        self.error_type, self.code, self.status_code = error_type, code, status_code
        self.is_retryable, self.payload = is_retryable, payload


class RetryError(ModelError):
    """Every try of a model call failed, or one failed in a way that no retry helps.

    Args:
        message: the summary, with the last error's text.
        reason: `max-retries-exceeded` or `error-not-retryable`.
        errors: the error of each try, in order.
    """

    def __init__(self, message: str, *, reason: str, errors: Sequence[BaseException]) -> None:
        super().__init__(message)
        self.reason, self.errors = reason, list(errors)
        self.last_error = self.errors[-1] if self.errors else None


class InvalidPromptError(ModelError, ValueError):
    """A prompt that no model may be sent."""


class MissingToolResultsError(ModelError, ValueError):
    """A prompt holds tool calls without results, and the model may not be asked before they are answered."""

    def __init__(self, tool_call_ids: Sequence[str]) -> None:
        ids = ", ".join(tool_call_ids)
        super().__init__(
            f"no tool results for the tool calls {ids}: answer them, "
            "or convert with `ignore_incomplete_tool_calls=True`"
        )
        self.tool_call_ids = list(tool_call_ids)


class MissingAPIKeyError(ModelError, LookupError):
    """A provider's client had to be made from the environment, and there is no key in it.

    Args:
        provider: the provider's name.
        variable: the environment variable that is not set.
        client: the class of the client that can be given instead.
    """

    def __init__(self, *, provider: str, variable: str, client: str) -> None:
        super().__init__(
            f"no API key for {provider}: set the environment variable {variable}, "
            f"or give the model a client of your own (`client={client}(...)`)"
        )
        self.provider, self.variable = provider, variable


class ModelNameError(ModelError, ValueError):
    """A string that names no model."""

    def __init__(self, name: str, *, providers: Sequence[str]) -> None:
        known = ", ".join(f'"{provider}:…"' for provider in providers)
        super().__init__(f"no model is called {name!r}: give a provider, a colon and the model's id there: {known}")
        self.name, self.providers = name, list(providers)


class NoOutputGeneratedError(ModelError):
    """The model said nothing."""


class UnknownStreamPartError(ModelError, ValueError):
    """A model streamed a part of a type that this release does not know."""

    def __init__(self, part: object) -> None:
        super().__init__(
            f"the model streamed {short(part)}, which is no stream part; a part is one of the `Model…` classes of "
            "chatagent.model, or a dict with one of their types"
        )
        self.part = part


class InvalidStreamPartError(ModelError, ValueError):
    """A model streamed a part of a known type with a field that is missing or of the wrong kind."""

    def __init__(self, *, part: object, field: str, value: object, problem: str) -> None:
        super().__init__(f"the model streamed {short(part)}: `{field}` is {short(value)}: {problem}")
        self.part, self.field, self.value, self.problem = part, field, value, problem
