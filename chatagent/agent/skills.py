"""Skills: folders with instructions and files that a model may look into when it needs them (N-51, N-56, N-57).

A skill's folder holds a `SKILL.md`: frontmatter with `name` and `description`, then the text. `define` names one, and
`local()` of what it returns reads it. `chat.skills` keeps those of a run; what a model can do with them is in
`skill_tools.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from chatagent.agent.run import this_run
from chatagent.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

__all__ = ["ChatSkills", "ResolvedSkill", "Skill", "define", "parse_skill_md"]

BUNDLE = Path(".trigger") / "skills"
"""Where bundled skills lie under the working directory, by their ids."""
FENCE = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSkill:
    """A skill that was read."""

    id: str
    version: str
    """`local` for one that was read from a folder."""
    labels: Sequence[str] = field(default_factory=tuple[str, ...])
    skill_md: str
    """The whole `SKILL.md`."""
    frontmatter: Mapping[str, str]
    body: str
    """The text behind the frontmatter."""
    path: Path
    """The skill's folder."""

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.frontmatter["name"]

    @property
    def description(self) -> str:
        """What it is for, as the model is told."""
        return self.frontmatter["description"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill that was named, and not read yet."""

    id: str
    path: Path | None
    root: Path | None

    async def local(self) -> ResolvedSkill:
        """Read the skill: from the folder of its id under the root, else from its own folder.

        Raises:
            SkillError: there is no `SKILL.md` that can be read, or its frontmatter lacks something.
        """
        folders = [(BUNDLE if self.root is None else self.root) / self.id]
        if self.path is not None:
            folders.append(self.path)
        problem: Exception | None = None
        for folder in folders:
            try:
                text = await anyio.Path(folder, "SKILL.md").read_text(encoding="utf-8")
            except (OSError, UnicodeError) as exc:
                problem = problem or exc
                continue
            frontmatter, body = parse_skill_md(text, skill_id=self.id)
            place = Path(await anyio.Path(folder).absolute())
            return ResolvedSkill(
                id=self.id, version="local", skill_md=text, frontmatter=frontmatter, body=body, path=place
            )
        looked = " and ".join(str(folder) for folder in folders)
        raise SkillError(skill_id=self.id, problem=f"could not read SKILL.md in {looked}: {problem}") from problem

    async def resolve(self) -> ResolvedSkill:
        """Fetch the skill from a skill store; there is none yet.

        Raises:
            SkillError: always.
        """
        raise SkillError(skill_id=self.id, problem="resolve() is not available yet; read it with local()")


def define(*, id: str, path: str | PathLike[str] | None = None, root: str | PathLike[str] | None = None) -> Skill:
    """Name a skill; nothing is read.

    Args:
        id: names the skill, and its folder among the bundled ones.
        path: its own folder, for when it is not bundled.
        root: the folder of the bundled skills; by default `.trigger/skills` under the working directory.
    """
    return Skill(id=id, path=None if path is None else Path(path), root=None if root is None else Path(root))


def parse_skill_md(text: str, *, skill_id: str) -> tuple[dict[str, str], str]:
    """Return the frontmatter of a `SKILL.md`, and the text behind it without blank lines in front.

    Frontmatter stands between two lines `---` and has lines `key: value`; blank lines and comments (`#`) are passed by,
    and one pair of quotes around a value is taken off.

    Raises:
        SkillError: there is no frontmatter, or it has no `name` or `description`.
    """
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if number and line.rstrip() == FENCE), None)
    if end is None or lines[0].rstrip() != FENCE:
        problem = "SKILL.md is missing a frontmatter block: it begins with `---`, and a second `---` ends it"
        raise SkillError(skill_id=skill_id, problem=problem)
    frontmatter = dict(_field(line) for line in lines[1:end] if _is_field(line))
    for key in ("name", "description"):
        if not frontmatter.get(key):
            raise SkillError(skill_id=skill_id, problem=f"the frontmatter of SKILL.md is missing required `{key}`")
    body = lines[end + 1 :]
    while body and not body[0].strip():
        del body[0]
    return frontmatter, "".join(body)


def _is_field(line: str) -> bool:
    return ":" in line and not line.lstrip().startswith("#")


def _field(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return key.strip(), value


class ChatSkills:
    """The functions behind `chat.skills`. All but `define` raise `ChatContextError` outside a run."""

    __slots__ = ()

    define = staticmethod(define)

    def __call__(self) -> list[ResolvedSkill] | None:
        """Return the run's skills; `None` if none were set."""
        skills = this_run("chat.skills").state.skills
        return None if skills is None else list(skills)

    def set(self, skills: Sequence[ResolvedSkill]) -> None:
        """Store the run's skills, in the place of earlier ones.

        Raises:
            TypeError: it is no list of resolved skills.
        """
        given: object = skills
        if not isinstance(given, list | tuple) or not all(
            isinstance(each, ResolvedSkill)  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            for each in skills
        ):
            raise TypeError(f"chat.skills.set takes a list of what `await skill.local()` gave, not {skills!r}")
        this_run("chat.skills.set").state.skills = tuple(skills)
