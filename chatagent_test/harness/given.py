"""What a test gives to a harness, checked where it enters; an error names the argument as the test has written it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from chatagent.errors import InvalidArgumentError
from chatagent.ui.js_json import format_json

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_client_data", "in_words_of_the_driver", "model_messages"]


def check_client_data(client_data: object) -> None:
    """Check that client data could have come over the wire.

    Raises:
        InvalidArgumentError: JSON cannot hold them.
    """
    if client_data is None:
        return
    try:
        format_json(client_data)
    except InvalidArgumentError as error:
        field = error.argument.replace("value", "client_data", 1)
        problem = f"{error.problem}; hand what is no JSON to the run by `setup_locals`"
        raise InvalidArgumentError(argument=field, value=error.value, problem=problem) from error


def model_messages(messages: object) -> list[Any]:
    """Return the messages of a head start.

    Raises:
        InvalidArgumentError: it is no list of dicts.
    """
    is_list = isinstance(messages, list | tuple)
    given = list(cast("Sequence[Any]", messages)) if is_list else []
    if not is_list or not all(isinstance(each, Mapping) for each in given):
        problem = "give a list of model messages in wire form, such as [{'role': 'assistant', 'content': […]}]"
        raise InvalidArgumentError(
            argument="partial_assistant_message", value=cast("object", messages), problem=problem
        )
    return given


def in_words_of_the_driver(error: InvalidArgumentError) -> InvalidArgumentError:
    """Return the refusal of a record by the log with the name of the argument that the test has given."""
    field = error.argument.removeprefix("records[0].data.").removeprefix("payload.")
    field = field.replace("partialAssistantMessage", "partial_assistant_message", 1)
    return InvalidArgumentError(argument=field, value=error.value, problem=error.problem)
