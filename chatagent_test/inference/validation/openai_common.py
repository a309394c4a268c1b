"""What OpenAI's two endpoints check alike (7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.validation.findings import (
    Body,
    Finding,
    Findings,
    a_list,
    an_object,
    is_number,
    kind_of,
    matches,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_function", "check_numbers", "empty", "invalid_value", "missing", "needs", "wrong_type"]

_NAME = r"[a-zA-Z0-9_-]{1,64}"


def missing(param: str) -> Finding:
    """Return the finding of a member that is not there."""
    return Finding(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def empty(param: str) -> Finding:
    """Return the finding of an array without members."""
    message = (
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )
    return Finding(message, param, "empty_array")


def wrong_type(param: str, wanted: str, value: object) -> Finding:
    """Return the finding of a member that is something else."""
    message = f"Invalid type for '{param}': expected {wanted}, but got {kind_of(value)} instead."
    return Finding(message, param, "invalid_type")


def invalid_value(param: str, value: object, known: Iterable[str]) -> Finding:
    """Return the finding of a member that is none of the words known."""
    *some, last = (f"'{word}'" for word in known)
    listed = f"{', '.join(some)}, and {last}" if some else last
    return Finding(f"Invalid value: '{value}'. Supported values are: {listed}.", param, "invalid_value")


def needs(body: Body, member: str, kind: type, wanted: str, *, path: str = "") -> Findings:
    """Look for a required member of a kind."""
    param = f"{path}{member}"
    if body.get(member) is None:
        yield missing(param)
    elif not isinstance(body[member], kind):
        yield wrong_type(param, wanted, body[member])


def check_numbers(body: Body, bounds: dict[str, tuple[float, float]]) -> Findings:
    """Look for numbers out of their bounds."""
    for member, (low, high) in bounds.items():
        value = body.get(member)
        if value is None:
            continue
        if not is_number(value):
            yield wrong_type(member, "a number", value)
        elif value < low:
            message = f"Invalid '{member}': below minimum value. Expected a value >= {low:g}, but got {value} instead."
            yield Finding(message, member, "below_min_value")
        elif value > high:
            message = f"Invalid '{member}': above maximum value. Expected a value <= {high:g}, but got {value} instead."
            yield Finding(message, member, "above_max_value")


def check_function(function: Body, path: str) -> Findings:
    """Look at one function on offer: name, parameters, and what `strict` asks of them."""
    yield from needs(function, "name", str, "a string", path=f"{path}.")
    name = function.get("name")
    if isinstance(name, str) and not matches(_NAME, name):
        message = (
            f"Invalid '{path}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', of 64 characters at most."
        )
        yield Finding(message, f"{path}.name", "invalid_value")
    schema = function.get("parameters")
    if schema is None:
        return
    members = an_object(schema)
    if members is None or members.get("type") != "object":
        found = None if members is None else members.get("type")
        message = (
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{found}\"'."
        )
        yield Finding(message, f"{path}.parameters", "invalid_function_parameters")
    elif function.get("strict") is True:
        yield from _check_strict(members, name, path)


def _check_strict(schema: Body, name: object, path: str) -> Findings:
    start = f"Invalid schema for function '{name}': In context=(), "
    param, code = f"{path}.parameters", "invalid_function_parameters"
    if schema.get("additionalProperties") is not False:
        message = f"{start}'additionalProperties' is required to be supplied and to be false."
        yield Finding(message, param, code)
    required = a_list(schema.get("required")) or []
    left_out = [key for key in an_object(schema.get("properties")) or () if key not in required]
    if left_out:
        message = (
            f"{start}'required' is required to be supplied and to be an array including every key in properties. "
            f"Missing '{left_out[0]}'."
        )
        yield Finding(message, param, code)
