"""The tree of errors in the reference is the tree of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from chatagent import errors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
LINE = re.compile(r"^(?P<indent>[│├└─ ]*)(?P<name>\w+Error)\s*(?:(?P<kind>\w+Error)\b)?")


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """Return each error's parent and its second base, as the page draws them."""
    tree = PAGE.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    parents: list[str] = []
    found: dict[str, tuple[str | None, str | None]] = {}
    for line in tree.splitlines():
        matched = LINE.match(line)
        assert matched, line
        depth = len(matched["indent"]) // 4
        del parents[depth:]
        found[matched["name"]] = (parents[-1] if parents else None, matched["kind"])
        parents.append(matched["name"])
    return found


def built() -> dict[str, tuple[str | None, str | None]]:
    found: dict[str, tuple[str | None, str | None]] = {}
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if error.__module__ == errors.__name__:
            ours = [base.__name__ for base in error.__bases__ if base.__module__ == errors.__name__]
            kinds = [
                base.__name__ for base in error.__bases__ if base.__module__ == "builtins" and base is not Exception
            ]
            found[name] = (ours[0] if ours else None, kinds[0] if kinds else None)
    return found


def test_the_reference_draws_the_tree_of_errors() -> None:
    assert drawn() == built()
