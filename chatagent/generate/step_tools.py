"""The tool parts of one step's model stream: input, calls, approval, and what the provider runs itself.

Follows rules 6.1 to 6.4, 6.9, 6.11, 6.12 and 7.1 to 7.3. Calls that may run are collected; they are started when the
model has finished (`step_reader.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import ToolCallNotFoundForApprovalError, ToolChoiceViolationError
from chatagent.generate.approval import ApprovalDecision, ApprovalEvent, decide, sign
from chatagent.generate.execution import ToolRun, invalid_call_error, tool_error
from chatagent.generate.parts import (
    FullToolApprovalRequest,
    FullToolApprovalResponse,
    FullToolCall,
    FullToolError,
    FullToolInputDelta,
    FullToolInputEnd,
    FullToolInputStart,
    FullToolOutputDenied,
    FullToolResult,
)
from chatagent.generate.tools import InputAvailable, InputDelta, Tool, ToolCallOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from chatagent.generate.loop import Call
    from chatagent.generate.tool_calls import ParsedCall, ToolCallParser
    from chatagent.model import (
        ModelToolApprovalRequest,
        ModelToolCall,
        ModelToolInputDelta,
        ModelToolInputEnd,
        ModelToolInputStart,
        ModelToolResult,
        ToolChoice,
    )

__all__ = ["StepTools"]


class StepTools:
    """Takes the tool parts of one step.

    What a method returns must be awaited before the next part is taken.

    Args:
        call: the call that the step belongs to.
        parser: parses the tool calls.
        tool_choice: what the model was told about calling tools.
    """

    def __init__(self, call: Call, *, parser: ToolCallParser, tool_choice: ToolChoice) -> None:
        self._call = call
        self._emit = call.emitter.emit
        self._parser = parser
        self._tools = parser.tools
        self._choice = tool_choice
        self._inputs: dict[str, tuple[Tool, str]] = {}
        """The tools whose input is being written, and the names under which they are called."""
        self._calls: dict[str, FullToolCall] = {}
        self._provider_results: set[str] = set()
        """The calls that the provider has answered in this step."""
        self.runs: list[ToolRun] = []
        """What is to run when the model has finished."""
        self.client_calls = 0
        """Calls that are answered on this side."""
        self.answered = 0
        """Those of them that have a result, an error, or an automatic denial."""
        self._has_withheld_call = False

    def take_output(self, output: FullToolResult | FullToolError) -> None:
        """Pass on what came of a tool that ran here."""
        if isinstance(output, FullToolError) or not output.preliminary:
            self.answered += 1
        self._emit(output)

    # The tool choice ----------------------------------------------------------------------------------------------

    def choice_error(self) -> ToolChoiceViolationError | None:
        """Return what to report of a model that has finished and did not keep to the tool choice (rule 6.11)."""
        called = [each.tool_name for each in self._calls.values()]
        match self._choice.type:
            case "none" if self._has_withheld_call:
                problem = "Model response contained a tool call even though tool choice was none."
            case "required" if not called:
                problem = "Model response did not contain a tool call even though tool choice was required."
            case "tool" if self._choice.tool_name not in called:
                problem = f"Model response did not contain a call to the required tool '{self._choice.tool_name}'."
            case _:
                return None
        return ToolChoiceViolationError(problem)

    # Tool input and calls -----------------------------------------------------------------------------------------

    def input_start(self, part: ModelToolInputStart) -> Awaitable[None] | None:
        """Pass on that the model begins to write a tool's input."""
        if self._choice.type == "none":
            return None
        tool = self._tools.get(part.tool_name)
        self._emit(
            FullToolInputStart(
                id=part.id,
                tool_name=part.tool_name,
                provider_executed=part.provider_executed,
                dynamic=tool is not None and tool.kind == "dynamic" if part.dynamic is None else part.dynamic,
                title=None if tool is None else tool.title,
                input_encoding=part.input_encoding,
                tool_metadata=None if tool is None else tool.metadata,
                provider_metadata=part.provider_metadata,
            )
        )
        if tool is None:
            return None
        self._inputs[part.id] = (tool, part.tool_name)
        return self._call.told_tool(tool.on_input_start, lambda: self._options(part.id, part.tool_name))

    def input_delta(self, part: ModelToolInputDelta) -> Awaitable[None] | None:
        """Pass on more text of a tool's input."""
        if self._choice.type == "none":
            return None
        self._emit(FullToolInputDelta(id=part.id, delta=part.delta, provider_metadata=part.provider_metadata))
        known = self._inputs.get(part.id)
        if known is None:
            return None
        tool, name = known
        return self._call.told_tool(
            tool.on_input_delta, lambda: InputDelta(part.id, part.delta, self._options(part.id, name))
        )

    def input_end(self, part: ModelToolInputEnd) -> Awaitable[None] | None:
        """Pass on that the text of a tool's input is complete."""
        if self._choice.type == "none":
            return None
        self._emit(FullToolInputEnd(id=part.id, provider_metadata=part.provider_metadata))
        return None

    def call(self, part: ModelToolCall) -> Awaitable[None] | None:
        """Parse a call and find out whether it may run."""
        if self._choice.type == "none":
            self._has_withheld_call = True
            return None
        return self._take_call(part)

    async def _take_call(self, raw: ModelToolCall) -> None:
        parsed = await self._parser.parse(raw)
        part, tool = parsed.part, parsed.tool
        self._calls[part.tool_call_id] = part
        self.client_calls += not part.provider_executed
        self._emit(part)
        if part.provider_executed:
            self._defer(part)
        if part.invalid:
            if not part.provider_executed:
                self.take_output(invalid_call_error(part))
            return
        if tool is None:
            return
        options = self._options(part.tool_call_id, part.tool_name)
        heard = self._call.told_tool(
            tool.on_input_available, lambda: InputAvailable(part.tool_call_id, parsed.value, options)
        )
        if heard is not None:
            await heard
        await self._approve(parsed, tool, options)

    def _defer(self, part: FullToolCall) -> None:
        """Note that the provider may answer its call in a later step."""
        tool = self._tools.get(part.tool_name)
        if tool is not None and tool.supports_deferred_results and part.tool_call_id not in self._provider_results:
            self._call.deferred.add(part.tool_call_id)

    async def _approve(self, parsed: ParsedCall, tool: Tool, options: ToolCallOptions) -> None:
        """Ask who has to say so whether a call may run, and act on it (rules 7.1 to 7.3)."""
        part, plan = parsed.part, self._call.plan
        event = ApprovalEvent(
            tool_call=part, value=parsed.value, options=options, runtime_context=self._call.runtime_context
        )
        try:
            decision = await decide(plan.tool_approval, tool, event)
        except Exception as exc:  # noqa: BLE001 - a user's policy: a call that it cannot judge must not run
            if part.provider_executed:
                await self._call.report(exc)
            else:
                self.take_output(tool_error(part, exc))
            return
        if decision.type != "not-applicable":
            approval_id = self._request_approval(part, decision)
            if decision.type == "user-approval":
                return
            self._answer_approval(part, approval_id, decision)
            if decision.type == "denied":
                return
        if tool.run is not None and not part.provider_executed:
            limit = plan.timeout.of_tool(part.tool_name)
            self.runs.append(ToolRun(part, tool, parsed.value, options, limit))

    def _request_approval(self, part: FullToolCall, decision: ApprovalDecision) -> str:
        plan = self._call.plan
        approval_id, signature = plan.generate_id(), None
        if plan.tool_approval_secret is not None:
            signature = sign(
                plan.tool_approval_secret,
                approval_id=approval_id,
                tool_call_id=part.tool_call_id,
                tool_name=part.tool_name,
                tool_input=part.input,
            )
        asks_user = decision.type == "user-approval"
        self._emit(
            FullToolApprovalRequest(
                approval_id=approval_id,
                tool_call=part,
                is_automatic=None if asks_user else True,
                reason=decision.reason if asks_user else None,
                signature=signature,
            )
        )
        return approval_id

    def _answer_approval(self, part: FullToolCall, approval_id: str, decision: ApprovalDecision) -> None:
        approved = decision.type == "approved"
        self._emit(
            FullToolApprovalResponse(
                approval_id=approval_id,
                tool_call=part,
                approved=approved,
                reason=decision.reason,
                provider_executed=part.provider_executed,
            )
        )
        if not approved:
            self.answered += 1
            self._emit(FullToolOutputDenied(tool_call_id=part.tool_call_id, tool_name=part.tool_name))

    # What the provider runs itself --------------------------------------------------------------------------------

    def result(self, part: ModelToolResult) -> Awaitable[None] | None:
        """Pass on the result of a tool that the provider ran; each counts, one that is called preliminary too."""
        if self._choice.type == "none":
            return None
        call = self._calls.get(part.tool_call_id)
        self._provider_results.add(part.tool_call_id)
        self._call.deferred.discard(part.tool_call_id)
        shared: dict[str, Any] = {
            "tool_call_id": part.tool_call_id,
            "tool_name": part.tool_name,
            "provider_executed": True,
            "dynamic": part.dynamic,
            "tool_metadata": None if call is None else call.tool_metadata,
            "provider_metadata": part.provider_metadata,
        }
        if call is not None:
            shared["input"] = call.input
        if part.is_error:
            self._emit(FullToolError(error=part.result, **shared))
        else:
            self._emit(FullToolResult(output=part.result, **shared))
        return None

    def approval_request(self, part: ModelToolApprovalRequest) -> Awaitable[None] | None:
        """Pass on that the provider asks for approval of a call of its own tool."""
        if self._choice.type == "none":
            return None
        call = self._calls.get(part.tool_call_id)
        if call is None:
            return self._call.report(
                ToolCallNotFoundForApprovalError(tool_call_id=part.tool_call_id, approval_id=part.approval_id)
            )
        self._emit(FullToolApprovalRequest(approval_id=part.approval_id, tool_call=call))
        return None

    def _options(self, tool_call_id: str, tool_name: str) -> ToolCallOptions:
        return self._call.tool_options(tool_call_id, tool_name, self._parser.messages)
