"""Model messages as the history of pydantic-ai, read by pydantic-ai itself."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ToolReturnPart,
    UploadedFile,
)

from chatagent.adapters.pydantic_ai_history import history_of
from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    CustomPart,
    FilePart,
    ImagePart,
    InlineData,
    ModelMessage,
    ReasoningFilePart,
    ReasoningPart,
    ReferenceData,
    SystemMessage,
    TextData,
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
)
from chatagent.ui import UNSET

PNG = b"\x89PNG\r\n\x1a\n"


def read(*messages: ModelMessage) -> list[Any]:
    """What pydantic-ai reads; its union of parts is told apart by the assertions."""
    return ModelMessagesTypeAdapter.validate_python(history_of(messages).messages)


def parts(*messages: ModelMessage) -> list[Any]:
    return [part for message in read(*messages) for part in message.parts]


def result(output: ToolResultOutput) -> ToolMessage:
    return ToolMessage([ToolResultPart("call-1", "look", output)])


# --- what the model was told ---


def test_a_conversation_keeps_its_order_and_its_roles() -> None:
    history = read(
        SystemMessage("Be kind."),
        UserMessage("hello"),
        AssistantMessage("Hi."),
        UserMessage([TextPart("And "), TextPart("now?")]),
    )

    assert [message.kind for message in history] == ["request", "request", "response", "request"]
    assert [part.content for message in history for part in message.parts if hasattr(part, "content")] == [
        "Be kind.",
        "hello",
        "Hi.",
        ["And ", "now?"],
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (FilePart(PNG, "image/png"), BinaryContent(PNG, media_type="image/png")),
        (FilePart(base64.b64encode(PNG).decode(), "image/*"), BinaryContent(PNG, media_type="image/png")),
        (FilePart(InlineData(b"a,b"), "text/csv"), BinaryContent(b"a,b", media_type="text/csv")),
        (FilePart(TextData("a,b"), "text/csv"), BinaryContent(b"a,b", media_type="text/csv")),
        (ImagePart(PNG), BinaryContent(PNG, media_type="image/png")),
        (ImagePart(b"GIF89a", media_type="image/gif"), BinaryContent(b"GIF89a", media_type="image/gif")),
        (
            FilePart(UrlData("data:text/plain;base64,aGk="), "text/plain"),
            BinaryContent(b"hi", media_type="text/plain"),
        ),
        (ImagePart(Url("https://example.com/a.png")), ImageUrl("https://example.com/a.png")),
        (
            FilePart(UrlData("https://example.com/a"), "audio/mpeg"),
            AudioUrl("https://example.com/a", media_type="audio/mpeg"),
        ),
        (
            FilePart(UrlData("https://example.com/a"), "application/pdf"),
            DocumentUrl("https://example.com/a", media_type="application/pdf"),
        ),
        (
            FilePart(ReferenceData({"openai": "file-1"}), "application/pdf"),
            UploadedFile("file-1", "openai", media_type="application/pdf"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_files_of_the_user_are_files(part: FilePart | ImagePart, expected: Any) -> None:
    (prompt,) = parts(UserMessage([TextPart("Look:"), part]))

    text, made = prompt.content
    assert text == "Look:"
    for name in ("data", "url", "file_id", "media_type", "provider_name"):
        assert getattr(made, name, None) == getattr(expected, name, None)
    assert isinstance(made, type(expected))


def test_a_reference_to_no_provider_is_an_error() -> None:
    with pytest.raises(InvalidPromptError, match=r"names no provider"):
        history_of([UserMessage([FilePart(ReferenceData({}), "text/plain")])])


@pytest.mark.parametrize(
    ("output", "content", "outcome"),
    [
        (ToolResultOutput("text", "sunny"), "sunny", "success"),
        (ToolResultOutput("json", {"sky": None}), {"sky": None}, "success"),
        (ToolResultOutput("json", None), None, "success"),
        (ToolResultOutput("error-text", "no"), "no", "failed"),
        (ToolResultOutput("error-json", {"code": 1}), {"code": 1}, "failed"),
        (ToolResultOutput("execution-denied", reason="not you"), "not you", "denied"),
        (ToolResultOutput("execution-denied"), "Tool call execution denied.", "denied"),
        (
            ToolResultOutput("content", [{"type": "text", "text": "a"}, {"type": "x", "y": 1}]),
            ["a", {"type": "x", "y": 1}],
            "success",
        ),
    ],
    ids=lambda value: value.type if isinstance(value, ToolResultOutput) else "",
)
def test_outcomes_of_tools_keep_what_they_were(output: ToolResultOutput, content: object, outcome: str) -> None:
    (made,) = parts(result(output), UserMessage("so?"))[:1]

    assert isinstance(made, ToolReturnPart)
    assert (made.tool_name, made.tool_call_id, made.content, made.outcome) == ("look", "call-1", content, outcome)


def test_a_file_that_a_tool_returned_is_a_file_again() -> None:
    stored = {"kind": "binary", "data": base64.b64encode(PNG).decode(), "media_type": "image/png"}

    (made,) = parts(result(ToolResultOutput("json", stored)))

    assert isinstance(made.content, BinaryContent)
    assert made.content.data == PNG


# --- what the model said ---


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        (UNSET, None),
        (None, None),
        ('{"a": ', '{"a": '),
        ([1, 2], "[1,2]"),
    ],
    ids=["object", "absent", "null", "broken", "list"],
)
def test_inputs_of_calls_are_objects_or_the_text_that_should_be_one(given: object, expected: object) -> None:
    (made,) = parts(AssistantMessage([ToolCallPart("call-1", "look", given)]))

    assert made.part_kind == "tool-call"
    assert (made.tool_name, made.tool_call_id, made.args) == ("look", "call-1", expected)


def test_what_pydantic_ai_noted_down_goes_back_into_its_parts() -> None:
    noted: dict[str, object] = {
        "id": "i-1",
        "provider_name": "openai",
        "provider_details": {"x": 1},
        "canonical_system": "openai",
        "signature": "sig",
    }
    options: dict[str, dict[str, object]] = {"pydantic_ai": noted, "other": {"y": 2}}

    (response,) = read(
        AssistantMessage(
            [
                ReasoningPart("Hm.", provider_options=options),
                TextPart("Hi.", provider_options=options),
                ToolCallPart("call-1", "look", {}, provider_options=options),
            ]
        )
    )

    assert [part.part_kind for part in response.parts] == ["thinking", "text", "tool-call"]
    assert response.parts[0].signature == "sig"
    for part in response.parts:
        assert (part.id, part.provider_name, part.provider_details) == ("i-1", "openai", {"x": 1})
    assert (response.provider_name, response.canonical_system) == ("openai", "openai")


def test_tools_that_the_provider_runs_are_its_own() -> None:
    options: dict[str, dict[str, object]] = {"pydantic_ai": {"provider_name": "openai"}}

    call, returned = parts(
        AssistantMessage(
            [
                ToolCallPart("call-1", "web_search", {"q": 1}, provider_executed=True, provider_options=options),
                ToolResultPart("call-1", "web_search", ToolResultOutput("json", ["x"]), provider_options=options),
            ]
        )
    )

    assert (call.part_kind, returned.part_kind) == ("builtin-tool-call", "builtin-tool-return")
    assert (call.provider_name, returned.provider_name) == ("openai", "openai")
    assert returned.content == ["x"]


def test_files_of_the_model_are_kept_if_they_are_there() -> None:
    (made,) = parts(
        AssistantMessage(
            [
                FilePart(PNG, "image/png"),
                FilePart(UrlData("https://example.com/a.png"), "image/png"),
                ReasoningFilePart(PNG, "image/png"),
                CustomPart("openai.thing"),
                TextPart(""),
            ]
        )
    )

    assert made.part_kind == "file"
    assert made.content.data == PNG


def test_messages_in_which_nothing_is_left_are_left_out() -> None:
    history = history_of(
        [UserMessage("hi"), AssistantMessage([CustomPart("a.b")]), ToolMessage([]), UserMessage("so?")]
    )

    assert [message["parts"] for message in history.messages] == [
        [{"part_kind": "user-prompt", "content": "hi"}],
        [{"part_kind": "user-prompt", "content": "so?"}],
    ]


def test_texts_of_the_user_without_a_letter_are_left_out() -> None:
    (prompt,) = parts(UserMessage([TextPart(""), TextPart("hi")]))

    assert prompt.content == "hi"


def test_no_message_at_all_is_an_error() -> None:
    with pytest.raises(InvalidPromptError, match=r"^Invalid prompt: messages must not be empty$"):
        history_of([])


# --- approvals ---


def asked(*ids: str) -> AssistantMessage:
    calls = [ToolCallPart(f"call-{each}", "delete", {}) for each in ids]
    return AssistantMessage([*calls, *(ToolApprovalRequestPart(f"a-{each}", f"call-{each}") for each in ids)])


DENIED_2 = ToolResultPart("call-2", "delete", ToolResultOutput("execution-denied", reason="no"))
DONE_3 = ToolResultPart("call-3", "delete", ToolResultOutput("text", "gone"))


def test_answers_at_the_end_are_what_the_run_begins_with() -> None:
    history = history_of(
        [
            asked("1", "2", "3", "4"),
            ToolMessage(
                [
                    ToolApprovalResponsePart("a-1", approved=True, reason="go on"),
                    ToolApprovalResponsePart("a-2", approved=False, reason="no"),
                    DENIED_2,
                    ToolApprovalResponsePart("a-3", approved=True),
                    DONE_3,
                    ToolApprovalResponsePart("a-4", approved=False),
                    ToolApprovalResponsePart("a-9", approved=True),
                ]
            ),
        ]
    )

    assert history.approvals == {"call-1": True, "call-2": "no", "call-4": False}
    assert [part["content"] for part in history.messages[1]["parts"]] == ["gone"]  # type: ignore[index, attr-defined]


def test_answers_further_up_are_what_became_of_them() -> None:
    answers = [
        ToolApprovalResponsePart("a-2", approved=False),
        DENIED_2,
        ToolApprovalResponsePart("a-3", approved=True),
    ]

    history = history_of([asked("2", "3"), ToolMessage([*answers, DONE_3]), UserMessage("so?")])

    assert history.approvals == {}
    returned = ModelMessagesTypeAdapter.validate_python(history.messages)[1].parts
    assert [(part.content, part.outcome) for part in returned if isinstance(part, ToolReturnPart)] == [
        ("no", "denied"),
        ("gone", "success"),
    ]


def test_an_error_behind_a_denial_is_a_denial() -> None:
    told = ToolResultPart("call-2", "delete", ToolResultOutput("error-text", "not today"))

    history = history_of([asked("2"), ToolMessage([ToolApprovalResponsePart("a-2", approved=False), told])])

    assert history.approvals == {}
    (made,) = ModelMessagesTypeAdapter.validate_python(history.messages)[1].parts
    assert isinstance(made, ToolReturnPart)
    assert (made.content, made.outcome) == ("not today", "denied")


# --- any conversation ---

TEXTS = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OUTPUTS = st.one_of(
    st.builds(ToolResultOutput, st.sampled_from(["text", "error-text"]), TEXTS),
    st.builds(ToolResultOutput, st.sampled_from(["json", "error-json"]), JSON),
    st.builds(ToolResultOutput, st.just("execution-denied"), reason=st.none() | TEXTS),
)
CALLS = st.builds(ToolCallPart, TEXTS, TEXTS, JSON)
SAID = st.one_of(st.builds(TextPart, TEXTS), st.builds(ReasoningPart, TEXTS), CALLS)
MESSAGES = st.one_of(
    st.builds(SystemMessage, TEXTS),
    st.builds(UserMessage, TEXTS | st.lists(st.builds(TextPart, TEXTS), max_size=2)),
    st.builds(AssistantMessage, TEXTS | st.lists(SAID, max_size=3)),
    st.builds(ToolMessage, st.lists(st.builds(ToolResultPart, TEXTS, TEXTS, OUTPUTS), max_size=3)),
)


@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_any_conversation_is_a_history_and_keeps_its_calls(messages: list[ModelMessage]) -> None:
    made = parts(*messages)

    calls = [
        part.tool_call_id
        for message in messages
        if isinstance(message, AssistantMessage) and not isinstance(message.content, str)
        for part in message.content
        if isinstance(part, ToolCallPart)
    ]
    results = [part for message in messages if isinstance(message, ToolMessage) for part in message.content]
    assert [part.tool_call_id for part in made if part.part_kind == "tool-call"] == calls
    assert sum(part.part_kind == "tool-return" for part in made) == len(results)
