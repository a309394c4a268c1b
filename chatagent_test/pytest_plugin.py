"""The pytest plugin: fixtures for harnesses, models, clients and inference servers, and reports of failing tests.

pytest imports this module in every test run of everybody who has the package installed, so it imports nothing of ours,
and nothing that pytest has not imported already, before a fixture is used or a test that has one of our objects fails.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from chatagent_test.clock import VirtualClock
    from chatagent_test.fixtures import HarnessFactory, Keeper, MockAgentFactory, ModelFactory
    from chatagent_test.inference import MockInferenceServer
    from chatagent_test.network import NetworkGuard
    from chatagent_test.transport import MockAgentClient

KeeperT = TypeVar("KeeperT", bound="Keeper")

_KEEPERS: pytest.StashKey[list[Keeper]] = pytest.StashKey()
"""Those that look after what the fixtures have given to a test, in the order of their making."""

_REPORTED = ("chatagent_test.harness", "chatagent_test.inference", "chatagent_test.transport")
"""The rooms whose objects are told in reports; a test that has imported none of them has none."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "inference(script=..., **options): what `mock_inference` answers, one script a call at whichever endpoint asks,"
        " and options of `MockInferenceServer`; the test gets the fixture without naming it.",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a marked test its server, whether it names the fixture or not."""
    if item.get_closest_marker("inference") is None or not isinstance(item, pytest.Function):
        return
    if "mock_inference" not in item.fixturenames:
        item.fixturenames = [*item.fixturenames, "mock_inference"]  # a list that all cases of a function share


# Agents and models --------------------------------------------------------------------------------------------------


@pytest.fixture
def chat_harness(request: pytest.FixtureRequest) -> Generator[HarnessFactory, None, None]:
    """Give what makes harnesses: it takes the arguments of `mock_chat_agent`, and looks after what it has made.

    Behind the test function the harnesses are closed, in its own task. The test fails if a turn or a run has failed and
    no driver has told, if tasks of a run are still alive then, or if a model that was given to
    `chat_harness.must_finish` has something left to say.
    """
    from chatagent_test.fixtures import HarnessFactory

    factory = HarnessFactory()
    _keep(request, factory)
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


# Clients ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mock_agent_options() -> dict[str, Any]:
    """Give the arguments of `create_mock_agent_client` for `mock_agent` and `mock_agent_factory`; override it."""
    return {}


@pytest.fixture
def mock_agent_factory(request: pytest.FixtureRequest, mock_agent_options: dict[str, Any]) -> MockAgentFactory:
    """Give what makes clients over scripted backends: it takes the arguments of `create_mock_agent_client`.

    Behind the test function they are closed, in its own task. The test fails if scripts or faults are left that nobody
    met.
    """
    from chatagent_test.fixtures import MockAgentFactory

    return _keep(request, MockAgentFactory(mock_agent_options))


@pytest.fixture
def mock_agent(mock_agent_factory: MockAgentFactory) -> MockAgentClient:
    """Give a real client over a scripted backend, made with `mock_agent_options`, and closed behind the test."""
    return mock_agent_factory()


# Providers and the network ------------------------------------------------------------------------------------------


@pytest.fixture
def mock_inference(request: pytest.FixtureRequest) -> Generator[MockInferenceServer, None, None]:
    """Give a strict `MockInferenceServer` on a loopback port, set up as `@pytest.mark.inference` says.

    It is closed behind the test function. The test fails if the server was asked what nobody expected, or if something
    is left over that was expected.
    """
    from chatagent_test.fixtures import InferenceKeeper

    marker = request.node.get_closest_marker("inference")
    keeper = InferenceKeeper() if marker is None else InferenceKeeper(marker.args, marker.kwargs)
    keeper.server.__enter__()
    _keep(request, keeper)
    yield keeper.server
    for problem in keeper.close():
        raise problem


@pytest.fixture
def mock_inference_environment(mock_inference: MockInferenceServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Lead SDK clients that are made from the environment to `mock_inference`; give the variables that are set.

    They are restored behind the test. `ANTHROPIC_AUTH_TOKEN` is taken away meanwhile, since that SDK would send it.
    """
    variables = mock_inference.environment()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    return variables


@pytest.fixture(scope="session")
def mock_inference_session() -> Generator[MockInferenceServer, None, None]:
    """Give one `MockInferenceServer` to all tests, for what is started once and keeps its address.

    It is not strict: it echoes what nobody expects, and forgets nothing from one test to the next.
    """
    from chatagent_test.inference import MockInferenceServer

    with MockInferenceServer() as server:
        yield server


@pytest.fixture
def no_network() -> Generator[NetworkGuard, None, None]:
    """Let HTTP requests of the test fail that go beyond this machine; give the guard, whose `denied` has them."""
    from chatagent_test.network import deny_network

    with deny_network(scope="thread") as guard:
        yield guard


# Behind the test ----------------------------------------------------------------------------------------------------


def _keep(request: pytest.FixtureRequest, keeper: KeeperT) -> KeeperT:
    request.node.stash.setdefault(_KEEPERS, []).append(keeper)
    return keeper


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Close behind the test what its fixtures gave, so that what is found then fails the test itself.

    An async test does so itself: a fixture of pytest-asyncio is torn down in another task.
    """
    test = item.obj if isinstance(item, pytest.Function) else None
    keepers = item.stash.get(_KEEPERS, None)
    if not keepers or not inspect.iscoroutinefunction(test):
        result = yield
        if _KEEPERS in item.stash:
            from chatagent_test.fixtures import close_behind

            close_behind(item.stash[_KEEPERS])
        return result

    @functools.wraps(test)
    async def closing(*args: Any, **kwargs: Any) -> Any:
        from chatagent_test.fixtures import run_and_close

        return await run_and_close(keepers, test, *args, **kwargs)

    item.obj = closing  # type: ignore[attr-defined] - a Function, as `test` is one
    try:
        return (yield)
    finally:
        item.obj = test  # type: ignore[attr-defined] - as above


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what happened in each harness, client and inference server that a failing test has."""
    report = yield
    if not report.failed:
        return report
    keepers = item.stash.get(_KEEPERS, None) or ()
    for keeper in keepers:
        keeper.has_failed = True
    if call.excinfo is not None and isinstance(call.excinfo.value, AssertionError):
        problem = call.excinfo.value
        if any(problem is each for keeper in keepers for each in keeper.found):
            # No line of the test has raised it, and how it was found is of no interest.
            report.longrepr = call.excinfo.getrepr(style="short", tbfilter=lambda found: found.traceback[-1:])
    if any(room in sys.modules for room in _REPORTED):
        from chatagent_test.fixtures import report_sections

        made = [each for keeper in keepers for each in keeper.given]
        values = [*item.funcargs.values()] if isinstance(item, pytest.Function) else []
        report.sections += report_sections([*made, *values], call.excinfo and call.excinfo.tb)
    return report
