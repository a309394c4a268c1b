"""Script files: what a server answers, for tests in other languages."""

from __future__ import annotations

from chatagent_test.inference.script_files.reading import (
    FileExpectation,
    LoadedScripts,
    load_scripts,
    parse_scripts,
    script_file_schema,
)
from chatagent_test.inference.script_files.schema import ScriptFile
from chatagent_test.inference.script_files.serving import register_scripts, server_of

__all__ = [
    "FileExpectation",
    "LoadedScripts",
    "ScriptFile",
    "load_scripts",
    "parse_scripts",
    "register_scripts",
    "script_file_schema",
    "server_of",
]
