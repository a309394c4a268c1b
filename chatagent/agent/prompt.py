"""`chat.prompt`: the prompt that a run works with, stored once and read wherever a model is called (N-50)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.agent.run import this_run
from chatagent.errors import ChatContextError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.model import ProviderOptions

__all__ = ["ChatPrompt", "Prompt", "StoredPrompt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is told first, and with which settings; a text alone, or a version from a prompt store."""

    text: str
    model: str | None = None
    """Names the model, for a registry."""
    config: Mapping[str, Any] | None = None
    """Further arguments for `stream_text`, by their names there, such as `temperature`."""
    prompt_id: str = ""
    version: int = 0
    labels: Sequence[str] = field(default_factory=tuple[str, ...])


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """A run's prompt."""

    prompt: Prompt
    provider_options: ProviderOptions | None


class ChatPrompt:
    """The functions behind `chat.prompt`."""

    __slots__ = ()

    def __call__(self) -> Prompt:
        """Return the run's prompt.

        Raises:
            ChatContextError: there is no run, or no prompt was set in it.
        """
        stored = this_run("chat.prompt").state.prompt
        if stored is None:
            error = ChatContextError("chat.prompt")
            error.args = (
                "chat.prompt() called before chat.prompt.set() in this run; set a prompt in `on_boot`, which every run "
                "calls, in `on_turn_start`, or in `run`",
            )
            raise error
        return stored.prompt

    def set(self, resolved: Prompt | str, *, provider_options: ProviderOptions | None = None) -> None:
        """Store the run's prompt; an earlier one is gone, with its options.

        Args:
            resolved: the prompt; a text is one without model and settings.
            provider_options: sent along with the text, unless the call says otherwise.

        Raises:
            ChatContextError: there is no run.
            TypeError: it is neither.
        """
        prompt = Prompt(text=resolved) if isinstance(resolved, str) else resolved
        if not isinstance(prompt, Prompt):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise TypeError(f"chat.prompt.set takes a text or a Prompt, not {resolved!r}")
        this_run("chat.prompt.set").state.prompt = StoredPrompt(prompt, provider_options)
