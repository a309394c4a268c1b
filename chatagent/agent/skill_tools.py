"""What a model can do with the skills of a run: load one, read its files, run its scripts (N-53 to N-55).

The tools answer misuse with an `error` field, so that the model can mend its call. `bash` runs what the model writes,
in the folder of the skill but with the rights of the process: give skills only to agents that may do that.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any

import anyio

from chatagent.generate import Tool, ToolCallOptions, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import ByteReceiveStream, Process

    from chatagent.agent.skills import ResolvedSkill

__all__ = ["build_skill_tools", "skills_preamble"]

MAX_FILE_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 64 * 1024
"""For each of the two outputs of a command."""

_NAME = {"type": "string", "description": "The name of the skill."}
_LOAD = {"name": _NAME}
_READ = {
    "skill": _NAME,
    "path": {"type": "string", "description": "The file's path, relative to the skill's folder."},
}
_RUN = {"skill": _NAME, "command": {"type": "string", "description": "The command."}}


def skills_preamble(skills: Sequence[ResolvedSkill]) -> str:
    """Return what the model is told of the skills; empty without any."""
    if not skills:
        return ""
    lines = [f"- {skill.name}: {skill.description}" for skill in skills]
    return "\n".join(["Available skills (load one with the tool `loadSkill` before you use it):", *lines])


def build_skill_tools(skills: Sequence[ResolvedSkill]) -> dict[str, Tool]:
    """Return the tools `loadSkill`, `readFile` and `bash` for these skills, by name."""
    by_name = {skill.name: skill for skill in skills}

    async def load(value: Mapping[str, str]) -> dict[str, Any]:
        skill = by_name.get(value["name"])
        if skill is None:
            return _unknown(value["name"], by_name)
        return {"name": skill.name, "description": skill.description, "body": skill.body, "path": str(skill.path)}

    async def read(value: Mapping[str, str]) -> dict[str, Any]:
        skill = by_name.get(value["skill"])
        return _unknown(value["skill"], by_name) if skill is None else await _read_file(skill.path, value["path"])

    async def run(value: Mapping[str, str], options: ToolCallOptions) -> dict[str, Any]:
        skill = by_name.get(value["skill"])
        if skill is None:
            return _unknown(value["skill"], by_name)
        return await _run_command(skill.path, value["command"], options)

    return {
        "loadSkill": _tool("loadSkill", "Load a skill: its full instructions, and where it lies.", load, _LOAD),
        "readFile": _tool("readFile", "Read a file of a skill.", read, _READ),
        "bash": _tool("bash", "Run a command with bash in the folder of a skill.", run, _RUN),
    }


def _tool(name: str, description: str, execute: Callable[..., object], fields: Mapping[str, object]) -> Tool:
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return tool(name=name, description=description, input_schema=schema, execute=execute)


def _unknown(name: str, known: Mapping[str, object]) -> dict[str, Any]:
    return {"error": f'Skill "{name}" not found. Available: {", ".join(known)}'}


# Files ------------------------------------------------------------------------------------------------------------


async def _read_file(folder: Path, path: str) -> dict[str, Any]:
    if os.path.isabs(path):
        return {"error": f"Path must be relative to the skill directory: {path}"}
    try:
        root = await anyio.Path(folder).resolve()
        file = await (root / path).resolve()
        if not file.is_relative_to(root):
            return {"error": f"Path escapes the skill directory: {path}"}
        if not await file.is_file():
            return {"error": f"Could not read {path}: there is no such file"}
        size = (await file.stat()).st_size
        async with await file.open("rb") as opened:
            begin = await opened.read(MAX_FILE_BYTES)
    except (OSError, ValueError, RuntimeError) as exc:
        return {"error": f"Could not read {path}: {exc}"}
    return {"content": _shown(begin, max(0, size - len(begin)))}


def _shown(data: bytes, dropped: int) -> str:
    text = data.decode("utf-8", "replace")
    return f"{text}\n…[truncated {dropped} bytes]" if dropped else text


# Commands ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Output:
    """The beginning of what a command has written."""

    kept: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    async def take(self, stream: ByteReceiveStream | None) -> None:
        if stream is None:
            return
        async for data in stream:
            room = MAX_OUTPUT_BYTES - len(self.kept)
            self.kept += data[:room]
            self.dropped += max(0, len(data) - room)

    def text(self) -> str:
        return _shown(bytes(self.kept), self.dropped)


async def _run_command(folder: Path, command: str, options: ToolCallOptions) -> dict[str, Any]:
    stdout, stderr = _Output(), _Output()
    try:
        process = await _start(folder, command)
    except OSError as exc:
        return {"error": f"Could not run bash: {exc}"}
    async with process:
        unsubscribe = options.abort_signal.add_callback(lambda: _kill(process))
        try:
            async with anyio.create_task_group() as reading:
                reading.start_soon(stdout.take, process.stdout)
                reading.start_soon(stderr.take, process.stderr)
                await process.wait()
                _kill(process)  # what the command left behind would keep its outputs open
        finally:
            unsubscribe()
            if process.returncode is None:
                _kill(process)
    return {"exitCode": process.returncode, "stdout": stdout.text(), "stderr": stderr.text()}


async def _start(folder: Path, command: str) -> Process:
    """Start a command; never in half, since that leaves a process that nobody ends."""
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(
            ["bash", "-c", command], cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    raise AssertionError("a shield ends nothing")


def _kill(process: Process) -> None:
    """Kill a command and everything that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
