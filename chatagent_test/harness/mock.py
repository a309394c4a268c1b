"""`mock_chat_agent`: makes a harness out of an agent and some options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from chatagent.agent import ChatAgent
from chatagent.errors import AgentNotRegisteredError, InvalidArgumentError
from chatagent.task import make_run_context
from chatagent.ui import UIMessage, to_wire
from chatagent_test.clock import make_clock
from chatagent_test.harness.given import check_client_data
from chatagent_test.harness.harness import ChatAgentHarness
from chatagent_test.harness.run_network import NetworkOption, RunNetwork
from chatagent_test.harness.state import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent.agent import Telemetry
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.session import Snapshot
    from chatagent.task import LocalValues

__all__ = ["mock_chat_agent"]


def mock_chat_agent(
    agent: ChatAgent[Any],
    *,
    chat_id: str = "test-chat",
    client_data: Any = None,
    task_context: Mapping[str, Any] | None = None,
    preload: bool = True,
    mode: Mode | None = None,
    continuation: bool = False,
    previous_run_id: str | None = None,
    head_start_messages: Sequence[UIMessage | Mapping[str, Any]] | None = None,
    snapshot: Snapshot | Mapping[str, Any] | None = None,
    setup_locals: Callable[[LocalValues], Any] | None = None,
    clock: Literal["virtual", "real"] | Clock = "virtual",
    auto_advance: bool = True,
    ids: IdGenerator | None = None,
    wait_timeout: float = 10.0,
    network: NetworkOption = None,
    strict: bool = True,
    telemetry: Telemetry | Literal["agent"] | None = None,
) -> ChatAgentHarness:
    """Make a harness that drives an agent's real run in memory, without network and without waiting.

    Nothing runs before the first driver call or the entry of `async with`.

    Args:
        agent: the agent itself.
        chat_id: the conversation's id; two harnesses may share one and stay apart.
        client_data: what every payload carries as client data; a JSON value.
        task_context: overrides of the run context, by section, such as `{"attempt": {"number": 2}}`.
        preload: start the run ahead of the first message; `False` is mode `submit-message`.
        mode: how the run boots; wins over `preload` and `continuation`.
        continuation: the run continues an earlier one.
        previous_run_id: the id of that one.
        head_start_messages: the history that a head start brings; only in mode `handover-prepare`.
        snapshot: what the boot finds stored; only a continuation or a retry looks.
        setup_locals: called with the run's locals before the run starts; sync or async.
        clock: `"virtual"`, `"real"`, or a clock of your own.
        auto_advance: whether waiting for a turn lets sleeping models and tools wake; `False` leaves time to `advance`.
        ids: makes ids; by default `msg-1`, `msg-2`, …
        wait_timeout: real seconds after which a driver call gives up.
        network: `"deny"` makes HTTP requests that nobody mocked fail, but for those to loopback; a guard made by
            `deny_network` does so by its own rules; `"allow"` lets all pass. By default the harness is under the guard
            inside which its run begins, if there is one.
        strict: `False` makes seeds that nothing reads and `chat.defer` outside a turn a warning, and restores what the
            reference does after a failing `on_turn_complete`.
        telemetry: watches the runs; `"agent"` is what the agent was defined with, which is off here by default.

    Raises:
        AgentNotRegisteredError: `agent` is no agent.
        InvalidArgumentError: an option with a value that it cannot have.
        HarnessStateError: a snapshot that this boot would not read.
    """
    if not isinstance(agent, ChatAgent):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise AgentNotRegisteredError(agent)
    _check_text("chat_id", chat_id)
    check_client_data(client_data)
    if task_context is not None:
        make_run_context(task_context, now=0.0)  # so that what is wrong with it is told here
    mode = mode or ("continuation" if continuation else "preload" if preload else "submit-message")
    if mode not in get_args(Mode):
        raise InvalidArgumentError(argument="mode", value=mode, problem=f"one of {', '.join(get_args(Mode))}")
    _check_numbers_and_functions(wait_timeout, setup_locals, ids, telemetry)
    if head_start_messages is not None and not isinstance(head_start_messages, list | tuple):
        raise InvalidArgumentError(
            argument="head_start_messages", value=head_start_messages, problem="a list of messages"
        )
    harness = ChatAgentHarness(
        agent,
        boot_payload=_boot_payload(
            chatId=chat_id,
            trigger=None if mode == "continuation" else mode,
            metadata=client_data,
            continuation=True if continuation or mode == "continuation" else None,
            previousRunId=previous_run_id,
            headStartMessages=None if head_start_messages is None else [to_wire(each) for each in head_start_messages],
        ),
        mode="continuation" if continuation and mode == "submit-message" else mode,
        client_data=client_data,
        task_context=task_context,
        setup_locals=setup_locals,
        clock=make_clock(clock),
        auto_advance=auto_advance,
        ids=ids,
        wait_timeout=wait_timeout,
        network=RunNetwork(network),
        strict=strict,
        telemetry=telemetry,
    )
    if snapshot is not None:
        harness.seed_snapshot(snapshot)
    return harness


def _boot_payload(**fields: Any) -> dict[str, Any]:
    """Return what the run boots with, in wire form; a field that is `None` is left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _check_text(argument: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(argument=argument, value=value, problem="a text of at least one character")


def _check_numbers_and_functions(wait_timeout: object, setup_locals: object, ids: object, telemetry: object) -> None:
    if not isinstance(wait_timeout, int | float) or not wait_timeout > 0:
        raise InvalidArgumentError(argument="wait_timeout", value=wait_timeout, problem="it is more than 0 seconds")
    _check_function("setup_locals", setup_locals, "a function of one object with `set(key, value)`")
    _check_function("ids", ids, "a function without arguments that returns a new id")
    if telemetry not in (None, "agent"):
        _check_function(
            "telemetry", getattr(telemetry, "observe", telemetry), "what has an `observe` method, or 'agent'"
        )


def _check_function(argument: str, value: object, problem: str) -> None:
    if value is not None and not callable(value):
        raise InvalidArgumentError(argument=argument, value=value, problem=problem)
