"""Executes every Python sample of the README and of the docs.

A document with samples is one test on each backend. Its blocks share one namespace and run in order; test functions
that a block defines are called right behind it. A block below `<!-- file: NAME -->` is written to that file instead,
and a `console` block that runs pytest is really run, its output compared but for the time it took.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from sybil.parsers.markdown import CodeBlockParser
from sybil.sybil import Sybil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sybil import Example

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^ *```python$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [page for page in PAGES if FENCE.search(page.read_text(encoding="utf-8"))]
PASSED_ON = {"PATH", "HOME", "LANG", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "VIRTUAL_ENV"}
"""What a sample sees of the environment: it shows what a person sees in a shell, which is no CI and sets no options."""
PLUGINS = ("anyio.pytest_plugin", "pytest_asyncio.plugin", "xdist.plugin", "chatagent_test.pytest_plugin")
SNAPSHOT_PLUGINS = {"inline_snapshot": "inline_snapshot.pytest_plugin", "syrupy": "syrupy"}
SECONDS = re.compile(r"in \d+\.\d+s")
FILE = re.compile(r"<!-- file: (\S+) -->\s*\Z")


class Samples:
    """The samples of one document on one backend."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend, self.folder = backend, folder
        self.count = 0

    def python(self, example: Example) -> None:
        self.count += 1
        document = example.document
        code = "\n" * (example.line + example.parsed.line_offset) + example.parsed
        name = FILE.search(document.text[: example.region.start])
        if name:
            (self.folder / name[1]).write_text(example.parsed, encoding="utf-8")
            return
        known = dict(example.namespace)
        exec(compile(code, document.path, "exec", dont_inherit=True), example.namespace)
        for key, value in list(example.namespace.items()):
            if key.startswith("test_") and known.get(key) is not value:
                self.call(value)

    def call(self, test: Callable[[], Any]) -> None:
        if inspect.iscoroutinefunction(test):
            anyio.run(test, backend=self.backend)
        else:
            test()

    def console(self, example: Example) -> str | None:
        if self.backend != "asyncio":
            return None  # the file chooses its backends itself
        command, _, expected = example.parsed.partition("\n")
        assert command.startswith("$ pytest "), f"{command!r} is no command that is run here"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *self.plugins(example), *command.removeprefix("$ pytest ").split()],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = SECONDS.sub("in …s", done.stdout.strip())
        return None if shown == SECONDS.sub("in …s", expected.strip()) else f"{command}\n{done.stdout}{done.stderr}"

    def plugins(self, example: Example) -> Iterator[str]:
        """Yield options that load what a page needs alone: whatever else is installed makes pytest slow to start."""
        needed = [*PLUGINS, *(plugin for name, plugin in SNAPSHOT_PLUGINS.items() if name in example.document.text)]
        for plugin in (*needed, "no:cacheprovider"):
            yield from ("-p", plugin)


def environment() -> dict[str, str]:
    passed_on = {key: value for key, value in os.environ.items() if key in PASSED_ON or key.startswith("PYTHON")}
    return {**passed_on, "COLUMNS": "80", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def test_there_are_documents_with_samples() -> None:
    assert {page.name for page in DOCUMENTS} > {"README.md", "tutorial.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_samples_of(path: Path, anyio_backend: str, tmp_path: Path) -> None:
    samples = Samples(anyio_backend, tmp_path)
    parsers = [CodeBlockParser("python", samples.python), CodeBlockParser("console", samples.console)]
    document = Sybil(parsers=parsers, path=str(path.parent)).parse(path)

    for example in document.examples():
        example.evaluate()

    assert samples.count == len(FENCE.findall(document.text))
