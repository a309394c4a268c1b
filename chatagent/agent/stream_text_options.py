"""`chat.to_stream_text_options`: what the run knows, as arguments for `stream_text` (N-52).

The stored prompt and skills become instructions, model, settings and tools. The step hook is always there: compaction,
then steering, then what `chat.inject` queued meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from chatagent.agent.compaction import CompactionPlan, compact
from chatagent.agent.skill_tools import build_skill_tools, skills_preamble
from chatagent.agent.steering import inject_pending
from chatagent.generate import tools_by_name
from chatagent.model import SystemMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.agent.prompt import Prompt
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.generate import PrepareStep, PrepareStepEvent, StepChanges, Tools
    from chatagent.model import LanguageModel, ModelMessage, ProviderOptions

__all__ = ["LanguageModelRegistry", "prepare_next_step", "step_hook", "stream_text_arguments"]


class LanguageModelRegistry(Protocol):
    """Knows models by name."""

    def language_model(self, name: str) -> LanguageModel:
        """Return the model of this name."""
        ...


def stream_text_arguments(
    run: AgentRun,
    *,
    tools: Tools | None,
    registry: LanguageModelRegistry | None,
    telemetry: Mapping[str, str] | None,
    system_provider_options: ProviderOptions | None,
    cache_control: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the arguments; see `chat.to_stream_text_options`."""
    arguments: dict[str, Any] = {}
    stored, skills = run.state.prompt, run.state.skills
    if stored is not None:
        prompt = stored.prompt
        if registry is not None and prompt.model is not None:
            arguments["model"] = registry.language_model(prompt.model)
        arguments |= prompt.config or {}
        run.observer.noted(_facts(prompt, telemetry))
    texts = [None if stored is None else stored.prompt.text, skills_preamble(skills or ())]
    text = "\n\n".join(each for each in texts if each)
    if text:
        options = _provider_options(run, system_provider_options, cache_control)
        arguments["instructions"] = text if options is None else SystemMessage(text, provider_options=options)
    if skills:
        arguments["tools"] = build_skill_tools(skills) | tools_by_name(tools)
    elif tools is not None:
        arguments["tools"] = tools
    arguments["prepare_step"] = step_hook(run)
    return arguments


def _facts(prompt: Prompt, telemetry: Mapping[str, str] | None) -> dict[str, object]:
    """Return what observers are told: which prompt it is, unless it is a text alone, and what the caller adds."""
    known: dict[str, object] = {}
    if prompt.prompt_id:
        known = {"prompt.id": prompt.prompt_id, "prompt.version": prompt.version, "prompt.labels": tuple(prompt.labels)}
    return known | {f"telemetry.{name}": value for name, value in (telemetry or {}).items()}


def _provider_options(
    run: AgentRun, given: ProviderOptions | None, cache_control: Mapping[str, Any] | None
) -> ProviderOptions | None:
    """Return the provider options of the instructions: the most particular ones alone, nothing is merged."""
    if given is not None:
        return given
    if cache_control is not None:
        return {"anthropic": {"cacheControl": dict(cache_control)}}
    return None if run.state.prompt is None else run.state.prompt.provider_options


def step_hook(run: AgentRun) -> PrepareStep:
    """Return the `prepare_step` of the turn that is on; in another turn it does nothing."""
    made_in = run.turn

    async def prepare_step(event: PrepareStepEvent) -> StepChanges | None:
        turn = run.turn
        if turn is None or (made_in is not None and turn is not made_in):
            return None
        return await prepare_next_step(run, turn, event)

    return prepare_step


async def prepare_next_step(run: AgentRun, turn: TurnState, event: PrepareStepEvent) -> StepChanges | None:
    """Compact, steer, and take in what `chat.inject` queued, in this order (N-52)."""
    messages: list[ModelMessage] = list(event.messages)
    is_compacted = False
    turn.steps_asked = len(event.steps)
    options = turn.compaction_options
    if options is not None:
        plan = CompactionPlan(should_compact=options["should_compact"], summarize=options["summarize"])
        result = await compact(run, turn, messages, event.steps, plan)
        if result.messages is not None:
            messages, is_compacted = result.messages, True
    steered = await inject_pending(run, turn, messages, event.steps)
    turn.steps_asked += 1
    added = [*steered, *_take_background(run)]
    if turn.compaction is not None:
        turn.compaction.add(event.steps, added)
    return {"messages": [*messages, *added]} if added or is_compacted else None


def _take_background(run: AgentRun) -> list[ModelMessage]:
    queued, run.state.background = run.state.background, []
    return queued
