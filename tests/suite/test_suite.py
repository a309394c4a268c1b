"""How the suite is used: which cases there are, what is skipped, and what a failure says."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import unittest
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent.client import AgentClientTransport
from chatagent.errors import ChatAgentError, InvalidArgumentError
from chatagent.protocol import PROFILES
from chatagent_test import conformance, create_mock_agent_transport
from chatagent_test.conformance import CaseFailedError, ForwardingTransport, MockBackend
from chatagent_test.conformance.looking import first_difference
from suite.mutants_core import HidesWhyItFailed, LosesTheEndsOfTexts
from suite.mutants_watch import CutsTextsOnReload, SaysNothingOfGaps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from chatagent_test.conformance import MockSession

ROOT = Path(__file__).parents[2]
CASES = {case.case_id: case for case in conformance.cases()}


def ids(found: tuple[conformance.Case, ...]) -> set[str]:
    return {case.case_id for case in found}


def test_there_are_cases_of_every_profile() -> None:
    counts = Counter(case.profile for case in conformance.cases())

    assert counts == {
        "core": 39,
        "watch": 22,
        "heads": 10,
        "files": 9,
        "commands": 7,
        "regeneration": 10,
        "actions": 25,
    }


def test_every_case_says_what_it_shows_and_by_which_rules() -> None:
    for case in conformance.cases():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", case.case_id)
        assert case.title.strip(), case.case_id
        assert case.rules, case.case_id
        assert all(re.fullmatch(r"[A-Z]{2}-\d+", rule) for rule in case.rules), case.case_id
        assert inspect.iscoroutinefunction(case.body), case.case_id


def test_chosen_profiles_leave_the_others_out() -> None:
    chosen = conformance.cases(["files", "watch"])

    assert {case.profile for case in chosen} == {"core", "files", "watch"}
    assert "watch-ends-on-delete" not in ids(chosen)
    assert "watch-ends-on-delete" in ids(conformance.cases(["watch", "heads"]))


def test_core_is_always_among_them() -> None:
    assert {case.profile for case in conformance.cases([])} == {"core"}


def test_an_unknown_profile_is_refused() -> None:
    wrong: Any = ["wtach"]

    with pytest.raises(InvalidArgumentError, match=r"^`profiles` is 'wtach': no such profile; there are core, watch, "):
        conformance.cases(wrong)


def test_a_mark_has_the_cases_that_are_not_excluded() -> None:
    mark = conformance.parametrize(["files"], exclude=["files-empty"])

    assert mark.args[0] == "case"
    assert ids(mark.args[1]) == ids(conformance.cases(["files"])) - {"files-empty"}
    assert mark.kwargs["ids"] == [case.case_id for case in mark.args[1]]


@pytest.mark.parametrize("case_id", ["files-emtpy", "act-order"])
def test_excluding_what_would_not_be_run_is_refused(case_id: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^`exclude` is '{case_id}': no case of this id would be run$"):
        conformance.parametrize(["files"], exclude=[case_id])


def test_using_the_suite_imports_no_pytest() -> None:
    program = (
        "import sys; from chatagent_test import conformance; "
        "conformance.cases()[0].run_blocking(conformance.MockBackend()); print('pytest' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_it_runs_under_pytest_without_a_plugin_for_async_tests(tmp_path: Path) -> None:
    program = """
from chatagent_test import conformance

@conformance.parametrize()
def test_it(case):
    case.run_blocking(conformance.MockBackend(profiles=["core"]), event_loop="trio")
"""
    (tmp_path / "test_mine.py").write_text(program, encoding="utf-8")
    options = ["-p", "no:cacheprovider", "-rA", "--color=no"]
    chosen = ["-k", "core-two-turns or files-unknown"]
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen, "test_mine.py"],
        cwd=tmp_path,
        env={**surroundings, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "PASSED test_mine.py::test_it[core-two-turns]" in done.stdout
    assert "files-unknown: the backend's manifest does not declare the profile 'files'" in done.stdout
    assert "1 passed, 1 skipped, 120 deselected" in done.stdout


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
def test_a_case_runs_in_a_test_that_is_no_coroutine(event_loop: str) -> None:
    CASES["core-text-answer"].run_blocking(MockBackend(), event_loop=event_loop)


# Skips ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_case_of_a_profile_that_is_not_declared_is_skipped_and_says_why() -> None:
    backend = MockBackend(profiles=["core", "watch"])

    with pytest.raises(
        conformance.Unsupported, match=r"^files-empty: the backend's manifest does not declare the profile 'files'$"
    ):
        await CASES["files-empty"].run(backend)


@pytest.mark.anyio
async def test_a_case_that_needs_a_second_profile_names_it() -> None:
    backend = MockBackend(profiles=["core", "watch"])

    with pytest.raises(conformance.Unsupported, match=r"does not declare the profile 'heads'$"):
        await CASES["watch-ends-on-delete"].run(backend)


def test_what_a_far_side_cannot_do_is_a_skip_for_every_runner() -> None:
    assert issubclass(conformance.Unsupported, unittest.SkipTest)
    assert issubclass(conformance.Unsupported, ChatAgentError)


class NoForgetting(MockBackend):
    """A backend whose far side cannot lose its log."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MockSession]:
        async def forget(thread_id: str) -> None:
            raise conformance.Unsupported(f"the log of {thread_id} is on tape")

        async with super().open() as session:
            vars(session)["forget"] = forget
            yield session


@pytest.mark.anyio
async def test_a_far_side_that_cannot_do_a_thing_skips_the_case_with_its_own_reason() -> None:
    with pytest.raises(conformance.Unsupported, match=r"^the log of t-1 is on tape$"):
        await CASES["watch-forgotten"].run(NoForgetting())


class BareSession:
    """What a newcomer begins with: a transport, and a far side that answers."""

    def __init__(self, session: MockSession) -> None:
        self.transport, self.answer = session.transport, session.answer


class Bare(MockBackend):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        async with super().open() as session:
            yield BareSession(session)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("case_id", "method"),
    [
        ("core-abort-running", "hold"),
        ("core-client-data-arrives", "received"),
        ("watch-reconnect", "hold"),
        ("watch-forgotten", "forget"),
        ("watch-no-leak", "open_watches"),
        ("files-broken-upload", "stored_files"),
        ("commands-client-data", "received_commands"),
        ("act-survives-reload", "second_transport"),
    ],
)
async def test_a_method_that_a_session_has_not_got_is_what_its_far_side_cannot_do(case_id: str, method: str) -> None:
    with pytest.raises(conformance.Unsupported, match=rf"^the session has no method `{method}`; with one"):
        await CASES[case_id].run(Bare())
    await CASES["core-text-answer"].run(Bare())


@pytest.mark.anyio
async def test_declared_profiles_that_are_left_out_are_warned_of_once() -> None:
    chosen = {case.case_id: case for case in conformance.cases(["watch", "files"])}

    with pytest.warns(
        conformance.ConformanceWarning, match=r"not run: 'heads', 'regeneration', 'actions', 'commands'; "
    ):
        await chosen["core-manifest"].run(MockBackend())
    await chosen["core-text-answer"].run(MockBackend())


@pytest.mark.anyio
@pytest.mark.parametrize("case", [each for each in conformance.cases(["watch"]) if each.profile == "watch"], ids=str)
async def test_the_mock_without_other_profiles_conforms(case: conformance.Case) -> None:
    await case.run(MockBackend(profiles=["core", "watch"]))


@pytest.mark.anyio
@pytest.mark.parametrize("case_id", ["core-fail-cleans-partial", "core-queue-order", "core-second-client-sees-all"])
async def test_a_transport_without_watches_conforms_by_being_read(case_id: str) -> None:
    await CASES[case_id].run(MockBackend(profiles=["core"]))


# Failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_failure_says_what_was_expected_what_came_and_what_happened() -> None:
    with pytest.raises(CaseFailedError) as caught:
        await CASES["core-text-answer"].run(MockBackend(LosesTheEndsOfTexts))

    lines = str(caught.value).splitlines()
    assert lines[:4] == [
        "core-text-answer (EV-6, CK-2): An answer of one text is one message of the agent's, with the text complete",
        "expected: text and state of the answer's texts: [['hello', 'done']]",
        "came: [['hell', 'done']]",
        "events so far:",
    ]
    assert lines[4] == "  thread t-1:"
    assert lines[5].startswith("     1 message.added {")
    assert [line.split()[0] for line in lines[5:]] == [str(number) for number in range(1, 11)]
    assert lines[-1].split()[1] == "generation.completed"
    assert caught.value.rules == ("EV-6", "CK-2")


@pytest.mark.anyio
async def test_of_long_values_the_first_difference_is_told() -> None:
    with pytest.raises(CaseFailedError) as caught:
        await CASES["watch-duplicates-ignored"].run(MockBackend(CutsTextsOnReload))

    told = (caught.value.expected, caught.value.came)
    assert told == (
        "the state of a client that comes later, at messages[1].parts[1].text: 'one two three'",
        "'one t'",
    )


def test_the_first_difference_is_found_in_lists_dicts_and_where_one_ends() -> None:
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ("a[1].b", 2, 3)
    assert first_difference({"a": [1, 2]}, {"a": [1]}) == ("a", [1, 2], [1])
    assert first_difference([{"a": 1}], [{"b": 1}]) == ("[0]", {"a": 1}, {"b": 1})
    assert first_difference(1, 2) == ("", 1, 2)


@pytest.mark.anyio
async def test_a_wait_that_never_ends_says_what_was_waited_for() -> None:
    with pytest.raises(CaseFailedError) as caught:
        await CASES["watch-forgotten"].run(MockBackend(SaysNothingOfGaps), within=0.1)

    told = (caught.value.expected, caught.value.came)
    assert told == ("the next event of a watch", "nothing within 0.1 s")


@pytest.mark.anyio
async def test_an_error_nobody_expected_is_told_and_kept_as_the_cause() -> None:
    class Broken(ForwardingTransport):
        async def send(self, request: object) -> Any:
            raise ZeroDivisionError("division by zero")

    with pytest.raises(CaseFailedError) as caught:
        await CASES["core-text-answer"].run(MockBackend(Broken))

    assert caught.value.expected == "no error"
    assert caught.value.came.startswith("ZeroDivisionError: division by zero")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.anyio
async def test_a_failure_among_tasks_is_told_like_any_other() -> None:
    class Broken(ForwardingTransport):
        async def send(self, request: object) -> Any:
            raise ZeroDivisionError("division by zero")

    with pytest.raises(CaseFailedError, match="ZeroDivisionError"):
        await CASES["core-threads-isolated"].run(MockBackend(Broken))


@pytest.mark.anyio
async def test_a_failure_passes_as_an_assertion() -> None:
    with pytest.raises(AssertionError, match=r"came: \['An error occurred\.', "):
        await CASES["core-fail-sets-error"].run(MockBackend(HidesWhyItFailed))


@pytest.mark.anyio
async def test_what_cancels_a_case_is_no_failure_of_it() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await CASES["core-text-answer"].run(MockBackend())

    assert scope.cancelled_caught


# Clean-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_cases_leave_no_task_behind(profile: str) -> None:
    async def play() -> None:
        before = asyncio.all_tasks()
        for case in conformance.cases():
            if case.profile == profile:
                await case.run(MockBackend())
                assert asyncio.all_tasks() == before, case.case_id

    asyncio.run(play())


def test_a_forwarding_transport_is_a_transport() -> None:
    assert isinstance(ForwardingTransport(create_mock_agent_transport()), AgentClientTransport)
