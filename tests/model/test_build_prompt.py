"""From messages to the prompt that a model gets."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import InvalidPromptError, MissingToolResultsError
from chatagent.model import (
    AssistantMessage,
    DownloadedFile,
    FilePart,
    ImagePart,
    InlineData,
    ModelMessage,
    ReferenceData,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    Url,
    UrlData,
    UserMessage,
    build_prompt,
    standardize_prompt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.model import SpecificationVersion

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n"
PNG_TEXT = base64.b64encode(PNG).decode()


@dataclass
class Reader:
    """A model, as far as its prompt is concerned."""

    specification_version: SpecificationVersion = "v4"
    supported_urls: Any = field(default_factory=dict)
    provider: str = "acme"
    model_id: str = "reader-1"

    async def do_generate(self, options: Any, /) -> Any:
        raise NotImplementedError

    async def do_stream(self, options: Any, /) -> Any:
        raise NotImplementedError


async def prompt_of(*messages: ModelMessage, model: Reader | None = None, **options: Any) -> tuple[ModelMessage, ...]:
    return await build_prompt(messages, model=model or Reader(), **options)


def call(call_id: str = "c1", *, provider_executed: bool | None = None) -> AssistantMessage:
    return AssistantMessage([ToolCallPart(call_id, "t", {}, provider_executed=provider_executed)])


def result(*call_ids: str) -> ToolMessage:
    return ToolMessage([ToolResultPart(each, "t", ToolResultOutput("text", "r")) for each in call_ids])


async def test_instructions_come_first() -> None:
    rules = SystemMessage("Rules.", provider_options={"p": {"cache": True}})
    user = UserMessage([TextPart("Hi")])

    prompt = await prompt_of(user, instructions=[rules])

    assert prompt == (rules, user)


async def test_a_message_that_is_fine_goes_in_as_the_same_object() -> None:
    messages = [
        UserMessage([TextPart("Hi"), FilePart(InlineData(b"x"), "text/plain")]),
        call(),
        result("c1"),
        AssistantMessage([TextPart("Hello")]),
    ]

    prompt = await prompt_of(*messages)

    assert all(given is got for given, got in zip(messages, prompt, strict=True))


async def test_a_message_is_converted_once_however_often_it_is_asked_with() -> None:
    first = UserMessage("Hi")

    (once,) = await prompt_of(first)
    (again, _) = await prompt_of(first, UserMessage("you"))

    assert once == UserMessage([TextPart("Hi")])
    assert again is once


async def test_a_file_is_converted_anew_for_a_model_of_the_other_protocol() -> None:
    message = UserMessage([FilePart(InlineData(b"x"), "text/plain")])

    forms = [
        (await prompt_of(message, model=Reader(version)))[0].content[0].data  # type: ignore[union-attr]
        for version in ("v4", "v3", "v4")
    ]

    assert forms == [InlineData(b"x"), b"x", InlineData(b"x")]


async def test_empty_texts_are_left_out() -> None:
    options = {"p": {"cache": True}}
    user = UserMessage([TextPart(""), TextPart("Hi"), TextPart("", provider_options=options)])
    assistant = AssistantMessage([TextPart(""), TextPart("Hi"), TextPart("", provider_options=options)])

    prompt = await prompt_of(user, assistant)

    assert prompt == (
        UserMessage([TextPart("Hi")]),
        AssistantMessage([TextPart("Hi"), TextPart("", provider_options=options)]),
    )


async def test_provider_options_of_a_message_survive_its_conversion() -> None:
    (prompt,) = await prompt_of(UserMessage("Hi", provider_options={"p": {"m": 1}}))

    assert prompt.provider_options == {"p": {"m": 1}}


@pytest.mark.parametrize(
    ("image", "declared", "expected"),
    [
        (PNG, None, FilePart(InlineData(PNG), "image/png")),
        (PNG, "image/jpeg", FilePart(InlineData(PNG), "image/png")),
        (PNG_TEXT, "image/jpeg", FilePart(InlineData(PNG_TEXT), "image/png")),
        (b"nothing known", "image/x-odd", FilePart(InlineData(b"nothing known"), "image/x-odd")),
        (b"nothing known", None, FilePart(InlineData(b"nothing known"), "image")),
        (f"data:image/gif;base64,{PNG_TEXT}", None, FilePart(InlineData(PNG_TEXT), "image/png")),
        ("data:image/x-odd;base64,AAAA", "image/png", FilePart(InlineData("AAAA"), "image/x-odd")),
    ],
)
async def test_an_image_becomes_a_file_of_the_type_that_its_bytes_show(
    image: str | bytes, declared: str | None, expected: FilePart
) -> None:
    (prompt,) = await prompt_of(UserMessage([ImagePart(image, media_type=declared)]))

    assert prompt == UserMessage([expected])


@pytest.mark.parametrize(
    ("data", "bare"),
    [
        ("SGk=", "SGk="),
        (InlineData("SGk="), "SGk="),
        (b"Hi", b"Hi"),
        ("data:text/html;base64,SGk=", "SGk="),
        (UrlData("data:text/html,Hi"), "SGk="),
    ],
)
async def test_a_v3_model_gets_bare_file_data(data: Any, bare: str | bytes) -> None:
    (prompt,) = await prompt_of(UserMessage([FilePart(data, "text/html")]), model=Reader("v3"))

    assert prompt == UserMessage([FilePart(bare, "text/html")])


async def test_a_v3_model_gets_a_reference_as_it_is() -> None:
    message = UserMessage([FilePart(ReferenceData({"acme": "f1"}), "text/plain")])

    (prompt,) = await prompt_of(message, model=Reader("v3"))

    assert prompt == message


@pytest.mark.parametrize(
    "supported",
    [
        {"*": [".*"]},
        {"image/*": [r"^https://e\.com/"]},
        {"image/png": [re.compile(r"\.png$")]},
        {"text/plain": [".*"], "image/png": ["nothing", "com"]},
    ],
)
async def test_a_url_that_the_model_reads_stays(supported: Any) -> None:
    message = UserMessage([FilePart("https://E.com/a.png", "image/png")])

    (tagged,) = await prompt_of(message, model=Reader("v4", supported))
    (bare,) = await prompt_of(message, model=Reader("v3", supported))

    assert tagged == UserMessage([FilePart(UrlData("https://E.com/a.png"), "image/png")])
    assert bare == UserMessage([FilePart(Url("https://E.com/a.png"), "image/png")])


async def test_supported_urls_may_be_awaited() -> None:
    async def supported() -> dict[str, list[str]]:
        return {"*": ["."]}

    message = UserMessage([FilePart(UrlData("https://e.com/a"), "a/b")])

    (prompt,) = await prompt_of(message, model=Reader("v4", supported()))

    assert prompt is message


async def test_other_urls_are_downloaded_together_and_once() -> None:
    asked: list[list[str]] = []

    async def download(urls: Sequence[str]) -> list[DownloadedFile | None]:
        asked.append(list(urls))
        return [DownloadedFile(PNG, "image/x"), None]

    messages = [
        UserMessage([ImagePart("https://e.com/1"), FilePart(Url("https://ok.com/3"), "a/b")]),
        AssistantMessage([FilePart(UrlData("https://e.com/4"), "a/b")]),
        UserMessage([FilePart("https://e.com/2", "a/b"), FilePart("https://e.com/1", "a/c")]),
    ]

    first, _, last = await prompt_of(*messages, model=Reader("v3", {"*": [r"ok\.com"]}), download=download)

    assert asked == [["https://e.com/1", "https://e.com/2"]]
    assert first == UserMessage([FilePart(PNG, "image/png"), FilePart(Url("https://ok.com/3"), "a/b")])
    assert last == UserMessage([FilePart(Url("https://e.com/2"), "a/b"), FilePart(PNG, "a/c")])


async def test_without_a_download_such_a_url_is_an_error_that_names_it() -> None:
    message = UserMessage([FilePart("https://e.com/1", "a/b")])

    with pytest.raises(
        InvalidPromptError, match=r"^Invalid prompt: acme reader-1 does not read 'https://e.com/1' by itself; "
    ):
        await prompt_of(message)


async def test_approvals_are_taken_out_and_neighbouring_tool_messages_joined() -> None:
    asked = AssistantMessage(
        [
            ToolCallPart("c1", "t", {}),
            ToolApprovalRequestPart("a1", "c1"),
            ToolCallPart("c2", "t", {}, provider_executed=True),
            ToolApprovalRequestPart("a2", "c2"),
        ]
    )
    mine = ToolMessage([ToolApprovalResponsePart("a1", True)])
    theirs = ToolMessage([ToolApprovalResponsePart("a2", False, reason="no", provider_executed=True)])

    prompt = await prompt_of(UserMessage("Hi"), asked, mine, theirs, result("c1"))

    assert prompt[1:] == (
        AssistantMessage([asked.content[0], asked.content[2]]),  # type: ignore[list-item]
        ToolMessage([ToolApprovalResponsePart("a2", False, reason="no"), *result("c1").content]),
    )


@pytest.mark.parametrize(
    "messages",
    [
        [call()],
        [call(), UserMessage("Hi"), result("c1")],
        [call(), SystemMessage("Hi"), result("c1")],
        [call(), result("c2")],
        [call("c2"), call("c1"), result("c2")],
        [
            AssistantMessage([ToolCallPart("c1", "t", {}), ToolApprovalRequestPart("a1", "c1")]),
            ToolMessage([ToolApprovalResponsePart("a1", True)]),
        ],
    ],
)
async def test_a_call_without_result_is_refused(messages: list[ModelMessage]) -> None:
    with pytest.raises(MissingToolResultsError) as caught:
        await prompt_of(*messages)

    assert caught.value.tool_call_ids == ["c1"]


@pytest.mark.parametrize(
    "messages",
    [
        [call(), result("c1"), UserMessage("Hi")],
        [call(), call("c2"), result("c2"), result("c1")],
        [call(provider_executed=True), UserMessage("Hi")],
    ],
)
async def test_answered_and_provider_executed_calls_pass(messages: list[ModelMessage]) -> None:
    assert await prompt_of(*messages)


def test_a_text_is_one_user_message() -> None:
    standard = standardize_prompt(prompt="Hi", instructions="Rules.")

    assert standard.instructions == (SystemMessage("Rules."),)
    assert standard.messages == (UserMessage("Hi"),)


def test_messages_may_be_given_in_wire_form() -> None:
    standard = standardize_prompt(
        messages=[{"role": "user", "content": "Hi"}],
        instructions=[{"role": "system", "content": "A"}, SystemMessage("B")],
    )

    assert standard.instructions == (SystemMessage("A"), SystemMessage("B"))
    assert standard.messages == (UserMessage("Hi"),)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "Invalid prompt: give either `prompt` or `messages`"),
        ({"prompt": "a", "messages": []}, "Invalid prompt: give either `prompt` or `messages`, not both"),
        ({"messages": []}, "Invalid prompt: messages must not be empty"),
        ({"prompt": []}, "Invalid prompt: messages must not be empty"),
        ({"messages": [SystemMessage("x")]}, "Invalid prompt: messages[0] is a system message"),
        ({"prompt": "a", "instructions": 3}, "Invalid prompt: instructions is 3; give a text or system messages"),
        ({"prompt": "a", "instructions": [UserMessage("x")]}, "Invalid prompt: instructions[0] is a user message"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidPromptError, match=f"^{re.escape(text)}"):
        standardize_prompt(**options)


def test_system_messages_pass_where_they_are_allowed() -> None:
    standard = standardize_prompt(messages=[SystemMessage("x")], allow_system_in_messages=True)

    assert standard.messages == (SystemMessage("x"),)
