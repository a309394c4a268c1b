"""The tool parts of one step's model stream: input, calls, approval, and what the provider runs itself.

Follows rules 6.1 to 6.4, 6.9, 6.11, 6.12 and 7.1 to 7.3. Calls that may run are collected; they are started when the
model has finished (`step_reader.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import ToolCallNotFoundForApprovalError, ToolChoiceViolationError
from chatagent.generate.approval import ApprovalDecision, ApprovalEvent, decide, sign
from chatagent.generate.execution import ToolRun, tool_error
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
from chatagent.generate.texts import error_text
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
        self.runs: list[ToolRun] = []
        """What is to run when the model has finished."""
        self.client_calls = 0
        """Calls that are answered on this side."""
        self.answered = 0
        """Those of them that have a result, an error, or an automatic denial."""
        self.has_violated = False
        """The model did not keep to the tool choice."""

    def take_output(self, output: FullToolResult | FullToolError) -> None:
        """Pass on what came of a tool that ran here."""
        if isinstance(output, FullToolError) or not output.preliminary:
            self.answered += 1
        self._emit(output)

    # The tool choice ----------------------------------------------------------------------------------------------

    async def check_choice(self) -> None:
        """Report a model that did not call what it had to call (rule 6.11)."""
        wanted = self._choice.tool_name
        called = [each.tool_name for each in self._calls.values()]
        met = wanted in called if self._choice.type == "tool" else bool(called)
        if self._choice.type in ("auto", "none") or met:
            return
        what = f"a call of tool '{wanted}'" if self._choice.type == "tool" else "a tool call"
        demanded = self._choice.type if wanted is None else f"'{wanted}'"
        await self._violate(f"Model response did not contain {what} even though tool choice was {demanded}.")

    async def _violate(self, message: str) -> None:
        self.has_violated = True
        await self._call.report(ToolChoiceViolationError(message))

    def _withheld(self) -> Awaitable[None] | None:
        """Drop a tool part that the model had no right to; report it the first time."""
        if self.has_violated:
            return None
        return self._violate("Model response contained a tool call even though tool choice was none.")

    # Tool input and calls -----------------------------------------------------------------------------------------

    def input_start(self, part: ModelToolInputStart) -> Awaitable[None] | None:
        """Pass on that the model begins to write a tool's input."""
        if self._choice.type == "none":
            return self._withheld()
        tool = self._tools.get(part.tool_name)
        self._emit(
            FullToolInputStart(
                id=part.id,
                tool_name=part.tool_name,
                provider_executed=part.provider_executed,
                dynamic=tool is not None and tool.kind == "dynamic" if part.dynamic is None else part.dynamic,
                title=part.title if tool is None or tool.title is None else tool.title,
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
            return self._withheld()
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
            return self._withheld()
        self._emit(FullToolInputEnd(id=part.id, provider_metadata=part.provider_metadata))
        return None

    def call(self, part: ModelToolCall) -> Awaitable[None] | None:
        """Parse a call and find out whether it may run."""
        return self._withheld() if self._choice.type == "none" else self._take_call(part)

    async def _take_call(self, raw: ModelToolCall) -> None:
        parsed = await self._parser.parse(raw)
        part, tool = parsed.part, parsed.tool
        self._calls[part.tool_call_id] = part
        self.client_calls += not part.provider_executed
        self._call.known_calls[part.tool_call_id] = part
        self._emit(part)
        if part.invalid:
            if not part.provider_executed:
                self.take_output(tool_error(part, error_text(part.error)))
            return
        if tool is None:
            return
        options = self._options(part.tool_call_id, part.tool_name)
        heard = self._call.told_tool(
            tool.on_input_available, lambda: InputAvailable(part.tool_call_id, parsed.value, options)
        )
        if heard is not None:
            await heard
        if part.provider_executed:
            if tool.supports_deferred_results:
                self._call.deferred.add(part.tool_call_id)
            return
        await self._approve(parsed, tool, options)

    async def _approve(self, parsed: ParsedCall, tool: Tool, options: ToolCallOptions) -> None:
        """Ask who has to say so whether a call may run, and act on it (rules 7.1 to 7.3)."""
        part, plan = parsed.part, self._call.plan
        event = ApprovalEvent(
            tool_call=part, value=parsed.value, options=options, runtime_context=self._call.runtime_context
        )
        try:
            decision = await decide(plan.tool_approval, tool, event)
        except Exception as exc:  # noqa: BLE001 - a user's policy: a call that it cannot judge must not run
            self.take_output(tool_error(part, exc))
            return
        if decision.type != "not-applicable":
            approval_id = self._request_approval(part, decision)
            if decision.type == "user-approval":
                return
            self._answer_approval(part, approval_id, decision)
            if decision.type == "denied":
                return
        if tool.run is not None:
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
            FullToolApprovalResponse(approval_id=approval_id, tool_call=part, approved=approved, reason=decision.reason)
        )
        if not approved:
            self.answered += 1
            self._emit(FullToolOutputDenied(tool_call_id=part.tool_call_id, tool_name=part.tool_name))

    # What the provider runs itself --------------------------------------------------------------------------------

    def result(self, part: ModelToolResult) -> Awaitable[None] | None:
        """Pass on the result of a tool that the provider ran."""
        if self._choice.type == "none":
            return self._withheld()
        call = self._calls.get(part.tool_call_id)
        if not part.preliminary:
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
            self._emit(FullToolResult(output=part.result, preliminary=part.preliminary, **shared))
        return None

    def approval_request(self, part: ModelToolApprovalRequest) -> Awaitable[None] | None:
        """Pass on that the provider asks for approval of a call of its own tool."""
        if self._choice.type == "none":
            return self._withheld()
        call = self._call.known_calls.get(part.tool_call_id)
        if call is None:
            return self._call.report(
                ToolCallNotFoundForApprovalError(tool_call_id=part.tool_call_id, approval_id=part.approval_id)
            )
        self._emit(
            FullToolApprovalRequest(
                approval_id=part.approval_id, tool_call=call, provider_metadata=part.provider_metadata
            )
        )
        return None

    def _options(self, tool_call_id: str, tool_name: str) -> ToolCallOptions:
        return self._call.tool_options(tool_call_id, tool_name, self._parser.messages)
