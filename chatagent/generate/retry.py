"""Trying a model call again, on the clock of the run (rule 5.11)."""

from __future__ import annotations

import email.utils
from typing import TYPE_CHECKING, TypeVar

from chatagent.errors import AbortError, APICallError, InvalidArgumentError, RetryError
from chatagent.generate.texts import error_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.clock import Clock

__all__ = ["FACTOR", "FIRST_DELAY", "check_max_retries", "retry_delay", "with_retries"]

FIRST_DELAY = 2.0
"""Seconds before the second try."""
FACTOR = 2.0
"""How much longer each wait is than the one before."""
LONGEST_SERVER_DELAY = 60.0
"""A provider that asks for more than this is not obeyed, unless the back-off is longer anyway."""

ResultT = TypeVar("ResultT")


def check_max_retries(max_retries: int) -> None:
    """Check the argument of that name.

    Raises:
        InvalidArgumentError: it is negative, or no whole number.
    """
    if not isinstance(max_retries, int) or max_retries < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise InvalidArgumentError(argument="max_retries", value=max_retries, problem="it must be 0 or more")


async def with_retries(call: Callable[[], Awaitable[ResultT]], *, max_retries: int, clock: Clock) -> ResultT:
    """Call, and call again after errors that a provider marks as retryable.

    Args:
        call: what to try.
        max_retries: how many more tries there may be.
        clock: the clock to wait on between tries.

    Raises:
        RetryError: there was more than one try, and the last failed too.
        Exception: what the only try raised.
    """
    errors: list[Exception] = []
    delay = FIRST_DELAY
    while True:
        try:
            return await call()
        except AbortError:
            raise
        except Exception as exc:
            if max_retries == 0:
                raise
            errors.append(exc)
            retryable = isinstance(exc, APICallError) and exc.is_retryable
            if not retryable and len(errors) == 1:
                raise
            if not retryable or len(errors) > max_retries:
                raise _gave_up(errors, is_spent=len(errors) > max_retries) from exc
            await clock.sleep(retry_delay(exc, delay, now=clock.now()))
            delay *= FACTOR


def retry_delay(error: object, backoff: float, *, now: float) -> float:
    """Return how many seconds to wait before the next try: what the provider asks for, if that is sensible.

    Args:
        error: what the last try raised.
        backoff: the wait in seconds if the provider asks for nothing.
        now: the instant, in seconds since 1970.
    """
    headers = error.response_headers if isinstance(error, APICallError) else {}
    asked = _number(headers.get("retry-after-ms"), scale=0.001)
    if asked is None:
        asked = _number(headers.get("retry-after"))
    if asked is None:
        asked = _until(headers.get("retry-after"), now)
    if asked is not None and asked >= 0 and (asked < LONGEST_SERVER_DELAY or asked < backoff):
        return asked
    return backoff


def _gave_up(errors: list[Exception], *, is_spent: bool) -> RetryError:
    last = error_text(errors[-1])
    if is_spent:
        return RetryError(
            f"Failed after {len(errors)} attempts. Last error: {last}", reason="max-retries-exceeded", errors=errors
        )
    return RetryError(
        f"Failed after {len(errors)} attempts with non-retryable error: '{last}'",
        reason="error-not-retryable",
        errors=errors,
    )


def _number(text: str | None, *, scale: float = 1.0) -> float | None:
    try:
        return None if text is None else float(text) * scale
    except ValueError:
        return None


def _until(text: str | None, now: float) -> float | None:
    """Read an HTTP date as the seconds until then."""
    try:
        return None if text is None else email.utils.parsedate_to_datetime(text).timestamp() - now
    except ValueError:
        return None
