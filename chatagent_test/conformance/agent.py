"""The agent of the suite, real: its model says what `reply` scripts say (rules CT-3, CT-4).

Put it behind a transport of yours: a session of the suite passes `answer`, `hold` and `received` on to it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic_core import to_jsonable_python

from chatagent import chat, is_loop_finished, stream_text
from chatagent.agent import CommandContext, command
from chatagent.generate import Suspend, ToolCallOptions, tool
from chatagent.model import FilePart, UserMessage
from chatagent.ui import FileUIPart
from chatagent_test.conformance.backend import HeldAnswer, ReceivedCommand, ReceivedInput, Script
from chatagent_test.conformance.contract import (
    CONTRACT,
    EXPLOSION,
    DraftAnswer,
    DraftQuestion,
    EchoInput,
    LookupInput,
    LookupOutput,
    OrderInput,
    PickInput,
    PickOutput,
    Progress,
    RefundOutput,
    ReviewAnswer,
    ReviewOutput,
    ReviewQuestion,
    RunMetadata,
)
from chatagent_test.conformance.replies import HeldReply, check_playable
from chatagent_test.in_process.speaking import model_calls, speak
from chatagent_test.language_model import MockLanguageModel, RawStreamResult
from chatagent_test.transport.scripts import (
    AssistantScript,
    ErrorScript,
    NothingScript,
    ReplyPart,
    SeedAction,
    ToolReply,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from chatagent.agent import ActionEvent, ChatAgent, RunEvent, TurnStartEvent
    from chatagent.generate import Tool
    from chatagent.model import CallOptions, ModelMessage, ModelStreamPart
    from chatagent.signals import AbortSignal

__all__ = ["ScriptedAgent"]

FILE_SCHEME = "chatagent-file:"


class ScriptedAgent:
    """A real agent whose next answers a test says, whatever stands between the test and it.

    Args:
        **options: more options of `chat.agent`; they win over those of the suite's agent.
    """

    def __init__(self, **options: Any) -> None:
        self._answers: deque[Script | HeldReply] = deque()
        self._news = anyio.Event()
        self._outcomes: dict[str, ToolReply] = {}
        """What comes of the calls of tools, by the calls' ids."""
        self._questions: dict[str, SeedAction] = {}
        """What calls ask the client, by the calls' ids."""
        self._resolutions: dict[str, ToolReply] = {}
        """What comes of calls that waited, by the tools' names."""
        self._received: dict[str, list[ReceivedInput]] = defaultdict(list)
        self._calls: list[ReceivedCommand] = []
        self._numbers = count(1)
        self.agent: ChatAgent[Any] = self._make_agent(options)
        """The agent of `CONTRACT`: its tools, its commands, its runs' metadata."""

    # The far side of a session ------------------------------------------------------------------------------------

    def answer(self, *scripts: Script) -> None:
        """Let the next turns say this, one script each.

        Raises:
            Unsupported: no model can be made to say it.
        """
        for script in scripts:
            if isinstance(script, AssistantScript):
                check_playable(script)
        self._give(*scripts)

    def hold(self) -> HeldAnswer:
        """Let the next turn that has no answer yet wait for the test."""
        held = HeldReply()
        self._give(held)
        return held

    def received(self, thread_id: str) -> Sequence[ReceivedInput]:
        """Return what the agent got of a thread's users, oldest first."""
        return tuple(self._received[thread_id])

    def received_commands(self) -> Sequence[ReceivedCommand]:
        """Return the calls of the commands' handlers, oldest first."""
        return tuple(self._calls)

    def _give(self, *answers: Script | HeldReply) -> None:
        self._answers.extend(answers)
        self._news.set()

    # The agent ----------------------------------------------------------------------------------------------------

    def _make_agent(self, options: Mapping[str, Any]) -> ChatAgent[Any]:
        channels = {"progress": Progress}
        questions = {
            "approval": Suspend(input=ReviewQuestion, resume=ReviewAnswer),
            "output": Suspend(input=DraftQuestion, resume=DraftAnswer),
        }
        tools = [
            self._tool("lookup", LookupInput, LookupOutput, data_channels=channels),
            self._tool("refund", OrderInput, RefundOutput, needs_approval=True, data_channels={}),
            self._tool("review", OrderInput, ReviewOutput, suspends=questions, data_channels={}),
            tool(name="pick_file", input_schema=PickInput, output_schema=PickOutput, data_channels=channels),
        ]
        return cast("Any", chat.agent)(
            id=CONTRACT.agent_id,
            tools={each.name: each for each in tools},
            run=self._answer_turn,
            on_turn_start=self._note,
            on_action=self._answer_action,
            **{"commands": self._commands(), "run_metadata_schema": RunMetadata, **options},
        )

    def _commands(self) -> dict[str, Any]:
        def echo(given: EchoInput, context: CommandContext) -> EchoInput:
            self._note_call("echo", given, context)
            return given

        def explode(given: object, context: CommandContext) -> None:
            self._note_call("explode", given, context)
            raise RuntimeError(EXPLOSION)

        return {"echo": command(echo, input=EchoInput, output=EchoInput), "explode": command(explode)}

    def _note_call(self, name: str, given: object, context: CommandContext) -> None:
        plain = to_jsonable_python(given)
        self._calls.append(ReceivedCommand(name=name, input=plain, client_data=context.client_data))

    def _tool(self, name: str, given: type, result: type, **options: Any) -> Tool:
        """Return a tool that gives what the script says."""
        run = self._run_of(name)
        return tool(name=name, input_schema=given, output_schema=result, execute=run, **options)

    def _run_of(self, name: str) -> Any:
        async def execute(_: object, options: ToolCallOptions) -> object:
            question = self._questions.get(options.tool_call_id)
            if question is not None:
                await options.suspend(question.name, question.input)
            outcome = self._outcomes.pop(options.tool_call_id, None) or self._resolutions.pop(name)
            if outcome.error is not None:
                raise RuntimeError(outcome.error)
            return outcome.output

        return execute

    def _note(self, event: TurnStartEvent[Any]) -> None:
        last = event.ui_messages[-1] if event.ui_messages else None
        if last is not None and last.role == "user":
            received = ReceivedInput(parts=last.parts, client_data=event.client_data, files={})
            self._received[event.chat_id].append(received)

    def _note_files(self, chat_id: str, options: CallOptions) -> None:
        """Remember the bytes that the model is shown of the files which the last message refers to."""
        if not self._received[chat_id]:
            return
        received = self._received[chat_id][-1]
        users = [message for message in options.prompt if isinstance(message, UserMessage)]
        shown = [part for part in (users[-1].content if users else ()) if isinstance(part, FilePart)]
        urls = [part.url for part in received.parts if isinstance(part, FileUIPart)]
        for url, part in zip(urls, shown, strict=False):
            if url.startswith(FILE_SCHEME) and isinstance(part.data, bytes):
                cast("dict[str, bytes]", received.files)[url.removeprefix(FILE_SCHEME)] = part.data

    async def _answer_turn(self, event: RunEvent[Any]) -> object:
        return await self._answer(event.chat_id, event.messages, event.tools, event.signal)

    async def _answer_action(self, event: ActionEvent[Any]) -> object:
        return await self._answer(event.chat_id, event.messages, {}, None)

    async def _answer(
        self, chat_id: str, messages: list[ModelMessage], tools: dict[str, Tool], signal: AbortSignal | None
    ) -> object:
        answer = await self._next_answer()
        if isinstance(answer, ErrorScript):
            raise RuntimeError(answer.message)  # noqa: TRY004 - what the script says
        if isinstance(answer, NothingScript):
            return None
        speaker = self._speaker(answer)

        def do_stream(options: CallOptions) -> RawStreamResult:
            self._note_files(chat_id, options)
            return {"stream": speaker()}

        return stream_text(
            model=MockLanguageModel(do_stream=do_stream),
            messages=messages,
            tools=tools,
            abort_signal=signal,
            stop_when=is_loop_finished(),
            max_retries=0,
        )

    async def _next_answer(self) -> Script | HeldReply:
        while not self._answers:
            self._news = anyio.Event()
            await self._news.wait()
        return self._answers.popleft()

    def _speaker(self, answer: AssistantScript | HeldReply) -> Callable[[], AsyncGenerator[ModelStreamPart]]:
        """Return what a model says each time that it is asked in one turn."""
        if isinstance(answer, HeldReply):
            return lambda: answer.speak(self._call_ids())
        resolved = (part for part in answer.parts if isinstance(part, ToolReply) and part.resolves)
        self._resolutions.update({part.name: part for part in resolved})
        calls = iter(model_calls(answer))
        return lambda: self._speak(next(calls))

    def _speak(self, parts: list[ReplyPart]) -> AsyncGenerator[ModelStreamPart]:
        made: list[str] = []
        for part in parts:
            if isinstance(part, ToolReply):
                made.append(part.call_id or next(self._call_ids()))
                if not part.waits:
                    self._outcomes[made[-1]] = part
                elif part.action is not None:
                    self._questions[made[-1]] = part.action
        return speak(parts, iter(made))

    def _call_ids(self) -> Iterator[str]:
        return (f"call-{number}" for number in self._numbers)
