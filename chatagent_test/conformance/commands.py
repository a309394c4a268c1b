"""Cases of the profile `commands`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import CommandFailedError, CommandInputError, CommandNotFoundError
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.contract import EXPLOSION
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent_test.conformance.stage import Stage


async def _talk(stage: Stage) -> None:
    """Have a thread to call commands in."""
    stage.answer(reply.assistant("hello"))
    await stage.answered()


@case("commands-result", "DM-51", "TP-15")
async def result(stage: Stage) -> None:
    """A command is called with its input, and its result comes back."""
    await _talk(stage)

    stage.equal("the result", await stage.thread().commands.echo({"a": 1}), {"a": 1})

    told = [(call.name, call.input) for call in stage.session.received_commands()]
    stage.equal("the calls of handlers", told, [("echo", {"a": 1})])


@case("commands-unknown", "ER-2", "TP-15")
async def unknown(stage: Stage) -> None:
    """A command that the agent has not got is refused."""
    await _talk(stage)

    with stage.refuses("an unknown command", CommandNotFoundError, command="nope"):
        await stage.thread().execute_command("nope", {})


@case("commands-bad-input", "ER-8", "TP-21")
async def bad_input(stage: Stage) -> None:
    """An input that does not fit is refused, by the field's name, and no handler is called."""
    await _talk(stage)

    with stage.refuses("a command with a wrong input", CommandInputError, command="echo") as refusal:
        await stage.thread().execute_command("echo", {"a": "one"})

    stage.true("the error names the field `a`", refusal.error.field.endswith("a"), refusal.error.field)
    stage.equal("the calls of handlers", list(stage.session.received_commands()), [])


@case("commands-failure", "ER-9")
async def failure(stage: Stage) -> None:
    """A command that raises is told by its text."""
    await _talk(stage)

    with stage.refuses("a command that raises", CommandFailedError, command="explode") as refusal:
        await stage.thread().execute_command("explode")

    stage.true(f"the error says {EXPLOSION!r}", EXPLOSION in str(refusal.error), str(refusal.error))


@case("commands-no-run", "DM-51", "CM-4")
async def no_run(stage: Stage) -> None:
    """A command makes no run, no message and no event."""
    await _talk(stage)
    before = await stage.snapshot()
    heads = await stage.heads_seq() if stage.has("heads") else 0

    await stage.thread().execute_command("echo", {"a": 1})

    stage.equal("the thread", await stage.snapshot(), before)
    if stage.has("heads"):
        stage.equal("the number of the list's newest event", await stage.heads_seq(), heads)


@case("commands-while-running", "DM-51", "MP-20")
async def while_running(stage: Stage) -> None:
    """A command does not wait for the run at work."""
    held = stage.session.hold()
    run = await stage.thread().send("hi")

    given = await stage.thread().execute_command("echo", {"a": 1})
    status = (await stage.snapshot()).runs[0].status
    await held.emit_text("hello")
    await held.finish()
    _, settled = await stage.settled(run)

    stage.equal("the result", given, {"a": 1})
    stage.equal("the run before and after", [status, settled.status], ["running", "completed"])


@case("commands-client-data", "MP-28", "TP-15")
async def client_data(stage: Stage) -> None:
    """What a client says beside a command reaches its handler."""
    await _talk(stage)

    await stage.thread().execute_command("echo", {"a": 1}, client_data={"k": 1})

    got = [call.client_data for call in stage.session.received_commands()]
    stage.equal("the client data that the handler got", got, [{"k": 1}])
