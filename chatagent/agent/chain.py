"""The chain: a run's accumulated UI messages, as a value, and the model messages that they convert to.

A chain is an ordered, immutable list with an index by id; every operation gives a new one, so whoever holds an older
one sees it unchanged. The converter keeps what each message converts to beside the message, so that a turn pays for
what is new in it and not for the history behind it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.agent.injected import marked_ids, split_at_marks, stored_messages
from chatagent.agent.questions import as_approved
from chatagent.agent.stored_files import has_stored_files, with_stored_files
from chatagent.agent.superseded import deny_what_was_superseded, waits_for_its_tool
from chatagent.model import convert_to_model_messages_async
from chatagent.ui import ToolPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from chatagent.model import ModelMessage

__all__ = ["MessageChain", "MessageConverter"]

logger = logging.getLogger("chatagent")


class MessageChain:
    """An ordered, immutable list of UI messages with a look-up by id."""

    __slots__ = ("_index", "_items")

    def __init__(self, messages: Iterable[UIMessage] = (), *, _index: dict[str, int] | None = None) -> None:
        self._items = tuple(messages)
        # Shared between a chain and those appended to it: an entry counts only if it points to a message of that id.
        self._index = _index

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[UIMessage]:
        return iter(self._items)

    def __getitem__(self, position: int) -> UIMessage:
        return self._items[position]

    def to_list(self) -> list[UIMessage]:
        """Return the messages as a list of the caller's own."""
        return list(self._items)

    @property
    def items(self) -> tuple[UIMessage, ...]:
        """The messages as they stand, without a copy."""
        return self._items

    @property
    def last(self) -> UIMessage | None:
        """The last message, if there is one."""
        return self._items[-1] if self._items else None

    def position(self, message_id: str) -> int | None:
        """Return where the message with this id stands; the first of several; `None` if there is none."""
        if not message_id:
            return None
        if self._index is None:
            index: dict[str, int] = {}
            for position, message in enumerate(self._items):
                index.setdefault(message.id, position)
            self._index = index
        position = self._index.get(message_id)
        if position is None or position >= len(self._items) or self._items[position].id != message_id:
            return None
        return position

    def find(self, message_id: str) -> UIMessage | None:
        """Return the message with this id, or `None`."""
        position = self.position(message_id)
        return None if position is None else self._items[position]

    def append(self, message: UIMessage) -> MessageChain:
        """Return a chain with one message more at its end."""
        index = self._index
        if index is not None and message.id:
            known = index.get(message.id)
            if known is None:
                index[message.id] = len(self._items)
            elif known >= len(self._items) or self._items[known].id != message.id:
                index = None
        return MessageChain((*self._items, message), _index=index)

    def replace(self, position: int, message: UIMessage) -> MessageChain:
        """Return a chain with another message at a position."""
        same_id = self._items[position].id == message.id
        items = (*self._items[:position], message, *self._items[position + 1 :])
        return MessageChain(items, _index=self._index if same_id else None)

    def upsert(self, message: UIMessage, *, behind: Sequence[UIMessage] = ()) -> tuple[MessageChain, bool]:
        """Return a chain with the message at the place of its id, else at the end; and whether it replaced one.

        Args:
            message: the message.
            behind: messages that are new as well, and go directly in front of it.
        """
        position = self.position(message.id)
        if position is None:
            return self.extend((*behind, message)), False
        if not behind:
            return self.replace(position, message), True
        return MessageChain((*self._items[:position], *behind, message, *self._items[position + 1 :])), True

    def extend(self, messages: Iterable[UIMessage]) -> MessageChain:
        """Return a chain with more messages at its end."""
        chain = self
        for message in messages:
            chain = chain.append(message)
        return chain

    def to_be_answered_again(self, message_id: str | None) -> MessageChain:
        """Return the chain up to the user message that a message answers, or that it is.

        Args:
            message_id: the message; without one that is known, the last user message is to be answered.
        """
        position = None if message_id is None else self.position(message_id)
        if position is None:
            return self.without_trailing_non_users()
        return MessageChain(self._items[: position + 1]).without_trailing_non_users()

    def without_trailing_non_users(self) -> MessageChain:
        """Return the chain up to its last user message."""
        end = len(self._items)
        while end and self._items[end - 1].role != "user":
            end -= 1
        return self if end == len(self._items) else MessageChain(self._items[:end])


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a message was converted to."""

    message: UIMessage
    marked: tuple[str, ...]
    """The ids of the messages that were injected into it."""
    injected: Sequence[UIMessage]
    """Those of them that stood before it."""
    is_superseded: bool | None
    """Whether its approved calls are shown as denied (G-63); `None` if no call waits for its tool."""
    converted: list[ModelMessage]


class MessageConverter:
    """Converts UI messages to model messages, each message once for a set of tools.

    Incomplete tool calls are always left out (rule 1.16), so a message converts the same wherever it stands, but for
    two: users' messages that were injected into the answer behind them stand where the model saw them, in the middle of
    it (G-62), and an approved call whose tool has not run is a denied one once other messages follow (G-63).
    """

    __slots__ = ("_kept", "_tools")

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self._tools: Mapping[str, Any] | None = None

    def use_tools(self, tools: Mapping[str, Any] | None) -> None:
        """Convert with these tools from now on (rule N-2)."""
        if tools is self._tools or tools == self._tools:
            self._tools = tools
            return
        self._tools = tools
        self._kept = {key: kept for key, kept in self._kept.items() if not _has_tool_part(kept.message)}

    async def convert(self, messages: Iterable[UIMessage]) -> list[ModelMessage]:
        """Return the model messages that these messages stand for, in order.

        Raises:
            MessageConversionError: a message that no model can be shown.
        """
        converted: list[ModelMessage] = []
        users: list[UIMessage] = []
        listed = list(messages)
        for message in listed:
            if message.role == "user":
                users.append(message)
                continue
            marked = self._marked(message) if users else ()
            for user in users:
                if user.id not in marked:
                    converted += await self._converted(user)
            injected = [user for user in users if user.id in marked]
            converted += await self._converted(message, injected, is_last=message is listed[-1])
            users = []
        for user in users:
            converted += await self._converted(user)
        return converted

    def _marked(self, message: UIMessage) -> tuple[str, ...]:
        kept = self._kept.get(id(message))
        return marked_ids(message) if kept is None else kept.marked

    async def convert_what_can_be(self, messages: Sequence[UIMessage] | MessageChain) -> list[ModelMessage]:
        """Return the same, without the messages that no model can be shown; each of them is a warning (F-86)."""
        try:
            return await self.convert(messages)
        except Exception:  # noqa: BLE001 - a tool's `to_model_output` is user code; the culprit is found below
            return [each for message in messages for each in await self._convert_if_possible(message)]

    async def _convert_if_possible(self, message: UIMessage) -> list[ModelMessage]:
        try:
            return await self.convert((message,))
        except Exception:  # a tool's `to_model_output` is user code
            logger.warning("message %r cannot be shown to the model, and is left out", message.id, exc_info=True)
            return []

    def forget_all_but(self, messages: Sequence[UIMessage] | MessageChain) -> None:
        """Let go of messages that are no longer in the chain, once they outnumber those that are."""
        if len(self._kept) > 2 * len(messages) + 64:
            alive = {id(message) for message in messages}
            self._kept = {key: kept for key, kept in self._kept.items() if key in alive}

    async def _converted(
        self, message: UIMessage, injected: Sequence[UIMessage] = (), *, is_last: bool = True
    ) -> list[ModelMessage]:
        kept = self._kept.get(id(message))
        if kept is not None and _same(kept.injected, injected) and kept.is_superseded in (None, not is_last):
            return kept.converted
        shown = as_approved(message)
        is_superseded = not is_last if waits_for_its_tool(shown) else None
        shown = deny_what_was_superseded(shown) if is_superseded else shown
        converted = await (self._convert_steered(shown, injected) if injected else self._convert(shown))
        self._kept[id(message)] = _Kept(message, marked_ids(message), injected, is_superseded, converted)
        return converted

    async def _convert_steered(self, message: UIMessage, injected: Sequence[UIMessage]) -> list[ModelMessage]:
        """Return an answer's messages, with those that were injected into it at their marks."""
        converted: list[ModelMessage] = []
        for parts, mark in split_at_marks(message):
            converted += await self._convert(message.model_copy(update={"parts": tuple(parts)}))
            if mark is None:
                continue
            kept, messages = stored_messages(mark, injected)
            for each in messages:
                converted += await self._converted(each)
            converted += kept
        return converted

    async def _convert(self, message: UIMessage) -> list[ModelMessage]:
        shown = strip_ephemeral_ids(message) if message.role == "assistant" else message
        converted = await convert_to_model_messages_async([shown], tools=self._tools, ignore_incomplete_tool_calls=True)
        if has_stored_files(message):
            converted = [await with_stored_files(each) for each in converted]
        return [each for each in converted if not (each.role == "assistant" and not each.content)]


def _same(some: Sequence[UIMessage], others: Sequence[UIMessage]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def strip_ephemeral_ids(message: UIMessage) -> UIMessage:
    """Return the message as a model may see it: without OpenAI's item ids, which do not outlive their response."""
    parts = tuple(_strip_part(part) for part in message.parts)
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return message.model_copy(update={"parts": parts})


def _strip_part(part: Any) -> Any:
    metadata: dict[str, dict[str, object]] = getattr(part, "provider_metadata", None) or {}
    openai = metadata.get("openai") or {}
    if "itemId" not in openai:
        return part
    kept = {key: value for key, value in openai.items() if key != "itemId"}
    rest = {key: value for key, value in metadata.items() if key != "openai"}
    if kept:
        rest["openai"] = kept
    return part.model_copy(update={"provider_metadata": rest})


def _has_tool_part(message: UIMessage) -> bool:
    return any(isinstance(part, ToolPart) for part in message.parts)
