"""Backends that break rules of the profiles `files`, `commands` and `regeneration`."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from chatagent.protocol import (
    AbortRequest,
    CommandFailedError,
    CommandInputError,
    CommandNotFoundError,
    FileContent,
    FileInfo,
    MessageNotFoundError,
    NothingToRetryError,
    RegenerateRequest,
    SendRequest,
    StoredFileNotFoundError,
    ThreadBusyError,
)
from chatagent.protocol.models import BEGINNING
from chatagent.ui import FileUIPart, TextUIPart, UIMessage
from suite.mutant import Mutant, caught_by

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from chatagent.protocol import (
        CommandRequest,
        RetryRequest,
        RunReceipt,
        UploadFileRequest,
    )
    from chatagent_test import MockAgentTransport

# Files ------------------------------------------------------------------------------------------------------------


@caught_by("files-round-trip")
class TakesFilesForText(Mutant):
    async def read_file(self, file_id: str) -> FileContent:
        content = await super().read_file(file_id)
        return content.model_copy(update={"body": content.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")})


@caught_by("files-round-trip")
class ForgetsTheMetadataOfFiles(Mutant):
    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        return await super().upload_file(request.model_copy(update={"metadata": {}}))


@caught_by("files-empty")
class RefusesEmptyFiles(Mutant):
    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        if request.body == b"":
            raise ValueError("the file is empty")
        return await super().upload_file(request)


async def first_of(body: Any) -> AsyncIterator[bytes]:
    async with aclosing(body):
        yield await anext(body)


@caught_by("files-streamed", "files-broken-upload")
class TakesTheFirstPieceForTheFile(Mutant):
    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        body = request.body
        return await super().upload_file(
            request if isinstance(body, bytes) else request.model_copy(update={"body": first_of(body)})
        )


@caught_by("files-broken-upload")
class StoresWhatCameBeforeTheBreak(Mutant):
    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        try:
            return await super().upload_file(request)
        except Exception:
            self.mock.files.add(filename=request.filename, media_type=request.media_type, body=b"one ")
            raise


@caught_by("files-unknown", "files-url")
class HasEveryFile(Mutant):
    async def read_file(self, file_id: str) -> FileContent:
        try:
            return await super().read_file(file_id)
        except StoredFileNotFoundError:
            info = FileInfo(file_id=file_id, filename="", media_type="text/plain", size_bytes=0, created_at=BEGINNING)
            return FileContent(info=info, body=b"")

    async def create_file_url(self, file_id: str) -> str | None:
        return f"https://files.example/{file_id}"


@caught_by("files-distinct-ids")
class KnowsFilesByTheirNames(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._known: dict[str, FileInfo] = {}

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        info = self._known.get(request.filename) or await super().upload_file(request)
        self._known[request.filename] = info
        return info


@caught_by("files-in-message")
class LosesFilesOfMessages(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        parts = tuple(part for part in request.message.parts if not isinstance(part, FileUIPart))
        return await super().send(request.model_copy(update={"message": _with_parts(request.message, parts)}))


def _with_parts(message: UIMessage, parts: Iterable[Any]) -> UIMessage:
    return message.model_copy(update={"parts": tuple(parts)})


@caught_by("files-no-thread-change", "commands-no-run")
class TellsThreadsOfWhatIsNotTheirs(Mutant):
    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        self.mock.events.change_thread("t-1", metadata={"files": 1})
        return await super().upload_file(request)

    async def execute_command(self, request: CommandRequest) -> object:
        self.mock.events.change_thread("t-1", metadata={"commands": 1})
        return await super().execute_command(request)


# Commands ---------------------------------------------------------------------------------------------------------


@caught_by("commands-result")
class KeepsResultsToItself(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        await super().execute_command(request)
        return None


@caught_by("commands-unknown")
class TakesEveryCommand(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        try:
            return await super().execute_command(request)
        except CommandNotFoundError:
            return None


@caught_by("commands-bad-input")
class MendsInputs(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        try:
            return await super().execute_command(request)
        except CommandInputError:
            return await super().execute_command(request.model_copy(update={"input": {"a": 0}}))


@caught_by("commands-bad-input")
class CallsHandlersBeforeItChecks(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        await super().execute_command(request.model_copy(update={"input": {"a": 0}}))
        return await super().execute_command(request)


@caught_by("commands-failure")
class HidesWhyCommandsFail(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        try:
            return await super().execute_command(request)
        except CommandFailedError:
            raise CommandFailedError(command=request.command, problem="an error occurred") from None


@caught_by("commands-while-running")
class DoesOneThingAtATime(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        found = self.mock.inspect.thread(request.thread_id)
        if found is not None and found.thread.active_run_id is not None:
            raise ThreadBusyError(thread_id=request.thread_id, active_run_id=found.thread.active_run_id)
        return await super().execute_command(request)


@caught_by("commands-client-data")
class LosesClientDataOfCommands(Mutant):
    async def execute_command(self, request: CommandRequest) -> object:
        return await super().execute_command(request.model_copy(update={"client_data": None}))


# Regeneration -----------------------------------------------------------------------------------------------------


@caught_by("regen-unknown")
class TakesTheLastMessageForAnUnknownOne(Mutant):
    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        try:
            return await super().regenerate(request)
        except MessageNotFoundError:
            return await super().regenerate(request.model_copy(update={"message_id": None}))


@caught_by("regen-earlier", "regen-by-user-message")
class RegeneratesTheLastAnswerOnly(Mutant):
    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        return await super().regenerate(request.model_copy(update={"message_id": None}))


@caught_by("regen-busy")
class StopsWhatIsAtWorkToAnswerAgain(Mutant):
    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        await super().abort(AbortRequest(thread_id=request.thread_id))
        return await super().regenerate(request)


@caught_by("regen-last", "retry-after-failure")
class SendsTheQuestionOnceMore(Mutant):
    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        return await self._again(request)

    async def retry(self, request: RetryRequest) -> RunReceipt:
        return await self._again(request)

    async def _again(self, request: RegenerateRequest | RetryRequest) -> RunReceipt:
        message = UIMessage(id="", role="user", parts=(TextUIPart(text="hi"),))
        return await super().send(
            SendRequest(request_id=request.request_id, thread_id=request.thread_id, message=message)
        )


@caught_by("retry-without-failure")
class RetriesWhateverThereIs(Mutant):
    async def retry(self, request: RetryRequest) -> RunReceipt:
        try:
            return await super().retry(request)
        except NothingToRetryError:
            return await super().regenerate(
                RegenerateRequest(request_id=request.request_id, thread_id=request.thread_id)
            )
