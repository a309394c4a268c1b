"""From what callers write to what a model gets: the prompt (rules 2.5 and 2.6).

What one message becomes does not depend on its neighbours, so it is worked out once for each message object and kept
with it: asking again with the same history and one message more costs little more than the new message. A message
that is fine as it is goes into the prompt as the same object.

Nothing is fetched here. A URL that the model does not read itself needs a `download` function of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from chatagent.errors import InvalidPromptError, MissingToolResultsError
from chatagent.model.codec import parse_model_message, parse_model_messages
from chatagent.model.files import (
    InlineData,
    UrlData,
    bare_data,
    detect_image_type,
    media_type_of_data_url,
    tagged_data,
)
from chatagent.model.prompt import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ModelMessage,
    ReasoningFilePart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolContentPart,
    ToolMessage,
    ToolResultPart,
    UserContentPart,
    UserMessage,
)
from chatagent.model.urls import resolve_urls

if TYPE_CHECKING:
    from chatagent.model.files import BareData, FileData
    from chatagent.model.prompt import AssistantContentPart
    from chatagent.model.protocol import LanguageModel, SpecificationVersion
    from chatagent.model.urls import Download

__all__ = ["Instructions", "StandardPrompt", "build_prompt", "standardize_prompt"]

Instructions = str | SystemMessage | Mapping[str, object] | Sequence[SystemMessage | Mapping[str, object]]
"""A text, or system messages (or their wire form)."""


FileT = TypeVar("FileT", bound=FilePart | ReasoningFilePart)


@dataclass(frozen=True, slots=True)
class StandardPrompt:
    """What a call is asked with, checked and in one form."""

    instructions: tuple[SystemMessage, ...]
    messages: tuple[ModelMessage, ...]


def standardize_prompt(
    *,
    prompt: str | Iterable[ModelMessage | Mapping[str, object]] | None = None,
    messages: Iterable[ModelMessage | Mapping[str, object]] | None = None,
    instructions: Instructions | None = None,
    allow_system_in_messages: bool = False,
) -> StandardPrompt:
    """Check what a call is asked with.

    Args:
        prompt: a text, which becomes one user message, or messages.
        messages: messages, or their wire form; exclusive with `prompt`.
        instructions: what the model is told first.
        allow_system_in_messages: whether system messages may stand among the messages.

    Raises:
        InvalidPromptError: both or none of `prompt` and `messages`, no message, a system message among them, or
            something that is no message.
    """
    if (prompt is None) == (messages is None):
        msg = "Invalid prompt: give either `prompt` or `messages`" + ("" if prompt is None else ", not both")
        raise InvalidPromptError(msg)
    given = prompt if messages is None else messages
    parsed = (
        (UserMessage(given),)
        if isinstance(given, str)
        else tuple(parse_model_messages(cast("Iterable[object]", given)))
    )
    if not parsed:
        msg = "Invalid prompt: messages must not be empty"
        raise InvalidPromptError(msg)
    if not allow_system_in_messages:
        _refuse_system(parsed)
    return StandardPrompt(_instructions(instructions), parsed)


async def build_prompt(
    messages: Sequence[ModelMessage],
    *,
    model: LanguageModel,
    instructions: Sequence[SystemMessage] = (),
    download: Download | None = None,
) -> tuple[ModelMessage, ...]:
    """Return the prompt that a model gets.

    Args:
        messages: the messages, oldest first.
        model: the model; its protocol decides the form of file data, its `supported_urls` which URLs stay.
        instructions: system messages to put in front.
        download: fetches the URLs that the model does not read itself; without it, such a URL is an error.

    Raises:
        MissingToolResultsError: a call of a tool that the provider does not run has no result before the next user or
            system message, or at the end.
        InvalidPromptError: a URL that nobody reads, or a file that this model cannot be given.
    """
    version = model.specification_version
    history = tuple(messages)
    holder = _end_of_known_beginning(history, version)
    known = None if holder is None else cast("_Beginning", holder.beginning)
    rest = history if known is None else history[len(known.messages) :]
    standards = [_standard(message, version) for message in rest]
    prompt = [each.message or message for message, each in zip(rest, standards, strict=True)]
    with_urls = [index for index, each in enumerate(standards) if each.has_urls]
    if with_urls:
        users = [cast("UserMessage", prompt[index]) for index in with_urls]
        for index, message in zip(with_urls, await resolve_urls(users, model, download), strict=True):
            prompt[index] = message
    _check_tool_results(rest, standards)
    whole = (*(() if known is None else known.prompt), *_joined(prompt))
    if history and not with_urls and type(history[-1]) is not ToolMessage:
        if holder is not None:
            object.__setattr__(holder, "beginning", None)
        object.__setattr__(history[-1], "beginning", _Beginning(version, history[:-1], whole[:-1]))
    return (*instructions, *whole)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What the messages before one of them have become; kept with that message, so that it goes when that goes.

    Every tool call among them is answered, and the message that keeps it is no tool message, which the last of them
    might have to be joined with.
    """

    version: SpecificationVersion
    messages: tuple[ModelMessage, ...]
    prompt: tuple[ModelMessage, ...]


LOOK_BACK = 32
"""How many messages from the end a known beginning is looked for: more than a turn usually adds."""


def _end_of_known_beginning(history: tuple[ModelMessage, ...], version: SpecificationVersion) -> ModelMessage | None:
    """Return the last message before which everything has been worked out already, so that it is not done again."""
    for position in range(len(history) - 1, max(-1, len(history) - 1 - LOOK_BACK), -1):
        known = history[position].beginning
        if (
            type(known) is _Beginning
            and known.version == version
            and len(known.messages) == position
            and known.messages == history[:position]
        ):
            return history[position]
    return None


@dataclass(frozen=True, slots=True)
class _Standard:
    """What one message becomes, and what the checks across messages need to know of it."""

    version: SpecificationVersion | None = None
    """The protocol for which it holds; `None`: for all."""
    message: ModelMessage | None = None
    """What the message becomes; `None`: it stays as it is."""
    has_urls: bool = False
    """Whether it holds files of the user by URL."""
    calls: tuple[str, ...] = ()
    """Tool calls that need a result."""
    results: tuple[str, ...] = ()
    """Tool calls that it answers."""


_UNCHANGED = _Standard()


def _standard(message: ModelMessage, version: SpecificationVersion) -> _Standard:
    known = message.memo
    if type(known) is _Standard and (known.version is None or known.version == version):
        return known
    made = _work_out(message, version)
    object.__setattr__(message, "memo", made)
    return made


def _work_out(message: ModelMessage, version: SpecificationVersion) -> _Standard:
    match message:
        case SystemMessage():
            return _UNCHANGED
        case UserMessage():
            return _user(message, version)
        case AssistantMessage():
            return _assistant(message, version)
        case ToolMessage():
            return _tool(message)


def _user(message: UserMessage, version: SpecificationVersion) -> _Standard:
    if isinstance(message.content, str):
        return _Standard(None, replace(message, content=(TextPart(message.content),)))
    content: list[UserContentPart] = []
    files = [part for part in message.content if not isinstance(part, TextPart)]
    for part in message.content:
        if not isinstance(part, TextPart):
            content.append(_image(part, version) if isinstance(part, ImagePart) else _file(part, version))
        elif part.text:
            content.append(part)
    return _Standard(
        version if files else None,
        _if_changed(message, content),
        has_urls=any(isinstance(tagged_data(part.data), UrlData) for part in content if isinstance(part, FilePart)),
    )


def _assistant(message: AssistantMessage, version: SpecificationVersion) -> _Standard:
    if isinstance(message.content, str):
        return _Standard(None, replace(message, content=(TextPart(message.content),)))
    content: list[AssistantContentPart] = []
    calls: list[str] = []
    files = False
    for part in message.content:
        match part:
            case TextPart(text="", provider_options=None):
                continue
            case ToolApprovalRequestPart():
                continue
            case ToolCallPart() if not part.provider_executed:
                calls.append(part.tool_call_id)
                content.append(part)
            case FilePart() | ReasoningFilePart():
                files = True
                content.append(_file(part, version))
            case _:
                content.append(part)
    return _Standard(version if files else None, _if_changed(message, content), calls=tuple(calls))


def _tool(message: ToolMessage) -> _Standard:
    content: list[ToolContentPart] = []
    results: list[str] = []
    for part in message.content:
        if isinstance(part, ToolResultPart):
            results.append(part.tool_call_id)
            content.append(part)
            continue
        if part.provider_executed:
            content.append(replace(part, provider_executed=None))
    return _Standard(None, _if_changed(message, content), results=tuple(results))


def _if_changed(
    message: UserMessage | AssistantMessage | ToolMessage, content: Sequence[object]
) -> ModelMessage | None:
    """Return the message with this content; `None` if it has that content already, object for object."""
    before = message.content
    if len(content) == len(before) and all(new is old for new, old in zip(content, before, strict=True)):
        return None
    return replace(message, content=tuple(content))


def _image(part: ImagePart, version: SpecificationVersion) -> FilePart:
    """Make an image a file; the type that inline data shows wins over the declared one."""
    data = tagged_data(part.image)
    detected = detect_image_type(data.data) if isinstance(data, InlineData) else None
    return FilePart(
        _form(data, version),
        detected or media_type_of_data_url(part.image) or part.media_type or "image",
        provider_options=part.provider_options,
        extra=part.extra,
    )


def _file(part: FileT, version: SpecificationVersion) -> FileT:
    """Bring a file into the form of the protocol; the type that a data URL names wins over the declared one."""
    data = _form(tagged_data(part.data), version)
    media_type = media_type_of_data_url(part.data) or part.media_type
    if type(data) is type(part.data) and data == part.data and media_type == part.media_type:
        return part
    return replace(part, data=data, media_type=media_type)


def _form(data: FileData, version: SpecificationVersion) -> BareData | FileData:
    return bare_data(data) if version == "v3" else data


def _joined(prompt: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Leave out tool messages without content, and make neighbouring ones one."""
    joined: list[ModelMessage] = []
    before: ModelMessage | None = None
    for message in prompt:
        if type(message) is ToolMessage:
            if not message.content:
                continue
            if type(before) is ToolMessage:
                message = joined[-1] = replace(before, content=(*before.content, *message.content))
                before = message
                continue
        joined.append(message)
        before = message
    return joined


def _check_tool_results(messages: Sequence[ModelMessage], standards: Sequence[_Standard]) -> None:
    """Raise if a call is not answered in time."""
    unanswered: dict[str, None] = {}
    for message, each in zip(messages, standards, strict=True):
        if each.calls:
            for call in each.calls:
                unanswered[call] = None
        elif each.results:
            for call in each.results:
                unanswered.pop(call, None)
        elif unanswered and message.role in ("user", "system"):
            break
    if unanswered:
        raise MissingToolResultsError(list(unanswered))


def _refuse_system(messages: Iterable[ModelMessage]) -> None:
    for index, message in enumerate(messages):
        if isinstance(message, SystemMessage):
            msg = (
                f"Invalid prompt: messages[{index}] is a system message; say it in `instructions`, or pass "
                "`allow_system_in_messages=True` if the messages come from you and not from a client"
            )
            raise InvalidPromptError(msg)


def _instructions(given: Instructions | None) -> tuple[SystemMessage, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        return (SystemMessage(given),)
    if isinstance(given, (SystemMessage, Mapping)):
        given = (given,)
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise InvalidPromptError(f"Invalid prompt: instructions is {given!r}; give a text or system messages")
    messages = tuple(parse_model_message(each, path=f"instructions[{index}]") for index, each in enumerate(given))
    for index, message in enumerate(messages):
        if not isinstance(message, SystemMessage):
            msg = f"Invalid prompt: instructions[{index}] is a {message.role} message; instructions are system messages"
            raise InvalidPromptError(msg)
    return cast("tuple[SystemMessage, ...]", messages)
