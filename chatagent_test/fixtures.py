"""What the fixtures of the pytest plugin give: factories that look after what they have made.

Apart from the plugin, which pytest imports everywhere and which therefore imports none of this before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from chatagent_test.assertions import transcript
from chatagent_test.harness import ChatAgentHarness, mock_chat_agent
from chatagent_test.language_model import MockLanguageModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType

__all__ = ["HarnessFactory", "ModelFactory", "transcripts"]

P = ParamSpec("P")
MadeT = TypeVar("MadeT")
ResultT = TypeVar("ResultT")

_ROUNDS = 3
"""Rounds of the event loop that a task has to end in which somebody has just cancelled."""


def _with_arguments_of(
    make: Callable[P, MadeT],
) -> Callable[[Callable[..., MadeT]], Callable[Concatenate[Any, P], MadeT]]:
    """Give a method the arguments of a function, for the type checker."""
    return lambda method: method


class ModelFactory:
    """Makes models for one test: the fixture `mock_model`."""

    @_with_arguments_of(MockLanguageModel)
    def __call__(self, *args: Any, **options: Any) -> MockLanguageModel:
        """Make a model, with the arguments of `MockLanguageModel`."""
        return MockLanguageModel(*args, **options)


class HarnessFactory:
    """Makes harnesses for one test and closes them behind it: the fixture `chat_harness`."""

    def __init__(self) -> None:
        self.made: list[ChatAgentHarness] = []
        """The harnesses so far, in order."""
        self.has_failed = False
        """Whether the test has failed, so that nothing else is of interest."""
        self._models: list[MockLanguageModel] = []

    @_with_arguments_of(mock_chat_agent)
    def __call__(self, *args: Any, **options: Any) -> ChatAgentHarness:
        """Make a harness, with the arguments of `mock_chat_agent`; nothing runs before its first driver call."""
        harness = mock_chat_agent(*args, **options)
        self.made.append(harness)
        return harness

    def must_finish(self, *models: MockLanguageModel) -> None:
        """Fail the test if one of these models has something left to say when it has ended."""
        self._models += models

    async def run(self, test: Callable[..., Awaitable[ResultT]], *args: Any, **kwargs: Any) -> ResultT:
        """Run a test function, then close what was made, in the same task.

        Raises:
            BaseException: what the test raised; or else what failed and no driver has told, what is still alive, or
                what a model has left to say.
        """
        try:
            result = await test(*args, **kwargs)
        except BaseException as error:
            self.has_failed = True
            for problem in await self._close_all(raise_errors=False):
                error.add_note(f"closing a harness behind it failed too: {type(problem).__name__}: {problem}")
            raise
        problems = await self._close_all(raise_errors=True)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            msg = "what no driver has told"
            raise BaseExceptionGroup(msg, problems)
        self._check_finished()
        return result

    def check_abandoned(self) -> None:
        """Look at harnesses that nobody has closed: those of a test that runs an event loop of its own.

        Raises:
            AssertionError: a run is still on, and its event loop is gone.
            BaseException: what has failed and no driver has told.
        """
        if not self.has_failed:
            for harness in self.made:
                harness.check_abandoned()
            self._check_finished()

    async def _close_all(self, *, raise_errors: bool) -> list[BaseException]:
        problems: list[BaseException] = []
        with anyio.CancelScope(shield=True):
            for harness in reversed(self.made):
                try:
                    await harness.close(raise_errors=raise_errors)
                except BaseException as problem:  # noqa: BLE001 - raised once all are closed
                    problems.append(problem)
                problems += await _leaks(harness)
        self.has_failed = bool(problems) or self.has_failed
        return problems

    def _check_finished(self) -> None:
        models, self._models = self._models, []
        for model in models:
            model.assert_done()


async def _leaks(harness: ChatAgentHarness) -> list[BaseException]:
    for _ in range(_ROUNDS):
        if not harness.leaked_tasks():
            return []
        await checkpoint()
    lines = "\n".join(f"- {line}" for line in harness.leaked_tasks())
    way_out = "start them in a task group, with chat.defer, or end them"
    return (
        [AssertionError(f"the harness is closed, and tasks of its run are still alive; {way_out}:\n{lines}")]
        if lines
        else []
    )


def transcripts(
    factory: HarnessFactory | None, values: Iterable[object], traceback: TracebackType | None
) -> list[tuple[str, str]]:
    """Return a section for a test report for each harness of a failing test, with what happened in it.

    Args:
        factory: what has made harnesses for the test.
        values: the values of the test's fixtures.
        traceback: how the test failed; harnesses among the local variables of its frames count too.
    """
    found: dict[int, ChatAgentHarness] = {}
    candidates = [*(() if factory is None else factory.made), *values]
    while traceback is not None:
        candidates += traceback.tb_frame.f_locals.values()
        traceback = traceback.tb_next
    for value in candidates:
        if isinstance(value, ChatAgentHarness):
            found.setdefault(id(value), value)
    return [
        (f"chatagent transcript of {harness.agent_id!r}, chat {harness.chat_id!r}", _told(harness))
        for harness in found.values()
    ]


def _told(harness: ChatAgentHarness) -> str:
    try:
        return transcript(harness) or "nothing has happened\n"
    except Exception as problem:  # noqa: BLE001 - the report of the test's own failure must come out
        return f"no transcript can be made: {type(problem).__name__}: {problem}\n"
