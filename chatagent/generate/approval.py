"""Approval of tool calls: who decides, and what a continuation does with the answers (section 7).

A user's answer comes with the next call, as a tool message at the end of the history. A policy answers at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from chatagent.errors import (
    InvalidArgumentError,
    InvalidToolApprovalError,
    InvalidToolApprovalSignatureError,
    ToolCallNotFoundForApprovalError,
)
from chatagent.generate.tools import Tool, ToolCallOptions
from chatagent.model import (
    AssistantMessage,
    ModelMessage,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
)
from chatagent.ui.js_json import format_json_bytes

if TYPE_CHECKING:
    from chatagent.generate.parts import FullToolCall

__all__ = [
    "AnsweredApproval",
    "ApprovalDecision",
    "ApprovalEvent",
    "ApprovalStatus",
    "ToolApproval",
    "answered_approvals",
    "check_signatures",
    "decide",
    "sign",
]

_SIGNED_AS = "ai-sdk-tool-approval-v1"
"""What is signed, and in which version: part of every signed text."""

ApprovalStatus: TypeAlias = Literal["not-applicable", "user-approval", "approved", "denied"]
"""`user-approval` asks the user; `approved` and `denied` are answers of a policy."""


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What was decided about a call."""

    type: ApprovalStatus
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalEvent:
    """A call that a policy for all tools decides on."""

    tool_call: FullToolCall
    value: object
    """The checked input."""
    options: ToolCallOptions
    runtime_context: Mapping[str, object]


_Answer: TypeAlias = ApprovalStatus | ApprovalDecision | Mapping[str, object] | None

ToolApproval: TypeAlias = (
    Callable[[ApprovalEvent], _Answer | Awaitable[_Answer]]
    | Mapping[str, _Answer | Callable[[Any, ToolCallOptions], _Answer | Awaitable[_Answer]]]
)
"""A policy for all tools; or by tool name an answer, or a function of the checked input and the options. An answer is a
status, alone or with a reason; `None` leaves it to the tool's own `needs_approval`."""


async def decide(
    policy: ToolApproval | None,
    tool: Tool | None,
    event: ApprovalEvent,
) -> ApprovalDecision:
    """Return what is decided about a call: by the policy if it says anything at all, else by the tool (rule 7.1).

    Of a tool that is gone (`None`) only the policy may say something.

    Raises:
        InvalidArgumentError: the policy answered with something that is no status.
    """
    if policy is not None:
        answer = await _settled(_asked(policy, event))
        if answer is not None:
            return _decision(answer)
    needed: object = None if tool is None else tool.needs_approval
    if callable(needed):
        needed = await _settled(needed(event.value, event.options))
    return ApprovalDecision("user-approval" if needed else "not-applicable")


def _asked(policy: ToolApproval, event: ApprovalEvent) -> object:
    if not isinstance(policy, Mapping):
        return policy(event)
    policies = cast("Mapping[str, object]", policy)
    entry = policies.get(event.tool_call.tool_name)
    return entry(event.value, event.options) if callable(entry) else entry


async def _settled(value: object) -> object:
    return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value


def _decision(answer: object) -> ApprovalDecision:
    if isinstance(answer, ApprovalDecision):
        return answer
    source: Mapping[str, object] = (
        cast("Mapping[str, object]", answer) if isinstance(answer, Mapping) else {"type": answer}
    )
    status = source.get("type")
    if status not in get_args(ApprovalStatus):
        problem = (
            f"a policy answers with one of {', '.join(get_args(ApprovalStatus))}, alone or as `type` with a `reason`"
        )
        raise InvalidArgumentError(argument="tool_approval", value=cast("object", answer), problem=problem)
    return ApprovalDecision(cast("ApprovalStatus", status), cast("str | None", source.get("reason")))


@dataclass(frozen=True, slots=True)
class AnsweredApproval:
    """A call of the history whose approval was answered in its last message."""

    call: ToolCallPart
    request: ToolApprovalRequestPart
    response: ToolApprovalResponsePart
    is_told: bool
    """The denial stands in the history as a result already."""

    @property
    def is_providers(self) -> bool:
        """Whether the provider runs the tool, so that only the answer goes back to it."""
        return bool(self.call.provider_executed or self.response.provider_executed)


def answered_approvals(messages: Sequence[ModelMessage]) -> list[AnsweredApproval]:
    """Return the approvals that the last message answers; the first answer to a call counts.

    The denied ones come first, in the order of the answers, then the approved ones, in the order of the calls.

    Raises:
        InvalidToolApprovalError: an answer belongs to no request.
        ToolCallNotFoundForApprovalError: a request belongs to no call.
    """
    last = messages[-1] if messages else None
    responses = _parts(last, ToolApprovalResponsePart) if isinstance(last, ToolMessage) else []
    if not responses:
        return []
    said = [message for message in messages if isinstance(message, AssistantMessage)]
    calls = {part.tool_call_id: part for message in said for part in _parts(message, ToolCallPart)}
    requests = {part.approval_id: part for message in said for part in _parts(message, ToolApprovalRequestPart)}
    results = {part.tool_call_id: part for part in _parts(last, ToolResultPart)}
    answered: dict[str, AnsweredApproval] = {}
    for response in responses:
        request = requests.get(response.approval_id)
        if request is None:
            raise InvalidToolApprovalError(approval_id=response.approval_id)
        call = calls.get(request.tool_call_id)
        if call is None:
            raise ToolCallNotFoundForApprovalError(tool_call_id=request.tool_call_id, approval_id=request.approval_id)
        result = results.get(call.tool_call_id)
        is_told = not response.approved and result is not None and result.output.type == "execution-denied"
        if result is None or is_told:
            answered.setdefault(call.tool_call_id, AnsweredApproval(call, request, response, is_told))
    order = {call_id: index for index, call_id in enumerate(calls)}
    found = list(answered.values())
    approved = [each for each in found if each.response.approved]
    approved.sort(key=lambda each: order[each.call.tool_call_id])
    return [*(each for each in found if not each.response.approved), *approved]


def sign(secret: str | bytes, *, approval_id: str, tool_call_id: str, tool_name: str, tool_input: object) -> str:
    """Return the signature of a request: HMAC-SHA256, base64url without padding.

    It is the one that servers in other languages make of the same request, so that either may continue what the other
    has begun.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    digest = hashlib.sha256(format_json_bytes(_in_key_order(tool_input))).digest()
    signed = format_json_bytes([_SIGNED_AS, approval_id, tool_call_id, tool_name, _base64url(digest)])
    return _base64url(hmac.new(key, signed, hashlib.sha256).digest())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _in_key_order(value: object) -> object:
    """Return JSON data with the keys of its objects sorted, by their UTF-16 code units."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        keys = sorted(fields, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return {key: _in_key_order(fields[key]) for key in keys}
    if isinstance(value, list | tuple):
        return [_in_key_order(each) for each in cast("Sequence[object]", value)]
    return value


def check_signatures(secret: str | bytes, approvals: Iterable[AnsweredApproval]) -> None:
    """Check that each approved call is the one that was asked about.

    Raises:
        InvalidToolApprovalSignatureError: a signature is missing or wrong.
    """
    for each in approvals:
        if not each.response.approved or each.is_providers:
            continue
        expected = sign(
            secret,
            approval_id=each.request.approval_id,
            tool_call_id=each.call.tool_call_id,
            tool_name=each.call.tool_name,
            tool_input=each.call.input,
        )
        if not hmac.compare_digest(expected, each.request.signature or ""):
            raise InvalidToolApprovalSignatureError(
                approval_id=each.request.approval_id, tool_call_id=each.call.tool_call_id
            )


def _parts(message: ModelMessage | None, kind: type[Any]) -> list[Any]:
    if message is None or isinstance(message.content, str):
        return []
    return [part for part in message.content if isinstance(part, kind)]
