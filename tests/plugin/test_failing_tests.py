"""What makes a test with `chat_harness` fail, and what its report says.

All scenarios are one project, which is run once; it keeps its reports as data.
"""

from __future__ import annotations

from textwrap import dedent

import pytest

from plugin.projects import AGENT, ANYIO, Reports, run_reporting

SCENARIOS: dict[str, str] = {}
"""The test modules of the project, by name."""

BROKEN = """
    @chat.agent(id="broken")
    async def broken(event):
        return ChunkStream([])


    @broken.on_turn_start
    def fail(event):
        raise LookupError("no such shop")


    async def fail_unseen(harness):
        harness.begin_message("hi")
        await harness.wait_idle()
"""


def scenario(name: str, *blocks: str, head: str = ANYIO) -> str:
    """Add a test module to the project; its tests run on both backends."""
    imports = "    from greeter import *\n    from chatagent_test import ChunkStream, mock_chat_agent, script\n"
    SCENARIOS[name] = "\n".join(map(dedent, (head, imports, *blocks)))
    return name


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    files = {"greeter": AGENT, **{f"test_{name}": source for name, source in SCENARIOS.items()}}

    return run_reporting(tmp_path_factory.mktemp("project"), files)


UNTOLD = scenario(
    "untold",
    BROKEN,
    """
    async def test_a_turn(chat_harness):
        await fail_unseen(chat_harness(broken))
    """,
)


def test_a_failure_that_no_driver_has_told_fails_the_test_with_itself(reports: Reports) -> None:
    (transcript, _) = reports.transcripts(UNTOLD)

    assert reports.outcomes(UNTOLD) == {"failed": 2}
    assert reports.errors(UNTOLD) == ["LookupError: no such shop"] * 2
    assert "  hook on_turn_start: raised LookupError: no such shop\n" in transcript[1]


TOLD = scenario(
    "told",
    BROKEN,
    """
    async def test_a_turn(chat_harness):
        turn = await chat_harness(broken).send_message("hi")
        assert str(turn.error) == "no such shop"
    """,
)


def test_a_failure_that_the_test_knows_does_not_fail_it(reports: Reports) -> None:
    assert reports.outcomes(TOLD) == {"passed": 2}


SEVERAL = scenario(
    "several",
    BROKEN,
    """
    async def test_turns(chat_harness):
        for _ in range(2):
            await fail_unseen(chat_harness(broken))
    """,
)


def test_failures_of_several_harnesses_are_told_together(reports: Reports) -> None:
    assert reports.outcomes(SEVERAL) == {"failed": 2}
    for failure in reports.failures(SEVERAL):
        assert "ExceptionGroup: what was found behind the test (2 sub-exceptions)" in failure["text"]


FIRST = scenario(
    "first",
    BROKEN,
    """
    async def test_a_turn(chat_harness, mock_model):
        chat_harness.must_finish(mock_model([script.text("unsaid")]))
        await fail_unseen(chat_harness(broken))
        assert 1 == 2
    """,
)


def test_what_the_test_itself_raises_comes_first(reports: Reports) -> None:
    assert reports.outcomes(FIRST) == {"failed": 2}
    assert reports.errors(FIRST) == ["assert 1 == 2"] * 2


UNSAID = scenario(
    "unsaid",
    """
    async def ask(chat_harness, model):
        await chat_harness(greeter, setup_locals=lambda values: values.set(MODEL, model)).send_message("hi")

    async def test_that_asks(chat_harness, mock_model):
        model = mock_model([script.text("one"), script.text("two")])
        chat_harness.must_finish(model)
        await ask(chat_harness, model)

    async def test_that_does_not(chat_harness, mock_model):
        await ask(chat_harness, mock_model([script.text("one"), script.text("two")]))

    async def test_with_nothing_left(chat_harness, mock_model):
        model = mock_model([script.text("one")])
        chat_harness.must_finish(model)
        await ask(chat_harness, model)
    """,
)


def test_a_script_with_something_left_fails_the_test_if_that_was_asked_for(reports: Reports) -> None:
    assert reports.outcomes(UNSAID) == {"failed": 2, "passed": 4}
    lines = reports.errors(UNSAID)
    assert (
        lines
        == [
            "AssertionError: the model's script has 1 of 2 entries left, the next is script.text('two'); "
            "let it be asked for them, or leave them out",
            "it was called once:",
            "call 1 gave 4 parts, and has ended",
        ]
        * 2
    )


def test_what_was_found_behind_the_test_is_told_without_the_way_to_it(reports: Reports) -> None:
    texts = [failure["text"] for name in (UNSAID, LEFT) for failure in reports.failures(name)]

    assert len(texts) == 3
    for text in texts:
        assert len([line for line in text.splitlines() if not line.startswith("E ")]) <= 2


STUBBORN = scenario(
    "stubborn",
    """
    import warnings

    import anyio

    @chat.agent(id="stubborn")
    async def stubborn(event):
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()

    async def test_a_turn(chat_harness):
        harness = chat_harness(stubborn, wait_timeout=0.02)
        harness.begin_message("hi")
        await harness.wait_for(lambda harness: harness.hooks)
        warnings.simplefilter("ignore")
    """,
    head="    import pytest\n    pytestmark = pytest.mark.asyncio\n",
)


def test_a_run_that_does_not_end_fails_the_test(reports: Reports) -> None:
    head, line = reports.errors(STUBBORN)

    assert reports.outcomes(STUBBORN) == {"failed": 1}
    assert head.startswith("AssertionError: the harness is closed, and tasks of its run are still alive; ")
    assert line.startswith("- the run of agent 'stubborn', at ")
    assert line.endswith(" in stubborn")


LEFT = scenario(
    "left",
    """
    import asyncio

    TASKS = []

    async def forever():
        await asyncio.Event().wait()

    async def soon():
        await asyncio.sleep(0)

    def leave(work):
        @chat.agent(id="leaving")
        async def leaving(event):
            TASKS.append(asyncio.create_task(work(), name="left"))

        return leaving

    async def test_that_leaves_one(chat_harness):
        await chat_harness(leave(forever)).send_message("hi")

    async def test_whose_task_ends_by_itself(chat_harness):
        await chat_harness(leave(soon)).send_message("hi")

    async def test_with_a_task_of_its_own(chat_harness):
        TASKS.append(asyncio.create_task(forever()))
        await chat_harness(greeter).send_message("hi")
    """,
    head="    import pytest\n    pytestmark = pytest.mark.asyncio\n",
)


def test_a_task_that_a_hook_has_left_behind_fails_the_test(reports: Reports) -> None:
    head, line = reports.errors(LEFT)

    assert reports.outcomes(LEFT) == {"failed": 1, "passed": 2}
    assert head.startswith("AssertionError: the harness is closed, and tasks of its run are still alive; ")
    assert line.startswith("- the task 'left' that its code has started, at ")
    assert line.endswith(" in forever")


NOTED = scenario(
    "noted",
    """
    async def test_a_turn(chat_harness):
        harness = chat_harness(greeter)
        await harness.start()
        await harness.close()
        harness.close = lambda **options: 1 / 0
        assert 1 == 2
    """,
)


def test_what_fails_while_a_failing_test_is_closed_is_a_note(reports: Reports) -> None:
    note = "closing a harness behind it failed too: ZeroDivisionError: division by zero"

    assert reports.outcomes(NOTED) == {"failed": 2}
    assert reports.errors(NOTED) == ["assert 1 == 2", note] * 2


EVERY = scenario(
    "every",
    """
    @pytest.fixture
    async def greeting():
        async with mock_chat_agent(greeter, chat_id="of a fixture") as harness:
            yield harness

    async def converse():
        async with mock_chat_agent(greeter, chat_id="of a block") as harness:
            turn = await harness.send_message("hi")
            assert turn.text == "goodbye"

    async def test_a_failure(chat_harness, greeting):
        chat_harness(greeter, chat_id="of the factory")
        await greeting.send_message("first")
        await converse()

    async def test_a_success(greeting):
        await greeting.send_message("second")
    """,
)


def test_every_harness_that_a_failing_test_has_is_told(reports: Reports) -> None:
    """Those of the factory, of other fixtures, and of its own blocks, those of functions it calls included."""
    told = reports.transcripts(EVERY)

    names = ("of the factory", "of a fixture", "of a block")
    assert [title for title, _ in told] == [f"chatagent transcript of 'greeter', chat {name!r}" for name in names] * 2
    assert told[0][1] == "nothing has happened\n"
    assert told[1][1].startswith('run 1 begins: preload\nclient: user "first"\nturn 0\n')
    assert told[2][1].endswith("  turn-complete\n  turn 0 done: stop\nclient: close\nrun 1 ends\n")
    assert reports.outcomes(EVERY) == {"failed": 2, "passed": 2}


AROUND = scenario(
    "around",
    """
    @pytest.fixture
    async def greeting(chat_harness):
        harness = chat_harness(greeter)
        turn = await harness.send_message("hi")
        assert turn.text == "goodbye"

    @pytest.fixture
    async def parting(chat_harness):
        harness = chat_harness(greeter)
        yield harness
        assert harness.turns

    async def test_that_is_not_reached(greeting):
        pass

    async def test_whose_fixture_fails_behind_it(parting):
        pass
    """,
)


def test_a_harness_whose_set_up_or_tear_down_fails_is_told(reports: Reports) -> None:
    assert reports.outcomes(AROUND) == {"errors": 4, "passed": 2}
    assert len(reports.transcripts(AROUND)) == 4


UNTELLABLE = scenario(
    "untellable",
    """
    async def test_a_failure(chat_harness):
        harness = chat_harness(greeter)
        harness._watch.story = None
        assert 1 == 2
    """,
)


IDS = scenario(
    "ids",
    """
    async def test_a_failure(chat_harness):
        model = MockLanguageModel(script.text("hello"))
        harness = chat_harness(greeter, setup_locals=lambda values: values.set(MODEL, model))
        turn = await harness.send_message("hi")
        assert turn.message.id == "other"
    """,
)


def test_a_transcript_of_a_report_has_the_ids_that_the_failure_tells_of(reports: Reports) -> None:
    assert reports.outcomes(IDS) == {"failed": 2}
    for (_, text), failure in zip(reports.transcripts(IDS), reports.failures(IDS), strict=True):
        assert "'msg-2' == 'other'" in failure["text"]
        assert '  chunk start {"messageId": "msg-2"}\n' in text
        assert '  chunk text-start {"id": "text-1"}\n' in text


def test_a_transcript_that_cannot_be_made_hides_no_failure(reports: Reports) -> None:
    assert reports.errors(UNTELLABLE) == ["assert 1 == 2"] * 2
    for _, text in reports.transcripts(UNTELLABLE):
        assert text.startswith("no transcript can be made: TypeError: ")
