"""Ids that the runtime makes up."""

from __future__ import annotations

import string

from chatagent.ids import random_id


def test_a_random_id_has_sixteen_characters_that_are_safe_in_urls() -> None:
    made = [random_id() for _ in range(200)]

    assert {len(each) for each in made} == {16}
    assert set("".join(made)) <= set(string.ascii_letters + string.digits + "-_")


def test_random_ids_differ() -> None:
    assert len({random_id() for _ in range(2000)}) == 2000
