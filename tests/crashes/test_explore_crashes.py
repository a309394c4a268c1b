"""A conversation with tools, an action, a stop and steering survives a crash anywhere; and what does harm is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent import chat, is_step_count, stream_text, tool
from chatagent.agent import RecoveryResult
from chatagent.errors import InvalidArgumentError
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

    report = await explore_crashes(lambda: chat.agent(id="looker", run=run), short_talk, at="suspension")

    report.assert_ok()
    assert died_in == {1, 2, 3}
