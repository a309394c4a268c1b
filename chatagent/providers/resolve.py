"""Models by name: `"openai:gpt-5.2"`, `"openai.responses:gpt-5.2"`, `"anthropic:claude-opus-4-8"`.

A name is resolved when its model is first used, so that naming a provider costs nothing before, and its SDK is needed
by those only who use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from chatagent.errors import ModelNameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.model import LanguageModel

__all__ = ["resolve_model"]

_PROVIDERS: Final = {
    "anthropic": ("chatagent.providers.anthropic", "AnthropicModel"),
    "openai": ("chatagent.providers.openai", "OpenAIChatModel"),
    "openai.responses": ("chatagent.providers.openai", "OpenAIResponsesModel"),
}


def resolve_model(model: LanguageModel | str) -> LanguageModel:
    """Return the model of a name.

    Args:
        model: a provider, a colon, and the model's id there. `openai` asks through the Chat Completions API,
            `openai.responses` through the Responses API, `anthropic` through the Messages API. A model object is
            returned as it is.

    Returns:
        The model. Its client is made from the environment when it is first called (so a missing key shows then), and
        shared with the other models of the provider in the same event loop.

    Raises:
        ModelNameError: there is no such provider, or no model's id behind it.
        MissingExtraError: the provider's SDK is not installed; the text says how to install it.
    """
    if not isinstance(model, str):
        return model
    provider, _, model_id = model.partition(":")
    if provider not in _PROVIDERS or not model_id:
        raise ModelNameError(model, providers=sorted(_PROVIDERS))
    module, name = _PROVIDERS[provider]
    make: Callable[[str], LanguageModel] = getattr(import_module(module), name)
    return make(model_id)
