"""The options that every way of making a server takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.checks import Kind, need

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from chatagent_test.inference.endpoints import InferenceEndpoint, Profile
    from chatagent_test.inference.expectations.classifying import Classify, RequestClassifier
    from chatagent_test.inference.faults import Fault, RandomFaults
    from chatagent_test.inference.formats import UsageFrame, UsageSource
    from chatagent_test.inference.recording import Recordings
    from chatagent_test.inference.server.knobs import AuthErrorStyle, StreamMode
    from chatagent_test.inference.timing import TimingProfile

__all__ = ["ServerOptions", "check_options"]


class ServerOptions(TypedDict, total=False):
    """How a server behaves; everything has a default."""

    listen: bool
    """Listen to a port (the default). Without one, the server is there for `transport`, `app` and `intercept` alone."""
    port: int
    """The port; by default the system chooses."""
    strict: bool
    """Refuse inference requests that no script answers with 501, and raise at close if there was one, if an expectation
    or a queued response is left over, if a script's body did not fit the request's `stream`, or if a request to an
    inference route was refused unread."""
    allow_echo: bool
    """Let a strict server echo all the same."""
    stream_mode: StreamMode
    """Whether echo, fixed text and agent turns are streamed: `"auto"` (as the request asks), `"always"`, `"never"`."""
    profile: Profile
    """The frames of these: `"sdk"`, which the SDKs' stream helpers accept, or `"minimal"`."""
    usage: UsageSource
    """The usage that these tell: fixed numbers, `"estimate"`, or a `Usage`."""
    usage_frame: UsageFrame
    """When a streamed chat completion tells it: `"always"`, or `"requested"`."""
    auth_error_style: AuthErrorStyle
    """How a 401 is worded: `"provider"`, or `"reference"`."""
    classifier: RequestClassifier | Classify | None
    """What tells user-facing turns from side work."""
    chunk_delay: float | None
    """Seconds in front of every frame of a stream."""
    keep_alive: float | None
    """Seconds of silence after which a stream gets a comment; 15 by default, `None` for never."""
    lenient_paths: bool
    """Serve the inference paths without `/v1`, too."""
    validate: bool
    """Answer requests that the provider would refuse with the provider's 400, before any script is looked at."""
    timing: TimingProfile | None
    """The pace of every streamed inference answer that has none of its own."""
    faults: Fault | RandomFaults | None
    """What breaks inference answers, scripted ones included."""
    recordings: Recordings | str | Path | None
    """A folder of recorded exchanges (or its `Recordings`) which answer what no expectation and no queue answers."""
    upstream: str | Mapping[InferenceEndpoint, str] | None
    """Where to ask what nothing answers, so that it is recorded: an origin such as `https://api.openai.com`, or one an
    endpoint. Without it, nothing ever leaves this process."""
    replay_speed: float | None
    """How many times faster recorded answers come than they were recorded; `None`: without any wait."""
    max_body_bytes: int
    """Larger bodies get 413; 256 MiB by default."""


_KINDS: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("listen", "strict", "allow_echo", "lenient_paths", "validate"), (bool, "true or false")),
    "port": (int, "a number from 0 to 65535"),
    "max_body_bytes": (int, "a number of bytes"),
}
"""Of the options that nobody else looks at before a request comes."""


def check_options(options: ServerOptions) -> None:
    """Refuse options that a server cannot have.

    Raises:
        TypeError: there is no option of that name.
        InvalidArgumentError: one has a value that it cannot have.
    """
    for name, value in options.items():
        if name not in ServerOptions.__annotations__:
            known = ", ".join(sorted(ServerOptions.__annotations__))
            raise TypeError(f"a mock inference server has no option {name!r}; it has {known}")
        if name in _KINDS:
            need(name, value, *_KINDS[name])
    for name, most in (("port", 65535), ("max_body_bytes", None)):
        value = options.get(name, 0)
        if value < 0 or (most is not None and value > most):
            raise InvalidArgumentError(argument=name, value=value, problem=f"it is {_KINDS[name][1]}")
