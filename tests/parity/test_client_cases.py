"""Every case of the scripted backend has a test that names it, in its docstring or in the id of a parameter."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "client-cases.md"
COUNT = 134
"""How many cases the page lists, so that none is dropped from it unseen."""

KNOWN_MISSING: dict[str, str] = {}
"""Cases that the code cannot show yet, each with the reason; one that gets a test has to go from here."""

ROW = re.compile(r"^\| \*\*(MTR-\d{3})\*\* \| \S.* \| \S.* \|$", re.MULTILINE)
NAMED = re.compile(r"\bMTR-(\d{3})(?: to MTR-(\d{3}))?(?!\d)")


def cases_in(text: str) -> Iterator[str]:
    """Yield the cases that a text names, those within a range included."""
    for first, last in NAMED.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"MTR-{number:03}"


def named_by_tests(source: str) -> set[str]:
    """Return the cases that the docstrings of a module's tests name, and the ids of their parameters."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            found |= set(cases_in(ast.get_docstring(node) or ""))
            ids = (each for decorator in node.decorator_list for each in ast.walk(decorator))
            found |= {case for each in ids if isinstance(each, ast.Constant) for case in cases_in(str(each.value))}
    return found


def listed() -> list[str]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_lists_each_case_once_and_none_was_dropped() -> None:
    assert [case for case, count in Counter(listed()).items() if count > 1] == []
    assert len(listed()) == COUNT


def test_every_case_has_a_test_or_a_reason() -> None:
    named = {
        case
        for path in sorted(TESTS.rglob("test_*.py"))
        if path != Path(__file__)
        for case in named_by_tests(path.read_text(encoding="utf-8"))
    }

    assert [case for case in listed() if case not in named] == list(KNOWN_MISSING)
    assert named - set(listed()) == set()


def test_cases_are_found_in_docstrings_of_tests_alone() -> None:
    source = '"""MTR-001."""\nasync def test_x():\n    """MTR-005, MTR-010 to MTR-012."""\n    y = "MTR-003"\n'

    assert named_by_tests(source) == {"MTR-005", "MTR-010", "MTR-011", "MTR-012"}
