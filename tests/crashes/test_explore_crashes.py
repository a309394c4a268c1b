"""A conversation with tools, an action, a stop and steering survives a crash anywhere; and what does harm is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent import chat, is_step_count, stream_text, tool
from chatagent.agent import RecoveryResult
from chatagent.errors import AgentNotRegisteredError, InvalidArgumentError
from chatagent.ui import ToolPart, UIMessage
from chatagent_test import CrashReport, MockLanguageModel, explore_crashes, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent import ChatAgent
    from chatagent.model import CallOptions
    from chatagent_test import CrashingChat, CrashPointKind, Script

pytestmark = pytest.mark.anyio


@tool
def weather(place: str) -> str:
    """Look up the weather."""
    return f"nice in {place}"


def reply(call: CallOptions) -> Script:
    """Answer by what was said last, so that it does not matter how often somebody asks."""
    last = call.prompt[-1]
    if last.role == "tool":
        return script.text("It is nice.")
    text = (
        last.content if isinstance(last.content, str) else "".join(getattr(part, "text", "") for part in last.content)
    )
    if "weather" in text:
        place = {"place": f"Kiel {len(call.prompt)}"}
        return script.text("Let me look. ").pause(1).tool_call("weather", place, tool_call_id=f"c-{len(call.prompt)}")
    return script.text(f"You said {text}. ").pause(1).text("Fine.")


def make_agent(**hooks: Any) -> Callable[[], ChatAgent[Any]]:
    def undo(event: Any) -> None:
        chat.history.slice(0, -2)

    def run(event: Any) -> Any:
        options: dict[str, Any] = {
            **chat.to_stream_text_options(tools=[weather]),
            "model": MockLanguageModel(reply),
            "messages": event.messages,
            "stop_when": is_step_count(4),
            "abort_signal": event.signal,
        }
        return stream_text(**options)

    pending = {"should_inject": lambda event: True}
    return lambda: chat.agent(**{"id": "talker", "run": run, "on_action": undo, "pending_messages": pending, **hooks})


async def conversation(talk: CrashingChat) -> None:
    await talk.send_message("hello")
    await talk.begin_message("the weather?")
    await talk.wait_streaming("Let me look")
    await talk.begin_message("be brief")
    await talk.wait_idle()
    await talk.begin_message("an essay")
    await talk.wait_streaming("You said an essay")
    await talk.send_stop()
    await talk.send_action({"type": "undo"})
    await talk.send_message("bye")
    await talk.send_regenerate()


async def short_talk(talk: CrashingChat) -> None:
    await talk.send_message("hello")
    await talk.send_message("bye")


async def test_the_conversation_steers_stops_and_undoes() -> None:
    seen: list[list[str]] = []

    async def scenario(talk: CrashingChat) -> None:
        await conversation(talk)
        seen.append([message.text for message in talk.messages])

    await explore_crashes(make_agent(), scenario, at="suspension", every=1000)

    assert seen[0] == [
        "hello",
        "You said hello. Fine.",
        "the weather?",
        "be brief",
        "Let me look. You said be brief. Fine.",
        "bye",
        "You said bye. Fine.",
    ]


@pytest.mark.parametrize("at", ["record", "suspension"])
async def test_a_crash_anywhere_does_no_harm(at: CrashPointKind) -> None:
    report = await explore_crashes(make_agent(), conversation, at=at)

    report.assert_ok()
    assert report.crash_points == report.conversations - 2 > {"record": 80, "suspension": 15}[at]


@pytest.mark.parametrize("at", ["record", "suspension"])
async def test_two_crashes_in_one_conversation_do_no_harm(at: CrashPointKind) -> None:
    report = await explore_crashes(
        make_agent(), conversation, at=at, crashes=2, every={"record": 9, "suspension": 4}[at]
    )

    report.assert_ok()
    assert report.crash_points > 40 if at == "record" else report.crash_points > 10


async def test_an_agent_that_drops_its_past_loses_messages() -> None:
    agent = make_agent(on_recovery_boot=lambda event: RecoveryResult(chain=[], recovered_turns=[]))

    report = await explore_crashes(agent, short_talk)

    assert {violation.rule for violation in report.violations} == {"lost message", "lost answer"}
    first = report.violations[0]
    assert len(first.crash_points) == 1
    assert "of .out (" in first.crash_points[0]
    with pytest.raises(
        AssertionError, match=r"crashes, \d+ violations\n- lost message \[\d+: wrote record \d+ of .out"
    ):
        report.assert_ok()


async def test_a_boot_that_fails_only_behind_a_crash_is_told() -> None:
    def make() -> ChatAgent[Any]:
        boots: list[str] = []

        def boot(event: Any) -> None:
            boots.append(event.run_id)
            if len(boots) == 3:
                raise RuntimeError("no database")

        return make_agent(on_boot=boot)()

    report = await explore_crashes(make, short_talk, every=5)

    assert {violation.rule for violation in report.violations} == {"failed"}
    assert len(report.violations) >= report.crash_points - 1 > 3
    assert "RuntimeError: no database" in report.violations[0].detail


async def test_a_run_that_cannot_go_on_is_told_whether_it_dies_or_not() -> None:
    def boot(event: Any) -> None:
        if event.continuation:
            raise RuntimeError("no locals")

    report = await explore_crashes(make_agent(on_boot=boot), short_talk, every=5)

    assert str(report.violations[0]) == "failed [without a crash]: a further run fails with RuntimeError: no locals"
    assert len(report.violations) == 1 + report.crash_points > 4


async def test_turns_that_fail_without_a_crash_show_nothing() -> None:
    def fail(event: Any) -> None:
        raise LookupError("no shop")

    report = await explore_crashes(make_agent(on_turn_start=fail), short_talk)

    failed = "failed [without a crash]: a turn failed with LookupError: no shop"
    assert [str(violation) for violation in report.violations] == [failed, failed]


async def test_a_turn_that_fails_only_behind_a_crash_is_told_with_its_error() -> None:
    def fail(event: Any) -> None:
        if event.continuation:
            raise LookupError("no shop")

    report = await explore_crashes(make_agent(on_turn_start=fail), short_talk, every=3)

    told = {violation.rule: violation.detail for violation in report.violations}
    assert told["failed"] == "a turn failed with LookupError: no shop"
    assert "not answered" in told


def keeping_its_history(*, careless: bool) -> ChatAgent[Any]:
    kept: dict[str, Any] = {}

    def hydrate(event: Any) -> list[Any]:
        kept.update({message.id: message for message in event.incoming_messages})
        return list(kept.values())

    async def keep(event: Any) -> None:
        if careless:
            await chat.sleep(1)
        kept.update({message.id: message for message in event.new_ui_messages})

    return chat.agent(
        id="keeper",
        run=lambda event: stream_text(
            model=MockLanguageModel(reply), messages=event.messages, abort_signal=event.signal
        ),
        hydrate_messages=hydrate,
        on_turn_complete=keep,
    )


def asking_its_client(*, keeps_early: bool) -> ChatAgent[Any]:
    """An agent with a small database, a tool of the client's, and one of its own."""
    database: list[UIMessage] = []

    def load(event: Any) -> list[UIMessage]:
        chat.upsert_incoming_message(database, event)
        return list(database)

    def keep(event: Any) -> None:
        database[:] = event.ui_messages

    def ask(call: CallOptions) -> Script:
        number = len(call.prompt)
        if call.prompt[-1].role == "user":
            return script.text("Which?").tool_call("which", {}, tool_call_id=f"c-{number}")
        if number < 5:
            return script.text("I look.").tool_call("weather", {"place": "Kiel"}, tool_call_id=f"c-{number}")
        return script.text("It is nice.")

    which = tool(description="Ask the user.", input_schema={"type": "object"})
    early: dict[str, Any] = {"on_before_turn_complete": keep} if keeps_early else {}
    return chat.agent(
        id="asker",
        run=lambda event: stream_text(
            model=MockLanguageModel(ask),
            messages=event.messages,
            tools=event.tools,
            stop_when=is_step_count(4),
            abort_signal=event.signal,
        ),
        tools={"which": which, "weather": weather},
        hydrate_messages=load,
        on_turn_complete=keep,
        **early,
    )


async def form(talk: CrashingChat) -> None:
    await talk.send_message("the weather?")
    asked = talk.messages[-1]
    (call,) = [part for part in asked.parts if isinstance(part, ToolPart)]
    answered = call.model_copy(update={"state": "output-available", "output": "Kiel"})
    await talk.send_message(UIMessage(id=asked.id, role="assistant", parts=[answered]))


async def test_an_agent_that_keeps_its_own_history_is_judged_by_what_it_can_keep() -> None:
    report = await explore_crashes(lambda: keeping_its_history(careless=False), short_talk)

    report.assert_ok()
    assert report.crash_points > 20


@pytest.mark.parametrize("careless", [False, True])
async def test_two_crashes_ask_such_an_agent_for_no_finished_answer_again(*, careless: bool) -> None:
    """G-64."""
    report = await explore_crashes(lambda: keeping_its_history(careless=careless), short_talk, crashes=2, every=3)

    assert [violation for violation in report.violations if violation.rule == "answered twice"] == []
    assert report.crash_points > 100


@pytest.mark.parametrize("keeps_early", [False, True])
async def test_what_a_client_and_a_tool_have_answered_outlives_two_crashes_of_such_an_agent(
    *, keeps_early: bool
) -> None:
    """G-64: whether the answer is stored at the end of the turn or before."""
    report = await explore_crashes(lambda: asking_its_client(keeps_early=keeps_early), form, crashes=2, every=4)

    too_late = [violation for violation in report.violations if "turn-complete" in violation.crash_points[-1]]
    assert [violation for violation in report.violations if violation not in too_late] == []
    assert not (keeps_early and too_late)
    assert report.crash_points > 50


async def test_what_steers_an_answer_in_front_of_an_older_action_is_answered_once() -> None:
    """G-26: it is done with before the action, however the run dies while that waits."""

    async def scenario(talk: CrashingChat) -> None:
        await talk.begin_message("the weather?")
        await talk.wait_streaming("Let me look")
        await talk.begin_action({"type": "note"})
        await talk.begin_message("be brief")
        await talk.wait_idle()
        await talk.send_message("bye")

    report = await explore_crashes(make_agent(on_action=lambda event: None), scenario)

    report.assert_ok()
    assert report.crash_points > 40


async def test_an_answer_that_such_an_agent_comes_too_late_to_keep_is_told() -> None:
    report = await explore_crashes(lambda: keeping_its_history(careless=True), short_talk)

    assert {(violation.rule, violation.crash_points[0].partition("(")[2]) for violation in report.violations} == {
        ("lost answer", "turn-complete)"),
        ("not answered", "turn-complete)"),
    }


async def test_what_is_no_agent_and_what_is_no_scenario_is_refused() -> None:
    def no_agent() -> Any:
        return 7

    def no_scenario(_: CrashingChat) -> Any:
        return None

    with pytest.raises(AgentNotRegisteredError, match=r"^no task registered with id 7: "):
        await explore_crashes(no_agent, short_talk)
    with pytest.raises(InvalidArgumentError, match=r"^`scenario` is <function .*: an async function of one `Crashing"):
        await explore_crashes(make_agent(), no_scenario)


async def test_what_fails_without_a_crash_is_raised() -> None:
    async def scenario(talk: CrashingChat) -> None:
        raise LookupError("the scenario itself")

    with pytest.raises(LookupError, match="the scenario itself"):
        await explore_crashes(make_agent(), scenario)


def test_a_report_without_any_crash_is_not_ok() -> None:
    assert not CrashReport(conversations=1).ok
    assert CrashReport(conversations=2, crash_points=1).ok


@pytest.mark.parametrize("option", [{"at": "chunk"}, {"crashes": 0}, {"every": 0}])
async def test_an_option_with_a_value_that_it_cannot_have_is_named(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(InvalidArgumentError, match=f"^`{name}` is "):
        await explore_crashes(make_agent(), short_talk, **option)


async def test_what_waits_behind_an_answer_is_taken_in_its_order_after_a_crash() -> None:
    """An action and a message wait; the action is not passed over (G-26)."""
    done: list[str] = []

    def make() -> ChatAgent[Any]:
        done.clear()
        return make_agent(on_action=lambda event: done.append(event.action["type"]), pending_messages=None)()

    async def scenario(talk: CrashingChat) -> None:
        await talk.begin_message("an essay")
        await talk.wait_streaming("You said an essay")
        await talk.begin_action({"type": "note"})
        await talk.begin_message("bye")
        await talk.wait_idle()
        assert "note" in done
        assert "bye" in [message.text for message in talk.messages]

    report = await explore_crashes(make, scenario, every=2)

    report.assert_ok()
    assert report.crash_points > 10


async def test_a_run_dies_at_each_wait_inside_a_tool() -> None:
    died_in: set[int] = set()

    @tool
    async def look(place: str) -> str:
        """Look three times."""
        for number in (1, 2, 3):
            try:
                await chat.sleep(1)
            except BaseException:
                died_in.add(number)
                raise
        return f"nice in {place}"

    def look_instead(call: CallOptions) -> Script:
        last = call.prompt[-1]
        if last.role == "tool":
            return script.text("nice")
        return script.tool_call("look", {"place": "Kiel"}, tool_call_id=f"c-{len(call.prompt)}")

    def run(event: Any) -> Any:
        return stream_text(
            model=MockLanguageModel(look_instead),
            messages=event.messages,
            tools=[look],
            stop_when=is_step_count(4),
            abort_signal=event.signal,
        )

    def boot(event: Any) -> None:
        if event.continuation:
            raise LookupError("no shop")

    report = await explore_crashes(lambda: chat.agent(id="looker", run=run), short_talk, at="suspension")
    broken = await explore_crashes(lambda: chat.agent(id="looker", run=run, on_boot=boot), short_talk, at="suspension")

    report.assert_ok()
    assert died_in == {1, 2, 3}
    places = [violation.crash_points[0] for violation in broken.violations if violation.crash_points]
    assert any(f"suspended at {__file__}:" in place and place.endswith(" in look") for place in places)
