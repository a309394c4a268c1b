"""Every case of the reference's page of cases has a test that names it.

A test names a case in its docstring (`MCA-001`, or `WIR-001 to WIR-008`) or in the id of a parameter. That it shows the
case is a matter of reading; that nobody forgot one is a matter of this file.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from support.naming import DOCS, named_by_tests, named_in

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


def listed() -> list[str]:
    return ROW.findall((DOCS / "parity.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def named() -> set[str]:
    """The cases that any test names."""
    return named_by_tests(*CASES_OF_FAMILIES)


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

    found = named_in(source, CASES_OF_FAMILIES)

    assert found == {"MCA-003", "MCA-005", "WIR-004", "REC-006", "REC-007", "REC-008"}


def test_the_page_lists_each_case_once_and_none_was_dropped() -> None:
    assert [case for case, count in Counter(listed()).items() if count > 1] == []
    assert Counter(case[:3] for case in listed()) == CASES_OF_FAMILIES


def test_every_case_has_a_test_or_a_reason(named: set[str]) -> None:
    missing = [case for case in listed() if case not in named]

    assert missing == sorted(KNOWN_MISSING, key=listed().index)


def test_no_test_names_a_case_that_is_not_listed(named: set[str]) -> None:
    assert named - set(listed()) == set()
