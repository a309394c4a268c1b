"""Every guarantee of the runtime, every decision and every fault that is ruled out has a test that names it.

A test names one in its docstring (`G-26`, `F-4`) or in the id of a parameter; that it fails without it is a matter of
reading. The guarantees of the harness (G-1 to G-19) have a file of their own.
"""

from __future__ import annotations

import re

import pytest

from support.naming import DOCS, named_by_tests, named_in

GUARANTEES = [f"G-{number}" for number in range(20, 65)]
"""What the runtime promises, so that none is dropped from the page unseen."""

FAULTS = [
    *(f"F-{number}" for number in range(1, 15)),
    *(f"F-{number}" for number in range(20, 33)),
    *(f"F-{number}" for number in range(40, 50)),
    *(f"F-{number}" for number in range(60, 63)),
    *(f"F-{number}" for number in range(70, 93)),
    *(f"F-{number}" for number in range(99, 103)),
]
"""What the page rules out, likewise."""

DECISIONS = [f"D-{number}" for number in range(1, 14)]
"""What was chosen where the protocol leaves a choice."""

NOT_YET = [f"F-{number}" for number in (63, 64, *range(93, 99), 103, 104)]
"""Faults of clients, which are not there yet; one that gets a test moves up on the page."""

GUARANTEE = re.compile(r"^\| \*\*(G-\d+)\*\* \| \S.* \|$", re.MULTILINE)
FAULT = re.compile(r"^- \*\*(F-\d+)\*\* \S.*: (.+)\.$", re.MULTILINE)
RULE = re.compile(r"(?<![\w-])[A-Z]{1,3}-\d+")
DEFINED = re.compile(r"\*\*([A-Z]{1,3}-\d+)\*\*")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def guarantees() -> list[str]:
    listed = GUARANTEE.findall(page("chat-agent.md"))
    return [each for each in listed if int(each[2:]) >= 20]


def faults() -> dict[str, str]:
    """Return the faults with what rules them out."""
    return dict(FAULT.findall(page("cases.md")))


@pytest.fixture(scope="module")
def named() -> set[str]:
    """The guarantees and faults that any test names."""
    return named_by_tests("G", "F")


def test_names_are_found_in_docstrings_and_ids_of_tests_alone() -> None:
    source = '''
"""G-20."""

@pytest.mark.parametrize("x", [pytest.param("F-2", id="F-3"), 1], ids=["G-40"])
async def test_something(x):
    """G-26, F-8 to F-10, REC-004, P-G-50: not G-x."""
    assert x == "G-60"  # F-100

def helper():
    """F-101."""
'''

    assert named_in(source, ("G", "F")) == {"F-3", "G-40", "G-26", "F-8", "F-9", "F-10"}


def test_the_page_lists_each_guarantee_once_and_none_was_dropped() -> None:
    assert sorted(guarantees(), key=lambda each: int(each[2:])) == GUARANTEES


def test_the_page_lists_each_fault_once_in_order_and_none_was_dropped() -> None:
    assert [each for each, _ in FAULT.findall(page("cases.md"))] == FAULTS
    assert RULE.findall(page("cases.md").split("## Not yet applicable")[1]) == NOT_YET


def test_what_rules_a_fault_out_is_a_rule_of_the_reference() -> None:
    defined = {rule for path in DOCS.glob("*.md") for rule in DEFINED.findall(path.read_text(encoding="utf-8"))}

    unknown = {fault: set(RULE.findall(rules)) - defined for fault, rules in faults().items()}

    assert {fault: rules for fault, rules in unknown.items() if rules} == {}
    assert [fault for fault, rules in faults().items() if not re.search(r"\d", rules)] == []


def test_every_guarantee_has_a_test(named: set[str]) -> None:
    assert [each for each in guarantees() if each not in named] == []


def test_every_fault_has_a_test(named: set[str]) -> None:
    assert [each for each in faults() if each not in named] == []


def test_every_decision_is_on_the_page_and_has_a_test() -> None:
    listed = set(re.findall(r"^- \*\*(D-\d+)\*\* \S", page("chat-agent.md") + page("harness.md"), re.MULTILINE))

    assert listed == set(DECISIONS)
    assert set(DECISIONS) - named_by_tests("D") == set()


def test_no_test_names_what_is_not_listed(named: set[str]) -> None:
    listed = {*GUARANTEE.findall(page("chat-agent.md")), *GUARANTEE.findall(page("harness.md")), *faults()}

    assert named - listed == set()
