"""Cases of the profile `core`: what clients send, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from anyio import CancelScope, create_task_group

from chatagent.protocol import EmptyMessageError, MessageExistsError, ReservedNameError, ThreadIdError
from chatagent.ui import DataUIPart, FileUIPart, TextUIPart
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import plain, roles, shown, texts
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent.client import Thread
    from chatagent_test.conformance.stage import Stage

CROWD = 20
"""How many threads are at work at once."""
PATTERN = 'Grüße, 世界! 👩‍👩‍👧 \U0001f680 \u2028\ttab \\ "quoted" </script>\n'
SIZE = 100_000
"""Characters of a long text."""


@case("core-create-on-send", "DM-1", "TP-2", "TP-3")
async def create_on_send(stage: Stage) -> None:
    """A thread is there once its first message was sent, and not before."""
    stage.answer(reply.assistant("hello"))

    before = await stage.transport.get_thread("t-1")
    await stage.answered()
    after = await stage.snapshot()

    stage.equal("the thread before anything was sent", before, None)
    stage.equal("the id of the thread afterwards", after.thread.thread_id, "t-1")


@case("core-user-message-kept", "DM-20", "DM-21")
async def user_message_kept(stage: Stage) -> None:
    """The user's message is kept, and says whose it is."""
    stage.answer(reply.assistant("hello"))

    state = await stage.answered("hi")

    first = stage.the("a first message", next(iter(state.messages), None))
    told = [first.role, first.text, first.relation, first.producer, first.run_id]
    stage.equal("role, text, relation, producer and run", told, ["user", "hi", "input", "user", state.runs[0].run_id])


@case("core-state-after-send", "TH-10", "TP-20", "DM-3")
async def state_after_send(stage: Stage) -> None:
    """When a send returns, the state has the message and its run, though the answer is to come."""
    stage.session.hold()

    run = await stage.thread().send("hi")
    state = stage.thread().get_state()

    stage.equal("the texts of the user's messages", [m.text for m in state.messages if m.role == "user"], ["hi"])
    stage.equal("the runs", [(r.run_id, r.status) for r in state.runs], [(run.run_id, "running")])
    stage.equal("status and active run", [state.thread.status, state.thread.active_run_id], ["running", run.run_id])


@case("core-given-message-id", "TP-25")
async def given_message_id(stage: Stage) -> None:
    """A message keeps the id that its sender gave it."""
    stage.answer(reply.assistant("hello"))

    await stage.settled(await stage.thread().send("hi", message_id="m-x"))

    stage.equal("the id of the first message", (await stage.snapshot()).messages[0].id, "m-x")


@case("core-duplicate-message-id", "TP-25", "TP-21", "ER-3")
async def duplicate_message_id(stage: Stage) -> None:
    """A second message of the same id is refused, and nothing changes."""
    stage.answer(reply.assistant("hello"))
    await stage.settled(await stage.thread().send("hi", message_id="m-x"))
    before = await stage.snapshot()

    with stage.refuses("a message of a known id", MessageExistsError, message_id="m-x"):
        await stage.thread().send("again", message_id="m-x")

    stage.equal("the thread afterwards", await stage.snapshot(), before)


@case("core-idempotent-send", "TP-22")
async def idempotent_send(stage: Stage) -> None:
    """The same request a second time gives the first receipt and does nothing else."""
    stage.answer(reply.assistant("hello"))
    request = stage.request(TextUIPart(text="hi"), request_id="once")

    first = await stage.transport.send(request)
    second = await stage.transport.send(request)
    await stage.thread().refresh()
    state, _ = await stage.settled(stage.thread().run(first.run_id))

    stage.equal("the second receipt", second, first)
    stage.equal("the roles of the messages", roles(state), ["user", "assistant"])
    stage.equal("the runs", [run.run_id for run in state.runs], [first.run_id])


@case("core-empty-message", "TP-26", "TP-21", "ER-1")
async def empty_message(stage: Stage) -> None:
    """A message of blank text is refused, by the client and by the backend, and makes no thread."""
    with stage.refuses("Thread.send of blanks", EmptyMessageError):
        await stage.thread().send(" \n")
    with stage.refuses("send of blanks", EmptyMessageError):
        await stage.transport.send(stage.request(TextUIPart(text=" \n")))
    with stage.refuses("send of nothing", EmptyMessageError):
        await stage.transport.send(stage.request())

    stage.equal("the thread", await stage.transport.get_thread("t-1"), None)


@case("core-bad-thread-id", "DM-1", "ER-1")
async def bad_thread_id(stage: Stage) -> None:
    """What can be no id of a thread is refused, and reaches no agent."""
    for thread_id in ("a b", "a/b", "", "x" * 129):
        with stage.refuses(f"client.thread({thread_id!r})", ThreadIdError):
            stage.client.thread(thread_id)
        with stage.refuses(f"send to the thread {thread_id!r}", ThreadIdError):
            await stage.transport.send(stage.request(TextUIPart(text="hi"), thread_id=thread_id))
        stage.equal(f"what the agent got of {thread_id!r}", len(stage.session.received(thread_id)), 0)


@case("core-reserved-part-refused", "TP-26", "ER-1")
async def reserved_part_refused(stage: Stage) -> None:
    """A client cannot use the protocol's own names, neither in parts nor in metadata."""
    part = DataUIPart(type="data-chatagent-x", data=1)

    with stage.refuses("Thread.send of a reserved part", ReservedNameError):
        await stage.thread().send([part])
    with stage.refuses("send of a reserved part", ReservedNameError):
        await stage.transport.send(stage.request(TextUIPart(text="hi"), part))
    with stage.refuses("send of reserved metadata", ReservedNameError):
        await stage.transport.send(stage.request(TextUIPart(text="hi"), metadata={"chatagent": {}}))

    stage.equal("the thread", await stage.transport.get_thread("t-1"), None)


@case("core-parts-in-order", "DM-30", "TP-3")
async def parts_in_order(stage: Stage) -> None:
    """The parts of a user's message come back as they were sent, in order."""
    stage.answer(reply.assistant("hello"))
    sent = [
        TextUIPart(text="Look at this:"),
        FileUIPart(media_type="text/plain", url="data:text/plain;base64,aGk=", filename="hi.txt"),
        DataUIPart(type="data-place", id="p-1", data={"lat": 59.9, "tags": ["a", None]}),
        TextUIPart(text="What is it?"),
    ]

    state, _ = await stage.settled(await stage.thread().send(sent))
    stored = await stage.snapshot()

    told = [part.to_wire() for part in sent]
    stage.equal("the parts in the state", [plain(part, wire=True) for part in shown(state.messages[0].parts)], told)
    stage.equal("the parts in the snapshot", [plain(part, wire=True) for part in stored.messages[0].parts], told)


@case("core-unicode-and-size", "DM-30")
async def unicode_and_size(stage: Stage) -> None:
    """A long text of all kinds of characters comes back exactly, and so does the answer's."""
    text = (PATTERN * (SIZE // len(PATTERN) + 1))[:SIZE]
    stage.answer(reply.assistant(PATTERN))

    state = await stage.answered(text)
    stored = await stage.snapshot()

    stage.true("the text in the state is the one that was sent", texts(state)[0] == text, texts(state)[0])
    kept = "".join(part.text for part in stored.messages[0].parts if isinstance(part, TextUIPart))
    stage.true("the text in the snapshot is the one that was sent", kept == text, kept)
    stage.equal("the text of the answer", texts(state)[1], PATTERN)


@case("core-client-data-arrives", "MP-28", "TP-3")
async def client_data_arrives(stage: Stage) -> None:
    """What a client says beside its message reaches the agent."""
    stage.answer(reply.assistant("hello"))

    await stage.settled(await stage.thread().send("hi", client_data={"k": 1}))

    got = [received.client_data for received in stage.session.received("t-1")]
    stage.equal("the client data that the agent got", got, [{"k": 1}])


@case("core-cancel-before-admission", "TP-23", "TH-14")
async def cancel_before_admission(stage: Stage) -> None:
    """A send that is cancelled before it was admitted has changed nothing."""
    with CancelScope() as scope:
        scope.cancel()
        await stage.send()
    with CancelScope() as scope:
        scope.cancel()
        await stage.thread().send("hi")

    stage.equal("the thread", await stage.transport.get_thread("t-1"), None)


@case("core-threads-isolated", "TP-24", "DM-1")
async def threads_isolated(stage: Stage) -> None:
    """Threads at work at once have their own messages, and nothing of each other."""
    stage.answer(*(reply.assistant(f"answer {number}") for number in range(CROWD)))
    threads = {f"question {number}": stage.thread(f"t-{number}") for number in range(CROWD)}

    async def talk(question: str, thread: Thread) -> None:
        await stage.settled(await thread.send(question))

    async with create_task_group() as tasks:
        for question, thread in threads.items():
            tasks.start_soon(talk, question, thread)

    told = {question: thread.get_state() for question, thread in threads.items()}
    for question, state in told.items():
        stage.equal(f"the roles in the thread of {question!r}", roles(state), ["user", "assistant"])
        stage.equal("the text of its user's message", texts(state)[0], question)
        stage.equal("how many runs it has", len(state.runs), 1)
    answers = Counter(texts(state)[1] for state in told.values())
    stage.equal("the answers of all threads", dict(answers), {f"answer {number}": 1 for number in range(CROWD)})
