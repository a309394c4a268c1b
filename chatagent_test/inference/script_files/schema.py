"""What a script file holds, as pydantic models: version 1 of the format (7.16).

Only shapes are checked here; what the words of a script mean is up to `chatagent_test.scripting`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

__all__ = [
    "Answer",
    "BreaksWord",
    "CaseAnswer",
    "ErrorWord",
    "ExpectationEntry",
    "FaultEntry",
    "FinishWord",
    "HangWord",
    "HoldWord",
    "JsonAnswer",
    "PartsWord",
    "PauseWord",
    "RawAnswer",
    "ReasoningWord",
    "Regex",
    "ScriptAnswer",
    "ScriptFile",
    "SourceWord",
    "SseAnswer",
    "TextWord",
    "TimingEntry",
    "ToolCallWord",
    "Where",
    "Word",
]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most who import this read no file


Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# Words of a script ------------------------------------------------------------------------------------------------


class TextWord(_Entry):
    """`{"text": "Hi"}`."""

    text: str
    chunks: list[str] | None = None


class ReasoningWord(_Entry):
    """`{"reasoning": "Hm."}`."""

    reasoning: str
    chunks: list[str] | None = None


class ToolCallWord(_Entry):
    """`{"tool_call": "search", "input": {"q": "x"}}`."""

    tool_call: str
    input: JsonValue = Field(default_factory=dict[str, Any])
    id: str | None = None


class SourceWord(_Entry):
    """`{"source": "https://example.org", "title": "Example"}`."""

    source: str
    title: str | None = None


class ErrorWord(_Entry):
    """`{"error": 429, "retry_after": 1}`, or `{"error": "text"}`."""

    error: int | str
    retry_after: Seconds | None = None


class FinishWord(_Entry):
    """`{"finish": "length"}`."""

    finish: str
    usage: dict[str, JsonValue] | None = None


class PartsWord(_Entry):
    """`{"parts": [{"type": "text-start", "id": "1"}, …]}`."""

    parts: list[dict[str, JsonValue]]


class PauseWord(_Entry):
    """`{"pause": 0.5}`."""

    pause: Seconds


class HoldWord(_Entry):
    """`{"hold": "name"}`."""

    hold: str


class HangWord(_Entry):
    """`{"hang": true}`."""

    hang: Literal[True]


class BreaksWord(_Entry):
    """`{"breaks": "why"}`."""

    breaks: str


def _first_of(*keys: str) -> Discriminator:
    """Choose a model by the key that tells it apart."""

    def choose(value: object) -> str | None:
        if isinstance(value, dict):
            return next((key for key in keys if key in cast("dict[str, object]", value)), None)
        return next((key for key in keys if hasattr(value, key)), None)

    return Discriminator(
        choose,
        custom_error_type="unknown_entry",
        custom_error_message=f"it has none of the members {', '.join(keys)}",
    )


Word: TypeAlias = Annotated[
    Annotated[TextWord, Tag("text")]
    | Annotated[ReasoningWord, Tag("reasoning")]
    | Annotated[ToolCallWord, Tag("tool_call")]
    | Annotated[SourceWord, Tag("source")]
    | Annotated[ErrorWord, Tag("error")]
    | Annotated[FinishWord, Tag("finish")]
    | Annotated[PartsWord, Tag("parts")]
    | Annotated[PauseWord, Tag("pause")]
    | Annotated[HoldWord, Tag("hold")]
    | Annotated[HangWord, Tag("hang")]
    | Annotated[BreaksWord, Tag("breaks")],
    _first_of(
        "text", "reasoning", "tool_call", "source", "error", "finish", "parts", "pause", "hold", "hang", "breaks"
    ),
]

# Answers ----------------------------------------------------------------------------------------------------------


class FaultEntry(_Entry):
    """What goes wrong with the answer; members are those of `Fault`."""

    kind: Literal["truncate", "abort", "stall", "cut-frame", "cut-utf8", "malformed", "duplicate", "content-type"]
    at: int = 0
    content_type: str = "text/html"


class TimingEntry(_Entry):
    """How fast the answer comes; members are those of `TimingProfile`."""

    first: Seconds = 0.0
    tokens_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: int = 0


class _AnswerEntry(_Entry):
    fault: FaultEntry | None = None
    timing: TimingEntry | None = None


class ScriptAnswer(_AnswerEntry):
    """What the model says, in the format of whichever endpoint asks."""

    script: list[Word]


class EventEntry(_Entry):
    """One event; `data` that is no text is dumped as compact JSON."""

    event: str | None = None
    data: JsonValue


class SseAnswer(_AnswerEntry):
    """A stream of events."""

    sse: list[EventEntry]
    headers: dict[str, str] = Field(default_factory=dict)
    end: Literal["clean", "abort", "stall"] = "clean"
    truncate_after: int | None = None
    cut_bytes: int = 0
    frame_delays: list[Seconds | None] = Field(default_factory=list["Seconds | None"])


class JsonAnswer(_AnswerEntry):
    """One JSON value."""

    body: JsonValue = Field(alias="json")
    status: int = 200
    headers: dict[str, str] = Field(default_factory=dict)


class RawAnswer(_AnswerEntry):
    """A text, verbatim."""

    raw: str
    status: int = 200
    headers: dict[str, str] = Field(default_factory=dict)
    end: Literal["clean", "abort", "stall"] = "clean"


class CaseAnswer(_AnswerEntry):
    """A recorded exchange: the path of its file, from where the script file is."""

    case: str
    speed: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


Answer: TypeAlias = Annotated[
    Annotated[ScriptAnswer, Tag("script")]
    | Annotated[SseAnswer, Tag("sse")]
    | Annotated[JsonAnswer, Tag("json")]
    | Annotated[RawAnswer, Tag("raw")]
    | Annotated[CaseAnswer, Tag("case")],
    _first_of("script", "sse", "json", "raw", "case"),
]

# Expectations -----------------------------------------------------------------------------------------------------


class Regex(_Entry):
    """A pattern that is looked for."""

    regex: str


class ToolResultEntry(_Entry):
    """A tool result: of which call, and saying what."""

    id: str | None = None
    text: str | Regex | None = None


class Where(_Entry):
    """What a request must say; members are the arguments of `RequestMatcher.where`."""

    model: str | Regex | None = None
    last_user: str | Regex | None = None
    system: str | Regex | None = None
    tool_result: str | ToolResultEntry | None = None
    has_tool: str | None = None
    stream: bool | None = None
    body: dict[str, JsonValue] | None = Field(default=None, alias="json")
    headers: dict[str, str | Regex | None] | None = None


class ExpectationEntry(_Entry):
    """One expectation."""

    name: str
    endpoint: Literal["chat_completions", "responses", "messages"]
    kind: Literal["any", "foreground", "auxiliary"] = "any"
    where: Where = Field(default_factory=Where)
    answer: Answer | None = None
    answers: list[Answer] | None = None
    """One a call, instead of `answer`."""
    times: Annotated[int, Field(ge=1)] | Literal["always"] = 1

    @model_validator(mode="after")
    def _has_answers(self) -> ExpectationEntry:
        if (self.answer is None) == (not self.answers):
            raise ValueError("it has an `answer`, or else a list of `answers`")
        if self.answers is not None and len(self.answers) > 1 and self.times != 1:
            raise ValueError("`answers` already say how many calls there are, so `times` cannot")
        return self


class ScriptFile(_Entry):
    """A whole file."""

    version: Literal[1]
    models: list[str] | None = None
    """The model list; `test-model` alone by default."""
    strict: bool = False
    stream_mode: Literal["auto", "always", "never"] = "auto"
    profile: Literal["sdk", "minimal"] = "sdk"
    validate_requests: bool = Field(default=False, alias="validate")
    text: str | None = None
    """What is said where no expectation fits; an echo by default."""
    expectations: list[ExpectationEntry] = Field(default_factory=list[ExpectationEntry])
