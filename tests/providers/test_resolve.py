from __future__ import annotations

import importlib
import os
import subprocess
import sys

import anyio
import pytest

from chatagent.errors import MissingAPIKeyError, MissingExtraError, ModelNameError
from chatagent.model import CallOptions, UserMessage
from chatagent.providers import resolve_model
from chatagent.providers.anthropic import AnthropicModel
from chatagent.providers.anthropic.client import client_or_default as anthropic_client
from chatagent.providers.openai import OpenAIChatModel, OpenAIResponsesModel
from chatagent.providers.openai.client import client_or_default as openai_client

OPTIONS = CallOptions(prompt=[UserMessage("hi")])


@pytest.mark.parametrize(
    ("name", "kind", "model_id"),
    [
        ("openai:gpt-x", OpenAIChatModel, "gpt-x"),
        ("openai:ft:gpt-x:acme::id", OpenAIChatModel, "ft:gpt-x:acme::id"),
        ("openai.responses:gpt-x", OpenAIResponsesModel, "gpt-x"),
        ("anthropic:claude-x", AnthropicModel, "claude-x"),
    ],
)
def test_a_name_is_a_provider_and_a_models_id_there(name: str, kind: type, model_id: str) -> None:
    model = resolve_model(name)

    assert isinstance(model, kind)
    assert f"{model.provider}:{model.model_id}" == name
    assert model.model_id == model_id


def test_a_model_is_returned_as_it_is() -> None:
    model = AnthropicModel("claude-x")

    assert resolve_model(model) is model


@pytest.mark.parametrize("name", ["gpt-x", "openai:", "mistral:large", ""])
def test_a_name_of_no_model_is_an_error_that_shows_the_names(name: str) -> None:
    with pytest.raises(ModelNameError) as raised:
        resolve_model(name)

    assert str(raised.value) == (
        f"no model is called {name!r}: give a provider, a colon and the model's id there: "
        '"anthropic:…", "openai:…", "openai.responses:…"'
    )


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_missing_sdk_is_named_with_its_extra(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [module for module in sys.modules if module.startswith(f"chatagent.providers.{provider}")]
    for module in ours:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, provider, None)

    with pytest.raises(MissingExtraError) as raised:
        resolve_model(f"{provider}:m")

    assert isinstance(raised.value, ImportError)
    assert str(raised.value) == (f'the package `{provider}` is not installed: pip install "chatagent[{provider}]"')


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "variable"), [("openai:m", "OPENAI_API_KEY"), ("openai.responses:m", "OPENAI_API_KEY")]
)
async def test_a_missing_key_is_named_when_the_model_is_called(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)

    with pytest.raises(MissingAPIKeyError, match=rf"set the environment variable {variable}, ") as raised:
        await resolve_model(name).do_stream(OPTIONS)

    assert raised.value.variable == variable


@pytest.mark.anyio
async def test_a_missing_key_of_anthropic_is_named_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for variable in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))

    with pytest.raises(MissingAPIKeyError, match=r"set the environment variable ANTHROPIC_API_KEY, "):
        await resolve_model("anthropic:m").do_stream(OPTIONS)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_models_of_an_event_loop_share_a_client_of_their_own(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")

    async def clients() -> tuple[object, object]:
        assert openai_client(None) is openai_client(None)
        assert anthropic_client(None) is anthropic_client(None)
        assert openai_client(None).max_retries == anthropic_client(None).max_retries == 0
        return openai_client(None), anthropic_client(None)

    first, second = anyio.run(clients, backend=backend), anyio.run(clients, backend=backend)

    assert first[0] is not second[0]
    assert first[1] is not second[1]


def test_naming_a_provider_imports_no_sdk() -> None:
    program = "import sys, chatagent.providers; print('openai' in sys.modules, 'anthropic' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False False\n"
    assert importlib.import_module("chatagent.providers").__all__ == ["resolve_model"]
