"""Script files to what a server is told (7.16)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from chatagent.errors import ChatAgentError, InvalidArgumentError
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.expectations import RequestKind, RequestMatcher
from chatagent_test.inference.faults import Fault
from chatagent_test.inference.formats import check_script, script_response
from chatagent_test.inference.recording import Exchange
from chatagent_test.inference.script_files.schema import (
    Answer,
    BreaksWord,
    CaseAnswer,
    ErrorWord,
    ExpectationEntry,
    FaultEntry,
    FinishWord,
    HoldWord,
    JsonAnswer,
    PartsWord,
    PauseWord,
    RawAnswer,
    ReasoningWord,
    Regex,
    ScriptAnswer,
    ScriptFile,
    SourceWord,
    SseAnswer,
    TextWord,
    TimingEntry,
    ToolCallWord,
    Where,
    Word,
)
from chatagent_test.inference.script_files.yaml_text import json_of_yaml
from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.inference.sse import SseEvent
from chatagent_test.inference.timing import TimingProfile
from chatagent_test.scripting import Script, script
from chatagent_test.scripting.render import IdCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent_test.inference.endpoints import Profile
    from chatagent_test.inference.log import LogEntry

__all__ = ["FileExpectation", "LoadedScripts", "load_scripts", "parse_scripts", "script_file_schema"]

_END = {"abort": "abort", "stall": "stall", "cut-frame": "abort", "cut-utf8": "abort"}


@dataclass(frozen=True, slots=True)
class FileExpectation:
    """One expectation of a file, ready to be registered."""

    name: str
    matcher: RequestMatcher
    answers: tuple[ScriptedResponse | Script | Callable[[LogEntry], ScriptedResponse], ...]
    """One a call."""
    times: int | None
    """How many calls it answers; `None`: every one that matches."""


@dataclass(frozen=True, slots=True)
class LoadedScripts:
    """What a script file says."""

    file: ScriptFile
    expectations: tuple[FileExpectation, ...]

    @classmethod
    def echo(cls) -> LoadedScripts:
        """Return what a file says that says nothing: the server echoes."""
        return cls(ScriptFile(version=1), ())


def script_file_schema() -> dict[str, Any]:
    """Return the JSON schema of script files, for editors and other languages."""
    return ScriptFile.model_json_schema(by_alias=True)


def load_scripts(path: str | Path) -> LoadedScripts:
    """Read a script file: YAML if its name ends in `.yaml` or `.yml`, else JSON.

    Raises:
        InvalidArgumentError: it is no script file; the error names the place and what is wrong there.
        OSError: it cannot be read.
        MissingExtraError: it is YAML, and what reads that is not installed.
    """
    path = Path(path)
    text = _read(path)
    return parse_scripts(json_of_yaml(text) if path.suffix in (".yaml", ".yml") else text, folder=path.parent)


def parse_scripts(text: str, *, folder: str | Path = ".") -> LoadedScripts:
    """Read the content of a script file.

    Args:
        text: the content, JSON.
        folder: from where paths of recorded cases are.

    Raises:
        InvalidArgumentError: it is no script file; the error names the place and what is wrong there.
    """
    try:
        file = ScriptFile.model_validate_json(text)
    except ValidationError as exc:
        problems = "; ".join(f"{_place(error['loc'])}: {error['msg']}" for error in exc.errors())
        raise InvalidArgumentError(argument="script file", value=text[:80], problem=problems) from None
    expectations = [
        _expectation(entry, f"expectations.{index}", _Setting(Path(folder), file.profile))
        for index, entry in enumerate(file.expectations)
    ]
    names = [each.name for each in expectations]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidArgumentError(
                argument=f"expectations.{index}.name", value=name, problem="another expectation has that name"
            )
    return LoadedScripts(file, tuple(expectations))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        problem = f"the file is no UTF-8: {exc}"
        raise InvalidArgumentError(argument="script file", value=str(path), problem=problem) from exc


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the file"


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the rest of a file says that answers depend on."""

    folder: Path
    profile: Profile


def _expectation(entry: ExpectationEntry, place: str, setting: _Setting) -> FileExpectation:
    endpoint = InferenceEndpoint[entry.endpoint.upper()]
    kind = None if entry.kind == "any" else RequestKind(entry.kind)
    matcher = RequestMatcher(endpoint, kind).where(**_conditions(entry.where, f"{place}.where"))
    answers: list[ScriptedResponse | Script | Callable[[LogEntry], ScriptedResponse]] = []
    for index, answer in enumerate(entry.answers or [entry.answer]):
        at = f"{place}.answers.{index}" if entry.answers else f"{place}.answer"
        try:
            answers.append(_answer(answer, endpoint, setting))
        except (ChatAgentError, OSError) as exc:
            raise InvalidArgumentError(argument=at, value=entry.name, problem=str(exc)) from exc
    return FileExpectation(entry.name, matcher, tuple(answers), None if entry.times == "always" else entry.times)


def _conditions(where: Where, place: str) -> dict[str, Any]:
    given = {name: getattr(where, name) for name in where.model_fields_set}
    if "body" in given:
        given["json"] = given.pop("body")
    result = given.get("tool_result")
    if result is not None and not isinstance(result, str):
        given["tool_result"] = (result.id, _text(result.text, place))
    if given.get("headers") is not None:
        given["headers"] = {name: _text(value, place) for name, value in given["headers"].items()}
    return {name: _text(value, f"{place}.{name}") for name, value in given.items()}


def _text(value: Any, place: str) -> Any:
    if not isinstance(value, Regex):
        return value
    try:
        return re.compile(value.regex)
    except re.error as exc:
        raise InvalidArgumentError(argument=place, value=value.regex, problem=f"it is no pattern: {exc}") from exc


# Answers ----------------------------------------------------------------------------------------------------------


def _answer(
    answer: Answer | None, endpoint: InferenceEndpoint, setting: _Setting
) -> ScriptedResponse | Script | Callable[[LogEntry], ScriptedResponse]:
    assert answer is not None
    change = _changing(answer.fault, answer.timing)
    if isinstance(answer, ScriptAnswer):
        said = _script(answer.script)
        check_script(said, [endpoint])
        return said if change is None else _changed(said, endpoint, setting.profile, change)
    response = _response(answer, setting.folder)
    return response if change is None else change(response)


def _changing(
    fault: FaultEntry | None, timing: TimingEntry | None
) -> Callable[[ScriptedResponse], ScriptedResponse] | None:
    if fault is None and timing is None:
        return None
    broken = None if fault is None else Fault(**fault.model_dump(), end=_END.get(fault.kind, "clean"))  # pyright: ignore[reportArgumentType] - the words are those of the schema
    pace = None if timing is None else TimingProfile(**timing.model_dump())

    def change(response: ScriptedResponse) -> ScriptedResponse:
        if pace is not None:
            response = pace.apply(response)
        return response if broken is None else broken.apply(response)

    return change


def _changed(
    said: Script,
    endpoint: InferenceEndpoint,
    profile: Profile,
    change: Callable[[ScriptedResponse], ScriptedResponse],
) -> Callable[[LogEntry], ScriptedResponse]:
    ids = IdCounter()

    def answer(entry: LogEntry) -> ScriptedResponse:
        streams, asked = entry.streams, entry.members
        return change(script_response(endpoint, said, asked, streams=streams, ids=ids, profile=profile))

    # What cannot break so is said now; of the faults, some can hit a stream alone.
    change(script_response(endpoint, said, {}, streams=True, ids=IdCounter()))
    return answer


def _response(answer: SseAnswer | JsonAnswer | RawAnswer | CaseAnswer, folder: Path) -> ScriptedResponse:
    match answer:
        case SseAnswer():
            events = [
                SseEvent.of(each.data) if each.event is None else SseEvent.named(each.event, each.data)
                for each in answer.sse
            ]
            return ScriptedResponse.sse(
                events,
                headers=answer.headers,
                end=answer.end,
                truncate_after=answer.truncate_after,
                cut_bytes=answer.cut_bytes,
                frame_delays=answer.frame_delays,
            )
        case JsonAnswer():
            return ScriptedResponse.json(answer.status, answer.body, headers=answer.headers)
        case RawAnswer():
            return ScriptedResponse.text(answer.status, answer.raw, headers=answer.headers, end=answer.end)
        case CaseAnswer():
            exchange = Exchange.from_json(_read(folder / answer.case))
            return exchange.response(speed=answer.speed)


def _script(words: list[Word]) -> Script:
    said = script
    for word in words:
        said = _spoken(said, word)
    return said


def _spoken(said: Script, word: Word) -> Script:
    match word:
        case TextWord():
            return said.text(word.text, chunks=word.chunks)
        case ReasoningWord():
            return said.reasoning(word.reasoning, chunks=word.chunks)
        case ToolCallWord():
            return said.tool_call(word.tool_call, word.input, tool_call_id=word.id)
        case SourceWord():
            return said.source(word.source, title=word.title)
        case ErrorWord():
            return said.error(word.error, retry_after=word.retry_after)
        case FinishWord():
            return said.finish(word.finish, usage=word.usage)  # pyright: ignore[reportArgumentType] - `finish` checks it
        case PartsWord():
            return said.parts(word.parts)
        case _:
            return _waiting(said, word)


def _waiting(said: Script, word: Word) -> Script:
    match word:
        case PauseWord():
            return said.pause(word.pause)
        case HoldWord():
            return said.hold(word.hold)
        case BreaksWord():
            return said.breaks(ConnectionError(word.breaks))
        case _:
            return said.hang()
