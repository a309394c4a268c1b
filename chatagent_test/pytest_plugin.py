"""The pytest plugin: fixtures that make harnesses and models, and transcripts in the reports of failing tests.

pytest imports this module in every test run of everybody who has the package installed, so it imports nothing of ours,
and nothing that pytest has not imported already, before a fixture is used or a test with a harness fails.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from chatagent_test.clock import VirtualClock
    from chatagent_test.fixtures import HarnessFactory, ModelFactory

_FACTORY: pytest.StashKey[HarnessFactory] = pytest.StashKey()


@pytest.fixture
def chat_harness(request: pytest.FixtureRequest) -> Generator[HarnessFactory, None, None]:
    """Give what makes harnesses: it takes the arguments of `mock_chat_agent`, and looks after what it has made.

    Behind the test function the harnesses are closed, in its own task. The test fails if a turn or a run has failed and
    no driver has told, if tasks of a run are still alive then, or if a model that was given to
    `chat_harness.must_finish` has something left to say.
    """
    from chatagent_test.fixtures import HarnessFactory

    factory = request.node.stash[_FACTORY] = HarnessFactory()
    yield factory
    factory.check_abandoned()


@pytest.fixture
def mock_model() -> ModelFactory:
    """Give what makes scripted models: it takes the arguments of `MockLanguageModel`."""
    from chatagent_test.fixtures import ModelFactory

    return ModelFactory()


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """Give a virtual clock, for harnesses that are to share one: `chat_harness(agent, clock=virtual_clock)`."""
    from chatagent_test.clock import VirtualClock

    return VirtualClock()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let an async test close its harnesses itself: a fixture of pytest-asyncio is torn down in another task."""
    test = item.obj if isinstance(item, pytest.Function) else None
    if _FACTORY not in item.stash or not inspect.iscoroutinefunction(test):
        return (yield)
    factory = item.stash[_FACTORY]

    @functools.wraps(test)
    async def closing(*args: Any, **kwargs: Any) -> Any:
        return await factory.run(test, *args, **kwargs)

    item.obj = closing  # type: ignore[attr-defined] - a Function, as `test` is one
    try:
        return (yield)
    finally:
        item.obj = test  # type: ignore[attr-defined] - as above


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what happened in each harness that a failing test has, in a section of its own."""
    report = yield
    factory = item.stash.get(_FACTORY, None)
    if report.failed and factory is not None:
        factory.has_failed = True
    if report.failed and "chatagent_test.harness.harness" in sys.modules:
        from chatagent_test.fixtures import transcripts

        values = [*item.funcargs.values()] if isinstance(item, pytest.Function) else []
        report.sections += transcripts(factory, values, call.excinfo and call.excinfo.tb)
    return report
