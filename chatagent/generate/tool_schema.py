"""Input schemas of tools: from a function's signature and docstring, or from what the author gave.

What comes out is the same for both: a JSON schema for the model, and a check that turns the model's JSON into the value
that the tool gets.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints, is_typeddict

from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind

from chatagent.errors import ToolDefinitionError
from chatagent.ui.json_schema import schema_problem

if TYPE_CHECKING:
    from chatagent.ui import JSONObject

__all__ = ["FunctionSchema", "InputSchema", "SchemaSource", "function_schema", "input_schema_of"]

SchemaSource = type | TypeAdapter[Any] | Mapping[str, object]
"""A pydantic model or another class that pydantic can check, a `TypeAdapter`, or a JSON schema as a dict."""


@dataclass(frozen=True, slots=True)
class InputSchema:
    """What a tool takes."""

    json_schema: JSONObject
    """As the model is shown it."""
    parse: Callable[[object], object]
    """Turns parsed JSON into the value that the tool gets; raises `ValueError` with the problem as its text."""


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """What a function tells about the tool that it makes."""

    input: InputSchema
    call: Callable[[Any, object], object]
    """Calls the function with the checked input and the options of the call."""
    description: str | None


class _ToolJsonSchema(GenerateJsonSchema):
    """No titles that only repeat a name, and no warning about a default that JSON has no word for."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def input_schema_of(source: SchemaSource, *, tool_name: str, must_be_object: bool = True) -> InputSchema:
    """Return the schema that a tool's author gave.

    Args:
        source: the schema.
        tool_name: the tool's name, for errors.
        must_be_object: whether values of other types are refused, as no model can write them.

    Raises:
        ToolDefinitionError: pydantic cannot make a JSON schema of it, or it is of another type.
    """
    if isinstance(source, Mapping):
        schema = dict(source)
        return InputSchema(schema, _checker(schema))
    adapter = source if isinstance(source, TypeAdapter) else _adapter(source, tool_name)
    return _from_adapter(adapter, tool_name, must_be_object=must_be_object)


def function_schema(function: Callable[..., object], options_type: type, *, tool_name: str) -> FunctionSchema:
    """Return what a function's signature and docstring tell about the tool.

    The parameter annotated with `options_type` (or named `options` without annotation) gets the options of the call.
    The others are the tool's input: one field each, or, if there is just one and it is annotated with a pydantic model,
    a dataclass or a `TypedDict`, the fields of that.

    Args:
        function: the function; sync, async, or a generator.
        options_type: the class of the options of a call.
        tool_name: the tool's name, for errors.

    Raises:
        ToolDefinitionError: a parameter cannot be a field of a JSON object.
    """
    hints = _hints(function, options_type, tool_name)
    description, texts = _parse_docstring(inspect.getdoc(function) or "")
    options_name: str | None = None
    inputs: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if _takes_options(parameter, hints, options_type):
            options_name = parameter.name
            continue
        _check_parameter(parameter, hints, tool_name)
        inputs.append(parameter)
    whole = _whole_input(inputs, hints)
    if whole is not None:
        schema = _from_adapter(_adapter(hints[whole], tool_name), tool_name)
        return FunctionSchema(schema, _caller(function, lambda value: {whole: value}, options_name), description)
    model = _input_class(inputs, hints, texts, tool_name)
    names = [parameter.name for parameter in inputs]
    schema = _from_adapter(_adapter(model, tool_name), tool_name)
    schema.json_schema.pop("description", None)
    return FunctionSchema(
        schema,
        _caller(function, lambda value: {name: getattr(value, name) for name in names}, options_name),
        description,
    )


def _checker(schema: JSONObject) -> Callable[[object], object]:
    def check(value: object) -> object:
        problem = schema_problem(schema, value)
        if problem is not None:
            raise ValueError(problem)
        return value

    return check


def _adapter(source: Any, tool_name: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(source)
    except (PydanticUserError, NameError, TypeError) as exc:
        msg = f"tool {tool_name!r}: pydantic cannot check its input: {exc}"
        raise ToolDefinitionError(msg) from exc


def _from_adapter(adapter: TypeAdapter[Any], tool_name: str, *, must_be_object: bool = True) -> InputSchema:
    mode: JsonSchemaMode = "validation"
    try:
        schema = adapter.json_schema(schema_generator=_ToolJsonSchema, mode=mode)
    except PydanticUserError as exc:
        msg = f"tool {tool_name!r}: its input has no JSON schema: {exc}"
        raise ToolDefinitionError(msg) from exc
    schema.pop("title", None)
    if must_be_object and schema.get("type") != "object" and not schema.keys() & {"$ref", "anyOf", "oneOf"}:
        msg = f"tool {tool_name!r}: its input is {schema.get('type')!r}, it must be an object; wrap it in a model"
        raise ToolDefinitionError(msg)

    def parse(value: object) -> object:
        try:
            return adapter.validate_python(value)
        except ValidationError as exc:
            raise ValueError(_first_problem(exc)) from exc

    return InputSchema(schema, parse)


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return f"`input{where}`: {first['msg']}"


def _hints(function: Callable[..., object], options_type: type, tool_name: str) -> dict[str, Any]:
    """Return the resolved annotations of the parameters; what the function returns is of no concern.

    An annotation that names the options class is known by its name, as it may be imported for type checkers only.
    """
    target: Any = function
    while isinstance(target, functools.partial):
        target = cast("functools.partial[object]", target).func
    if not inspect.isroutine(target):
        target = type(target).__call__
    stated: dict[str, object] = {
        name: options_type if str(each).rpartition(".")[2] == options_type.__name__ else each
        for name, each in getattr(inspect.unwrap(target), "__annotations__", {}).items()
        if name != "return"
    }
    try:
        return get_type_hints(
            types.SimpleNamespace(__annotations__=stated),
            globalns=getattr(inspect.unwrap(target), "__globals__", {}),
            include_extras=True,
        )
    except (NameError, TypeError) as exc:
        msg = (
            f"tool {tool_name!r}: an annotation of its function cannot be resolved: {exc}; "
            "annotations must be visible at the top of the function's module"
        )
        raise ToolDefinitionError(msg) from exc


def _takes_options(parameter: inspect.Parameter, hints: Mapping[str, Any], options_type: type) -> bool:
    annotation = hints.get(parameter.name, inspect.Parameter.empty)
    return annotation is options_type or (annotation is inspect.Parameter.empty and parameter.name == "options")


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any], tool_name: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        msg = (
            f"tool {tool_name!r}: the {parameter.kind.description} parameter {parameter.name!r} cannot be a field; "
            "name each field of the input as a parameter of its own"
        )
        raise ToolDefinitionError(msg)
    if parameter.name not in hints:
        msg = (
            f"tool {tool_name!r}: the parameter {parameter.name!r} has no annotation; "
            "annotate it, so that the model can be told its type"
        )
        raise ToolDefinitionError(msg)


def _whole_input(inputs: list[inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    """Return the name of the parameter that takes the whole input, if there is one."""
    if len(inputs) != 1:
        return None
    name = inputs[0].name
    annotation = hints[name]
    if not isinstance(annotation, type):
        return None
    kind = cast("type[object]", annotation)
    whole = issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind) or is_typeddict(kind)
    return name if whole else None


def _input_class(
    inputs: list[inspect.Parameter], hints: Mapping[str, Any], texts: Mapping[str, str], tool_name: str
) -> type:
    """Make a class with a field for each parameter; a dataclass, which puts no names of its own in their way."""
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inputs:
        annotation: Any = hints[parameter.name]
        text = texts.get(parameter.name)
        if text is not None and not _is_described(annotation, parameter.default):
            annotation = Annotated[annotation, Field(description=text)]
        fields.append((parameter.name, annotation, _default(parameter.default)))
    try:
        return dataclasses.make_dataclass("Input", fields, kw_only=True)
    except TypeError as exc:
        msg = f"tool {tool_name!r}: its parameters make no input: {exc}"
        raise ToolDefinitionError(msg) from exc


def _is_described(annotation: object, default: object) -> bool:
    stated = [*getattr(annotation, "__metadata__", ()), default]
    return any(isinstance(each, FieldInfo) and each.description for each in stated)


def _default(value: object) -> Any:
    if value is inspect.Parameter.empty:
        return dataclasses.field()
    if isinstance(value, list | dict | set):
        made = cast("list[object] | dict[str, object] | set[object]", value)
        return dataclasses.field(default_factory=made.copy)
    return dataclasses.field(default=value)


def _caller(
    function: Callable[..., object], arguments: Callable[[Any], dict[str, Any]], options_name: str | None
) -> Callable[[Any, object], object]:
    if options_name is None:
        return lambda value, _options: function(**arguments(value))
    return lambda value, options: function(**arguments(value), **{options_name: options})


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Attributes):\s*$")
_OF_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Params"})
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_REST_ARGUMENT = re.compile(r"^:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")
_REST_FIELD = re.compile(r"^:\w+[^:]*:")


def _parse_docstring(text: str) -> tuple[str | None, dict[str, str]]:
    """Split a docstring into what stands before its sections and the texts of its arguments (Google style or reST)."""
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if _SECTION.match(line) or _REST_FIELD.match(line)), len(lines))
    return "\n".join(lines[:end]).strip() or None, {**_google_arguments(lines[end:]), **_rest_arguments(lines[end:])}


def _google_arguments(lines: list[str]) -> dict[str, str]:
    """Read the lines below `Args:`; what is indented deeper than the first name goes on with the text above it."""
    texts: dict[str, str] = {}
    name, indent, is_inside = "", 0, False
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            name, indent, is_inside = "", 0, heading[1] in _OF_ARGUMENTS
        elif is_inside and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            named = _ARGUMENT.match(line.strip()) if depth <= indent else None
            if named:
                name, texts[named[1]] = named[1], named[2]
            elif name:
                texts[name] = f"{texts[name]} {line.strip()}".strip()
    return texts


def _rest_arguments(lines: list[str]) -> dict[str, str]:
    """Read `:param name: text`; lines that begin no field go on with the text above them."""
    texts: dict[str, str] = {}
    name = ""
    for line in map(str.strip, lines):
        named = _REST_ARGUMENT.match(line)
        if named:
            name, texts[named[1]] = named[1], named[2]
        elif _REST_FIELD.match(line) or not line:
            name = ""
        elif name:
            texts[name] = f"{texts[name]} {line}"
    return texts
