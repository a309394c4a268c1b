"""Script files: what they may say, and a server that says it (7.16)."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from chatagent.errors import InvalidArgumentError, MissingExtraError
from chatagent_test import Script, script
from chatagent_test.inference import MockInferenceServer, ScriptedResponse, SseBody, StrictInferenceError
from chatagent_test.inference.formats import messages_api_events
from chatagent_test.inference.recording import Exchange
from chatagent_test.inference.script_files import (
    load_scripts,
    parse_scripts,
    register_scripts,
    script_file_schema,
    server_of,
)
from chatagent_test.inference.script_files.serving import main
from chatagent_test.inference.sse import SseEvent, render_sse
from chatagent_test.scripting.steps import BreaksStep
from inference.asking import CHAT, MESSAGES, RESPONSES, ask, data_of


def file_of(*expectations: dict[str, Any], **members: Any) -> str:
    return json.dumps({"version": 1, "expectations": list(expectations), **members})


def expecting(answer: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"name": "one", "endpoint": "chat_completions", "answer": answer, **members}


def answer_of(answer: dict[str, Any], **members: Any) -> Any:
    (expectation,) = parse_scripts(file_of(expecting(answer, **members))).expectations
    return expectation.answers[0]


# What they say ----------------------------------------------------------------------------------------------------


def test_every_word_of_a_script_can_be_said() -> None:
    usage = {"inputTokens": {"total": 1}, "outputTokens": {"total": 2}}
    words = [
        {"reasoning": "Hm.", "chunks": ["H", "m."]},
        {"pause": 0.5},
        {"text": "See", "chunks": ["S", "ee"]},
        {"source": "https://a.test", "title": "A"},
        {"hold": "here"},
        {"tool_call": "search", "input": {"q": "x"}, "id": "c1"},
        {"tool_call": "stop"},
        {"parts": [{"type": "text-start", "id": "1"}, {"type": "text-end", "id": "1"}]},
        {"finish": "tool-calls", "usage": usage},
        {"hang": True},
    ]

    said = answer_of({"script": words})

    assert said == (
        script.reasoning("Hm.", chunks=["H", "m."])
        .pause(0.5)
        .text("See", chunks=["S", "ee"])
        .source("https://a.test", title="A")
        .hold("here")
        .tool_call("search", {"q": "x"}, tool_call_id="c1")
        .tool_call("stop", {})
        .parts([{"type": "text-start", "id": "1"}, {"type": "text-end", "id": "1"}])
        .finish("tool-calls", usage=usage)
        .hang()
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ({"error": 429, "retry_after": 0.5}, script.error(429, retry_after=0.5)),
        ({"error": "boom"}, script.error("boom")),
    ],
)
def test_calls_may_fail(word: dict[str, Any], said: Script) -> None:
    assert answer_of({"script": [word]}) == said


def test_a_stream_may_break() -> None:
    (step,) = answer_of({"script": [{"breaks": "gone"}]}).steps

    assert isinstance(step, BreaksStep)
    assert repr(step.exception) == "ConnectionError('gone')"


def test_events_can_be_given_as_they_are() -> None:
    answer = answer_of(
        {
            "sse": [{"event": "ping", "data": "x"}, {"data": {"a": "é"}}, {"data": None}],
            "headers": {"x-name": "1"},
            "end": "abort",
            "truncate_after": 2,
            "cut_bytes": 1,
            "frame_delays": [0.5, None],
        }
    )

    events = [SseEvent.named("ping", "x"), SseEvent.of({"a": "é"}), SseEvent.of("null")]
    assert answer == ScriptedResponse.sse(
        events, headers={"x-name": "1"}, end="abort", truncate_after=2, cut_bytes=1, frame_delays=[0.5, None]
    )


def test_bodies_can_be_given_as_they_are() -> None:
    whole = answer_of({"json": {"a": [1]}, "status": 503, "headers": {"retry-after": "1"}})
    raw = answer_of({"raw": "<html>", "status": 502, "headers": {"content-type": "text/html"}, "end": "abort"})

    assert whole == ScriptedResponse.json(503, {"a": [1]}, headers={"retry-after": "1"})
    assert raw == ScriptedResponse.text(502, "<html>", headers={"content-type": "text/html"}, end="abort")


def test_a_recorded_case_is_found_beside_the_file(tmp_path: Path) -> None:
    frames = [render_sse(event) for event in messages_api_events("hi")]
    exchange = Exchange.recorded(
        endpoint=MESSAGES.path,
        request={},
        status=200,
        headers=[("content-type", "text/event-stream")],
        chunks=frames,
        times=[0.5 * number for number in range(len(frames))],
    )
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases/hi.json").write_text(exchange.to_json(), encoding="utf-8")
    path = tmp_path / "script.json"
    path.write_text(file_of(expecting({"case": "cases/hi.json", "speed": 2})), encoding="utf-8")

    (expectation,) = load_scripts(path).expectations

    assert expectation.answers == (exchange.response(speed=2),)


def test_a_fault_and_a_pace_change_the_answer() -> None:
    events = [{"data": text} for text in "abc"]

    answer = answer_of({"sse": events, "fault": {"kind": "abort", "at": 2}, "timing": {"first": 0.5}})

    assert isinstance(answer.body, SseBody)
    assert (len(answer.body.frames), answer.body.end, answer.body.frame_delays) == (2, "abort", (0.5, 0, 0))


def test_conditions_are_those_of_matchers() -> None:
    where = {
        "model": {"regex": "^m"},
        "last_user": "hello",
        "system": {"regex": "nice"},
        "tool_result": {"id": "c1", "text": {"regex": "ok"}},
        "has_tool": "search",
        "stream": True,
        "json": {"temperature": 0},
        "headers": {"x-a": "1", "x-b": {"regex": "2"}, "x-c": None},
    }

    (expectation,) = parse_scripts(file_of(expecting({"script": []}, where=where, kind="foreground"))).expectations

    assert expectation.matcher.kind is not None
    assert [condition.argument for condition in expectation.matcher.conditions] == list(where)


def test_the_file_of_the_reference_can_be_read() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/inference-formats.md").read_text(encoding="utf-8")
    sample = page.partition("```json\n")[2].partition("```")[0]

    scripts = parse_scripts(sample)

    assert [each.name for each in scripts.expectations] == ["first turn", "limit, then an answer"]


def test_a_file_has_a_schema() -> None:
    schema = script_file_schema()

    assert schema["properties"]["version"]["const"] == 1
    assert "json" in schema["$defs"]["JsonAnswer"]["properties"]


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", r"the file: Invalid JSON"),
        ("{}", r"version: Field required"),
        (file_of(version=2), r"version: Input should be 1"),
        (file_of(colour="red"), r"colour: Extra inputs are not permitted"),
        (file_of({"name": "x"}), r"expectations\.0\.endpoint: Field required"),
        (file_of(expecting({"script": []}, endpoint="gemini")), r"expectations\.0\.endpoint: Input should be"),
        (file_of(expecting({"words": []})), r"expectations\.0\.answer: it has none of the members script, sse, json"),
        (file_of(expecting({"script": [{"say": "x"}]})), r"answer\.script\.script\.0: it has none of the members text"),
        (file_of(expecting({"script": [{"text": 7}]})), r"script\.0\.text\.text: Input should be a valid string"),
        (file_of(expecting({"script": [{"pause": -1}]})), r"pause\.pause: Input should be greater than or equal to 0"),
        (file_of(expecting({"script": []}, times=0)), r"expectations\.0\.times"),
        (file_of({"name": "x", "endpoint": "messages"}), r"it has an `answer`, or else a list of `answers`"),
        (
            file_of({"name": "x", "endpoint": "messages", "answers": [{"raw": "a"}, {"raw": "b"}], "times": 3}),
            r"`answers` already say how many calls there are",
        ),
        (
            file_of(expecting({"script": [{"hang": True}, {"text": "x"}]})),
            r"^`expectations\.0\.answer` is 'one': `script`",
        ),
        (
            file_of(expecting({"script": [{"text": "ab", "chunks": ["a"]}]})),
            r"^`expectations\.0\.answer` is 'one': `chunks`",
        ),
        (file_of(expecting({"script": [{"finish": "tired"}]})), r"`reason` is 'tired'"),
        (file_of(expecting({"json": {}, "status": 42})), r"`status` is 42"),
        (file_of(expecting({"case": "none.json"})), r"^`expectations\.0\.answer` is 'one': .*none\.json"),
        (
            file_of(expecting({"sse": [], "fault": {"kind": "malformed"}})),
            r"^`expectations\.0\.answer` is 'one': `at` is 0: the answer sends 0 frames",
        ),
        (
            file_of(expecting({"script": [{"text": "x"}], "fault": {"kind": "cut-utf8"}})),
            r"^`expectations\.0\.answer` is 'one': `at` is 0: no frame from there on",
        ),
        (
            file_of(expecting({"script": []}, where={"model": {"regex": "("}})),
            r"^`expectations\.0\.where\.model` is '\(': it is no pattern",
        ),
        (file_of(expecting({"raw": ""}), expecting({"raw": ""})), r"^`expectations\.1\.name` is 'one': another"),
    ],
)
def test_a_file_that_is_wrong_says_where(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        parse_scripts(text)


# A server that says it --------------------------------------------------------------------------------------------


def test_parts_that_no_model_streams_are_told_with_their_place() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`expectations\.0\.answer` is 'one': .* which is no stream part"):
        answer_of({"script": [{"parts": [{"type": "nothing"}]}]})


def test_a_server_answers_as_its_file_says() -> None:
    text = file_of(
        expecting({"script": [{"text": "first"}]}, where={"last_user": "one"}),
        {
            "name": "two",
            "endpoint": "messages",
            "answers": [{"script": [{"error": 529}]}, {"script": [{"text": "then"}]}],
        },
        models=["a-model"],
        text="else",
    )

    with server_of(parse_scripts(text)) as server:
        answers = [ask(server, text="one"), ask(server, text="one"), *(ask(server, MESSAGES) for _ in range(2))]
        models = httpx2.get(f"{server.url}/models").json()

    said = [answers[index].json()["choices"][0]["message"]["content"] for index in (0, 1)]
    assert said == ["first", "else"]
    assert [answer.status_code for answer in answers[2:]] == [529, 200]
    assert answers[3].json()["content"][0]["text"] == "then"
    assert [model["id"] for model in models["data"]] == ["a-model"]


def test_an_expectation_may_answer_several_calls_or_all(server: MockInferenceServer) -> None:
    twice, always = expecting({"raw": "a"}, times=2), {**expecting({"raw": "b"}, times="always"), "name": "all"}

    handles = register_scripts(server, parse_scripts(file_of(twice, always)))

    assert [ask(server).text for _ in range(5)] == ["a", "a", "b", "b", "b"]
    assert [handle.claims for handle in handles] == [2, 3]


def test_a_script_that_breaks_counts_its_calls_like_any_other(server: MockInferenceServer) -> None:
    words = [{"tool_call": "f"}]
    broken = expecting({"script": words, "fault": {"kind": "truncate", "at": 1}}, times="always")
    register_scripts(server, parse_scripts(file_of(broken)))

    answers = [data_of(ask(server, CHAT, stream=True).content) for _ in range(2)]

    assert [len(answer) for answer in answers] == [1, 1]
    calls = [answer[0]["choices"][0]["delta"]["tool_calls"][0]["id"] for answer in answers]
    assert calls == ["call-1", "call-2"]


def test_a_fault_of_streams_alone_fails_an_answer_in_one_piece(server: MockInferenceServer) -> None:
    broken = expecting({"script": [{"text": "a"}], "fault": {"kind": "duplicate"}}, times=2)
    register_scripts(server, parse_scripts(file_of(broken)))

    streamed, whole = ask(server, stream=True), ask(server)

    assert streamed.content.count(b'"role":"assistant"') == 2
    assert whole.status_code == 500
    assert "only a stream can be hit by 'duplicate'" in str(server.requests()[-1].error)


def test_an_answer_that_is_changed_keeps_the_profile_of_its_file() -> None:
    answer = {"script": [{"text": "Hi"}], "timing": {"first": 0.001}}
    scripts = parse_scripts(file_of(expecting(answer, endpoint="responses"), profile="minimal"))

    with server_of(scripts) as server:
        content = ask(server, RESPONSES, stream=True).content

    assert b"event:" not in content
    assert content.endswith(b"data: [DONE]\n\n")


def test_a_file_may_be_yaml(tmp_path: Path) -> None:
    said = file_of(expecting({"script": [{"text": "Hi ☃"}, {"tool_call": "t", "input": {"n": 1}}]}, times="always"))
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(json.loads(said), allow_unicode=True), encoding="utf-8")

    assert load_scripts(path) == parse_scripts(said)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: [1", "it is no YAML: "),
        ("version: 2024-01-01", "it says what JSON cannot: Object of type date is not JSON serializable"),
        ("version: 2", "version: Input should be 1"),
        ("", "the file: Input should be an object"),
    ],
)
def test_yaml_that_is_no_script_file_says_why(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "script.yml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InvalidArgumentError, match=re.escape(problem)):
        load_scripts(path)


def test_yaml_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("version: 1", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(MissingExtraError, match=r"chatagent\[yaml\]"):
        load_scripts(path)


def test_a_strict_file_makes_a_strict_server() -> None:
    scripts = parse_scripts(file_of(expecting({"raw": ""}), strict=True))

    with pytest.raises(StrictInferenceError, match="one"), server_of(scripts):
        pass


# As a program -----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "chatagent_test.inference", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("asked", "code"), [(True, 0), (False, 1)], ids=["asked", "not-asked"])
def test_the_program_serves_until_it_is_told_to_stop(tmp_path: Path, *, asked: bool, code: int) -> None:
    path = tmp_path / "script.json"
    path.write_text(file_of(expecting({"script": [{"text": "Hi"}]}), strict=True), encoding="utf-8")
    program = run("--script", str(path), "--port", "0")
    assert program.stdout is not None
    where = json.loads(program.stdout.readline())

    if asked:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        answer = httpx2.post(f"{where['openai_base_url']}/chat/completions", json=body, timeout=10)
        assert answer.json()["choices"][0]["message"]["content"] == "Hi"
    program.send_signal(signal.SIGTERM)
    _, errors = program.communicate(timeout=20)

    assert program.returncode == code
    assert ("one" in errors) is not asked
    assert where["url"] == f"{where['anthropic_base_url']}/v1"


def test_the_program_says_what_is_wrong_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.json"
    path.write_text(file_of(version=2), encoding="utf-8")

    assert main(["--script", str(path)]) == 2
    assert main(["--script", str(tmp_path / "none.json")]) == 2

    problems = capsys.readouterr().err.splitlines()
    assert "version: Input should be 1" in problems[0]
    assert "none.json" in problems[1]


def test_the_program_says_what_else_it_cannot_start_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: MockInferenceServer
) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes(b'{"version": 1, "text": "\xe9"}')

    assert main(["--script", str(path)]) == 2
    assert main(["--port", "70000"]) == 2
    assert main(["--port", server.origin.rpartition(":")[2]]) == 2

    problems = capsys.readouterr().err.splitlines()
    assert "the file is no UTF-8" in problems[0]
    assert "it is a number from 0 to 65535" in problems[1]
    assert "in use" in problems[2]
