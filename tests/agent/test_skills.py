"""Skills: reading them, telling the model of them, and the tools to use them (N-51 to N-57, SKL, SKR)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.making import agent_of, saying
from chatagent import AbortController, ChatContextError, chat, is_step_count, stream_text, tool
from chatagent.agent import ResolvedSkill, Skill, build_skill_tools
from chatagent.agent.skills import parse_skill_md
from chatagent.errors import SkillError
from chatagent.generate import ToolCallOptions
from chatagent_test import mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.anyio

SKILL_MD = """---
name: pdf-processing
description: Fill and read PDF forms
---

# Body

hello
"""


def write_skill(folder: Path, skill_md: str = SKILL_MD) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill_md, encoding="utf-8")
    return folder


@pytest.fixture
def demo(tmp_path: Path) -> ResolvedSkill:
    """A skill with a note and two scripts."""
    folder = write_skill(tmp_path / "demo")
    (folder / "references").mkdir()
    (folder / "references" / "notes.txt").write_text("Reference note.\n", encoding="utf-8")
    (folder / "hi.sh").write_text('echo "hi from ${1:-nobody}"\n', encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return ResolvedSkill(
        id="demo",
        version="local",
        skill_md="",
        frontmatter={"name": "demo", "description": "Demo skill for tests"},
        body="# Demo\n",
        path=folder,
    )


async def call(skill: ResolvedSkill, name: str, /, *, controller: AbortController | None = None, **value: str) -> Any:
    """What a skill's tool gives for this input."""
    run = build_skill_tools([skill])[name].run
    assert run is not None
    signal = (controller or AbortController()).signal
    outcome: Any = run(value, ToolCallOptions(tool_call_id="c-1", messages=(), abort_signal=signal))
    return await outcome


# --- reading ---


def test_the_frontmatter_gives_name_and_description() -> None:
    """SKL-001."""
    frontmatter, body = parse_skill_md(SKILL_MD, skill_id="pdf")

    assert frontmatter == {"name": "pdf-processing", "description": "Fill and read PDF forms"}
    assert body == "# Body\n\nhello\n"


def test_one_pair_of_quotes_is_taken_off() -> None:
    """SKL-002."""
    text = "---\nname: \"a: b\"\ndescription: 'it''s'\nother: \"\nmixed: 'x\"\n---\n"

    frontmatter, body = parse_skill_md(text, skill_id="x")

    assert frontmatter == {"name": "a: b", "description": "it''s", "other": '"', "mixed": "'x\""}
    assert body == ""


def test_comments_and_blank_lines_are_passed_by_and_other_keys_are_kept() -> None:
    text = "---\n# about\n\nname: a\nnot a field\n  description:  b  \nlicense: MIT\n---\nBody"

    frontmatter, body = parse_skill_md(text, skill_id="x")

    assert frontmatter == {"name": "a", "description": "b", "license": "MIT"}
    assert body == "Body"


def test_windows_line_ends_and_a_byte_order_mark_are_no_obstacle() -> None:
    frontmatter, body = parse_skill_md("\ufeff---\r\nname: a\r\ndescription: b\r\n---\r\n\r\nBody\r\n", skill_id="x")

    assert (frontmatter, body) == ({"name": "a", "description": "b"}, "Body\r\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("# Just text\n", "SKILL.md is missing a frontmatter block", id="SKL-003"),
        pytest.param("", "SKILL.md is missing a frontmatter block", id="empty"),
        pytest.param("---\nname: a\n", "SKILL.md is missing a frontmatter block", id="not closed"),
        pytest.param("\n---\nname: a\n---\n", "SKILL.md is missing a frontmatter block", id="not at the top"),
        pytest.param("---\ndescription: b\n---\n", "missing required `name`", id="SKL-004"),
        pytest.param("---\nname: a\ndescription:\n---\n", "missing required `description`", id="SKL-005"),
    ],
)
def test_a_skill_without_what_it_needs_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SkillError, match=f"^skill 'x': .*{problem}"):
        parse_skill_md(text, skill_id="x")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        frontmatter, body = parse_skill_md(text, skill_id="x")
    except SkillError:
        return
    assert {"name", "description"} <= set(frontmatter)
    assert text.endswith(body)


async def test_a_skill_is_read_from_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SKL-006."""
    folder = write_skill(tmp_path / ".trigger" / "skills" / "pdf")
    monkeypatch.chdir(tmp_path)

    skill = await chat.skills.define(id="pdf", path="./elsewhere").local()

    assert (skill.id, skill.version, list(skill.labels)) == ("pdf", "local", [])
    assert (skill.name, skill.description) == ("pdf-processing", "Fill and read PDF forms")
    assert (skill.skill_md, skill.body) == (SKILL_MD, "# Body\n\nhello\n")
    assert skill.path == folder


async def test_a_skill_that_is_not_bundled_is_read_from_its_own_folder(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills" / "pdf")

    skill = await chat.skills.define(id="pdf", path=folder, root=tmp_path / "nothing here").local()

    assert skill.path == folder


async def test_the_folder_of_the_bundled_skills_can_be_given(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "pdf")

    skill = await chat.skills.define(id="pdf", root=tmp_path).local()

    assert skill.path == folder


async def test_a_missing_skill_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """SKL-007."""
    handle = chat.skills.define(id="pdf", path=tmp_path / "own", root=tmp_path / "root")

    with pytest.raises(SkillError, match=r"^skill 'pdf': could not read SKILL\.md in .*root/pdf and .*own: "):
        await handle.local()


async def test_skills_cannot_be_resolved_yet() -> None:
    """SKL-008."""
    handle = chat.skills.define(id="pdf")

    assert handle == Skill(id="pdf", path=None, root=None)
    with pytest.raises(SkillError, match=r"^skill 'pdf': resolve\(\) is not available yet; read it with local\(\)$"):
        await handle.resolve()


# --- in a run ---


async def test_the_model_is_told_of_the_skills_and_can_load_one(demo: ResolvedSkill) -> None:
    """SKR-001, SKR-002, SKR-003."""
    model = saying(script.tool_call("loadSkill", {"name": "demo"}), "done")

    def run(event: Any) -> Any:
        options = chat.to_stream_text_options()
        return stream_text(**options, model=model, messages=event.messages, stop_when=is_step_count(3))

    def boot(event: Any) -> None:
        chat.prompt.set("You are helpful.")
        chat.skills.set([demo])

    async with mock_chat_agent(agent_of(run=run, on_boot=boot)) as harness:
        turn = await harness.send_message("hello")

    asked = model.do_stream_calls[0]
    instructions = asked.prompt[0].content
    assert isinstance(instructions, str)
    assert instructions.startswith("You are helpful.\n\nAvailable skills")
    assert instructions.endswith("\n- demo: Demo skill for tests")
    assert [each.name for each in asked.tools or ()] == ["loadSkill", "readFile", "bash"]
    output = next(chunk["output"] for chunk in turn.raw_chunks if chunk["type"] == "tool-output-available")
    assert output == {
        "name": "demo",
        "description": "Demo skill for tests",
        "body": "# Demo\n",
        "path": str(demo.path),
    }


async def test_a_tool_of_the_users_wins_over_one_of_a_skill(demo: ResolvedSkill) -> None:
    @tool
    def bash(command: str) -> str:
        """Run a command, but safely."""
        return command

    given: list[dict[str, Any]] = []

    def run(event: Any) -> None:
        chat.skills.set([demo])
        given.append(chat.to_stream_text_options(tools=[bash]))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")

    assert list(given[0]["tools"]) == ["loadSkill", "readFile", "bash"]
    assert given[0]["tools"]["bash"] is bash


async def test_skills_are_the_runs_own(demo: ResolvedSkill) -> None:
    """N-51."""
    read: list[Any] = []

    def run(event: Any) -> None:
        read.append(chat.skills())
        chat.skills.set([demo])
        read.append(chat.skills())

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")

    assert read == [None, [demo]]


async def test_no_skills_leave_no_trace() -> None:
    given: list[dict[str, Any]] = []

    def run(event: Any) -> None:
        chat.skills.set([])
        given.append(chat.to_stream_text_options())

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")

    assert list(given[0]) == ["prepare_step"]


def test_skills_need_a_run() -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.skills\.set was called outside a run"):
        chat.skills.set([])


# --- the tools ---


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loadSkill", {"name": "missing"}),
        ("readFile", {"skill": "missing", "path": "x"}),
        ("bash", {"skill": "missing", "command": "true"}),
    ],
)
async def test_an_unknown_skill_is_an_error_that_names_the_known_ones(
    demo: ResolvedSkill, name: str, value: Mapping[str, str]
) -> None:
    """SKR-004."""
    run = build_skill_tools([demo])[name].run
    assert run is not None
    outcome: Any = run(value, ToolCallOptions(tool_call_id="c", messages=(), abort_signal=AbortController().signal))

    assert await outcome == {"error": 'Skill "missing" not found. Available: demo'}


async def test_a_bundled_file_is_read(demo: ResolvedSkill) -> None:
    """SKR-005."""
    assert await call(demo, "readFile", skill="demo", path="references/notes.txt") == {"content": "Reference note.\n"}


@pytest.mark.parametrize("path", ["../secret.txt", "references/../../secret.txt", "link", "linked/secret.txt"])
async def test_what_lies_outside_is_not_read(demo: ResolvedSkill, path: str) -> None:
    """SKR-006: by dots or by links."""
    (demo.path / "link").symlink_to(demo.path.parent / "secret.txt")
    (demo.path / "linked").symlink_to(demo.path.parent)

    outcome = await call(demo, "readFile", skill="demo", path=path)

    assert outcome == {"error": f"Path escapes the skill directory: {path}"}


async def test_an_absolute_path_is_refused(demo: ResolvedSkill) -> None:
    """SKR-007."""
    path = str(demo.path / "hi.sh")

    outcome = await call(demo, "readFile", skill="demo", path=path)

    assert outcome == {"error": f"Path must be relative to the skill directory: {path}"}


@pytest.mark.parametrize("path", ["nothing.txt", "references", "nul\0", "."])
async def test_what_is_no_file_is_an_error(demo: ResolvedSkill, path: str) -> None:
    outcome = await call(demo, "readFile", skill="demo", path=path)

    assert outcome["error"].startswith("Could not read ")


async def test_a_long_file_is_cut(demo: ResolvedSkill) -> None:
    (demo.path / "long.txt").write_bytes(b"x" * (1024 * 1024 + 3))

    outcome = await call(demo, "readFile", skill="demo", path="long.txt")

    assert outcome["content"] == "x" * (1024 * 1024) + "\n…[truncated 3 bytes]"


async def test_a_bundled_script_is_run_in_its_folder(demo: ResolvedSkill) -> None:
    """SKR-008."""
    outcome = await call(demo, "bash", skill="demo", command="bash hi.sh world; pwd; echo oops >&2")

    assert outcome == {"exitCode": 0, "stdout": f"hi from world\n{demo.path.resolve()}\n", "stderr": "oops\n"}


async def test_the_exit_code_is_told(demo: ResolvedSkill) -> None:
    """SKR-009."""
    assert await call(demo, "bash", skill="demo", command="exit 7") == {"exitCode": 7, "stdout": "", "stderr": ""}


async def test_a_long_output_is_cut(demo: ResolvedSkill) -> None:
    outcome = await call(demo, "bash", skill="demo", command="head -c 70000 /dev/zero | tr '\\0' x; printf y >&2")

    assert outcome["stdout"] == "x" * 65536 + "\n…[truncated 4464 bytes]"
    assert outcome["stderr"] == "y"


async def test_what_a_command_leaves_behind_does_not_hold_it_up(demo: ResolvedSkill) -> None:
    with anyio.fail_after(10):
        outcome = await call(demo, "bash", skill="demo", command="sleep 60 & echo done")

    assert outcome["stdout"] == "done\n"


async def test_an_abort_kills_a_command(demo: ResolvedSkill) -> None:
    controller = AbortController()
    outcomes: list[Any] = []

    async def run() -> None:
        outcomes.append(
            await call(demo, "bash", controller=controller, skill="demo", command="touch began; sleep 60; echo never")
        )

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not (demo.path / "began").exists():
                await anyio.lowlevel.checkpoint()
            controller.abort()

    assert outcomes[0]["exitCode"] != 0
    assert outcomes[0]["stdout"] == ""


async def test_a_cancelled_command_is_killed(demo: ResolvedSkill) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(demo, "bash", skill="demo", command="touch began; sleep 60"))
            while not (demo.path / "began").exists():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


async def test_a_folder_that_is_gone_is_an_error(demo: ResolvedSkill, tmp_path: Path) -> None:
    gone = ResolvedSkill(
        id="x", version="local", skill_md="", frontmatter={"name": "x", "description": ""}, body="", path=tmp_path / "x"
    )

    outcome = await call(gone, "bash", skill="x", command="true")

    assert outcome["error"].startswith("Could not run bash: ")
