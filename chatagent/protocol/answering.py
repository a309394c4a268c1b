"""What a retry or a regeneration answers, and what goes from the history for it (rules TH-20 to TH-22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.protocol.errors import (
    MessageNotFoundError,
    NothingToRegenerateError,
    NothingToRetryError,
    ThreadBusyError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatagent.protocol.reducer import ThreadModel

__all__ = ["AnswerPlan", "check_free", "plan_regenerate", "plan_retry"]


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """The input to answer again, and the messages that go before."""

    input_message_id: str
    removed: tuple[str, ...]


def check_free(model: ThreadModel) -> None:
    """Refuse while a run is at work or queued; one that waits may be superseded.

    Raises:
        ThreadBusyError: one is.
    """
    for run in model.live.values():
        if run.status != "waiting":
            raise ThreadBusyError(thread_id=model.thread_id, active_run_id=run.run_id)


def plan_retry(model: ThreadModel) -> AnswerPlan:
    """Say how to try the failed last generation again.

    Raises:
        ThreadBusyError: a run is at work or queued.
        NothingToRetryError: the last generation has not failed, or it had no input.
    """
    check_free(model)
    error = model.error
    if error is None or error.message_id is None or model.message(error.message_id) is None:
        raise NothingToRetryError(thread_id=model.thread_id)
    of_run = model.message_ids(error.run_id)
    return AnswerPlan(error.message_id, tuple(each for each in of_run if model.ownership(each).relation == "output"))


def plan_regenerate(model: ThreadModel, message_id: str | None) -> AnswerPlan:
    """Say how to answer an input again: that of the message named, or the last one.

    Raises:
        ThreadBusyError: a run is at work or queued.
        MessageNotFoundError: there is no such message.
        NothingToRegenerateError: it answers nothing.
    """
    check_free(model)
    if message_id is not None and model.message(message_id) is None:
        raise MessageNotFoundError(thread_id=model.thread_id, message_id=message_id)
    ids = model.message_ids()
    target = message_id or _last(model, ids)
    answered = None if target is None else _input_of(model, ids, target)
    if answered is None:
        raise NothingToRegenerateError(thread_id=model.thread_id)
    return AnswerPlan(answered, tuple(ids[ids.index(answered) + 1 :]))


def _last(model: ThreadModel, ids: list[str]) -> str | None:
    for role in ("assistant", "user"):
        for message_id in reversed(ids):
            if _role(model, message_id) == role:
                return message_id
    return None


def _input_of(model: ThreadModel, ids: list[str], target: str) -> str | None:
    """Return the input that a message answers, or the message itself if it is one."""
    if _role(model, target) == "user":
        return target
    run = model.runs.get(model.ownership(target).run_id or "")
    if run is not None and run.input_message_id in ids:
        return run.input_message_id
    return next(_users_before(model, ids, target), None)


def _users_before(model: ThreadModel, ids: list[str], target: str) -> Iterator[str]:
    for message_id in reversed(ids[: ids.index(target)]):
        if _role(model, message_id) == "user":
            yield message_id


def _role(model: ThreadModel, message_id: str) -> str:
    message = model.message(message_id)
    return "" if message is None else message.role
