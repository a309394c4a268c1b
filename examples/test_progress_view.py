"""The view of an agent at work, looked at in between: a streamed response stops wherever the test wants to look."""

from __future__ import annotations

import pytest

from chatagent_test import create_mock_agent_client, reply
from progress_view import render

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_booking_is_shown_step_by_step() -> None:
    async with create_mock_agent_client() as mock:
        thread = mock.client.thread("t-1")
        response = mock.responses.stream()
        await thread.send("Book offer A.")

        async with response.text() as text:
            await text.delta("I book")
            assert render(thread.get_state()) == ["I book▌"]
            await text.delta(" it.")
            await text.end()
        async with response.tool("book") as tool:
            await tool.input.delta('{"offer": ')
            assert render(thread.get_state()) == ["I book it.", "… book"]
            await tool.input.delta('"A"}')
            await tool.input.available()
            await tool.data("progress", 50, data_id="booking")
            assert render(thread.get_state()) == ["I book it.", "▶ book", "  50 %"]
            await tool.data("progress", 100, data_id="booking")
            await tool.output({"booking": "B-1"})
        await response.complete()

        assert render(thread.get_state()) == ["I book it.", "✓ book", "  100 %"]


async def test_a_failure_in_the_middle_leaves_what_was_said() -> None:
    async with create_mock_agent_client() as mock:
        thread = mock.client.thread("t-1")
        response = mock.responses.stream()
        await thread.send("Book offer A.")

        await response.write_text("I book it.")
        response.tool("book")
        await response.fail("the line was cut")

        assert render(thread.get_state()) == ["I book it.", "! the line was cut"]


async def test_the_view_of_every_moment_of_a_script() -> None:
    async with create_mock_agent_client() as mock:
        thread = mock.client.thread("t-1")
        mock.responses.queue(reply.assistant(reply.text("ab", chunks=["a", "b"]), reply.tool("book").error("sold out")))
        await thread.refresh()
        views: list[list[str]] = []

        async with thread.watch() as updates:
            run = await thread.send("Book offer A.")
            async for update in updates:
                view = render(update.state)
                if not views or views[-1] != view:
                    views.append(view)
                if update.state.runs and update.state.run(run.run_id).settled:
                    break

        assert views[2:] == [[], ["▌"], ["a▌"], ["ab▌"], ["ab"], ["ab", "▶ book"], ["ab", "✗ book: sold out"]]
