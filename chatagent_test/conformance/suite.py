"""All cases, and which of them are run (rules CT-1, CT-2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from chatagent.errors import InvalidArgumentError
from chatagent.protocol import PROFILES
from chatagent_test.conformance import (
    acting,
    acting_further,
    commands,
    core_answers,
    core_runs,
    core_sending,
    files,
    heads,
    reconnecting,
    regenerating,
    watching,
)
from chatagent_test.conformance.cases import Case

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from chatagent.protocol import Profile

__all__ = ["cases", "parametrize"]

_AREAS: Final = (
    core_sending,
    core_answers,
    core_runs,
    watching,
    reconnecting,
    heads,
    files,
    commands,
    regenerating,
    acting,
    acting_further,
)
_ALL: Final = tuple(each for area in _AREAS for each in vars(area).values() if isinstance(each, Case))


def cases(profiles: Iterable[Profile] | None = None) -> tuple[Case, ...]:
    """Return the cases of the suite.

    Args:
        profiles: the groups of operations to be run, `core` always among them. By default all cases are returned, and
            those of a profile that the backend's manifest does not declare are skipped when they are run.

    Raises:
        InvalidArgumentError: there is no such profile.
    """
    if profiles is None:
        return _ALL
    selected = frozenset({"core", *profiles})
    for name in sorted(selected.difference(PROFILES)):
        raise InvalidArgumentError(
            argument="profiles", value=name, problem=f"no such profile; there are {', '.join(PROFILES)}"
        )
    return tuple(replace(each, selected=selected) for each in _ALL if each.profiles <= selected)


def parametrize(profiles: Iterable[Profile] | None = None, exclude: Collection[str] = ()) -> Any:
    """Return a mark for pytest: the test gets each case as its argument `case`, the case's id is the test's.

    Args:
        profiles: as for `cases`.
        exclude: ids of cases that are not run.

    Raises:
        InvalidArgumentError: there is no such profile, or no such case among those that are run.
    """
    import pytest

    chosen = cases(profiles)
    for case_id in sorted({*exclude} - {each.case_id for each in chosen}):
        raise InvalidArgumentError(argument="exclude", value=case_id, problem="no case of this id would be run")
    left = [each for each in chosen if each.case_id not in exclude]
    return pytest.mark.parametrize("case", left, ids=[each.case_id for each in left])
