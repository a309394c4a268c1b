"""The run context: its defaults, and how overrides are laid over them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent.task import AttemptInfo, RunContext, make_run_context

NOW = 1735689600.0


def test_a_context_without_overrides_has_the_documented_defaults() -> None:
    context = make_run_context(now=NOW)

    assert (context.task.id, context.task.file_path) == ("test-task", "test_task.py")
    assert (context.attempt.number, context.attempt.started_at) == (1, NOW)
    assert (context.run.id, context.run.tags, context.run.is_test, context.run.is_replay) == (
        "run_test",
        (),
        False,
        False,
    )
    assert (context.run.created_at, context.run.started_at) == (NOW, NOW)
    machine = context.machine
    assert (machine.name, machine.cpu, machine.memory, machine.cents_per_ms) == ("micro", 1, 0.5, 0)
    assert (context.queue.name, context.queue.id) == ("test-queue", "test-queue-id")
    environment = context.environment
    assert (environment.id, environment.slug, environment.type) == ("test-env-id", "test-env", "DEVELOPMENT")
    organization = context.organization
    assert (organization.id, organization.slug, organization.name) == ("test-org-id", "test-org", "Test Org")
    project = context.project
    assert (project.id, project.ref, project.slug, project.name) == (
        "test-project-id",
        "test-project-ref",
        "test-project",
        "Test Project",
    )
    assert context.batch is None


def test_an_override_keeps_the_other_fields_of_its_section() -> None:
    context = make_run_context({"attempt": {"number": 2}, "run": {"id": "run_2", "is_test": True}}, now=NOW)

    assert context.attempt == AttemptInfo(number=2, started_at=NOW)
    assert (context.run.id, context.run.is_test, context.run.created_at) == ("run_2", True, NOW)
    assert context.task == make_run_context(now=NOW).task


@pytest.mark.parametrize("overrides", [{"batch": {"id": "b"}}, {"ctx": {"batch": {"id": "b"}}}])
def test_overrides_may_stand_inside_a_ctx(overrides: dict[str, Any]) -> None:
    assert make_run_context(overrides, now=NOW).batch == {"id": "b"}


def test_a_whole_section_may_be_given() -> None:
    attempt = AttemptInfo(number=2)

    assert make_run_context({"attempt": attempt}, now=NOW).attempt is attempt


def test_a_list_is_kept_as_a_tuple_since_a_context_is_shared() -> None:
    tags = ["a", "b"]

    context = make_run_context({"run": {"tags": tags}}, now=NOW)
    tags.append("c")

    assert context.run.tags == ("a", "b")


def test_the_overrides_themselves_stay_as_they_are() -> None:
    overrides = {"ctx": {"batch": 1, "attempt": {"number": 2}}}

    make_run_context(overrides, now=NOW)

    assert overrides == {"ctx": {"batch": 1, "attempt": {"number": 2}}}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"attempts": {"number": 2}},
            "`task_context` is 'attempts': its sections are task, attempt, run, machine, queue, environment, "
            "organization, project, batch",
        ),
        (
            {"attempt": {"nr": 2}},
            "`task_context['attempt']` is 'nr': its fields are number, started_at",
        ),
        ({"attempt": 2}, "`task_context['attempt']` is 2: a mapping of its fields"),
    ],
)
def test_what_a_context_does_not_have_is_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make_run_context(overrides, now=NOW)

    assert str(caught.value) == message


def test_a_context_is_a_value() -> None:
    context = RunContext()

    with pytest.raises(FrozenInstanceError):
        context.run.id = "other"  # type: ignore[misc]
    assert context == RunContext()
    assert hash(context) == hash(RunContext())
