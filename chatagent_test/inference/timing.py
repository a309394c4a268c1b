"""How fast a stream comes: time to the first frame, frames a second, jitter, or a recorded pace (7.11)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.scripted import SseBody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent_test.inference.scripted import ScriptedResponse

__all__ = ["TimingProfile", "delays_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingProfile:
    """A pace, the same for every answer that it is applied to.

    A frame counts as a token, since every delta is one.

    Args:
        first: seconds to the first frame.
        tokens_per_second: frames a second behind it; `None`: as fast as they go.
        jitter: by how much of its length a delay may be shorter or longer, 0 to 1.
        seed: of the jitter.

    Raises:
        InvalidArgumentError: one of them is out of its range.
    """

    first: float = 0.0
    tokens_per_second: float | None = None
    jitter: float = 0.0
    seed: int = 0
    _delay: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.first < math.inf:
            raise InvalidArgumentError(argument="first", value=self.first, problem="it is 0 seconds or more")
        if self.tokens_per_second is not None and not 0 < self.tokens_per_second < math.inf:
            problem = "it is more than 0, or `None`"
            raise InvalidArgumentError(argument="tokens_per_second", value=self.tokens_per_second, problem=problem)
        if not 0 <= self.jitter <= 1:
            raise InvalidArgumentError(argument="jitter", value=self.jitter, problem="it is 0 to 1")
        delay = 0.0 if self.tokens_per_second is None else 1 / self.tokens_per_second
        object.__setattr__(self, "_delay", delay)

    def delays(self, count: int) -> list[float]:
        """Return the seconds in front of each of so many frames."""
        random = Random(self.seed)
        even = [self.first, *[self._delay] * (count - 1)][:count]
        return [delay * (1 + self.jitter * random.uniform(-1, 1)) for delay in even]

    def apply(self, response: ScriptedResponse) -> ScriptedResponse:
        """Return an answer at this pace; delays of its own stay, and what is no stream is not touched."""
        body = response.body
        if not isinstance(body, SseBody):
            return response
        pace = self.delays(len(body.events))
        own = [body.delay_before(index) for index in range(len(body.events))]
        delays = [given if given is not None else even for given, even in zip(own, pace, strict=True)]
        return replace(response, body=replace(body, frame_delays=delays))


def delays_of(times: Sequence[float], *, speed: float = 1.0) -> list[float]:
    """Return the delays of a recorded pace.

    Args:
        times: seconds from the head of the answer to each frame, in order.
        speed: how many times faster it goes.

    Raises:
        InvalidArgumentError: the times go backwards, or the speed is none.
    """
    if not 0 < speed < math.inf:
        raise InvalidArgumentError(argument="speed", value=speed, problem="it is more than 0")
    gaps = [later - earlier for earlier, later in pairwise((0.0, *times))]
    if any(not 0 <= gap < math.inf for gap in gaps):
        raise InvalidArgumentError(argument="times", value=times, problem="they begin at 0 or more, and grow")
    return [gap / speed for gap in gaps]
