"""The page for those who come from JavaScript names all that is there, and nothing that is not here."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from chatagent import chat
from chatagent.agent import HOOK_NAMES
from chatagent_test import ChunkStream, Turn, mock_chat_agent

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "port-from-javascript.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+?) \| (.+?) \|", re.MULTILINE)

OPTIONS = (
    "agent chatId clientData taskContext preload mode continuation previousRunId headStartMessages snapshot setupLocals"
)
MEMBERS = (
    "sendMessage sendPendingMessage sendRegenerate sendAction sendHeadStart sendHandover sendHandoverSkip sendStop "
    "seedSnapshot seedSessionOutTail seedSessionOutPartial seedSessionInTail getSnapshot close chatId allChunks "
    "allRawChunks turn.chunks turn.rawChunks"
)


def columns(heading: str, *, first: str = "There") -> tuple[list[str], list[str]]:
    """Return the names in the first two columns of the table with this head, below a heading."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = section.partition(f"| {first} |")[2].partition("\n\n")[0]
    rows = [row for row in ROW.findall(table) if not row[0].startswith("--")]
    assert rows, heading
    return [name for there, _ in rows for name in named(there)], [name for _, here in rows for name in named(here)]


def named(cell: str) -> list[str]:
    return [re.sub(r"^await ", "", code).partition("(")[0] for code in re.findall(r"`([^`]+)`", cell)]


def test_every_option_of_the_harness_is_told() -> None:
    there, here = columns("Options of the harness")
    parameters = set(inspect.signature(mock_chat_agent).parameters)

    assert there == OPTIONS.split()
    assert set(here) <= parameters
    assert {name for name in parameters if f"`{name}`" not in TEXT} == set()


def test_every_member_of_the_harness_is_told() -> None:
    there, here = columns("Methods and properties of the harness")
    _, instead = columns("Methods and properties of the harness", first="A test there")
    harness = mock_chat_agent(chat.agent(id="told", run=lambda event: ChunkStream([])))

    known = {*dir(harness), *(f"turn.{name}" for name in dir(Turn))}
    names = {name.removeprefix("harness.") for name in (*here, *instead)}

    assert there == MEMBERS.split()
    assert names <= known


def test_every_hook_is_told() -> None:
    there, here = columns("Hooks")

    assert set(HOOK_NAMES) <= set(here)
    assert {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in there} <= {*HOOK_NAMES, "run", "tools"}
