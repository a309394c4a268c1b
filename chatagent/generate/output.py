"""Structured output: what the model is told of the shape of its answer, and how the answer is read."""

from __future__ import annotations

from dataclasses import dataclass

from chatagent.errors import NoOutputGeneratedError
from chatagent.generate.tool_schema import InputSchema, SchemaSource, input_schema_of
from chatagent.model import JsonResponseFormat
from chatagent.ui.strict_json import parse_json

__all__ = ["Output", "output_of"]


@dataclass(frozen=True, slots=True)
class Output:
    """The shape of an answer."""

    schema: InputSchema

    @property
    def response_format(self) -> JsonResponseFormat:
        """What the model is told."""
        return JsonResponseFormat(schema=self.schema.json_schema)

    def read(self, text: str) -> object:
        """Return the answer as a checked value.

        Raises:
            NoOutputGeneratedError: the text is no JSON, or does not fit.
        """
        try:
            return self.schema.parse(parse_json(text))
        except ValueError as exc:
            msg = f"No output generated. The answer does not have the shape that `output` asks for: {exc}"
            raise NoOutputGeneratedError(msg) from exc


def output_of(source: SchemaSource | None) -> Output | None:
    """Return the shape that the argument `output` asks for; `None` for plain text."""
    return None if source is None else Output(input_schema_of(source, tool_name="output", must_be_object=False))
