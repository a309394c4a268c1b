"""What MkDocs does not do by itself: the navigation from the folders, the API pages from the code, links to the code.

The Markdown pages are written for viewers of repositories, where links lead to files, those of the code included. In
the site a link that leaves `docs/` leads to a page with that file's text.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PACKAGES = ("chatagent", "chatagent_test")
MODULES = (
    "chatagent.adapters.pydantic_ai",
    "chatagent.clock",
    "chatagent.ids",
    "chatagent.signals",
)
"""Public modules; each public package of `chatagent` is found by its `__all__`."""

TITLES = {
    "README.md": "Home",
    "tutorial.md": "Tutorial",
    "how-to": "How-to",
    "reference": "Reference",
    "api": "API reference",
    "explanation.md": "Explanation",
}
"""What stands on top of the navigation, in this order; other pages and folders come behind, under their own names."""

LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*[^)#\s/])(#[^)]*)?\)")
FENCE = re.compile(r"^ *(```|~~~)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of code, and derive the navigation."""
    areas = public_areas()
    for area in areas:
        files.append(File.generated(config, f"api/{area}.md", content=api_page(area, areas)))
    for path in sorted(linked_code(files)):
        content = code_page(path)
        files.append(File.generated(config, f"code/{path}.md", content=content, inclusion=InclusionLevel.NOT_IN_NAV))
    config.nav = navigation([file.src_uri for file in files if file.is_documentation_page()])
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn what viewers of repositories understand into what MkDocs does."""
    if page.file.generated_by is not None:
        return markdown
    return for_mkdocs(markdown, page.file.src_uri)


def navigation(pages: list[str]) -> list[Any]:
    """Return the navigation: the four kinds of page, and in each folder its own index first."""
    top: dict[str, list[str]] = {}
    for page in sorted(pages, key=lambda page: (posixpath.basename(page) != "README.md", page)):
        if not page.startswith("code/"):
            top.setdefault(page.partition("/")[0], []).append(page)
    order = list(TITLES)
    names = sorted(top, key=lambda name: (order.index(name) if name in order else len(order), name))
    return [{TITLES.get(name, name): name if top[name] == [name] else top[name]} for name in names]


# --- the API pages ---


def public_areas() -> list[str]:
    """Return the modules whose public names the API pages show."""
    found = [PACKAGES[1], *MODULES]
    for path in sorted((ROOT / PACKAGES[0]).rglob("__init__.py")):
        if exports(path):
            found.append(".".join(path.parent.relative_to(ROOT).parts))
    return sorted(found)


def api_page(area: str, areas: list[str]) -> str:
    """Return the page of one area; what is at home in another area is linked, not shown twice."""
    names, imported = exports(source_of(area)), origins(source_of(area))
    foreign = [name for name in names if imported.get(name) in areas and imported[name] != area]
    own = {name: shown_path(area, name) for name in names if name not in foreign}
    hidden = {name: path for name, path in own.items() if path != f"{area}.{name}"}
    lines = [f"# {area}", "", f"::: {area}", "    options:"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false"]
    lines += [f"      members: [{', '.join(name for name in own if name not in hidden)}]", ""]
    for name, path in hidden.items():
        lines += [anchor(area, name), "", f"::: {path}", ""]
    if foreign:
        lines += ["## From other areas", "", "| Name | Area | |", "| --- | --- | --- |"]
    for name in foreign:
        link = f"{anchor(area, name)}[`{name}`][{shown_path(imported[name], name)}]"
        lines.append(f"| {link} | `{imported[name]}` | {summary(area, name)} |")
    return "\n".join(lines)


def anchor(area: str, name: str) -> str:
    """Return an anchor for a name that the page does not show under this path."""
    return f"[](){{#{area}.{name}}}"


def shown_path(area: str, name: str) -> str:
    """Return the path under which an area's page shows a name of its own.

    That is where it is defined, if on the way there a module of the same name hides it from tools that only read the
    source; else the one from which users import it.
    """
    way = way_of(area, name)
    is_hidden = any(source_of(f"{module}.{name}").exists() for module in way)
    return f"{way[-1] if is_hidden else area}.{name}"


def way_of(area: str, name: str) -> list[str]:
    """Return the modules through which an area gets a name; the last one defines it."""
    way = [area]
    while origin := origins(source_of(way[-1])).get(name):
        if origin.partition(".")[0] not in PACKAGES:
            break
        way.append(origin)
    return way


def summary(area: str, name: str) -> str:
    """Return the first line of what the code says of a name."""
    body = ast.parse(source_of(way_of(area, name)[-1]).read_text(encoding="utf-8")).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        text: str | None = None
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            text = ast.get_docstring(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and name in ast.unparse(node).partition("=")[0]:
            text = ast.get_docstring(ast.Module([below] if below else [], []))
        if text:
            return text.partition("\n")[0].replace("|", "\\|")
    return ""


def source_of(module: str) -> Path:
    """Return the file of a module or package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exports(source: Path) -> list[str]:
    """Return a module's `__all__`; empty without one."""
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return ast.literal_eval(node.value)  # type: ignore[attr-defined] - an assignment has a value
    return []


def origins(source: Path) -> dict[str, str]:
    """Return the module that each imported name comes from, imports for type checkers included."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports if node.module for alias in node.names}


# --- links to the code ---


def linked_code(files: Files) -> set[str]:
    """Return the files outside `docs/` that pages link to, as paths from the root."""
    pages = [file for file in files if file.is_documentation_page() and file.generated_by is None]
    return {
        target
        for file in pages
        for link, _ in LINK.findall(file.content_string)
        if (target := outside(link, file.src_uri)) and (ROOT / target).is_file()
    }


def outside(link: str, page: str) -> str | None:
    """Return the path from the root of what a page's link leads to; `None` if that is in `docs/`."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if target.startswith(("docs/", "..")) else target


def code_page(path: str) -> str:
    """Return a page with the text of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    language = path.rpartition(".")[2].replace("py", "python")
    return f"# {path}\n\n````{language}\n{text}````\n"


def for_mkdocs(markdown: str, page: str) -> str:
    """Return a page's Markdown as MkDocs reads it."""
    return "".join(_lines(markdown, page))


def _lines(markdown: str, page: str) -> Iterator[str]:
    fence: str | None = None
    for line in markdown.splitlines(keepends=True):
        indent = line[: len(line) - len(line.lstrip(" "))]
        if FENCE.match(line):
            fence = indent if fence is None else None
            yield indent + line
        elif fence is not None:
            yield line if line.isspace() else fence + line
        else:
            # MkDocs wants four spaces for each level of a list, the pages are written with two.
            yield indent + LINK.sub(lambda link: _link(link, page), line)


def _link(link: re.Match[str], page: str) -> str:
    target = outside(link[1], page)
    if target is None or not (ROOT / target).is_file():
        return link[0]
    here = posixpath.dirname(page) or "."
    return f"]({posixpath.relpath(f'code/{target}.md', here)}{link[2] or ''})"
