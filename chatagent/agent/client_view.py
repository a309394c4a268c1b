"""What an agent's code tells clients beside its answers: messages that they may see, and the metadata of their run.

It travels as transient data chunks of reserved types, in order with the answer: a service takes them out and shows
what they say (MP-24, MP-27); whoever reads the session alone passes them by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_jsonable_python

from chatagent.agent.run import this_turn
from chatagent.errors import InvalidArgumentError
from chatagent.model import SystemMessage, TextPart, UserMessage
from chatagent.ui import DataChunk, TextUIPart, UIMessage, problem_of, to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.model import ModelMessage

__all__ = ["CONTEXT_TYPE", "RUN_METADATA_TYPE", "RunMetadata", "show_context"]

CONTEXT_TYPE: Final = "data-chatagent-context"
"""Data of this type are the messages that clients see as context of the run."""
RUN_METADATA_TYPE: Final = "data-chatagent-run-metadata"
"""Data of this type are the run's metadata from here on."""


def show_context(messages: Sequence[ModelMessage], name: str) -> None:
    """Let clients see messages that were put in front of the model.

    Args:
        messages: system or user messages of text.
        name: what the caller called, for errors.

    Raises:
        ChatContextError: no turn is on.
        InvalidArgumentError: one of them is of another kind; nothing was shown.
    """
    run, _ = this_turn(name)
    shown = [_shown(message, run.env.new_id) for message in messages]
    run.out.write(DataChunk(CONTEXT_TYPE, {"messages": [to_wire(each) for each in shown]}, transient=True))


def _shown(message: ModelMessage, new_id: Any) -> UIMessage:
    if not isinstance(message, SystemMessage | UserMessage):
        problem = "clients see system and user messages only"
        raise InvalidArgumentError(argument="messages", value=message, problem=problem)
    parts = [TextPart(message.content)] if isinstance(message.content, str) else message.content
    texts: list[TextUIPart] = []
    for part in parts:
        if not isinstance(part, TextPart):
            raise InvalidArgumentError(argument="messages", value=part, problem="clients see text only")
        texts.append(TextUIPart(text=part.text))
    return UIMessage(id=new_id(), role=message.role, parts=texts)


class RunMetadata:
    """The functions behind `chat.run_metadata`: what a client can read of its run, as JSON (MP-24).

    It begins with what the agent's `run_metadata_schema` makes of nothing, and lasts over the turns of the run. Clients
    learn of a change with the run's next event.
    """

    __slots__ = ()

    def get(self) -> dict[str, Any]:
        """Return the metadata; a dict of the caller's own.

        Raises:
            ChatContextError: no turn is on.
        """
        _, turn = this_turn("chat.run_metadata.get")
        return dict(turn.incoming.payload.run_metadata or {} if turn.run_metadata is None else turn.run_metadata)

    def set(self, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata.

        Raises:
            ChatContextError: no turn is on.
            InvalidArgumentError: it does not fit the schema, or is no JSON; nothing was changed.
        """
        self._put(dict(metadata), "chat.run_metadata.set")

    def update(self, **values: Any) -> None:
        """Change some keys of the metadata; otherwise like `set`."""
        self._put({**self.get(), **values}, "chat.run_metadata.update")

    def _put(self, metadata: dict[str, Any], name: str) -> None:
        run, turn = this_turn(name)
        try:
            parsed = run.agent.parse_run_metadata(metadata)
            plain = to_jsonable_python(parsed, by_alias=True)
        except Exception as exc:  # a schema may be any function
            raise InvalidArgumentError(argument="metadata", value=metadata, problem=problem_of(exc)) from exc
        turn.run_metadata = plain
        run.out.write(DataChunk(RUN_METADATA_TYPE, plain, transient=True))
