"""The agent that every backend of the suite plays (rule CT-3)."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from chatagent.protocol import AgentContract, CommandContract, SuspendContract, ToolContract, ValueContract

__all__ = [
    "CONTRACT",
    "EXPLOSION",
    "RUN_METADATA",
    "DraftAnswer",
    "DraftQuestion",
    "EchoInput",
    "LookupInput",
    "LookupOutput",
    "OrderInput",
    "PickInput",
    "PickOutput",
    "Progress",
    "RefundOutput",
    "ReviewAnswer",
    "ReviewOutput",
    "ReviewQuestion",
    "RunMetadata",
]

EXPLOSION: Final = "the kettle is empty"
"""What the command `explode` raises with."""

RUN_METADATA: Final[dict[str, object]] = {"rating": None}
"""The metadata of a new run."""


class RunMetadata(BaseModel):
    """What a run carries."""

    rating: int | None = None


class LookupInput(BaseModel):
    """What `lookup` is asked."""

    query: str


class LookupOutput(BaseModel):
    """What `lookup` finds."""

    found: str


class OrderInput(BaseModel):
    """What `refund` and `review` are about."""

    order: int


class RefundOutput(BaseModel):
    """What `refund` did."""

    refunded: bool


class ReviewQuestion(BaseModel):
    """What the question `approval` of `review` shows."""

    amount: int


class ReviewAnswer(BaseModel):
    """What answers it."""

    approved: bool


class DraftQuestion(BaseModel):
    """What the question `output` of `review` shows."""

    draft: str


class DraftAnswer(BaseModel):
    """What answers it."""

    text: str


class ReviewOutput(BaseModel):
    """What `review` gives."""

    reviewed: bool


class PickInput(BaseModel):
    """What `pick_file` shows the user."""

    kind: str


class PickOutput(BaseModel):
    """What the user picked."""

    name: str


class Progress(BaseModel):
    """The data of the channel `progress`."""

    percent: int


class EchoInput(BaseModel):
    """What `echo` is called with, and returns."""

    a: int


_of = ValueContract.of
_PROGRESS: Final = {"progress": _of(Progress)}

CONTRACT: Final = AgentContract(
    agent_id="conformance",
    tools={
        "lookup": ToolContract(
            name="lookup", tool_id="lookup", input=_of(LookupInput), output=_of(LookupOutput), data=_PROGRESS
        ),
        "refund": ToolContract(
            name="refund", tool_id="refund", input=_of(OrderInput), output=_of(RefundOutput), needs_approval=True
        ),
        "review": ToolContract(
            name="review",
            tool_id="review",
            input=_of(OrderInput),
            output=_of(ReviewOutput),
            suspends={
                "approval": SuspendContract(input=_of(ReviewQuestion), resume=_of(ReviewAnswer)),
                "output": SuspendContract(input=_of(DraftQuestion), resume=_of(DraftAnswer)),
            },
        ),
        "pick_file": ToolContract(
            name="pick_file",
            tool_id="pick_file",
            executor="client",
            input=_of(PickInput),
            output=_of(PickOutput),
            data=_PROGRESS,
        ),
    },
    commands={
        "echo": CommandContract(name="echo", input=_of(EchoInput), output=_of(EchoInput)),
        "explode": CommandContract(name="explode"),
    },
    run_metadata=_of(RunMetadata),
)
"""What the agent of the suite takes and gives. Any `data-` part goes."""
