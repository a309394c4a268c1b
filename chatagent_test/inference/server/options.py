"""The options that every way of making a server takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

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

__all__ = ["ServerOptions"]


class ServerOptions(TypedDict, total=False):
    """How a server behaves; everything has a default."""

    listen: bool
    """Listen to a port (the default). Without one, the server is there for `transport`, `app` and `intercept` alone."""
    port: int
    """The port; by default the system chooses."""
    strict: bool
    """Refuse inference requests that no script answers with 501, and raise at close if there was one, if an expectation
    or a queued response is left over, or if a script's body did not fit the request's `stream`."""
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
