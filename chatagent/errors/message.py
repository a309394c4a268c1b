"""What goes wrong with messages of a conversation, and with the chunks that they come in."""

from __future__ import annotations

from chatagent.errors.base import ChatAgentError, short


class InvalidMessageError(ChatAgentError, ValueError):
    """A message that cannot enter a conversation; nothing was queued.

    Args:
        field: path of the field that is wrong, such as `parts[0].text`.
        value: what stood there.
        problem: what is wrong with it, with the way out.
    """

    def __init__(self, *, field: str, value: object, problem: str) -> None:
        super().__init__(f"message: `{field}` is {short(value)}: {problem}")
        self.field, self.value, self.problem = field, value, problem


class ChunkError(ChatAgentError, ValueError):
    """A chunk that is not one of the wire's: its type is unknown, or a field is missing or of the wrong kind."""

    def __init__(self, *, chunk_type: object, field: str, value: object, problem: str) -> None:
        super().__init__(f"chunk {short(chunk_type)}: `{field}` is {short(value)}: {problem}")
        self.chunk_type, self.field, self.value, self.problem = chunk_type, field, value, problem


class UIMessageStreamError(ChatAgentError, ValueError):
    """A chunk that does not fit the chunks before it; the message so far stands.

    Args:
        chunk_type: the wire type of the chunk.
        chunk_id: the block, call or approval id that it names.
        message: what does not fit, with the way out.
    """

    def __init__(self, message: str, *, chunk_type: str, chunk_id: str) -> None:
        super().__init__(message)
        self.chunk_type, self.chunk_id = chunk_type, chunk_id


class StreamedError(ChatAgentError):
    """The stream itself reported an error (an `error` chunk); its text is what the other side said."""


class MessageConversionError(ChatAgentError, ValueError):
    """A UI message that cannot be turned into messages for a model.

    Args:
        field: path of what cannot be, such as `messages[0].parts[1].url`; `parts[1].url` of a message that was
            converted by itself.
        value: what stands there.
        problem: what is wrong with it, with the way out.
    """

    def __init__(self, *, field: str, value: object, problem: str) -> None:
        super().__init__(f"`{field}` is {short(value)}: {problem}")
        self.field, self.value, self.problem = field, value, problem


class MessageValidationError(ChatAgentError, ValueError):
    """Messages that break their format, or a schema that they were checked by; none of them was changed.

    Args:
        field: path of the first thing that is wrong, such as `messages[0].parts[1].input`.
        value: what stood there.
        problem: what is wrong with it, with the way out.
        entity_name: the tool or the kind of data that it belongs to; `None` if neither.
        entity_id: the id of the call, the data part or the message that failed a schema; `None` if it was no schema.
    """

    def __init__(
        self,
        *,
        field: str,
        value: object,
        problem: str,
        entity_name: str | None = None,
        entity_id: str | None = None,
    ) -> None:
        whose = ", ".join(repr(each) for each in (entity_name, entity_id) if each is not None)
        super().__init__(f"`{field}`{f' ({whose})' if whose else ''} is {short(value)}: {problem}")
        self.field, self.value, self.problem = field, value, problem
        self.entity_name, self.entity_id = entity_name, entity_id
