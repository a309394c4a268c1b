"""What clients of older majors can be sent.

A client checks every chunk against the list of its own release and fails on a type that it does not know, so a server
that writes for older clients leaves such chunks out, or says the same in older words (rules 15.1 and 15.2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from chatagent.errors import InvalidArgumentError
from chatagent.ui.chunks import (
    Chunk,
    Custom,
    Finish,
    ReasoningFile,
    ResetStep,
    SteeringMessage,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolOutputDenied,
    ToolOutputError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClientMajor", "chunk_for_client"]

ClientMajor: TypeAlias = Literal[5, 6, 7]
"""The major release of the client that reads a stream."""

DENIED_TEXT: Final = "Tool call execution denied."
"""What a client that knows no denials reads in place of one."""

_UNKNOWN_TO_6: Final = frozenset({Custom, ReasoningFile, ToolApprovalResponse, SteeringMessage, ResetStep})
_UNKNOWN: Final[Mapping[int, frozenset[type]]] = {
    5: _UNKNOWN_TO_6 | {ToolApprovalRequest},
    6: _UNKNOWN_TO_6,
    7: frozenset(),
}


def chunk_for_client(chunk: Chunk, major: ClientMajor = 7) -> Chunk | None:
    """Return what a client of a major release can be sent in place of a chunk.

    Args:
        chunk: the chunk.
        major: the client's major release.

    Returns:
        The chunk itself if the client knows it; one in older words (a finish reason `interrupted` becomes `other`, for
        clients of major 5 a denied tool call becomes a failed one); `None` if such a client reads nothing of the kind.

    Raises:
        InvalidArgumentError: a major that nobody writes for.
    """
    if major == 7:
        return chunk
    if major not in get_args(ClientMajor):
        raise InvalidArgumentError(argument="major", value=major, problem="clients of the majors 5, 6 and 7 are known")
    if type(chunk) in _UNKNOWN[major]:
        return None
    if isinstance(chunk, Finish) and chunk.finish_reason == "interrupted":
        return replace(chunk, finish_reason="other")
    if isinstance(chunk, ToolOutputDenied) and major == 5:
        return ToolOutputError(tool_call_id=chunk.tool_call_id, error_text=DENIED_TEXT)
    return chunk
