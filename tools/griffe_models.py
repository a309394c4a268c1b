"""Gives pydantic models the `__init__` that they have at run time, so that their pages show it and know its arguments.

The API pages are made from the source, without importing it, and a model's source has fields only.
"""

from __future__ import annotations

from typing import Any

from griffe import Class, Extension, Function, Parameter, ParameterKind, Parameters

__all__ = ["ModelSignatures"]

_ROOT = "pydantic.BaseModel"


class ModelSignatures(Extension):
    """The extension; it looks at a package as a whole, since a model's base may stand in another module."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """See `griffe.Extension`."""
        for each in _classes(pkg):
            if "__init__" not in each.members and _is_model(each):
                each.set_member("__init__", _init_of(each))


def _classes(scope: Any) -> list[Class]:
    found: list[Class] = []
    for member in scope.members.values():
        if not member.is_alias and (member.is_module or member.is_class):
            found += [member] if member.is_class else []
            found += _classes(member)
    return found


def _is_model(each: Class) -> bool:
    bases = {base if isinstance(base, str) else base.canonical_path for base in each.bases}
    return _ROOT in bases or any(_is_model(base) for base in each.resolved_bases if isinstance(base, Class))


def _init_of(model: Class) -> Function:
    members: dict[str, Any] = {**_inherited(model), **model.members}
    fields = [
        Parameter(name, annotation=field.annotation, kind=ParameterKind.keyword_only, default=field.value)
        for name, field in members.items()
        if not name.startswith("_") and field.is_attribute and _is_field(field)
    ]
    receiver = Parameter("self", kind=ParameterKind.positional_or_keyword)
    return Function("__init__", parameters=Parameters(receiver, *fields), parent=model)


def _inherited(model: Class) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(model.mro()):
        found |= base.members
    return found


def _is_field(attribute: Any) -> bool:
    annotation = str(attribute.annotation or "ClassVar")
    return "property" not in attribute.labels and not annotation.startswith("ClassVar")
