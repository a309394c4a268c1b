"""The tree of errors: the one that is drawn is the one that is there."""

from __future__ import annotations

import builtins
import re

import pytest

from chatagent import errors
from chatagent.errors import (
    AbortError,
    APICallError,
    ChatAgentError,
    ChatContextError,
    InputStreamTimeoutError,
    InvalidArgumentError,
    LocalNotFoundError,
    NoSuchToolError,
    RetryError,
    ScriptExhaustedError,
    WaitpointTimeoutError,
    WaitTimeoutError,
)

CLASSES = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
BRANCH = re.compile(r"^([│├└─ ]*[├└]── )(\w+)(.*)$")


def drawn() -> list[tuple[str, str, str | None]]:
    """Return what the module's docstring draws: each class, its parent, and its second base if one is told."""
    assert errors.__doc__ is not None
    found: list[tuple[str, str, str | None]] = []
    path = ["ChatAgentError"]
    for line in errors.__doc__.splitlines():
        match = BRANCH.match(line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            second = re.search(r"\((\w+)\)$", match[3])
            found.append((match[2], path[depth - 1], second and second[1]))
    return found


def test_every_class_is_drawn_once() -> None:
    names = [name for name, _, _ in drawn()]

    assert sorted([*names, "ChatAgentError"]) == sorted(CLASSES)


@pytest.mark.parametrize(("name", "parent", "second"), drawn())
def test_a_class_has_the_bases_that_are_drawn(name: str, parent: str, second: str | None) -> None:
    assert CLASSES[parent] in CLASSES[name].__bases__
    if second is not None:
        assert issubclass(CLASSES[name], getattr(builtins, second))


def test_all_lists_every_class_and_nothing_else() -> None:
    assert sorted(errors.__all__) == sorted(CLASSES)


def test_every_error_is_documented() -> None:
    assert [name for name, error in CLASSES.items() if not error.__doc__] == []
    assert all(issubclass(error, ChatAgentError) for error in CLASSES.values())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (AbortError(), "This operation was aborted"),
        (AbortError("stopped"), "This operation was aborted: stopped"),
        (
            ChatContextError("chat.defer", needs="turn"),
            "chat.defer was called outside a turn; call it from a hook, a tool or `run` of a chat agent, "
            "in a task that the run started",
        ),
        (InvalidArgumentError(argument="limit", value=0, problem="1 or more"), "`limit` is 0: 1 or more"),
        (
            LocalNotFoundError("db"),
            "Local with id db not found: set it in `on_boot`, or in a test with `setup_locals`, before it is read",
        ),
        (
            NoSuchToolError(tool_name="add", available_tools=["sub", "mul"]),
            "Model tried to call unavailable tool 'add'. Available tools: sub, mul.",
        ),
        (
            NoSuchToolError(tool_name="add", available_tools=[]),
            "Model tried to call unavailable tool 'add'. No tools are available.",
        ),
        (
            InputStreamTimeoutError(session_id="c", timeout=30.0),
            "session 'c': no record on `.in` within 30.0 s",
        ),
        (
            WaitpointTimeoutError(session_id="c", timeout=60.0),
            "session 'c': no record on `.in` within 60.0 s of being suspended",
        ),
        (
            ScriptExhaustedError(call_number=1, entries=1, method="do_stream"),
            "no scripted model call 2: `do_stream` was called 2 times, and the script has 1 entry; add one a call, "
            "or give one Script (or a function) that answers every call",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_class_builds_its_message_from_facts(error: ChatAgentError, message: str) -> None:
    assert str(error) == message


def test_facts_stay_on_the_error() -> None:
    aborted = AbortError({"code": 1})
    timed_out = InputStreamTimeoutError(session_id="c", timeout=None)

    assert aborted.reason == {"code": 1}
    assert (timed_out.session_id, timed_out.timeout) == ("c", None)
    assert isinstance(timed_out, WaitTimeoutError)
    assert isinstance(timed_out, TimeoutError)


def test_a_long_value_is_cut_in_a_message() -> None:
    error = InvalidArgumentError(argument="text", value="x" * 1000, problem="too long")

    assert str(error) == f"`text` is '{'x' * 198}…: too long"
    assert error.value == "x" * 1000


@pytest.mark.parametrize(
    ("status_code", "is_retryable"),
    [(None, True), (408, True), (409, True), (429, True), (500, True), (503, True), (400, False), (404, False)],
)
def test_the_status_of_a_call_says_whether_another_try_may_help(status_code: int | None, is_retryable: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert APICallError("no", status_code=status_code).is_retryable is is_retryable
    assert APICallError("no", status_code=status_code, is_retryable=not is_retryable).is_retryable is not is_retryable


def test_a_retry_error_knows_the_last_try() -> None:
    tries = [APICallError("first"), APICallError("second")]

    assert RetryError("all failed", reason="max-retries-exceeded", errors=tries).last_error is tries[1]
    assert RetryError("none", reason="max-retries-exceeded", errors=[]).last_error is None
