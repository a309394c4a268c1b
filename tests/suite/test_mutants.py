"""The suite catches what it is for: each backend with one rule broken fails the cases that are named for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent_test import conformance
from suite import mutants_actions, mutants_core, mutants_further, mutants_watch
from suite.mutant import Mutant

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.anyio

AREAS: tuple[ModuleType, ...] = (mutants_core, mutants_watch, mutants_further, mutants_actions)
MUTANTS = [
    each
    for area in AREAS
    for each in vars(area).values()
    if isinstance(each, type) and issubclass(each, Mutant) and each.caught_by
]
CASES = {case.case_id: case for case in conformance.cases()}
PAIRS = [(mutant, case_id) for mutant in MUTANTS for case_id in mutant.caught_by]
WITHIN = 0.5
"""Real seconds for a case on a mutant: some never say the end that the case waits for."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a mutant shows that a case can fail; cases run on both
@pytest.mark.parametrize(("mutant", "case_id"), PAIRS, ids=[f"{mutant.__name__}-{each}" for mutant, each in PAIRS])
async def test_a_broken_rule_is_caught_by(mutant: type[Mutant], case_id: str) -> None:
    backend = conformance.MockBackend(mutant)

    with pytest.raises(conformance.CaseFailedError) as caught:
        await CASES[case_id].run(backend, within=WITHIN)

    assert caught.value.case_id == case_id
    assert caught.value.expected != caught.value.came


def test_every_case_catches_something() -> None:
    assert {case_id for _, case_id in PAIRS} == set(CASES)
