"""Links between the documents lead somewhere, down to the heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(path: Path) -> str:
    return CODE.sub("", path.read_text(encoding="utf-8"))


def anchors_of(path: Path) -> set[str]:
    """Return the anchors that a renderer of Markdown gives to the headings."""
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text_of(path)))
    return {title.replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(text_of(path)):
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), f"{path.name}: no {target}"
        assert not anchor or anchor in anchors_of(page), f"{path.name}: no heading #{anchor} in {page.name}"


def test_every_document_is_linked_from_another() -> None:
    linked = {
        (path.parent / target).resolve() for path in DOCUMENTS for target, _ in LINK.findall(text_of(path)) if target
    }

    assert [path for path in DOCUMENTS if path not in linked and path.name != "README.md"] == []
