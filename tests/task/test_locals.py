"""Values that belong to a run (rules X-40 to X-42)."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from chatagent.errors import InvalidArgumentError, LocalNotFoundError
from chatagent.task import LocalKey, LocalValues, locals
from ground.fake_run import a_run

pytestmark = pytest.mark.anyio


class Database:
    """Something to inject."""


DB = locals.create("db", Database)


async def test_a_value_that_was_set_is_found() -> None:
    database = Database()

    async with a_run():
        returned = locals.set(DB, database)

        assert returned is database
        assert locals.get(DB) is database
        assert locals.get_or_throw(DB) is database


async def test_keys_with_the_same_id_name_the_same_value() -> None:
    again: LocalKey[Any] = locals.create("db")

    async with a_run():
        locals.set(DB, Database())
        replaced = locals.set(again, Database())

        assert locals.get(DB) is replaced
    assert again == DB
    assert hash(again) == hash(DB)
    assert again != locals.create("other")
    assert repr(DB) == "LocalKey('db')"


async def test_a_value_that_was_never_set_is_missing() -> None:
    async with a_run():
        assert locals.get(DB) is None
        with pytest.raises(LocalNotFoundError, match=r"^Local with id db not found: set it in `on_boot`, or in a test"):
            locals.get_or_throw(DB)


@pytest.mark.parametrize("value", [None, 0, "", False, []])
async def test_a_value_that_is_false_was_set_all_the_same(value: object) -> None:
    """D-12."""
    key = locals.create("value")

    async with a_run():
        locals.set(key, value)

        assert locals.get_or_throw(key) == value


async def test_outside_any_run_nothing_is_found_and_nothing_stored() -> None:
    database = Database()

    assert locals.set(DB, database) is database
    assert locals.get(DB) is None
    with pytest.raises(LocalNotFoundError):
        locals.get_or_throw(DB)
    async with a_run():
        assert locals.get(DB) is None


async def test_values_live_for_one_run() -> None:
    async with a_run():
        locals.set(DB, Database())

    async with a_run():
        assert locals.get(DB) is None


async def test_runs_side_by_side_keep_their_values_apart() -> None:
    key = locals.create("name", str)
    seen: dict[str, str | None] = {}

    async def work(name: str) -> None:
        async with a_run():
            locals.set(key, name)
            await anyio.lowlevel.checkpoint()
            seen[name] = locals.get(key)

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b", "c"):
            tasks.start_soon(work, name)

    assert seen == {"a": "a", "b": "b", "c": "c"}


async def test_the_tasks_of_a_run_share_its_values() -> None:
    key = locals.create("counter", int)

    async def count() -> None:
        locals.set(key, (locals.get(key) or 0) + 1)

    async with a_run() as run:
        await run.tasks.start(count, name="a tool").wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
        await count()

        assert locals.get(key) == 3
    assert run.local_values == {"counter": 3}


def test_a_set_up_fills_values_before_the_run_starts() -> None:
    stored: dict[str, Any] = {}
    values = LocalValues(stored)
    database = Database()

    assert values.set(DB, database) is database
    assert values.get(DB) is database
    assert values.get_or_throw(DB) is database
    assert DB in values
    assert locals.create("other") not in values
    assert list(values) == ["db"]
    assert stored == {"db": database}
    with pytest.raises(LocalNotFoundError):
        values.get_or_throw(locals.create("other"))


def test_what_is_no_key_is_refused_and_told_where_keys_come_from() -> None:
    values = LocalValues()
    problem = r"^`key` is 'model': a key, which `locals\.create\(id, type\)` makes once, at module level$"

    for use in (lambda key: values.set(key, 1), values.get, values.get_or_throw, locals.get_or_throw):
        with pytest.raises(InvalidArgumentError, match=problem):
            use(cast("Any", "model"))
