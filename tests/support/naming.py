"""Which rules, cases and faults the tests name: in the docstring of a test function, or in the id of a parameter.

That a test shows what it names is a matter of reading; that nobody forgot one is a matter of counting.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DOCS", "named_by_tests", "named_in", "names_in"]

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs" / "reference"


def names_in(text: str, families: Iterable[str]) -> Iterator[str]:
    """Yield the ids of some families that a text names, those within a range (`WIR-001 to WIR-008`) included."""
    pattern = rf"(?<![\w-])({'|'.join(families)})-(\d+)(?: to \1-(\d+))?(?!\d)"
    for family, first, last in re.findall(pattern, text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{family}-{number:0{len(first)}}"


def named_in(source: str, families: Iterable[str]) -> set[str]:
    """Return the ids of some families that the tests of a module name."""
    return {name for text in _texts_in(source) for name in names_in(text, families)}


def named_by_tests(*families: str) -> set[str]:
    """Return the ids of some families that any test names."""
    return {name for text in _all_texts() for name in names_in(text, families)}


@cache
def _all_texts() -> tuple[str, ...]:
    paths = sorted(TESTS.rglob("test_*.py"))
    return tuple(text for path in paths for text in _texts_in(path.read_text(encoding="utf-8")))


def _texts_in(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from _texts_of(node)


def _texts_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield a test's docstring and the ids of its parameters."""
    yield ast.get_docstring(test) or ""
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.keyword) and node.arg in ("id", "ids"):
                constants = (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))
                yield from (value for value in constants if isinstance(value, str))
