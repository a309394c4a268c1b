"""The page of the reference lists the cases of the suite as they are."""

from __future__ import annotations

import re
from pathlib import Path

from chatagent_test import conformance

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
ROW = re.compile(
    r"^\| `(?P<case>[a-z-]+)` \| (?P<title>.+?)\.(?P<needs>(?: Needs `[a-z]+` too\.)*) \| (?P<rules>.+) \|$"
)
HEADING = re.compile(r"^## Profile `(?P<profile>\w+)`: (?P<count>\d+) cases$")


def test_the_page_lists_every_case_with_its_title_its_profiles_and_its_rules() -> None:
    listed: list[tuple[str, str, str, frozenset[str], tuple[str, ...]]] = []
    profile = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        heading, row = HEADING.match(line), ROW.match(line)
        if heading:
            profile = heading["profile"]
        if row:
            needs = frozenset(re.findall(r"`(\w+)`", row["needs"]))
            listed.append((row["case"], profile, row["title"], needs, tuple(row["rules"].split(", "))))

    cases = sorted(conformance.cases(), key=lambda case: case.case_id)
    assert sorted(listed) == [(each.case_id, each.profile, each.title, each.needs, each.rules) for each in cases]


def test_the_page_counts_the_cases_of_each_profile() -> None:
    counted = {
        heading["profile"]: int(heading["count"])
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if (heading := HEADING.match(line))
    }

    profiles = [case.profile for case in conformance.cases()]
    assert counted == {profile: profiles.count(profile) for profile in profiles}
