"""Every rule id that code and tests name is a rule of the reference.

A rule is defined by its id in bold (`**G-26**`, `**13.4**`), a section of the chat agent's page by its heading, and a
decision (`D7`) in the explanation. Plain numbers are looked for in comments and docstrings only, outside backticks.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs" / "reference").glob("*.md"), ROOT / "docs" / "explanation.md"]
FOLDERS = ("chatagent", "chatagent_test", "tests", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TABLES = sorted((ROOT / "tests" / "conformance").glob("*.toml"))

SHORT = "A|B|C|D|E|F|G|H|M|N|P|R|S|T|W|X|ST|SK"
CASES = "MCA|REC|HND|HNB|SNP|WIR|MRG|RIN|ROT|PMD|TCR|PAC|SSE|TEV|PCH|SKL|SKR|FMT|INF|EXP|MTR"
CLIENT = "DM|TP|EV|ER|CL|TH|RH|PA|MK|SD|RQ|CK|RS|IE|CM|FL|IN|BT|CT|MP"
NAMED = re.compile(rf"(?<![\w-])(?:(?:{SHORT}|{CASES}|{CLIENT})-\d+[a-z]?|D\d{{1,2}})(?![\w-])")
NUMBER = re.compile(r"(?<![\w.,<>=+-])\d{1,2}\.\d{1,2}(?![\w%]|\.\d)")
COMMENTED = re.compile(r"#.*\d\.\d")
QUOTED = re.compile(r"`[^`]*`")
RELEASE = re.compile(r"\b(?:Python|CPython|anyio|pydantic|trio|pytest|release|version)\s+\d+\.\d+")
DEFINED = re.compile(r"\*\*((?:[A-Z]+-)?\d+[a-z]?(?:\.\d+)?|D\d+|[A-Z]+-\d+)\*\*")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)?) ", re.MULTILINE)


def definitions() -> list[str]:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    return [found for text in texts for found in DEFINED.findall(text)]


def sections() -> set[str]:
    return {number for page in PAGES for number in HEADING.findall(page.read_text(encoding="utf-8"))}


def prose(source: str) -> Iterator[str]:
    """Yield the comments and docstrings of a module; nothing of one without a number, since they are slow to find."""
    if not NUMBER.search(source):
        return
    if COMMENTED.search(source):  # most modules need no tokens, which are slow to make
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def ids_in(source: str) -> set[str]:
    found = set(NAMED.findall(source))
    for text in prose(source):
        found |= set(NUMBER.findall(RELEASE.sub("", QUOTED.sub("", text))))
    return found


def test_ids_are_found_in_code_comments_and_docstrings() -> None:
    source = '"""Follows G-26, sections 5 and 5.8 to 5.10, and `9.9`; Python 3.11."""\nPAUSE = 2.5  # T-41, rule 13.4\n'

    assert ids_in(source) == {"G-26", "5.8", "5.10", "T-41", "13.4"}


def test_every_id_in_code_and_tests_is_in_the_reference() -> None:
    known = {*definitions(), *sections()}
    named = {path: ids_in(path.read_text(encoding="utf-8")) for path in SOURCES if path != Path(__file__)}
    named |= {path: set(NAMED.findall(path.read_text(encoding="utf-8"))) for path in TABLES}

    missing = {path.relative_to(ROOT).as_posix(): sorted(ids - known) for path, ids in named.items() if ids - known}

    assert len(named) > 100
    assert missing == {}


def test_no_rule_is_defined_twice() -> None:
    assert [rule for rule, count in Counter(definitions()).items() if count > 1] == []
