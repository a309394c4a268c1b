"""Head start: another process has run the first step of an answer and hands it over (1.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, events, ids, nothing, prompt_of, roles, saying, texts, types, user
from agent.sessions import live_session
from chatagent import chat, tool
from chatagent.errors import AgentRunEndedError, HarnessModeError
from chatagent.ui import ReasoningUIPart, ToolUIPart, UIMessage, to_wire
from chatagent_test import ChatAgentHarness, mock_chat_agent

if TYPE_CHECKING:
    from chatagent import ChatAgent

pytestmark = pytest.mark.anyio

TURN = ("on_preload", "on_chat_start", "on_turn_start", "on_before_turn_complete", "on_turn_complete")
GREETING = [{"role": "assistant", "content": [{"type": "text", "text": "Hi there, hope you're well."}]}]
CALLING = [
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "tc-1", "toolName": "weather", "input": {"city": "tokyo"}},
            {"type": "tool-approval-request", "approvalId": "ap-1", "toolCallId": "tc-1"},
        ],
    },
    {"role": "tool", "content": [{"type": "tool-approval-response", "approvalId": "ap-1", "approved": True}]},
]


def incoming(event: Any) -> Any:
    return event.incoming_messages


def names(harness: ChatAgentHarness) -> list[str]:
    return [call.name for call in harness.hooks]


def waiting(agent: ChatAgent[Any], **options: Any) -> ChatAgentHarness:
    return mock_chat_agent(agent, mode="handover-prepare", **options)


def hooked(model: Any = None, **options: Any) -> ChatAgent[Any]:
    return agent_of(model or saying(), **{**dict.fromkeys(TURN, nothing), **options})


CITIES: list[str] = []


@tool
def weather(city: str) -> str:
    """Look up the weather."""
    CITIES.append(city)
    return f"22°C in {city}"


async def test_a_skip_ends_the_run_without_a_trace() -> None:
    """HND-001."""
    harness = waiting(hooked())

    async with harness:
        await harness.send_handover_skip()

    assert names(harness) == []
    assert harness.all_chunks == []
    assert harness.run_ended
    assert harness.run_error is None


async def test_a_whole_answer_is_the_turn_s_own() -> None:
    """HND-002, C-94."""
    async with waiting(hooked()) as harness:
        turn = await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="asst-msg-1")

    (event,) = events(harness, "on_turn_complete")
    assert [call.name for call in turn.hooks] == [
        "on_chat_start",
        "on_turn_start",
        "on_before_turn_complete",
        "on_turn_complete",
    ]
    assert event.response_message is not None
    assert (event.response_message.id, event.response_message.text) == ("asst-msg-1", "Hi there, hope you're well.")
    assert event.finish_reason == "stop"
    assert types(turn) == ["trigger:turn-complete"]


async def test_a_call_that_was_handed_over_is_run_and_the_answer_goes_on() -> None:
    """HND-003, C-95, F-81."""
    CITIES.clear()
    model = saying("It is 22°C in tokyo.")

    async with waiting(hooked(model, tools=[weather])) as harness:
        turn = await harness.send_handover(partial_assistant_message=CALLING, message_id="asst-msg-2")

    assert CITIES == ["tokyo"]
    assert turn.text == "It is 22°C in tokyo."
    assert types(turn)[:3] == ["start", "tool-output-available", "start-step"]
    assert turn.raw_chunks[0]["messageId"] == "asst-msg-2"
    assert turn.message is not None
    assert turn.message.id == "asst-msg-2"
    (part,) = [part for part in turn.message.parts if isinstance(part, ToolUIPart)]
    assert (part.state, part.output) == ("output-available", "22°C in tokyo")
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert ids(snapshot.messages) == ["asst-msg-2"]


async def test_reasoning_is_kept() -> None:
    """HND-004, F-82."""
    options = {"anthropic": {"signature": "sig-abc"}}
    thinking = [
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "hm", "providerOptions": options},
                {"type": "text", "text": "So."},
            ],
        }
    ]

    async with waiting(hooked()) as harness:
        turn = await harness.send_handover(partial_assistant_message=thinking, is_final=True)

    assert turn.message is not None
    thought, said = turn.message.parts
    assert isinstance(thought, ReasoningUIPart)
    assert (thought.text, thought.state, thought.provider_metadata) == ("hm", "done", options)
    assert said.type == "text"


async def test_with_hydration_the_history_of_the_head_start_comes_in() -> None:
    """HND-005, C-96."""
    agent = hooked(hydrate_messages=incoming)

    async with waiting(agent, head_start_messages=[user("u-1")]) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="asst-hydrate-1")

    (hydrate,) = events(harness, "hydrate_messages")
    (complete,) = events(harness, "on_turn_complete")
    assert roles(hydrate.incoming_messages) == ["user"]
    assert roles(complete.ui_messages) == ["user", "assistant"]
    assert complete.response_message is not None
    assert complete.response_message.id == "asst-hydrate-1"
    assert "run" not in names(harness)


async def test_with_hydration_a_call_is_run_too() -> None:
    """HND-006, F-83."""
    CITIES.clear()
    model = saying("It is 22°C in tokyo.")
    agent = hooked(model, tools=[weather], hydrate_messages=incoming)

    async with waiting(agent, head_start_messages=[user("u-1")]) as harness:
        turn = await harness.send_handover(partial_assistant_message=CALLING, message_id="asst-hydrate-2")

    (run,) = events(harness, "run")
    (complete,) = events(harness, "on_turn_complete")
    assert roles(run.messages) == ["user", "assistant", "tool"]
    assert CITIES == ["tokyo"]
    assert "tokyo" in turn.text
    assert [(message.role, message.id) for message in complete.ui_messages] == [
        ("user", "u-1"),
        ("assistant", "asst-hydrate-2"),
    ]


async def test_without_hydration_the_history_of_the_head_start_is_the_chain() -> None:
    """B-5."""
    async with waiting(hooked(), head_start_messages=[user("u-1")]) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="a-1")

    (start,) = events(harness, "on_turn_start")
    assert ids(start.ui_messages) == ["u-1", "a-1"]


async def test_hooks_wait_for_the_signal() -> None:
    """HND-007, C-97."""
    async with waiting(hooked(saying("on"))) as harness:
        await harness.start()
        await harness.advance(20)
        before = names(harness)
        await harness.send_handover(partial_assistant_message=GREETING)

    assert before == []
    assert names(harness) == ["on_chat_start", "on_turn_start", "run", "on_before_turn_complete", "on_turn_complete"]


@pytest.mark.parametrize(("idle_timeout", "seconds"), [(1, 1), (None, 60)])
async def test_without_a_signal_the_run_ends(idle_timeout: float | None, seconds: float) -> None:
    """HND-008, G-39."""
    harness = waiting(hooked(idle_timeout=idle_timeout))

    async with harness:
        await harness.start()
        await harness.advance(seconds - 0.5)
        early = harness.run_ended
        await harness.advance(1)
        late = harness.run_ended

    assert (early, late) == (False, True)
    assert names(harness) == []
    assert harness.all_chunks == []
    assert harness.run_error is None


async def test_a_step_without_a_role_makes_no_message_and_no_crash() -> None:
    """MCA-037."""
    async with waiting(hooked()) as harness:
        turn = await harness.send_handover(
            partial_assistant_message=[{"type": "text", "text": "from-handover"}], is_final=True
        )

    assert types(turn) == ["trigger:turn-complete"]
    assert turn.message is None
    assert turn.error is None


async def test_a_whole_answer_as_a_plain_text_is_no_response() -> None:
    """C-93, C-94."""
    async with waiting(hooked()) as harness:
        turn = await harness.send_handover(
            partial_assistant_message=[{"role": "assistant", "content": "plain"}], is_final=True
        )

    assert (turn.message, turn.finish_reason) == (None, None)
    assert types(turn) == ["trigger:turn-complete"]


async def test_an_answer_that_the_history_has_already_is_not_put_in_again() -> None:
    """C-92."""
    history = [user("u-1"), UIMessage(id="a-dup", role="assistant", parts=[])]

    async with waiting(hooked(), head_start_messages=history) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="a-dup")

    (start,) = events(harness, "on_turn_start")
    assert ids(start.ui_messages) == ["u-1", "a-dup"]


async def test_the_conversation_goes_on_behind_a_handover() -> None:
    model = saying("and on")

    async with waiting(hooked(model)) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="a-1")
        turn = await harness.send_message("thanks")

    assert turn.index == 1
    assert roles(prompt_of(model)) == ["assistant", "user"]


async def test_a_message_that_comes_while_the_run_waits_for_the_signal_is_answered_behind_it() -> None:
    """G-27: in the reference it is lost."""
    model = saying("answer")

    async with waiting(hooked(model)) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True)
        turn = await pending

    assert turn.text == "answer"


@pytest.mark.parametrize(
    "partial",
    [
        None,
        7,
        "Hi there",
        {"role": "assistant", "content": "Hi"},
        [{"role": "wizard", "content": "Hi"}],
        [{"role": "assistant", "content": [{"type": "hologram"}]}],
        [{"role": "assistant", "content": 7}],
    ],
    ids=str,
)
async def test_a_handover_that_cannot_be_read_fails_its_turn_and_not_the_run(partial: Any) -> None:
    async with live_session() as session:
        session.put({"kind": "handover", "partialAssistantMessage": partial, "isFinal": True})
        session.submit(user("u-1"))
        seen = await session.run(agent_of(saying("hi")), trigger="handover-prepare")

    failed, turn = seen.turns
    assert isinstance(failed.error, ValueError)
    assert turn.error is None
    assert turn.response is not None
    assert turn.response.text == "hi"


async def test_the_head_start_may_be_given_when_it_boots() -> None:
    """D-9."""
    harness = mock_chat_agent(hooked())

    async with _unstarted(harness):
        await harness.send_head_start(messages=[user("u-1")])
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="a-1")

    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert ids(snapshot.messages) == ["u-1", "a-1"]
    assert "on_preload" not in names(harness)


class _unstarted:
    """Closes a harness that nothing has booted yet."""

    def __init__(self, harness: ChatAgentHarness) -> None:
        self._harness = harness

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *exc: object) -> None:
        await self._harness.close(raise_errors=True)


async def test_a_head_start_on_a_run_that_is_on_is_refused() -> None:
    """D-9."""
    async with mock_chat_agent(hooked(saying("hi"))) as harness:
        with pytest.raises(HarnessModeError) as caught:
            await harness.send_head_start(messages=[user("u-1")])
        turn = await harness.send_message("hello")

    assert str(caught.value).startswith("send_head_start: the run has started; ")
    assert turn.text == "hi"


@pytest.mark.parametrize("method", ["send_handover", "send_handover_skip"])
async def test_a_handover_outside_a_head_start_is_refused_and_nothing_is_queued(method: str) -> None:
    options: dict[str, Any] = {"partial_assistant_message": GREETING} if method == "send_handover" else {}

    async with mock_chat_agent(hooked(saying("hi"))) as harness:
        with pytest.raises(HarnessModeError) as caught:
            await getattr(harness, method)(**options)
        turn = await harness.send_message("hello")

    problem = "the run was booted in mode 'preload'; use mode='handover-prepare'"
    assert str(caught.value) == f"{method}: {problem}\nhooks so far: none\nchunks of the last turn: none"
    assert turn.index == 0


async def test_a_second_handover_is_not_for_this_run() -> None:
    harness = waiting(hooked())

    async with harness:
        await harness.send_handover_skip()
        with pytest.raises(AgentRunEndedError):
            await harness.send_handover(partial_assistant_message=GREETING)


async def test_what_was_handed_over_survives_the_round_trip_of_the_message() -> None:
    async with waiting(hooked()) as harness:
        turn = await harness.send_handover(partial_assistant_message=CALLING[:1], is_final=True, message_id="a-1")

    assert turn.message is not None
    assert to_wire(turn.message) == {
        "id": "a-1",
        "role": "assistant",
        "parts": [
            {"type": "text", "text": "Let me look."},
            {
                "type": "tool-weather",
                "toolCallId": "tc-1",
                "state": "input-available",
                "input": {"city": "tokyo"},
            },
        ],
    }
    assert texts([turn.message]) == ["Let me look."]


async def test_an_upgrade_ahead_of_the_answer_keeps_what_the_head_start_has_brought() -> None:
    """T-29: no record of `.in` holds it."""
    upgrades = iter([True, False])

    def upgrade_once(event: Any) -> None:
        if next(upgrades):
            chat.request_upgrade()

    agent = agent_of(saying("welcome back"), on_turn_start=upgrade_once)
    async with waiting(agent, head_start_messages=[user("u-1", "Hi")]) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, message_id="a-1")
        await harness.continue_run()
        await harness.send_message(user("u-2", "again"))

    assert harness.upgrade_requested
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert texts(snapshot.messages) == ["Hi", "Hi there, hope you're well.", "again", "welcome back"]


async def test_on_boot_sees_the_history_that_a_head_start_brings() -> None:
    """B-5."""
    seen: list[list[str]] = []

    def look(event: Any) -> None:
        seen.append(ids(chat.history.all()))

    async with waiting(hooked(on_boot=look), head_start_messages=[user("u-1")]) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True)

    assert seen == [["u-1"]]


async def test_what_was_injected_belongs_to_the_turn_of_a_whole_answer_that_was_handed_over() -> None:
    """T-30, T-31."""
    plain: Any = {"role": "assistant", "content": "Hi there."}
    model = saying("next")

    def inject_once(event: Any) -> None:
        if event.turn == 0:
            chat.inject([{"role": "user", "content": "(injected)"}])

    agent = hooked(model, on_turn_start=inject_once)
    async with waiting(agent, head_start_messages=[user("u-1")]) as harness:
        await harness.send_handover(partial_assistant_message=[plain], is_final=True)
        await harness.send_message("again")

    assert events(harness, "on_turn_complete")[0].messages[-1].content == "(injected)"
    assert roles(prompt_of(model)) == ["user", "assistant", "user", "user"]
