"""Every case of the reference's page of cases has a test that names it.

A test names a case in its docstring (`MCA-001`, or `WIR-001 to WIR-008`) or in the id of a parameter. That it shows the
case is a matter of reading; that nobody forgot one is a matter of this file.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "parity.md"

CASES_OF_FAMILIES = {
    "MCA": 44,
    "REC": 11,
    "HND": 8,
    "HNB": 8,
    "SNP": 5,
    "WIR": 32,
    "MRG": 11,
    "RIN": 10,
    "ROT": 14,
    "PMD": 5,
    "PAC": 3,
    "SSE": 7,
    "PCH": 5,
    "SKL": 8,
    "SKR": 9,
}
"""How many cases the page lists, so that none is dropped from it unseen."""

KNOWN_MISSING: dict[str, str] = {}
"""Cases that the code cannot show yet, each with the reason; one that gets a test has to go from here."""

ROW = re.compile(r"^\| \*\*([A-Z]{3}-\d{3})\*\* \| \S.* \| \S.* \|$", re.MULTILINE)
NAMED = re.compile(rf"\b({'|'.join(CASES_OF_FAMILIES)})-(\d{{3}})(?: to \1-(\d{{3}}))?(?!\d)")


def cases_in(text: str) -> Iterator[str]:
    """Yield the cases that a text names, those within a range included."""
    for family, first, last in NAMED.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{family}-{number:03}"


def texts_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield a test's docstring and the ids of its parameters."""
    yield ast.get_docstring(test) or ""
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.keyword) and node.arg in ("id", "ids"):
                constants = (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))
                yield from (value for value in constants if isinstance(value, str))


def cases_named_in(source: str) -> set[str]:
    """Return the cases that the tests of a module name."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    tests = (node for node in functions if node.name.startswith("test_"))
    return {case for test in tests for text in texts_of(test) for case in cases_in(text)}


def listed() -> list[str]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def named() -> set[str]:
    """The cases that any test names."""
    return {case for path in sorted(TESTS.rglob("test_*.py")) for case in cases_named_in(path.read_text("utf-8"))}


def test_cases_are_found_in_docstrings_and_ids_of_tests_alone() -> None:
    source = '''
"""MCA-001."""

@pytest.mark.parametrize("x", [pytest.param("MCA-002", id="MCA-003"), 1], ids=["WIR-004"])
async def test_something(x):
    """MCA-005, REC-006 to REC-008."""
    assert x == "MCA-010"

def helper():
    """MCA-011."""
'''

    assert cases_named_in(source) == {"MCA-003", "MCA-005", "WIR-004", "REC-006", "REC-007", "REC-008"}


def test_the_page_lists_each_case_once_and_none_was_dropped() -> None:
    assert [case for case, count in Counter(listed()).items() if count > 1] == []
    assert Counter(case[:3] for case in listed()) == CASES_OF_FAMILIES


def test_every_case_has_a_test_or_a_reason(named: set[str]) -> None:
    missing = [case for case in listed() if case not in named]

    assert missing == sorted(KNOWN_MISSING, key=listed().index)


def test_no_test_names_a_case_that_is_not_listed(named: set[str]) -> None:
    assert named - set(listed()) == set()
