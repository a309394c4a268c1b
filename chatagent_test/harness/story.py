"""What happens in a harness, told in order: what a transcript is made from.

A beat stands behind the records of `.out` that were written before it, so chunks need no beats of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from chatagent.agent import HookCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.agent import TurnReport
    from chatagent.session import Record
    from chatagent.tasks import OwnedTask

__all__ = [
    "Beat",
    "ClientSent",
    "Happening",
    "ModelAsked",
    "RunBegun",
    "RunFate",
    "RunOver",
    "RunSuspended",
    "TurnBegun",
    "TurnDone",
]


@dataclass(slots=True)
class RunFate:
    """What has become of a run."""

    task: OwnedTask | None = None
    """Its main task, once it was started."""
    was_killed: bool = False
    """Whether it was made to die."""

    @property
    def error(self) -> BaseException | None:
        """What ended the run, if it failed."""
        return None if self.task is None or self.was_killed else self.task.error


@dataclass(frozen=True, slots=True)
class RunBegun:
    """A run was started."""

    payload: Mapping[str, Any]
    """What it boots with, in wire form."""
    fate: RunFate


@dataclass(frozen=True, slots=True)
class ClientSent:
    """A record was put on `.in`."""

    record: Record


@dataclass(frozen=True, slots=True)
class TurnBegun:
    """The run took a payload to work it off."""

    number: int


@dataclass(frozen=True, slots=True)
class TurnDone:
    """A turn has settled."""

    report: TurnReport


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A language model was asked."""

    model: Any
    options: Any


@dataclass(frozen=True, slots=True)
class RunSuspended:
    """The run waits for input, put away."""


@dataclass(frozen=True, slots=True)
class RunOver:
    """The run has ended."""


Happening: TypeAlias = RunBegun | ClientSent | TurnBegun | TurnDone | ModelAsked | RunSuspended | RunOver | HookCall


class Beat(NamedTuple):
    """Something that happened."""

    position: int
    """How many records of `.out` were written before it."""
    what: Happening
