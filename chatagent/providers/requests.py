"""From call options to the body of a request, as far as all providers do it alike.

Provider options are members of the request under the provider's name: in camelCase as the `ai` package has them, or as
the provider documents them. They win over what the settings of the call say, and `None` takes a member out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from chatagent.model import CallWarning
from chatagent.ui import UNSET

if TYPE_CHECKING:
    from chatagent.model import CallOptions, ProviderOptions

__all__ = [
    "Body",
    "json_text",
    "member_of",
    "merge_options",
    "options_of",
    "snake_case",
    "snake_case_keys",
    "split_body",
    "unsupported",
    "warn_of_settings",
    "without_lone_surrogates",
]

Body: TypeAlias = dict[str, object]
"""The JSON body of a request."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SETTINGS = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop_sequences", "temperature", "top_p")


def options_of(options: ProviderOptions | None, provider: str) -> dict[str, object]:
    """Return what stands under a provider's name, top-level keys in snake_case."""
    given = (options or {}).get(provider) or {}
    return {snake_case(key): value for key, value in given.items()}


def merge_options(body: Body, given: Mapping[str, object], *, nested: Collection[str] = ()) -> None:
    """Put provider options into a body: objects are merged one level deep, all else is replaced.

    Args:
        body: the request so far; changed.
        given: members of the request, in snake_case; `None` takes one out.
        nested: the members whose own keys may be in camelCase too. All others hold keys that may be the user's own.
    """
    for key, value in given.items():
        item = snake_case_keys(value) if key in nested else value
        known = body.get(key)
        if item is None:
            body.pop(key, None)
        elif isinstance(known, Mapping) and isinstance(item, Mapping):
            body[key] = {**cast("Body", known), **cast("Body", item)}
        else:
            body[key] = item


def split_body(body: Body, known: Collection[str]) -> tuple[Body, Body]:
    """Return the members that an SDK's method has parameters for, and the others."""
    arguments = {key: value for key, value in body.items() if key in known}
    return arguments, {key: value for key, value in body.items() if key not in known}


def warn_of_settings(options: CallOptions, provider: str, names: Collection[str]) -> Iterator[CallWarning]:
    """Yield a warning for each setting of the call that a provider does not have."""
    for name in _SETTINGS:
        if name in names and getattr(options, name) is not None:
            yield unsupported(name, f"{provider} has no such setting")


def unsupported(feature: str, details: str) -> CallWarning:
    """Return the warning that something of the request was left out."""
    return CallWarning(type="unsupported", feature=feature, details=details)


def json_text(value: object) -> str:
    """Return compact JSON; a value that was never there counts as an empty object."""
    if value is UNSET:
        return "{}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def member_of(value: object, key: str) -> object:
    """Return a member of a JSON object; `None` if it has none of that name, or if the value is no object."""
    return cast("Mapping[str, object]", value).get(key) if isinstance(value, Mapping) else None


def snake_case(key: str) -> str:
    """Return a camelCase key in snake_case; one that is already is returned as it is."""
    return _WORD_START.sub("_", key).lower() if not key.islower() else key


def snake_case_keys(value: object) -> object:
    """Return a JSON value whose keys, at any depth, are in snake_case."""
    if isinstance(value, Mapping):
        source = cast("Mapping[str, object]", value)
        return {snake_case(key): snake_case_keys(item) for key, item in source.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [snake_case_keys(item) for item in cast("Sequence[object]", value)]
    return value


def without_lone_surrogates(value: object) -> object:
    """Return a JSON value in which halves of characters, which UTF-8 cannot carry, are replacement characters."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        source = cast("Mapping[str, object]", value)
        return {key: without_lone_surrogates(item) for key, item in source.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [without_lone_surrogates(item) for item in cast("Sequence[object]", value)]
    return value
