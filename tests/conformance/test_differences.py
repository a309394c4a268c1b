"""Shows what happens where a guarantee changes recorded behaviour on purpose.

Each golden of `differs.toml` stands here with the changes that `DIFFERS.md`, beside the goldens, describes for it;
the rest of its recording holds in full. The sections are those of that file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import (
    AgentRunEndedError,
    ClientDataError,
    HarnessClosedError,
    HarnessModeError,
    HarnessStateError,
    SnapshotVersionError,
)
from conformance.chat_agent.comparing import SCHEMA_ERROR, problems_of, recorded
from conformance.chat_agent.differences import (
    Beyond,
    Called,
    CalledFirst,
    Change,
    Ends,
    Entry,
    Expected,
    Holds,
    Identifies,
    Is,
    Keeps,
    Lacks,
    NotCalled,
    NothingHappens,
    Path,
    Raises,
    Renumbers,
    Returns,
    Suspends,
    text_message,
)
from conformance.chat_agent.differing_turns import AsIn, NoTurn, OneMoreTurn, Unwritten, Written
from conformance.chat_agent.errors import ScenarioError
from conformance.chat_agent.scenario import observe
from conformance.goldens import OWN_GOLDENS, Golden, differs

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.anyio

FAMILY = "chat-agent"
ROWS = OWN_GOLDENS / FAMILY / "DIFFERS.md"

HELLO: list[Any] = [{"type": "text", "text": "hello"}]
AND_AGAIN: list[Any] = [{"type": "text", "text": "and again"}]
FAILED: dict[str, Any] = {"event": "runEnd", "outcome": "threw", "error": SCHEMA_ERROR}
"""The run has failed; the text of its error is free."""
NO_HARNESS = "there is no harness"
"""What the interpreter says to a step for which no harness could be made."""

Section = dict[str, tuple[Change, ...]]

OVERLAPPING: Section = {
    "queue-two-messages": (Returns(2, turn=1), Returns(3, turn=2)),
    "queue-stop-then-queued": (Returns(2, turn=1),),
    "queue-regenerate-mid-turn": (Returns(2, turn=1),),
    "queue-action-mid-turn": (Returns(2, turn=1),),
}

UNANSWERABLE: Section = {
    "end-run-in-run": (Raises(1, AgentRunEndedError),),
    "queue-send-after-close": (Raises(2, HarnessClosedError),),
    "turn-max-turns": (Raises(2, AgentRunEndedError), Beyond("committed", ("0", "1"))),
    "queue-close-while-streaming": (Raises(0, (HarnessClosedError, AgentRunEndedError)),),
    "hooks-throw-on-boot": (Raises(0, ScenarioError, "^boot failed$"),),
    "hooks-throw-on-preload": (Raises(0, ScenarioError, "^preload failed$"),),
    "client-data-invalid-preload": (Raises(0, ClientDataError),),
    "hooks-exit-after-preload-idle": (Raises(0, AgentRunEndedError),),
    "handover-signal-without-mode": (Raises(0, HarnessModeError), Beyond("committed", ("0",))),
    "headstart-after-preload": (
        NoTurn(0),
        Is(("log", Entry("onChatStart"), "messages"), [{"role": "user", "content": AND_AGAIN}]),
        Raises(0, HarnessModeError),
    ),
}

WITHOUT_PRELOAD: Section = {
    "boot-mode-submit": (NoTurn(0),),
    "boot-no-preload-send-at-once": (
        NoTurn(0),
        Is(("log", Entry("onChatStart"), "messages"), [{"role": "user", "content": HELLO}]),
        Returns(0, turn=0),
        Returns(1, turn=1),
    ),
    "hooks-no-preload-close": (NothingHappens(),),
    "client-data-invalid-turn": (NoTurn(2), NoTurn(0), Ends()),
}

CLOSED_AFTER_ERROR: Section = {
    "error-every-turn": (NoTurn(3), Ends()),
    "snapshot-error-first": (NoTurn(1), Ends()),
    "hydrate-nothing": (NoTurn(1), Ends()),
    "chat-local-uninitialised": (NoTurn(1), Ends()),
}

SEEDS: Section = {
    "continue-fresh-ignores-snapshot": (
        NothingHappens(),
        Raises(0, HarnessStateError, "continuation.*attempt"),
        Raises(1, RuntimeError, NO_HARNESS),
    ),
    "continue-previous-run-only": (
        NothingHappens(),
        Raises(0, HarnessStateError, "continuation.*attempt"),
        Raises(1, RuntimeError, NO_HARNESS),
    ),
    "recovery-fresh-run": (Raises(0, HarnessStateError), Raises(1, HarnessStateError)),
    "hydrate-continuation": (
        NothingHappens(),
        Raises(0, HarnessStateError, "snapshot.*hydrate_messages"),
        Raises(1, RuntimeError, NO_HARNESS),
    ),
    "continue-snapshot-unknown-version": (
        NothingHappens((FAILED,)),
        Raises(0, SnapshotVersionError, r"\b99\b.*\b1\b"),
    ),
    "continue-snapshot-v2": (NothingHappens((FAILED,)), Raises(0, SnapshotVersionError, r"\b2\b.*\b1\b")),
}

HOOKS: Section = {
    "history-set-chat-start": (
        Is(
            ("log", Entry("onTurnStart"), "messages"),
            [{"role": "user", "content": [{"type": "text", "text": "set by hook"}]}],
        ),
        Is(("log", Entry("onTurnStart"), "uiMessages"), [text_message("x1", "user", "set by hook")]),
    ),
    "hooks-throw-on-turncomplete": (Unwritten(8, 10),),
    "hooks-suspend-between-turns": (AsIn("hooks-order-preload"), Suspends("onTurnComplete", "turn")),
    "hooks-suspend-idle-zero": (
        AsIn("hooks-order-preload"),
        Suspends("onPreload", "preload"),
        Suspends("onTurnComplete", "turn"),
    ),
    "turn-user-without-id": (
        NoTurn(1),
        Identifies("<id:801>"),
        OneMoreTurn(text_message("<id:802>", "user", "no id either"), "y"),
        Returns(1, turn=1),
    ),
    "stop-run-throws-abort": (
        Unwritten(0, 1),
        Is(("log", Entry("onTurnComplete"), "stopped"), value=True),
        Lacks(("log", Entry("onTurnComplete"), "finishReason")),
        Lacks(("log", Entry("onTurnComplete"), "error")),
        Called(
            "onBeforeTurnComplete",
            before=Entry("out"),
            like=Entry("onTurnComplete"),
            without=frozenset({"lastEventId"}),
        ),
        Returns(0, turn=0),
    ),
}

RECOVERY: Section = {
    "recovery-before-boot": (CalledFirst(Entry("onBoot")),),
    "recovery-both": (CalledFirst(Entry("onBoot")),),
    "recovery-custom-chain": (CalledFirst(Entry("onBoot")),),
    "recovery-drop-turns": (CalledFirst(Entry("onBoot")), Beyond("suppressed", ("u2",))),
    "recovery-oom": (CalledFirst(Entry("onBoot")),),
    "recovery-partial-only": (CalledFirst(Entry("onBoot")),),
    "recovery-pending-tool": (CalledFirst(Entry("onBoot")),),
    "recovery-snapshot": (CalledFirst(Entry("onBoot")),),
    "recovery-throws": (CalledFirst(Entry("onBoot")),),
    "recovery-writer": (CalledFirst(Entry("onBoot")),),
}


def streamed(message_id: str, text: str) -> Written:
    """Return the change that an action's answer makes to `.out`, in front of the action's turn-complete."""
    return Written(
        8,
        (
            {"type": "start", "messageId": message_id},
            {"type": "start-step"},
            {"type": "text-start", "id": "<id:801>"},
            {"type": "text-delta", "id": "<id:801>", "delta": text},
            {"type": "text-end", "id": "<id:801>"},
            {"type": "finish-step"},
            {"type": "finish", "finishReason": "stop"},
        ),
    )


ACTIONS: Section = {
    "action-invalid": (NotCalled(Entry("onTurnComplete", 1)), Renumbers(2, to=1)),
    "action-undo": (
        Keeps(("steps", 4, "snapshot", "messages"), 2),
        Is(("steps", 4, "snapshot", "lastOutEventId"), "17"),
    ),
    "action-last-snapshot": (Keeps(("snapshot", "messages"), 2), Is(("snapshot", "lastOutEventId"), "17")),
    "action-returns-string": (streamed("<id:802>", "a text answer"), Returns(1, turn=1)),
    "action-returns-message": (streamed("ans", "a message"), Returns(1, turn=1)),
}

AND_AGAIN_MESSAGE = text_message("u2", "user", "and again")
MARK: dict[str, Any] = {
    "type": "data-pending-message-injected",
    "id": "<id:2>",
    "data": {"messageIds": ["u2"], "messages": [{"id": "u2", "text": "and again"}]},
}
COMPLETE: Path = ("log", Entry("onTurnComplete"))
STEERED: tuple[Change, ...] = (
    *(
        Holds((*answer, "parts"), 2, MARK)
        for answer in (
            (*COMPLETE, "uiMessages", 1),
            (*COMPLETE, "newUIMessages", 1),
            (*COMPLETE, "responseMessage"),
            ("snapshot", "messages", 1),
        )
    ),
    *(
        Holds(chain, 1, AND_AGAIN_MESSAGE)
        for chain in ((*COMPLETE, "uiMessages"), (*COMPLETE, "newUIMessages"), ("snapshot", "messages"))
    ),
    *(Holds((*COMPLETE, name), 3, {"role": "user", "content": AND_AGAIN}) for name in ("messages", "newMessages")),
)
"""The injected message stands before the answer that it steered, and a mark in that between its two steps."""

STEERING: Section = {
    "steer-inject": STEERED,
    "steer-no-decider": (OneMoreTurn(AND_AGAIN_MESSAGE, "extra turn"),),
    "steer-refused": (OneMoreTurn(AND_AGAIN_MESSAGE, "extra turn"),),
    "steer-no-step-left": (OneMoreTurn(AND_AGAIN_MESSAGE, "b"),),
}

SECTIONS: dict[str, Section] = {
    "Sends that overlap: only the windows differ": OVERLAPPING,
    "Sends that can never be answered raise": UNANSWERABLE,
    "Boot with `preload: false` or mode `submit-message`": WITHOUT_PRELOAD,
    "`close` after an error turn ends the run": CLOSED_AFTER_ERROR,
    "Seeds": SEEDS,
    "Hooks and history": HOOKS,
    "Recovery hook behind `onBoot`": RECOVERY,
    "Actions": ACTIONS,
    "Steering": STEERING,
}
"""The sections of `DIFFERS.md`, by their headings."""
ALL: Section = {name: changes for section in SECTIONS.values() for name, changes in section.items()}
NOT_EXPRESSIBLE = "Not expressible"

AS_RECORDED: dict[str, dict[str, Any]] = {
    "continue-fresh-ignores-snapshot": {"strict": False},
    "continue-previous-run-only": {"snapshot": None},
    "recovery-fresh-run": {"strict": False},
    "hydrate-continuation": {"snapshot": None},
    "hooks-throw-on-turncomplete": {"strict": False},
}
"""Options of the harness with which a recording holds as it is."""


def load(name: str) -> dict[str, Any]:
    return Golden(FAMILY, OWN_GOLDENS / FAMILY / f"{name}.json").load()


async def check(name: str) -> None:
    """Replay a golden and compare what happens with what it says once it is changed."""
    golden = load(name)
    observed = await observe(golden)
    problems = Expected(golden, ALL[name], load).problems(observed)
    assert not problems, "\n".join([name, *problems, *(f"note: {each}" for each in observed["notes"])])


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test once for each golden, under its name."""
    return pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in names])


@each_of(OVERLAPPING)
async def test_sends_that_overlap_each_return_their_own_turn(name: str) -> None:
    await check(name)


@each_of(UNANSWERABLE)
async def test_a_send_that_can_never_be_answered_raises(name: str) -> None:
    await check(name)


@each_of(WITHOUT_PRELOAD)
async def test_the_first_message_without_preload_is_the_boots_own(name: str) -> None:
    await check(name)


@each_of(CLOSED_AFTER_ERROR)
async def test_closing_after_a_failed_turn_ends_the_run(name: str) -> None:
    await check(name)


@each_of(SEEDS)
async def test_a_seed_that_the_boot_would_not_read_or_understand_is_refused(name: str) -> None:
    await check(name)


@each_of(HOOKS)
async def test_hooks_history_and_ids_behave_as_guaranteed(name: str) -> None:
    await check(name)


@each_of(RECOVERY)
async def test_the_recovery_hook_is_called_behind_the_boot_hook(name: str) -> None:
    await check(name)


@each_of(ACTIONS)
async def test_an_action_fails_without_trace_is_saved_and_may_answer(name: str) -> None:
    await check(name)


@each_of(STEERING)
async def test_no_message_that_comes_in_mid_turn_is_lost(name: str) -> None:
    await check(name)


@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(name, options, id=name) for name, options in AS_RECORDED.items()],
)
async def test_where_the_guarantee_does_not_apply_the_recording_holds(name: str, options: dict[str, Any]) -> None:
    golden = load(name)
    golden["options"] |= options

    observed = await observe(golden)

    assert problems_of(golden, observed) == []


@pytest.mark.parametrize("name", ALL)
def test_what_is_expected_is_not_what_was_recorded(name: str) -> None:
    golden = load(name)
    expected = Expected(golden, ALL[name], load)
    beyond: dict[str, Any] = {"raised": {}, "committed": [], "suppressed": []}

    problems = expected.problems({**recorded(golden["observed"]), "beyond": beyond})

    assert problems


def test_every_golden_that_differs_is_shown_here() -> None:
    shown = {f"{FAMILY}/{name}.json" for name in ALL.keys() - OVERLAPPING.keys()}

    assert shown == set(differs())


def test_the_sections_are_those_of_the_golden_folder() -> None:
    rows: dict[str, list[str]] = {}
    for heading, body in re.findall(r"^## (.+)\n([^#]+)", ROWS.read_text(encoding="utf-8"), re.MULTILINE):
        rows[heading] = re.findall(r"^\| `([\w-]+)` \|", body, re.MULTILINE)

    rows.pop(NOT_EXPRESSIBLE)

    assert {heading: sorted(section) for heading, section in SECTIONS.items()} == {
        heading: sorted(names) for heading, names in rows.items()
    }


def test_a_turn_that_is_made_up_is_like_a_recorded_one() -> None:
    golden = load("queue-pending-message")

    made_up = Expected(golden, [NoTurn(1), OneMoreTurn(AND_AGAIN_MESSAGE, "b")], load)

    assert problems_of(golden, made_up.observed) == []
    assert len(made_up.observed["modelCalls"]) == 2


def test_what_a_suspended_run_is_told_is_as_recorded() -> None:
    golden = load("hooks-suspend-between-turns")

    told = Expected(golden, ALL["hooks-suspend-between-turns"], load).entry(Entry("onChatSuspend"))

    assert told in golden["observed"]["log"]
