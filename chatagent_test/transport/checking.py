"""Checks of a script when it is given, so that the line that fails is the test's own (rules RQ-13, BT-1)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast, get_args

from chatagent.ui import UNSET, FinishReason
from chatagent_test.transport.errors import ScriptError
from chatagent_test.transport.scripts import SCRIPT_TYPES, AssistantScript, DataReply, PauseReply, ToolReply

if TYPE_CHECKING:
    from chatagent.protocol import ValueContract
    from chatagent_test.transport.scripts import Script, SeedAction
    from chatagent_test.transport.tools import ToolBook

__all__ = ["action_input", "check_script"]


def check_script(script: Script, book: ToolBook, *, place: str, can_pause: bool) -> None:
    """Refuse a script that the agent could not have said.

    Args:
        script: the script.
        book: the tools, and the contract if there is one.
        place: where the test gives it, for the message.
        can_pause: whether the mock's clock can be moved by the test.

    Raises:
        UnknownToolError: it names a tool that nobody knows.
        ScriptError: a value, a question or data that the agent's contract does not allow.
    """
    if not isinstance(cast("object", script), SCRIPT_TYPES):
        raise ScriptError(f"{place}: {script!r:.100} is no script; give what reply.assistant(...) returns")
    if not isinstance(script, AssistantScript):
        return
    _check_ids(script, place)
    if script.finish_reason not in (None, *get_args(FinishReason)):
        reasons = ", ".join(get_args(FinishReason))
        raise ScriptError(
            f"{place}: reply.assistant(finish_reason={script.finish_reason!r}): there is no such reason; "
            f"there are {reasons}"
        )
    if script.metadata is not None and book.contract is not None:
        _check_metadata(book, book.contract.message_metadata, script, place)
    for number, part in enumerate(script.parts, 1):
        at = f"{place}: part {number}: "
        if isinstance(part, ToolReply):
            _check_tool(part, book, at + part.where)
        elif isinstance(part, DataReply):
            book.check_data(part.name, part.value, f"{at}reply.data({part.name!r})")
        elif isinstance(part, PauseReply) and not can_pause:
            raise ScriptError(f"{at}{part!r}: the mock's clock is a real one; a pause needs a VirtualClock")


def _check_ids(script: AssistantScript, place: str) -> None:
    """Refuse two calls, or two questions, of one id: clients could not tell them apart."""
    calls = [part for part in script.parts if isinstance(part, ToolReply) and not part.resolves]
    for what, ids in (
        ("call id", [call.call_id for call in calls]),
        ("action id", [call.action.action_id for call in calls if call.action is not None]),
        ("approval id", [call.approval_id for call in calls]),
    ):
        twice = [each for each, count in Counter(ids).items() if each is not None and count > 1]
        if twice:
            raise ScriptError(f"{place}: reply.assistant: the {what} {twice[0]!r} is there twice")


def _check_metadata(book: ToolBook, wanted: ValueContract, script: AssistantScript, place: str) -> None:
    book.check(wanted, script.metadata, f"{place}: reply.assistant", "metadata")


def _check_tool(part: ToolReply, book: ToolBook, where: str) -> None:
    book.look(part.name, where)
    if part.input is not UNSET:
        book.check_input(part.name, part.input, where)
    if part.output is not UNSET:
        book.check_output(part.name, part.output, where)
    if part.action is not None:
        action_input(part.action, part.input, where)
        book.check_action(part.name, part.action, where)


def action_input(action: SeedAction, tool_input: object, where: str) -> object:
    """Return what the client is asked: the question's own input, or the tool's for a client tool's output.

    Raises:
        ScriptError: the output of a client tool is asked for with another input than the tool's.
    """
    if not action.is_implicit:
        return None if action.input is UNSET else action.input
    if action.input is not UNSET and action.input != tool_input:
        raise ScriptError(
            f"{where}: the action `output` asks for the tool's own output, so its input is the tool's "
            f"{tool_input!r:.100}, not {action.input!r:.100}; leave it out, or say declared_suspend=True"
        )
    return tool_input
