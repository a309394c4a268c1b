"""Tools from functions and from schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from chatagent.errors import ToolDefinitionError
from chatagent.generate import Tool, ToolCallOptions, provider_tool, tool, tools_by_name
from chatagent.signals import AbortController

OPTIONS = ToolCallOptions(tool_call_id="call-1", messages=(), abort_signal=AbortController().signal)


class Order(BaseModel):
    """What a customer wants."""

    number: int
    note: str = ""


def run(made: Tool, data: object) -> Any:
    assert made.run is not None
    return made.run(made.input.parse(data), OPTIONS)


def test_name_description_and_schema_come_from_the_function() -> None:
    @tool
    def get_weather(city: str, unit: Literal["c", "f"] = "c") -> str:
        """Look up the weather.

        Today's only.

        Args:
            city: the city, in English,
                without its country
            unit (str): of the temperature

        Returns:
            A sentence.
        """
        return f"{city} in {unit}"

    assert get_weather.name == "get_weather"
    assert get_weather.description == "Look up the weather.\n\nToday's only."
    assert get_weather.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "the city, in English, without its country"},
            "unit": {
                "type": "string",
                "enum": ["c", "f"],
                "default": "c",
                "description": "of the temperature",
            },
        },
        "required": ["city"],
    }
    assert run(get_weather, {"city": "Oslo"}) == "Oslo in c"
    assert get_weather("Rome", unit="f") == "Rome in f"


def test_rest_docstrings_and_field_descriptions_are_read_too() -> None:
    @tool
    def search(query: str, limit: Annotated[int, Field(description="how many")] = 3, *, tags: list[str] = []) -> None:  # noqa: B006
        """Search.

        :param query: what to
            look for
        :param limit: is said already
        :returns: nothing
        """

    properties: Any = search.input_schema["properties"]

    assert search.description == "Search."
    assert properties["query"]["description"] == "what to look for"
    assert properties["limit"]["description"] == "how many"
    assert search.input.parse({"query": "x"}).tags == []  # type: ignore[attr-defined] - a class made of the parameters


def test_a_parameter_with_the_name_of_a_model_attribute_is_no_problem() -> None:
    @tool
    def convert(json: str, copy: int, schema: dict[str, int]) -> object:
        return json, copy, schema

    assert run(convert, {"json": "{}", "copy": 2, "schema": {"a": 1}}) == ("{}", 2, {"a": 1})


def test_a_single_model_parameter_is_the_whole_input_and_reaches_the_function_checked() -> None:
    @tool
    def place(order: Order) -> Order:
        return order

    assert place.input_schema["required"] == ["number"]
    assert run(place, {"number": "7"}) == Order(number=7)


def test_several_model_parameters_are_fields() -> None:
    @tool
    def compare(first: Order, second: Order) -> int:
        return first.number - second.number

    assert run(compare, {"first": {"number": 3}, "second": {"number": 1}}) == 2


def test_the_options_parameter_is_no_part_of_the_input() -> None:
    @tool
    def whoami(options: ToolCallOptions, greeting: str) -> str:
        return f"{greeting} {options.tool_call_id}"

    assert list(whoami.input_schema["properties"]) == ["greeting"]  # type: ignore[call-overload] - a JSON object
    assert run(whoami, {"greeting": "hi"}) == "hi call-1"


def test_an_unannotated_parameter_called_options_gets_them_too() -> None:
    @tool
    def whoami(options) -> str:  # type: ignore[no-untyped-def] - that is the point
        return options.tool_call_id

    assert whoami.input_schema == {"type": "object", "properties": {}}
    assert run(whoami, {}) == "call-1"


def test_the_decorator_takes_options() -> None:
    @tool(name="weather", title="Weather", needs_approval=True, description="Told here.")
    def get_weather(city: str) -> str:
        """Not told."""
        return city

    assert (get_weather.name, get_weather.title, get_weather.description) == ("weather", "Weather", "Told here.")
    assert get_weather.needs_approval is True


def positional_only(city: str, /) -> None: ...


def variadic(*cities: str) -> None: ...


def keywords(**cities: str) -> None: ...


def unannotated(city) -> None: ...  # type: ignore[no-untyped-def] - that is the point


def unresolved(city: Nowhere) -> None: ...  # type: ignore[name-defined] - that is the point  # noqa: F821


class Opaque: ...


def opaque(city: Opaque) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (
            positional_only,
            r"^tool 'positional_only': the positional-only parameter 'city' cannot be a field; name each",
        ),
        (variadic, r"^tool 'variadic': the variadic positional parameter 'cities' cannot be a field; name each"),
        (keywords, r"^tool 'keywords': the variadic keyword parameter 'cities' cannot be a field; name each"),
        (unannotated, r"^tool 'unannotated': the parameter 'city' has no annotation; annotate it"),
        (unresolved, r"^tool 'unresolved': an annotation of its function cannot be resolved: name 'Nowhere'"),
        (opaque, r"^tool 'opaque': pydantic cannot check its input: "),
        (lambda city: city, r"^a tool cannot be named '<lambda>'; give `name=`"),
    ],
)
def test_a_function_that_makes_no_tool_is_an_error_that_names_the_parameter(function: Any, problem: str) -> None:
    with pytest.raises(ToolDefinitionError, match=problem):
        tool(function)


def test_an_option_that_there_is_not_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(
        ToolDefinitionError, match=r"^there is no option `need_approval` of a tool; did you mean `needs_a"
    ):
        tool(need_approval=True)  # type: ignore[call-overload] - that is the point
    with pytest.raises(ToolDefinitionError, match=r"^there is no option `zebra` of a tool$"):
        tool(zebra=1)  # type: ignore[call-overload] - that is the point


def test_input_that_is_no_object_is_an_error() -> None:
    with pytest.raises(ToolDefinitionError, match=r"^tool 'numbers': its input is 'array', it must be an object"):
        tool(name="numbers", input_schema=TypeAdapter(list[int]))


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize("schema", [Point, TypeAdapter(Point)], ids=["class", "adapter"])
def test_a_schema_that_pydantic_knows_gives_checked_values(schema: Any) -> None:
    made = tool(name="plot", input_schema=schema, execute=lambda point: point)

    assert run(made, {"x": 1, "y": "2"}) == Point(1, 2)
    with pytest.raises(ValueError, match=r"^`input.y`: Input should be a valid integer"):
        made.input.parse({"x": 1, "y": "two"})


def test_a_json_schema_is_shown_as_it_is_and_checked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "title": "Mine"}
    made = tool(name="count", input_schema=schema, execute=lambda value, options: (value, options.tool_call_id))

    assert made.input_schema == schema
    assert run(made, {"n": 1}) == ({"n": 1}, "call-1")
    with pytest.raises(ValueError, match=r"^`input.n` must be integer, it is 'one'$"):
        made.input.parse({"n": "one"})


def test_execute_alone_tells_the_schema() -> None:
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    made = tool(execute=greet, title="Greeting")

    assert (made.name, made.description, made.title) == ("greet", "Greet somebody.", "Greeting")


def test_a_tool_without_a_function_is_answered_by_the_client() -> None:
    made = tool(name="confirm", input_schema={"type": "object"})

    assert made.run is None
    with pytest.raises(TypeError, match=r"^tool 'confirm' has no function of its own$"):
        made()


def test_a_provider_tool_takes_any_object_unless_told_otherwise() -> None:
    made = provider_tool(id="vendor.search", name="search", args={"depth": 2}, supports_deferred_results=True)

    assert (made.kind, made.provider_id, made.args) == ("provider", "vendor.search", {"depth": 2})
    assert made.input.parse({"q": 1}) == {"q": 1}


def test_tools_in_a_list_are_known_by_their_names() -> None:
    def first(x: int) -> int:
        return x

    made = tools_by_name([first, tool(name="second", input_schema={"type": "object"})])

    assert list(made) == ["first", "second"]
    with pytest.raises(ToolDefinitionError, match=r"^two tools are named 'first'"):
        tools_by_name([first, first])
    with pytest.raises(ToolDefinitionError, match=r"^a tool in a list needs a name"):
        tools_by_name([tool(input_schema={"type": "object"})])


@pytest.mark.parametrize("name", ["bad name!", "", "1st", "a.b", "é", "a\n", 5])
def test_a_name_that_no_model_could_call_is_refused_however_the_tool_is_made(name: Any) -> None:
    def work() -> None: ...

    for make in (
        lambda: tool(name=name),
        lambda: tool(work, name=name),
        lambda: tool(name=name, input_schema={"type": "object"}),
        lambda: provider_tool(id="vendor.search", name=name),
    ):
        with pytest.raises(ToolDefinitionError) as caught:
            make()
        assert str(caught.value) == (
            f"a tool cannot be named {name!r}; give `name=` a word of letters, digits, `_` and `-`"
        )


def test_an_output_schema_may_be_of_any_type() -> None:
    made = tool(name="list", input_schema={"type": "object"}, output_schema=TypeAdapter(list[int]))

    assert made.output_schema == {"type": "array", "items": {"type": "integer"}}
