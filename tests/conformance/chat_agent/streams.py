"""The UI stream options of a scenario as ours."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

from conformance.chat_agent.errors import UnsupportedScenarioError
from conformance.chat_agent.values import snake

if TYPE_CHECKING:
    from conformance.chat_agent.values import Wire

PLAIN = frozenset({"sendReasoning", "sendSources", "sendStart", "sendFinish"})
"""Options whose values are passed on as they are."""


def stream_options(declared: Wire) -> Any:
    """Return the stream options that a scenario declares.

    Raises:
        UnsupportedScenarioError: an option that the format does not have.
    """
    options: dict[str, Any] = {snake(name): value for name, value in declared.items() if name in PLAIN}
    if "idPrefix" in declared:
        numbers = itertools.count(1)
        options["generate_message_id"] = lambda: f"{declared['idPrefix']}{next(numbers)}"
    if "metadata" in declared:
        options["message_metadata"] = lambda part: copy.deepcopy(declared["metadata"].get(part.type))
    if "errorText" in declared:
        options["on_error"] = lambda _error: declared["errorText"]
    unknown = set(declared) - PLAIN - {"idPrefix", "metadata", "errorText"}
    if unknown:
        raise UnsupportedScenarioError(f"stream options {sorted(unknown)}")
    return options
