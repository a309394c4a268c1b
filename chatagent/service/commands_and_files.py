"""What a service does for clients besides threads: it calls commands of the agent, and keeps files."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from chatagent.agent import CommandContext
from chatagent.protocol import (
    CommandFailedError,
    CommandInputError,
    CommandNotFoundError,
    FileContent,
    FileInfo,
    check_command,
    check_thread_id,
)
from chatagent.service.state import ServiceState, as_json
from chatagent.task import LocalValues
from chatagent.ui import problem_of

if TYPE_CHECKING:
    from chatagent.protocol import CommandRequest, UploadFileRequest

__all__ = ["CommandsAndFiles"]


class CommandsAndFiles(ServiceState):
    """The part of a service that commands and files are asked from."""

    async def execute_command(self, request: CommandRequest, client_data: object) -> object:
        """Call a function that the agent has declared for clients, outside of any turn (MP-20); once for each request.

        Raises:
            CommandNotFoundError: the agent has no such command.
            CommandInputError: its input or the client data does not fit; the handler was not called.
            CommandFailedError: the handler raised, or returned what does not fit.
        """
        check_thread_id(request.thread_id)
        return await self._repeats.once(
            request.thread_id, request.request_id, lambda: self._call_command(request, client_data)
        )

    async def _call_command(self, request: CommandRequest, client_data: object) -> object:
        name, known = request.command, self._setting.agent.options.commands
        if name not in known:
            raise CommandNotFoundError(command=name, known=list(known))
        value = as_json(request.input)
        declared = check_command(self.contract, name, value)
        context = await self._command_context(request, client_data)
        try:
            result = as_json(await known[name].call(value, context))
        except Exception as error:  # the user's handler
            raise CommandFailedError(command=name, problem=str(error) or type(error).__name__) from error
        problem = None if declared is None else declared.output.problem(result, "result")
        if problem is not None:
            raise CommandFailedError(command=name, problem=f"`{problem.field}` of what it returned: {problem.text}")
        return result

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        """Store a file (MP-21); a body that breaks off stores nothing."""
        body = request.body
        if not isinstance(body, bytes | bytearray | memoryview):
            body = b"".join([piece async for piece in body])
        info = FileInfo(
            file_id=self._setting.new_id("file"),
            filename=request.filename,
            media_type=request.media_type,
            size_bytes=len(body),
            metadata=as_json(request.metadata),
            created_at=self._setting.now(),
        )
        await self._setting.files.save(FileContent(info=info, body=bytes(body)))
        return info.model_copy(deep=True)

    async def read_file(self, file_id: str) -> FileContent:
        """Return a file with its bytes."""
        return (await self._setting.files.load(file_id)).model_copy(deep=True)

    async def file_url(self, file_id: str) -> str | None:
        """Return a URL at which the file can be had, if its store makes one."""
        return await self._setting.files.url(file_id)

    async def _command_context(self, request: CommandRequest, client_data: object) -> CommandContext:
        agent, thread = self._setting.agent, self.thread(request.thread_id)
        try:
            data = agent.parse_client_data(as_json(client_data))
        except Exception as exc:  # a schema may be any function
            problem = problem_of(exc)
            raise CommandInputError(command=request.command, field="client_data", problem=problem) from exc
        history = thread.conversation
        if history is None:
            snapshot = await self._setting.snapshots.load(request.thread_id)
            history = () if snapshot is None else snapshot.messages
        values = None if thread.hosted is None else thread.hosted.local_values
        if values is None:
            values = LocalValues()
            setup = self._setting.surroundings.setup_locals
            outcome = None if setup is None else setup(values)
            if inspect.isawaitable(outcome):
                await outcome
        return CommandContext(chat_id=request.thread_id, client_data=data, locals=values, history=tuple(history))
