"""Every builder of a whole answer, with arguments, by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chatagent_test.inference import formats

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent_test.inference.sse import SseEvent

TEXT = "Hello  brave\nworld "
ECHO = "Hello brave world"
THOUGHT = "alpha beta"
CALL = ("call_1", "read_file", '{"path":"a.py"}')

BUILDERS: dict[str, Callable[..., list[SseEvent]]] = {
    "chat_completion_events": partial(formats.chat_completion_events, ECHO),
    "chat_completion_events_exact": partial(formats.chat_completion_events_exact, TEXT),
    "chat_reasoning_events": partial(formats.chat_reasoning_events, THOUGHT, text=TEXT),
    "chat_refusal_events": partial(formats.chat_refusal_events, TEXT),
    "chat_tool_call_events": partial(formats.chat_tool_call_events, [CALL], fragments=3),
    "chat_completions_reasoning_then_tool_call_events": partial(
        formats.chat_completions_reasoning_then_tool_call_events, THOUGHT, *CALL
    ),
    "responses_api_events": partial(formats.responses_api_events, ECHO),
    "responses_api_events_exact": partial(formats.responses_api_events_exact, TEXT),
    "responses_api_reasoning_only_events": partial(formats.responses_api_reasoning_only_events, THOUGHT),
    "responses_api_reasoning_and_text_events": partial(formats.responses_api_reasoning_and_text_events, THOUGHT, ECHO),
    "responses_api_reasoning_then_tool_call_events": partial(
        formats.responses_api_reasoning_then_tool_call_events, THOUGHT, *CALL
    ),
    "responses_api_tool_call_events": partial(formats.responses_api_tool_call_events, [CALL], fragments=3),
    "responses_api_refusal_events": partial(formats.responses_api_refusal_events, TEXT),
    "responses_api_incomplete_events": partial(formats.responses_api_incomplete_events, TEXT),
    "responses_api_failed_events": partial(formats.responses_api_failed_events, "boom"),
    "responses_api_error_events": partial(formats.responses_api_error_events, "boom"),
    "responses_api_doom_loop_check_events": partial(
        formats.responses_api_doom_loop_check_events, ["a@response", "b@response"], THOUGHT
    ),
    "responses_api_doom_loop_terminal_only_events": partial(
        formats.responses_api_doom_loop_terminal_only_events, ["a@response"], THOUGHT, ECHO
    ),
    "responses_api_with_doom_loop_frame": partial(formats.responses_api_with_doom_loop_frame, "{}", THOUGHT, ECHO),
    "messages_api_events": partial(formats.messages_api_events, TEXT),
    "messages_tool_use_events": partial(formats.messages_tool_use_events, [CALL], text=TEXT, fragments=3),
    "messages_thinking_events": partial(formats.messages_thinking_events, THOUGHT, TEXT),
    "messages_redacted_thinking_events": partial(formats.messages_redacted_thinking_events, "c2VjcmV0", TEXT),
}


def all_builders() -> set[str]:
    """Return the names of the public builders that take a profile; the three that are other names are left out."""
    return {
        name
        for name in formats.__all__
        if name.endswith(("_events", "_events_exact", "_frame")) and name != "messages_api_events_exact"
    }
