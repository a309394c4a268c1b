"""A call that begins with answers to approval requests: what may run does so before the first step (rule 7.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chatagent.errors import InvalidToolInputError
from chatagent.generate.approval import (
    AnsweredApproval,
    ApprovalEvent,
    answered_approvals,
    check_signatures,
    decide,
)
from chatagent.generate.execution import ToolRun, invalid_call_error, tool_error
from chatagent.generate.parts import FullToolCall, FullToolError, FullToolOutputDenied, FullToolResult
from chatagent.generate.response import denied_output, tool_result_part
from chatagent.generate.texts import to_json
from chatagent.generate.tool_calls import check_input
from chatagent.model import ModelMessage, ToolMessage, ToolResultPart
from chatagent.ui import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.generate.loop import Call

__all__ = ["continue_approvals"]


@dataclass(frozen=True, slots=True)
class _Denied:
    """A call that does not run."""

    reason: str | None
    is_told: bool
    """The model knows already."""


async def continue_approvals(call: Call, messages: Sequence[ModelMessage]) -> ToolMessage | None:
    """Do what the answers at the end of the history say.

    Args:
        call: the call that begins.
        messages: its messages.

    Returns:
        The message with the results, to be put behind the others; `None` if there is nothing to tell.

    Raises:
        InvalidToolApprovalError: an answer belongs to no request.
        ToolCallNotFoundForApprovalError: a request belongs to no call.
        InvalidToolApprovalSignatureError: an approved call is not the one that was asked about.
    """
    approvals = answered_approvals(messages)
    if not approvals:
        return None
    call.stop_if_aborted()
    if call.plan.tool_approval_secret is not None:
        check_signatures(call.plan.tool_approval_secret, approvals)
    judged = [(each, await _judge(call, each, messages)) for each in approvals]
    denied = [(each, verdict) for each, verdict in judged if isinstance(verdict, _Denied)]
    for each, _ in sorted(denied, key=lambda pair: pair[0].is_providers):
        call.emitter.emit(FullToolOutputDenied(tool_call_id=each.call.tool_call_id, tool_name=each.call.tool_name))
    errors = [verdict for _, verdict in judged if isinstance(verdict, FullToolError)]
    for error in errors:
        call.emitter.emit(error)
    await call.flush()
    outputs = await _run(call, [verdict for _, verdict in judged if isinstance(verdict, ToolRun)])
    content = [await tool_result_part(each, call.plan.tools.get(each.tool_name)) for each in (*outputs, *errors)]
    for each, verdict in denied:
        if not verdict.is_told:
            made = each.call
            content.append(ToolResultPart(made.tool_call_id, made.tool_name, denied_output(verdict.reason)))
    return ToolMessage(tuple(content)) if content else None


async def _run(call: Call, runs: Sequence[ToolRun]) -> list[FullToolResult | FullToolError]:
    """Run the approved tools, and return what came of them, in the order in which they ended."""
    ended: list[FullToolResult | FullToolError] = []
    await call.runner.start(runs, call.notify)
    while (output := await call.runner.next_output(call.notify)) is not None:
        if isinstance(output, FullToolError) or not output.preliminary:
            ended.append(output)
        call.emitter.emit(output)
        await call.flush()
        await call.log.room()
    return ended


async def _judge(
    call: Call, approval: AnsweredApproval, messages: Sequence[ModelMessage]
) -> ToolRun | FullToolError | _Denied | None:
    """Return what becomes of a call; `None` for one that is not run here."""
    if not approval.response.approved:
        return _Denied(approval.response.reason, approval.is_told or approval.is_providers)
    if approval.is_providers:
        return None
    name = approval.call.tool_name
    tool = call.plan.tools.get(name)
    part = FullToolCall(
        tool_call_id=approval.call.tool_call_id,
        tool_name=name,
        input=None if approval.call.input is UNSET else approval.call.input,
        dynamic=True if tool is not None and tool.kind == "dynamic" else None,
        title=None if tool is None else tool.title,
        tool_metadata=None if tool is None else tool.metadata,
    )
    value: object = part.input
    if tool is not None and tool.run is not None:
        try:
            value = check_input(tool, name, part.input, to_json(part.input))
        except InvalidToolInputError as exc:
            return invalid_call_error(replace(part, error=exc))
    options = call.tool_options(part.tool_call_id, name, messages)
    event = ApprovalEvent(tool_call=part, value=value, options=options, runtime_context=call.runtime_context)
    try:
        decision = await decide(call.plan.tool_approval, tool, event)
    except Exception as exc:  # noqa: BLE001 - a user's policy: a call that it cannot judge must not run
        return tool_error(part, exc)
    if decision.type == "denied":
        return _Denied(decision.reason or approval.response.reason, is_told=False)
    if tool is None or tool.run is None:
        return None
    return ToolRun(part, tool, value, options, call.plan.timeout.of_tool(name))
