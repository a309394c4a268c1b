"""`create_in_process_client`: the client facade over the agent itself, with nothing scripted but its model."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Self

from chatagent.agent import ChatAgent
from chatagent.client import AgentClient
from chatagent.errors import AgentNotRegisteredError, InvalidArgumentError
from chatagent.service import AgentService, RunSurroundings
from chatagent.session import InMemorySessionStore
from chatagent.waiting import Ledger
from chatagent_test.clock import make_clock
from chatagent_test.in_process.harness import InProcessHarness, WatchedTransport
from chatagent_test.in_process.responses import InProcessResponses, ReplyingModel
from chatagent_test.language_model import MockLanguageModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from chatagent.clock import Clock
    from chatagent.task import LocalValues
    from chatagent_test.scripting import Script

__all__ = ["InProcessClient", "create_in_process_client"]


class InProcessClient:
    """A client, the service behind it, and the agent's harness. Made by `create_in_process_client`.

    Use it as an async context manager. Leaving the block closes client, service and runs. What ended a run and no
    client was told of is raised there, unless the block itself raised.
    """

    def __init__(
        self,
        client: AgentClient,
        transport: WatchedTransport,
        service: AgentService,
        harness: InProcessHarness,
        *,
        model: MockLanguageModel,
        strict: bool,
    ) -> None:
        self.client = client
        """A real client."""
        self.transport = transport
        self.service = service
        self.harness = harness
        """The agent's side: hooks, time, crashes."""
        self.clock = harness.clock
        """The clock of everything."""
        self.model = model
        """The model that the agent asks, if it was made for it; `setup_locals` may hand it to an agent that was not."""
        replying = model if isinstance(model, ReplyingModel) else None
        self.responses = InProcessResponses(replying, service.contract)
        """What the model says, unless it was given here with a script of its own: `reply` scripts, one a turn."""
        self._strict = strict

    async def __aenter__(self) -> Self:
        await self.service.__aenter__()
        self.harness.open(self.service)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()
        if kind is None and self._strict:
            self._raise_untold()

    async def advance(self, seconds: float) -> None:
        """Move virtual time on, from deadline to deadline, letting the agent work in between."""
        await self.harness.advance(seconds)

    async def aclose(self) -> None:
        """Close the client and the service; a second call does nothing."""
        await self.client.aclose()
        self.harness.end()
        await self.service.aclose()
        await self.harness.close()

    def _raise_untold(self) -> None:
        for error in (*self.harness.misuses, *self.service.untold_errors):
            raise error
        self.model.assert_done()
        if isinstance(self.model, ReplyingModel):
            self.model.check_unused()


def create_in_process_client(
    agent: ChatAgent[Any] | Callable[[MockLanguageModel], ChatAgent[Any]],
    *,
    model: MockLanguageModel | Script | list[Script] | None = None,
    client_data: object = None,
    clock: Literal["virtual", "real"] | Clock = "virtual",
    auto_advance: bool = True,
    wait_timeout: float = 5.0,
    setup_locals: Callable[[LocalValues], Any] | None = None,
    task_context: Mapping[str, Any] | None = None,
    strict: bool = True,
    event_log_size: int = 10_000,
) -> InProcessClient:
    """Make a real client over an agent's real turns, in memory and on a virtual clock.

    Tests written for `create_mock_agent_client` run against the agent itself when they are given this one.

    Args:
        agent: the agent; or a function that makes it for the model.
        model: what the function is given: a model, or the scripts of one. With an agent it is only checked at the end.
            Without it the model says what `responses.queue` is given.
        client_data: what each request carries.
        clock: `"virtual"`, `"real"`, or a clock of your own.
        auto_advance: whether virtual time moves while a client waits; `False` leaves it to `advance`.
        wait_timeout: real seconds that a wait may take before it says where the agent stands.
        setup_locals: called with each run's locals before the run starts; sync or async.
        task_context: overrides of the run context, by section.
        strict: whether an error that nobody was told of, a misuse of the test kit, or a script of `model` that was not
            asked for is raised at the end of `async with`.
        event_log_size: how many events of a thread a watch can go back.

    Raises:
        AgentNotRegisteredError: `agent` is no agent, and makes none.
        InvalidArgumentError: an option with a value that it cannot have.
    """
    if not wait_timeout > 0:
        raise InvalidArgumentError(argument="wait_timeout", value=wait_timeout, problem="it is more than 0 seconds")
    time, ledger, ids = make_clock(clock), Ledger(), _CountedIds()
    sessions = InMemorySessionStore(clock=time)
    harness = InProcessHarness(time, ledger, sessions, auto_advance=auto_advance, wait_timeout=wait_timeout)
    asked = _make_model(model, harness)
    if not isinstance(agent, ChatAgent):
        if not callable(agent):
            raise AgentNotRegisteredError(agent)
        agent = agent(asked)
    if not isinstance(agent, ChatAgent):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise AgentNotRegisteredError(agent)
    service = AgentService(
        agent,
        sessions=sessions,
        clock=time,
        event_log_size=event_log_size,
        surroundings=RunSurroundings(
            new_id=ids,
            ledger=ledger,
            observe=harness.observe,
            setup_locals=setup_locals,
            task_context=task_context,
            lease_ttl=1e9,
        ),
    )
    transport = WatchedTransport(service, harness, client_data=client_data)
    requests = count(1)
    client = AgentClient(
        transport,
        contract=service.contract,
        clock=time,
        wait_timeout=wait_timeout,
        request_ids=lambda: f"request-{next(requests)}",
    )
    return InProcessClient(client, transport, service, harness, model=asked, strict=strict)


class _CountedIds:
    """Makes `msg-1`, `run-1`, and so on: the same in every run of a test."""

    def __init__(self) -> None:
        self._numbers: dict[str, count[int]] = {}

    def __call__(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers.setdefault(kind, count(1)))}"


def _make_model(
    model: MockLanguageModel | Script | list[Script] | None, harness: InProcessHarness
) -> MockLanguageModel:
    if model is None:
        return ReplyingModel(harness.turn_count)
    return model if isinstance(model, MockLanguageModel) else MockLanguageModel(model)
