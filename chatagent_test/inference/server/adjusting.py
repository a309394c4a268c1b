"""The server's knobs, as its methods. They are safe to call from any thread, and answers under way do not see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.checks import need, need_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent_test.inference.faults import Fault, RandomFaults
    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.models import MockModel
    from chatagent_test.inference.timing import TimingProfile

__all__ = ["Adjusting"]


class Adjusting:
    """What a test may change about a running server."""

    _core: Core

    def set_models(self, models: Iterable[MockModel]) -> None:
        """Replace the list that `/v1/models` serves."""
        self._core.knobs.set_models(models)

    def set_settings(self, value: Any) -> None:
        """Have `/v1/settings` answer with a JSON value or a pydantic model, as it is now."""
        self._core.knobs.set_settings(value)

    def preset_allow_access(self) -> None:
        """Set the settings that let a user in: `{"allow_access": true}`."""
        self.set_settings({"allow_access": True})

    def set_user_subscription_tier(self, tier: str | None) -> None:
        """Have `/v1/user` name a subscription; `None` means free."""
        need("tier", tier, str | None, "a text, or `None`")
        self._core.knobs.subscription_tier = tier

    def set_response(self, text: str) -> None:
        """Answer every request that no script answers with this text, byte for byte, instead of echoing.

        Raises:
            InvalidArgumentError: it is no text, or the server is strict and would refuse such requests.
        """
        need("text", text, str, "a text; `reset_response` goes back to echoing")
        if self._core.strict and not self._core.inference.echoes:
            problem = "a strict server answers from scripts only; give it `allow_echo=True`, or register an expectation"
            raise InvalidArgumentError(argument="text", value=text, problem=problem)
        self._core.knobs.fixed_text = text

    def reset_response(self) -> None:
        """Go back to echoing."""
        self._core.knobs.fixed_text = None

    def set_agent_turns(self, texts: Iterable[str]) -> None:
        """Replace the queue of texts of which each foreground request takes one; auxiliary requests take none."""
        turns = need_texts("texts", texts)
        with self._core.board.lock:
            self._core.knobs.agent_turns.clear()
            self._core.knobs.agent_turns.extend(turns)

    def set_messages_stop_reason(self, reason: str) -> None:
        """End Messages answers of echo, fixed text and agent turns with this stop reason; any string goes."""
        need("reason", reason, str, "a text")
        self._core.knobs.stop_reason = reason

    def set_required_auth(self, token: str | None) -> None:
        """Ask for a key on inference requests that no script answers; `None` asks for none."""
        need("token", token, str | None, "a text, or `None`")
        self._core.knobs.required_auth = token

    def set_chunk_delay(self, seconds: float | None) -> None:
        """Pause in front of every frame of streams that begin from now on."""
        self._core.knobs.set_chunk_delay(seconds)

    def set_timing(self, timing: TimingProfile | None) -> None:
        """Give streams that begin from now on this pace, where a script does not give one."""
        self._core.knobs.set_timing(timing)

    def set_faults(self, faults: Fault | RandomFaults | None) -> None:
        """Break inference answers that begin from now on, scripted ones included; `None` breaks none."""
        self._core.knobs.set_faults(faults)

    def set_keep_alive(self, seconds: float | None) -> None:
        """Send a comment after so many seconds of silence in a stream; `None` sends none."""
        self._core.knobs.set_keep_alive(seconds)

    def hold_agent_completions(self) -> None:
        """Hold the last frame of streamed turns that no expectation answers, until released."""
        with self._core.board.lock:
            self._core.knobs.hold_completions()

    def release_agent_completions(self) -> None:
        """Let held turns end, and those to come."""
        self._core.knobs.completions.open()

    def set_hang(self, hangs: bool) -> None:  # noqa: FBT001 - the value itself
        """Log requests for the model list and the settings without ever answering them, or let them go."""
        self._core.knobs.set_hang(hangs)

    def set_storage_unauthorized(self, unauthorized: bool) -> None:  # noqa: FBT001 - the value itself
        """Refuse uploads with 401, or take them again."""
        self._core.knobs.storage_unauthorized = unauthorized

    def set_keep_requests(self, keeps: bool) -> None:  # noqa: FBT001 - the value itself
        """Keep log entries or not; the count goes on either way."""
        self._core.log.keep = keeps
