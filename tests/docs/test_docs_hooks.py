"""What the site's hooks make of pages, folders and packages."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])
    monkeypatch.delitem(sys.modules, "docs_hooks", raising=False)
    return import_module("docs_hooks")


def members(page: str) -> list[str]:
    return page.partition("members: [")[2].partition("]")[0].split(", ")


def test_the_navigation_follows_the_folders(hooks: ModuleType) -> None:
    pages = ["explanation.md", "how-to/b.md", "how-to/a.md", "reference/a.md", "reference/README.md", "more/x.md"]

    found: list[Any] = hooks.navigation([*pages, "README.md", "code/examples/a.py.md"])

    assert found == [
        {"Home": "README.md"},
        {"How-to": ["how-to/a.md", "how-to/b.md"]},
        {"Reference": ["reference/README.md", "reference/a.md"]},
        {"Explanation": "explanation.md"},
        {"more": ["more/x.md"]},
    ]


def test_lists_are_indented_for_mkdocs_and_code_is_left_alone(hooks: ModuleType) -> None:
    markdown = "- one\n  - two\n\n  ```python\n  if x:\n      y\n  ```\n\n```python\nif x:\n    y\n```\n"

    made = hooks.for_mkdocs(markdown, "how-to/a.md")

    assert made == (
        "- one\n    - two\n\n    ```python\n    if x:\n        y\n    ```\n\n```python\nif x:\n    y\n```\n"
    )


def test_a_link_to_code_leads_to_its_page_and_other_links_stay(hooks: ModuleType) -> None:
    markdown = "[a](../../examples/quickstart.py) [b](../reference/README.md#x) [c](../../no/such.py) [d](b.md)\n"

    made = hooks.for_mkdocs(markdown, "how-to/a.md")

    assert made == (
        "[a](../code/examples/quickstart.py.md) [b](../reference/README.md#x) [c](../../no/such.py) [d](b.md)\n"
    )


def test_each_public_package_has_a_page(hooks: ModuleType) -> None:
    areas: list[str] = hooks.public_areas()

    assert {"chatagent", "chatagent.agent", "chatagent.providers.openai", "chatagent_test"} <= set(areas)
    assert "chatagent.adapters" not in areas
    assert "chatagent_test.harness" not in areas


def test_a_name_is_shown_where_it_is_at_home_and_linked_elsewhere(hooks: ModuleType) -> None:
    areas: list[str] = hooks.public_areas()

    top, agent = hooks.api_page("chatagent", areas), hooks.api_page("chatagent.agent", areas)

    assert "ChatAgent" in members(agent)
    assert "ChatAgent" not in members(top)
    assert (
        "| [](){#chatagent.ChatAgent}[`ChatAgent`][chatagent.agent.ChatAgent] | `chatagent.agent` | A chat agent: "
        in top
    )


def test_a_function_that_is_named_as_its_module_is_shown(hooks: ModuleType) -> None:
    areas: list[str] = hooks.public_areas()

    top, generate = hooks.api_page("chatagent", areas), hooks.api_page("chatagent.generate", areas)

    assert "\n::: chatagent.generate.stream_text.stream_text\n" in generate
    assert "[`stream_text`][chatagent.generate.stream_text.stream_text]" in top


def test_a_name_is_followed_to_where_it_is_defined(
    hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tmp_path / "chatagent" / "words"
    words.mkdir(parents=True)
    (words.parent / "__init__.py").write_text("from chatagent.words import hear, say\n\n__all__ = ['hear', 'say']\n")
    (words / "__init__.py").write_text("from chatagent.words.say import hear, say\n")
    (words / "say.py").write_text("def hear(): ...\n\n\ndef say(): ...\n")
    monkeypatch.setattr(hooks, "ROOT", tmp_path)

    page = hooks.api_page("chatagent", ["chatagent"])

    assert members(page) == ["hear"]
    assert "[](){#chatagent.say}\n\n::: chatagent.words.say.say\n" in page
