"""What each hook receives (chat-agent 2.8)."""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel

from agent.making import ASK_USER, agent_of, assistant, events, ids, nothing, roles, saying, tool_part, user
from chatagent import chat
from chatagent.agent import (
    ActionEvent,
    BeforeTurnCompleteEvent,
    BootEvent,
    ChatResumeEvent,
    ChatStartEvent,
    ChatSuspendEvent,
    HydrateMessagesEvent,
    PendingToolCall,
    PreloadEvent,
    PrepareMessagesEvent,
    RecoveryBootEvent,
    ResolveToolsEvent,
    RunEvent,
    TurnCompleteEvent,
    TurnStartEvent,
    ValidateMessagesEvent,
)
from chatagent.ui import to_wire
from chatagent_test import mock_chat_agent, script

pytestmark = pytest.mark.anyio


class Data(BaseModel):
    user: str


def shown(event: Any) -> dict[str, Any]:
    """An event's fields, but for those that are objects of the run."""
    left_out = (
        "ctx",
        "writer",
        "signal",
        "cancel_signal",
        "stop_signal",
        "total_usage",
        "previous_turn_usage",
        "usage",
    )
    names = [field.name for field in fields(event) if field.name not in left_out]
    return {name: getattr(event, name) for name in names}


def no_tools(event: Any) -> dict[str, Any]:
    return {}


COMMON: dict[str, Any] = {"chat_id": "c-1", "client_data": Data(user="ada")}
OF_RUN: dict[str, Any] = {**COMMON, "run_id": "run_test", "chat_access_token": ""}
HARNESS: dict[str, Any] = {"chat_id": "c-1", "client_data": {"user": "ada"}}


async def test_on_boot_and_on_preload() -> None:
    agent = agent_of(client_data_schema=Data, on_boot=nothing, on_preload=nothing)

    async with mock_chat_agent(agent, **HARNESS) as harness:
        await harness.start()

    (boot,) = events(harness, "on_boot")
    (preload,) = events(harness, "on_preload")
    assert isinstance(boot, BootEvent)
    assert shown(boot) == {**OF_RUN, "continuation": False, "previous_run_id": None, "preloaded": True}
    assert boot.ctx.run.id == "run_test"
    assert boot.ctx.attempt.number == 1
    assert isinstance(preload, PreloadEvent)
    assert shown(preload) == OF_RUN


async def test_on_boot_of_a_continuation_names_the_run_before() -> None:
    agent = agent_of(on_boot=nothing)

    async with mock_chat_agent(agent, continuation=True, previous_run_id="run_prior") as harness:
        await harness.start()

    (boot,) = events(harness, "on_boot")
    assert (boot.continuation, boot.previous_run_id, boot.preloaded) == (True, "run_prior", False)


async def test_the_context_of_the_run_is_what_the_test_says() -> None:
    agent = agent_of(on_boot=nothing)
    context = {"run": {"id": "run_9", "is_test": True}, "attempt": {"number": 2}}

    async with mock_chat_agent(agent, task_context=context) as harness:
        await harness.start()

    (boot,) = events(harness, "on_boot")
    assert (boot.run_id, boot.ctx.run.is_test, boot.ctx.attempt.number) == ("run_9", True, 2)


async def test_on_recovery_boot() -> None:
    harness = mock_chat_agent(agent_of(on_recovery_boot=nothing), continuation=True, previous_run_id="run_prior")
    harness.seed_snapshot({"version": 1, "savedAt": 0, "messages": [user("u-0"), assistant("a-0", "hi")]})
    raw = assistant("a-half", "let me look", tool_part("tc-1", "input-available", input={"q": 1}))
    harness.seed_session_out_partial(assistant("a-half", "let me look"), raw=raw)
    harness.seed_session_in_tail([user("u-1")])

    async with harness:
        await harness.wait_idle()

    (event,) = events(harness, "on_recovery_boot")
    assert isinstance(event, RecoveryBootEvent)
    assert (event.chat_id, event.run_id, event.previous_run_id) == ("test-chat", "run_test", "run_prior")
    assert event.cause == "unknown"
    assert ids(event.settled_messages) == ["u-0", "a-0"]
    assert ids(event.in_flight_users) == ["u-1"]
    assert event.partial_assistant == assistant("a-half", "let me look")
    assert event.pending_tool_calls == [
        PendingToolCall(tool_call_id="tc-1", tool_name="search", input={"q": 1}, part_index=1)
    ]


async def test_the_events_of_a_first_turn() -> None:
    hooks = ("on_chat_start", "on_turn_start", "on_before_turn_complete", "on_turn_complete")
    agent = agent_of(
        saying("hi"),
        client_data_schema=Data,
        on_validate_messages=lambda event: event.messages,
        prepare_messages=lambda event: event.messages,
        tools=no_tools,
        **dict.fromkeys(hooks, nothing),
    )

    async with mock_chat_agent(agent, **HARNESS, preload=False) as harness:
        turn = await harness.send_message(user("u-1"))

    by_name = {call.name: call.event for call in turn.hooks}
    tools, validate, start = by_name["tools"], by_name["on_validate_messages"], by_name["on_chat_start"]
    assert isinstance(tools, ResolveToolsEvent)
    assert shown(tools) == {**COMMON, "turn": 0, "continuation": False}
    assert isinstance(validate, ValidateMessagesEvent)
    assert shown(validate) == {"chat_id": "c-1", "turn": 0, "trigger": "submit-message", "messages": [user("u-1")]}
    assert isinstance(start, ChatStartEvent)
    assert roles(start.messages) == ["user"]
    assert shown(start) == {
        **OF_RUN,
        "messages": start.messages,
        "continuation": False,
        "previous_run_id": None,
        "preloaded": False,
    }
    turn_start = by_name["on_turn_start"]
    assert isinstance(turn_start, TurnStartEvent)
    assert shown(turn_start) == {**shown(start), "turn": 0, "ui_messages": [user("u-1")]}
    assert turn_start.previous_turn_usage is None
    prepare = by_name["prepare_messages"]
    assert isinstance(prepare, PrepareMessagesEvent)
    assert shown(prepare) == {**COMMON, "turn": 0, "reason": "run", "messages": turn_start.messages}
    run = by_name["run"]
    assert isinstance(run, RunEvent)
    assert shown(run) == {
        **COMMON,
        "trigger": "submit-message",
        "messages": turn_start.messages,
        "continuation": False,
        "previous_run_id": None,
        "preloaded": False,
        "tools": {},
        "message_id": None,
        "action": None,
        "idle_timeout_in_seconds": None,
        "session_id": None,
        "client_run_id": None,
    }
    assert not run.signal.aborted
    assert not run.stop_signal.aborted
    assert not run.cancel_signal.aborted


async def test_the_completion_events_of_a_turn() -> None:
    agent = agent_of(saying("hi"), on_before_turn_complete=nothing, on_turn_complete=nothing)

    async with mock_chat_agent(agent, chat_id="c-1") as harness:
        turn = await harness.send_message(user("u-1"))

    (before,) = events(harness, "on_before_turn_complete")
    (complete,) = events(harness, "on_turn_complete")
    assert isinstance(before, BeforeTurnCompleteEvent)
    assert isinstance(complete, TurnCompleteEvent)
    answer = turn.message
    assert answer is not None
    assert shown(complete) == {
        **shown(before),
        "last_event_id": str(harness.out_records[-1].seq),
        "error": None,
    }
    assert shown(before) == {
        "chat_id": "c-1",
        "messages": before.messages,
        "ui_messages": [user("u-1"), answer],
        "new_messages": before.messages,
        "new_ui_messages": [user("u-1"), answer],
        "response_message": answer,
        "raw_response_message": answer,
        "turn": 0,
        "run_id": "run_test",
        "chat_access_token": "",
        "client_data": None,
        "stopped": False,
        "continuation": False,
        "previous_run_id": None,
        "preloaded": True,
        "finish_reason": "stop",
    }
    assert roles(complete.messages) == ["user", "assistant"]
    assert complete.usage is not None
    assert (complete.usage.total_tokens, complete.total_usage.total_tokens) == (20, 20)


async def test_usage_is_that_of_the_turn_before_and_that_of_all_turns() -> None:
    agent = agent_of(saying("one", "two", "three"), on_turn_start=nothing, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        for text in ("a", "b", "c"):
            await harness.send_message(text)

    starts, completes = events(harness, "on_turn_start"), events(harness, "on_turn_complete")
    runs = events(harness, "run")
    assert [start.previous_turn_usage and start.previous_turn_usage.total_tokens for start in starts] == [None, 20, 20]
    assert [run.previous_turn_usage and run.previous_turn_usage.total_tokens for run in runs] == [None, 20, 20]
    assert [start.total_usage.total_tokens for start in starts] == [None, 20, 40]
    assert [complete.total_usage.total_tokens for complete in completes] == [20, 40, 60]


async def test_hydrate_messages() -> None:
    agent = agent_of(
        client_data_schema=Data,
        hydrate_messages=lambda event: [*event.previous_messages, *event.incoming_messages],
    )

    async with mock_chat_agent(agent, **HARNESS) as harness:
        first = await harness.send_message(user("u-1"))
        await harness.send_regenerate()

    one, two = events(harness, "hydrate_messages")
    assert isinstance(one, HydrateMessagesEvent)
    assert shown(one) == {
        **COMMON,
        "turn": 0,
        "trigger": "submit-message",
        "incoming_messages": [user("u-1")],
        "previous_messages": [],
        "continuation": False,
        "previous_run_id": None,
    }
    assert (two.turn, two.trigger, two.incoming_messages) == (1, "regenerate-message", [])
    assert two.previous_messages == [user("u-1"), first.message]


async def test_on_action() -> None:
    agent = agent_of(client_data_schema=Data, on_action=nothing)

    async with mock_chat_agent(agent, **HARNESS) as harness:
        turn = await harness.send_message(user("u-1"))
        await harness.send_action({"type": "undo"})

    (event,) = events(harness, "on_action")
    assert isinstance(event, ActionEvent)
    assert roles(event.messages) == ["user", "assistant"]
    assert shown(event) == {
        **COMMON,
        "action": {"type": "undo"},
        "turn": 1,
        "ui_messages": [user("u-1"), turn.message],
        "messages": event.messages,
    }


async def test_suspending_and_resuming_between_turns() -> None:
    agent = agent_of(client_data_schema=Data, on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent, **HARNESS) as harness:
        turn = await harness.send_message(user("u-1"))
        await harness.advance(30)
        await harness.send_message("again")

    (suspend,), (resume,) = events(harness, "on_chat_suspend"), events(harness, "on_chat_resume")
    assert isinstance(suspend, ChatSuspendEvent)
    assert isinstance(resume, ChatResumeEvent)
    assert roles(suspend.messages or []) == ["user", "assistant"]
    assert shown(suspend) == {
        **COMMON,
        "run_id": "run_test",
        "phase": "turn",
        "turn": 0,
        "messages": suspend.messages,
        "ui_messages": [user("u-1"), turn.message],
    }
    assert shown(resume) == shown(suspend)


async def test_suspending_before_the_first_turn_knows_of_no_turn() -> None:
    agent = agent_of(on_chat_suspend=nothing)

    async with mock_chat_agent(agent, chat_id="c-1") as harness:
        await harness.advance(30)

    (suspend,) = events(harness, "on_chat_suspend")
    assert shown(suspend) == {
        "chat_id": "c-1",
        "client_data": None,
        "run_id": "run_test",
        "phase": "preload",
        "turn": None,
        "messages": None,
        "ui_messages": None,
    }


async def test_suspending_behind_an_action_names_the_last_turn_that_was_completed() -> None:
    """G-51: the reference reports -1 if the action came first."""
    agent = agent_of(on_action=nothing, on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_action("first")
        await harness.advance(30)
        await harness.send_message("hello")
        await harness.send_action("second")
        await harness.advance(30)
        await harness.send_message("hello again")

    for hook in ("on_chat_suspend", "on_chat_resume"):
        assert [event.turn for event in events(harness, hook)] == [None, 0]


RETURNING = ("on_validate_messages", "prepare_messages")
LISTS = (
    *RETURNING,
    "on_chat_start",
    "on_turn_start",
    "on_before_turn_complete",
    "on_turn_complete",
    "on_chat_suspend",
    "on_action",
)


def lists_of(event: Any) -> dict[str, list[Any]]:
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {name: value for name, value in values.items() if isinstance(value, list)}


class Wrecker:
    """Hooks that note how long the lists of their events are, return what keeps the turn as it is, and empty them."""

    def __init__(self, *, wrecks: bool) -> None:
        self.noted: list[tuple[str, dict[str, int]]] = []
        self._wrecks = wrecks

    def hook(self, name: str) -> Any:
        def hook(event: Any) -> Any:
            self.noted.append((name, {field: len(value) for field, value in lists_of(event).items()}))
            result: Any = None
            if name == "hydrate_messages":
                result = [*event.previous_messages, *event.incoming_messages]
            elif name in RETURNING:
                result = list(event.messages)
            for value in lists_of(event).values() if self._wrecks else ():
                value.clear()
            return result

        return hook


async def noted_of_a_conversation(names: tuple[str, ...], *, wrecks: bool) -> Any:
    """What hooks of these names have noted in a conversation of two turns and an action, and what the model saw."""
    wrecker = Wrecker(wrecks=wrecks)
    model = saying("one", "two")

    async with mock_chat_agent(agent_of(model, **{name: wrecker.hook(name) for name in names})) as harness:
        await harness.send_message("a")
        await harness.send_action("look")
        await harness.advance(30)
        await harness.send_message("b")
        snapshot = harness.get_snapshot()

    stored = None if snapshot is None else [(message.role, message.text) for message in snapshot.messages]
    return wrecker.noted, stored, [roles(call.prompt) for call in model.do_stream_calls]


@pytest.mark.parametrize("more", [(), ("hydrate_messages",)], ids=["kept", "hydrated"])
async def test_lists_in_events_are_copies(more: tuple[str, ...]) -> None:
    """G-24: the reference hands out its live lists."""
    names = (*LISTS, *more)

    noted, *outcome = await noted_of_a_conversation(names, wrecks=True)

    assert {name for name, _ in noted} == set(names)
    assert [noted, *outcome] == list(await noted_of_a_conversation(names, wrecks=False))


@pytest.mark.parametrize("users", [[], ["u-1", "u-2"]], ids=["nobody", "two"])
async def test_lists_that_the_recovery_hook_is_given_are_copies(users: list[str]) -> None:
    """G-24."""
    wrecker = Wrecker(wrecks=True)
    agent = agent_of(saying("ok", "ok"), on_recovery_boot=wrecker.hook("on_recovery_boot"))
    past = [to_wire(user("u-0")), to_wire(assistant("a-0", "before"))]
    snapshot = {"version": 1, "savedAt": 0, "messages": past}
    harness = mock_chat_agent(agent, continuation=True, snapshot=snapshot)
    harness.seed_session_out_partial(assistant("a-half", "half", tool_part("tc-1", "input-available", input={})))
    harness.seed_session_in_tail([user(each) for each in users])

    async with harness:
        await harness.send_message(user("u-9"))
        stored = harness.get_snapshot()

    sizes = {"settled_messages": 2, "in_flight_users": len(users), "pending_tool_calls": 1}
    assert wrecker.noted == [("on_recovery_boot", sizes)]
    assert ids(harness.boot.settled_messages) == ["u-0", "a-0"]
    assert ids(harness.boot.in_flight_users) == users
    assert stored is not None
    assert ids(stored.messages)[:2] == ["u-0", "a-0"]


async def test_an_event_of_an_earlier_turn_does_not_change_later() -> None:
    agent = agent_of(saying("one", "two"), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.send_message("b")

    completes = events(harness, "on_turn_complete")
    assert [len(event.ui_messages) for event in completes] == [2, 4]
    assert [len(event.messages) for event in completes] == [2, 4]


async def test_events_cannot_be_changed() -> None:
    def change(event: Any) -> None:
        event.turn = 7

    async with mock_chat_agent(agent_of(on_turn_start=change)) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, AttributeError)


async def test_the_remainder_of_a_payload_reaches_run() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message("hello")
        await harness.send_regenerate()

    assert [run.trigger for run in events(harness, "run")] == ["submit-message", "regenerate-message"]


async def test_hooks_and_run_may_be_sync_or_async_and_any_callable() -> None:
    """D-2."""

    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        async def __call__(self, event: Any) -> None:
            self.calls += 1
            await chat.sleep(1)

    counter = Counter()

    async with mock_chat_agent(agent_of(on_turn_start=counter, on_turn_complete=counter)) as harness:
        await harness.send_message("hello")

    assert counter.calls == 2


async def test_a_call_records_when_it_began_and_ended_on_the_clock() -> None:
    async def slow(event: Any) -> None:
        await chat.sleep(90)

    async with mock_chat_agent(agent_of(on_turn_start=slow)) as harness:
        turn = await harness.send_message("hello")

    (call,) = [call for call in turn.hooks if call.name == "on_turn_start"]
    assert call.outcome == "returned"
    assert call.ended_at is not None
    assert call.ended_at - call.started_at == 90
    assert call.turn == 0


async def test_a_call_that_raised_keeps_its_exception() -> None:
    broken = ValueError("broken")

    def fail(event: Any) -> None:
        raise broken

    async with mock_chat_agent(agent_of(on_turn_start=fail)) as harness:
        turn = await harness.send_message("hello")

    (call,) = [call for call in turn.hooks if call.name == "on_turn_start"]
    assert (call.outcome, call.error) == ("raised", broken)


async def test_a_call_that_the_end_of_the_run_cut_off_was_cancelled() -> None:
    async def wait(event: Any) -> None:
        await chat.sleep(3600)

    harness = mock_chat_agent(agent_of(run=wait), auto_advance=False)
    async with harness:
        harness.begin_message("hello")
        await harness.settle()

    assert [(call.name, call.outcome) for call in harness.hooks] == [("run", "cancelled")]


async def test_the_answer_to_a_tool_call_is_not_new_but_the_response_is() -> None:
    """The lists of new messages hold what the turn added: a message that was merged into a known one is not."""
    model = saying(script.tool_call("ask_user", {}, tool_call_id="tc-1"), "thanks")
    agent = agent_of(model, tools=ASK_USER, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        first = await harness.send_message(user("u-1"))
        assert first.message is not None
        answer = assistant(first.message.id, tool_part("tc-1", "output-available", name="ask_user", output="blue"))
        second = await harness.send_message(answer)

    assert second.message is not None
    new = [ids(event.new_ui_messages) for event in events(harness, "on_turn_complete")]
    assert new == [["u-1", first.message.id], [second.message.id]]


async def test_a_sync_hook_is_called_on_the_thread_of_the_loop() -> None:
    """D-11: nothing is handed to another thread, so what a hook touches needs no lock."""
    threads: dict[str, int] = {}

    def note(name: str) -> Any:
        def hook(event: Any) -> None:
            threads[name] = threading.get_ident()

        return hook

    hooks = {name: note(name) for name in ("on_boot", "on_chat_start", "on_turn_start", "on_turn_complete")}

    async with mock_chat_agent(agent_of(run=note("run"), **hooks)) as harness:
        await harness.send_message("a")

    assert set(threads) == {*hooks, "run"}
    assert set(threads.values()) == {threading.get_ident()}
