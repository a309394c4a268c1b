"""Each rule of the explorer finds the outcome that breaks it, and no other rule does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent.session import TURN_IN_EVENT_ID, Record
from chatagent.ui import (
    Finish,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    TextUIPart,
    ToolInputAvailable,
    ToolOutputAvailable,
    UIMessage,
)
from chatagent_test.crashes.invariants import Outcome, violations_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.ui import Chunk


def user(number: int) -> UIMessage:
    return UIMessage(id=f"u-{number}", role="user", parts=[TextUIPart(text="ask")])


def answer(number: int, text: str = "yes") -> UIMessage:
    return UIMessage(id=f"a-{number}", role="assistant", parts=[TextUIPart(text=text, state="done")])


def streamed(number: int, in_seq: int, *more: Chunk) -> list[Record]:
    """An answer that says "yes", as a client has seen it."""
    chunks: list[Chunk] = [
        Start(message_id=f"a-{number}"),
        TextStart(id="t"),
        TextDelta(id="t", delta="yes"),
        TextEnd(id="t"),
        *more,
        Finish(),
    ]
    headers = ((TURN_IN_EVENT_ID, str(in_seq)),)
    return [
        Record(seq=index, data=chunk, headers=() if index else headers, appended_at=0.0)
        for index, chunk in enumerate(chunks)
    ]


GOOD = [user(1), answer(1), user(2), answer(2)]
STREAMED = [*streamed(1, 0), *streamed(2, 1)]


def outcome(messages: Sequence[UIMessage] = GOOD, *, records: Sequence[Record] = STREAMED, **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "sent": {0: user(1), 1: user(2)},
        "stopped": frozenset(),
        "last_rewrite": -1,
        "records": records,
        "messages": messages,
        "reread": messages,
    }
    return Outcome(**{**fields, **changes})


CALL = (
    ToolInputAvailable(tool_call_id="c", tool_name="look", input={}),
    ToolOutputAvailable(tool_call_id="c", output=1),
)


@pytest.mark.parametrize(
    ("judged", "rules"),
    [
        pytest.param(outcome(), [], id="nothing"),
        pytest.param(outcome([user(1), answer(1), answer(2)]), ["lost message", "answered twice"], id="lost"),
        pytest.param(outcome([user(1), answer(1), user(2), user(2), answer(2)]), ["doubled message"], id="doubled"),
        pytest.param(outcome([user(2), answer(2), user(1), answer(1)]), ["order"], id="order"),
        pytest.param(
            outcome([user(1), answer(1), user(2)], records=streamed(1, 0)), ["not answered"], id="not-answered"
        ),
        pytest.param(
            outcome([*GOOD, answer(3)], records=[*STREAMED, *streamed(3, 1)]),
            ["answered twice", "answered twice"],
            id="answered-twice",
        ),
        pytest.param(
            outcome(records=[*streamed(1, 0, *CALL), *streamed(2, 1, *CALL)]),
            ["tool run again", "history differs", "history differs"],
            id="tool-run-again",
        ),
        pytest.param(
            outcome(records=[*streamed(1, 0, CALL[1]), *streamed(2, 1)]), ["malformed stream"], id="malformed"
        ),
        pytest.param(outcome([user(1), answer(1, "no"), user(2), answer(2)]), ["history differs"], id="differs"),
        pytest.param(outcome(reread=GOOD[:2]), ["history not loadable"], id="not-loadable"),
    ],
)
def test_a_broken_rule_is_named(judged: Outcome, rules: list[str]) -> None:
    found = [rule for rule, _ in violations_of(judged, outcome())]

    assert found == rules


def test_what_an_action_took_away_is_not_missed() -> None:
    judged = outcome([user(1), answer(1)], last_rewrite=1)

    assert [rule for rule, _ in violations_of(judged, outcome([user(1), answer(1)]))] == []


def test_a_stopped_message_may_stay_unanswered() -> None:
    judged = outcome([user(1), answer(1), user(2)], records=streamed(1, 0), stopped=frozenset({"u-2"}))

    assert [rule for rule, _ in violations_of(judged, outcome())] == []
