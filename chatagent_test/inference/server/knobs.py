"""What a test may adjust while a server runs. Each is read when a request starts; what runs already is unaffected."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent.model import Usage
from chatagent_test.inference.checks import need
from chatagent_test.inference.compact import compact_json
from chatagent_test.inference.faults import Fault, RandomFaults
from chatagent_test.inference.server.models import MockModel
from chatagent_test.inference.timing import TimingProfile
from chatagent_test.inference.waiting import Latch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent_test.inference.endpoints import Profile
    from chatagent_test.inference.formats import UsageFrame, UsageSource
    from chatagent_test.inference.scripted import ScriptedResponse
    from chatagent_test.inference.server.options import ServerOptions

__all__ = ["AuthErrorStyle", "Knobs", "StreamMode"]

StreamMode: TypeAlias = Literal["auto", "always", "never"]
"""Whether echo, fixed text and agent turns come as events: as the request asks, always, or never."""
AuthErrorStyle: TypeAlias = Literal["provider", "reference"]
"""How a 401 is worded: as the endpoint's provider does, or in one line."""

_CHOICES = {
    "stream_mode": ("auto", "always", "never"),
    "profile": ("sdk", "minimal"),
    "auth_error_style": ("provider", "reference"),
    "usage_frame": ("always", "requested"),
}


class Knobs:
    """The adjustable state of one server; its lock is the server's."""

    def __init__(self) -> None:
        self.models: tuple[MockModel, ...] = (MockModel("test-model"),)
        self.settings: bytes | None = None
        self.subscription_tier: str | None = None
        self.required_auth: str | None = None
        self.auth_error_style: AuthErrorStyle = "provider"
        self.fixed_text: str | None = None
        self.agent_turns: deque[str] = deque()
        self.stop_reason = "end_turn"
        self.stream_mode: StreamMode = "auto"
        self.profile: Profile = "sdk"
        self.usage: UsageSource = "default"
        self.usage_frame: UsageFrame = "always"
        self.chunk_delay: float | None = None
        self.keep_alive: float | None = 15.0
        self.lenient_paths = False
        self.validates = False
        self.timing: TimingProfile | None = None
        self.faults: Fault | RandomFaults | None = None
        self.storage_unauthorized = False
        self.completions = Latch()
        """Shut while completions are held."""
        self.completions.open()
        self.answering = Latch()
        """Shut while the model list and the settings hang."""
        self.answering.open()

    def configure(self, options: ServerOptions) -> None:
        """Take over what a server was made with.

        Raises:
            InvalidArgumentError: an option has a value that it cannot have.
        """
        for name, choices in _CHOICES.items():
            if (given := options.get(name, choices[0])) not in choices:
                raise InvalidArgumentError(argument=name, value=given, problem=f"it is one of {choices}")
        self.stream_mode = options.get("stream_mode", "auto")
        self.profile = options.get("profile", "sdk")
        self.auth_error_style = options.get("auth_error_style", "provider")
        self.usage = options.get("usage", "default")
        if self.usage not in ("default", "estimate"):
            need("usage", self.usage, Usage, "'default', 'estimate' or a Usage")
        self.usage_frame = options.get("usage_frame", "always")
        self.lenient_paths = options.get("lenient_paths", False)
        self.validates = options.get("validate", False)
        self.set_timing(options.get("timing"))
        self.set_faults(options.get("faults"))
        self.set_chunk_delay(options.get("chunk_delay"))
        self.set_keep_alive(options.get("keep_alive", 15.0))

    def set_models(self, models: Iterable[MockModel]) -> None:
        """Replace the model list."""
        given = tuple(models)
        for model in given:
            if not isinstance(cast("object", model), MockModel):
                raise InvalidArgumentError(argument="models", value=model, problem="give MockModel objects")
        self.models = given

    def set_settings(self, value: Any) -> None:
        """Serve these settings, as they are now."""
        self.settings = compact_json(value, argument="value").encode()

    def set_chunk_delay(self, seconds: float | None) -> None:
        """Pause in front of every frame of a stream."""
        self.chunk_delay = _seconds("seconds", seconds)

    def set_keep_alive(self, seconds: float | None) -> None:
        """Send a comment after so many seconds of silence in a stream."""
        if seconds == 0:
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="it is more than 0, or `None`")
        self.keep_alive = _seconds("seconds", seconds)

    def set_timing(self, timing: TimingProfile | None) -> None:
        """Give streams this pace."""
        need("timing", timing, TimingProfile | None, "a TimingProfile, or `None`")
        self.timing = timing

    def set_faults(self, faults: Fault | RandomFaults | None) -> None:
        """Break answers."""
        need("faults", faults, Fault | RandomFaults | None, "a Fault, RandomFaults, or `None`")
        self.faults = faults

    def altered(self, response: ScriptedResponse) -> ScriptedResponse:
        """Return an answer at the pace of this server, and with its faults."""
        if self.timing is not None:
            response = self.timing.apply(response)
        return response if self.faults is None else self.faults.apply(response)

    def hold_completions(self) -> None:
        """Shut the gate in front of the last frame of turns."""
        if self.completions.is_open:
            self.completions = Latch()

    def set_hang(self, hangs: bool) -> None:  # noqa: FBT001 - the value itself
        """Leave the model list and the settings unanswered, or let them go."""
        if hangs and self.answering.is_open:
            self.answering = Latch()
        elif not hangs:
            self.answering.open()

    def release_all(self) -> None:
        """Open every gate there is."""
        self.completions.open()
        self.answering.open()


def _seconds(argument: str, seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds < float("inf"):
        raise InvalidArgumentError(argument=argument, value=seconds, problem="it is 0 seconds or more, or `None`")
    return seconds
