"""Telemetry is off unless it is asked for, and nothing that a run does depends on it (section 2.10)."""

from __future__ import annotations

import importlib
import inspect
import logging
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from agent.making import agent_of, saying, user
from agent.sessions import live_session
from chatagent import chat
from chatagent.agent import HookCall, NullObserver, Observers, RunWork, StreamWork
from chatagent.errors import AgentDefinitionError, MissingExtraError
from chatagent.telemetry import OpenTelemetry
from chatagent_test import mock_chat_agent, script
from telemetry.recording import Recorded

if TYPE_CHECKING:
    from collections.abc import Generator

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from chatagent.agent import Telemetry

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


# --- who asks ---


async def test_the_harness_does_not_record_what_the_agent_records_elsewhere() -> None:
    recorded = Recorded()

    async with mock_chat_agent(agent_of(telemetry=recorded.telemetry)) as harness:
        await harness.send_message("hello")

    assert recorded.names == []


async def test_the_harness_records_by_the_agents_own_telemetry_if_asked() -> None:
    recorded = Recorded()

    async with mock_chat_agent(agent_of(telemetry=recorded.telemetry), telemetry="agent") as harness:
        await harness.send_message("hello")

    assert "chat turn 1" in recorded.names


async def test_what_the_surroundings_say_takes_the_place_of_the_agents_own() -> None:
    own, other = Recorded(), Recorded()

    async with mock_chat_agent(agent_of(telemetry=own.telemetry), telemetry=other.telemetry) as harness:
        await harness.send_message("hello")

    assert own.names == []
    assert "chat turn 1" in other.names


async def test_surroundings_that_say_nothing_leave_it_to_the_agent() -> None:
    recorded = Recorded()

    async with live_session() as session:
        session.submit(user("u-1"))
        seen = await session.run(agent_of(telemetry=recorded.telemetry))

    assert len(seen.turns) == 1
    assert "chat turn 1" in recorded.names
    assert recorded.open == []


async def test_builders_and_custom_agents_take_it_too() -> None:
    recorded = Recorded()
    built = chat.with_client_data(schema=str).agent(id="a", run=nothing, telemetry=recorded.telemetry)
    custom = chat.custom_agent(id="b", run=lambda payload, context: None, telemetry=recorded.telemetry)

    assert built.options.telemetry is custom.options.telemetry is recorded.telemetry


@pytest.mark.parametrize("wrong", [True, "on", OpenTelemetry])
def test_what_is_no_telemetry_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(
        AgentDefinitionError, match=r"^agent 'tester': `telemetry` is an object like `OpenTelemetry\(\)`, not "
    ):
        agent_of(telemetry=wrong)


def test_a_custom_agents_telemetry_is_checked_too() -> None:
    wrong: Any = True

    with pytest.raises(AgentDefinitionError, match=r"^agent 'b': `telemetry` is an object"):
        chat.custom_agent(id="b", run=lambda payload, context: None, telemetry=wrong)


async def test_without_a_provider_the_global_one_is_used_as_it_is_when_the_run_boots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded, telemetry = Recorded(), OpenTelemetry()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", recorded.provider)

    async with mock_chat_agent(agent_of(), telemetry=telemetry) as harness:
        await harness.send_message("hello")

    assert "chat turn 1" in recorded.names


async def test_without_any_provider_it_does_nothing() -> None:
    async with mock_chat_agent(agent_of(), telemetry=OpenTelemetry()) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "ok"


def test_a_missing_opentelemetry_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("chatagent.telemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(MissingExtraError, match=r'pip install "chatagent\[otel\]"$'):
        importlib.import_module("chatagent.telemetry")


def test_agents_and_harness_need_no_opentelemetry() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from chatagent import chat; from chatagent_test import mock_chat_agent\n"
        "mock_chat_agent(chat.agent(id='a', run=print))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


# --- nothing depends on it ---


class Broken(Recorded):
    """A provider whose processor fails at everything."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        super().on_start(span, parent_context)
        raise RuntimeError("no collector")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("no collector")


async def conversation(telemetry: Telemetry | None) -> tuple[list[Any], list[str]]:
    """What a conversation with every kind of trouble comes to."""

    def fail_once(event: Any) -> None:
        if event.turn == 1:
            raise LookupError("no such customer")

    hooks: dict[str, Any] = dict.fromkeys(["on_boot", "on_turn_complete", "on_action", "on_chat_suspend"], nothing)
    agent = agent_of(saying("one", script.text("three").pause(2)), on_turn_start=fail_once, **hooks)
    async with mock_chat_agent(agent, telemetry=telemetry) as harness:
        await harness.send_message("hello")
        failed = await harness.send_message("again")
        assert failed.error is not None
        await harness.send_message("and again")
        await harness.advance_to_suspend()
        await harness.send_action({"type": "undo"})
        return list(harness.all_raw_chunks), [repr(call) for call in harness.hooks]


async def test_a_traced_conversation_is_the_same_as_one_that_is_not() -> None:
    recorded = Recorded()

    assert await conversation(recorded.telemetry) == await conversation(None)
    assert recorded.names


async def test_a_tracer_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken()

    assert await conversation(broken.telemetry) == await conversation(None)

    logged = {record.getMessage() for record in caplog.records if record.levelno == logging.ERROR}
    assert logged == {"telemetry failed; the run goes on without it"}
    assert "chat turn 1" in broken.names


async def test_an_exception_without_words_changes_nothing() -> None:
    recorded = Recorded()

    class Mute(Exception):
        def __repr__(self) -> str:
            return "Mute()"

        def __str__(self) -> str:
            frame = inspect.currentframe()
            caller = None if frame is None else frame.f_back
            if caller is not None and caller.f_globals["__name__"].startswith(("chatagent.telemetry", "opentelemetry")):
                raise RuntimeError("no words")
            return "mute"

    def fail(event: Any) -> None:
        raise Mute

    async with mock_chat_agent(agent_of(on_turn_start=fail), telemetry=recorded.telemetry) as harness:
        turn = await harness.send_message("hello")
        assert isinstance(turn.error, Mute)

    assert recorded.attributes("onTurnStart()")["error.type"].endswith("Mute")
    assert recorded.open == []


@pytest.mark.parametrize(("sampler", "is_recorded"), [(ALWAYS_OFF, False), (ALWAYS_ON, True)])
async def test_a_sampler_decides_what_is_recorded(sampler: Any, *, is_recorded: bool) -> None:
    recorded = Recorded(sampler=sampler)

    async with mock_chat_agent(agent_of(), telemetry=recorded.telemetry) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "ok"
    assert ("chat turn 1" in recorded.names) is is_recorded


# --- several observers ---


class Listing(NullObserver):
    """Writes down what it is told."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name, self._log = name, log

    def hook_started(self, call: HookCall) -> None:
        self._log.append(f"{self._name} {call.name}")

    @contextmanager
    def during(self, work: Any) -> Generator[None]:
        self._log.append(f"{self._name} enters")
        try:
            yield
        except BaseException as exc:
            self._log.append(f"{self._name} sees {exc!r}")
            raise
        finally:
            self._log.append(f"{self._name} leaves")


def test_observers_are_told_in_order_and_left_in_reverse() -> None:
    log: list[str] = []
    both = Observers(Listing("first", log), Listing("second", log))

    both.hook_started(HookCall(name="on_boot", event=None, turn=None, started_at=0))
    with both.during(RunWork()):
        log.append("at work")

    assert log == [
        "first on_boot",
        "second on_boot",
        "first enters",
        "second enters",
        "at work",
        "second leaves",
        "first leaves",
    ]


def test_observers_see_what_fails_and_it_passes_on() -> None:
    log: list[str] = []
    both = Observers(Listing("first", log), NullObserver(), Listing("second", log))
    error = ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"), both.during(StreamWork()):
        raise error

    assert [line for line in log if "sees" in line] == [f"second sees {error!r}", f"first sees {error!r}"]


def test_several_observers_pass_on_everything_that_one_can_be_told() -> None:
    told = {name for name in vars(NullObserver) if not name.startswith("_")}

    assert "during" in told
    assert told == {name for name in vars(Observers) if not name.startswith("_")}
