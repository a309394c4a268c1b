"""The fixtures for inference servers, scripted backends and the network, under each of the usual plugins (BT-10).

All tests of users are one project, which is run once; what fails in it says so in its reports.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from plugin.projects import ANYIO, run_reporting

if TYPE_CHECKING:
    from plugin.projects import Reports

TESTS = """
    from chatagent_test import reply


    async def ask(mock, thread_id="t-1"):
        run = await mock.client.thread(thread_id).send("hi")
        return await run.text()


    async def test_a_client(mock_agent):
        mock_agent.responses.queue(reply.assistant("Hello."))
        assert await ask(mock_agent) == "Hello."


    async def test_two_clients(mock_agent_factory):
        one, two = mock_agent_factory(), mock_agent_factory(strict=False)
        one.responses.queue(reply.assistant("One."))
        two.responses.queue(reply.assistant("Two."), reply.assistant("Never said."))
        assert [await ask(one), await ask(two)] == ["One.", "Two."]


    async def test_a_client_that_another_fixture_has(shop):
        assert await ask(shop) == "Open."
        await shop.client.thread("t-1").watch().__aenter__()
        assert shop.inspect.watchers("t-1") > 0


    async def test_a_script_that_nobody_claims(mock_agent):
        mock_agent.responses.queue(reply.assistant("Said."), reply.assistant("Unsaid."))
        await ask(mock_agent)


    async def test_a_test_that_fails_itself(mock_agent):
        mock_agent.responses.queue(reply.assistant("Said."), reply.assistant("Unsaid."))
        assert await ask(mock_agent) == "Another."


    async def test_the_network_of_a_loop_that_began_before_the_guard(shop, no_network):
        import httpx2

        from chatagent_test import NetworkDeniedError

        async with httpx2.AsyncClient() as client:
            try:
                await client.get("https://example.invalid/")
            except NetworkDeniedError:
                pass
        assert [denied.url for denied in no_network.denied] == ["https://example.invalid/"]
        assert await ask(shop) == "Open."


    async def test_a_provider(mock_inference):
        from chatagent_test import InferenceEndpoint, RequestMatcher, script

        chat = RequestMatcher.any(InferenceEndpoint.CHAT_COMPLETIONS)
        mock_inference.expect_response("greeting", chat, script.text("Hello."))
        client = mock_inference.async_openai_client()
        answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert answer.choices[0].message.content == "Hello."
"""
SHOP = """
    from chatagent_test import reply


    @FIXTURE
    async def shop(mock_agent):
        mock_agent.responses.queue(reply.assistant("Open."))
        yield mock_agent
        assert mock_agent.inspect.queue() == ()
        assert mock_agent.inspect.watchers("t-1") == 0
"""
PLAIN = """
    import os

    import httpx2
    import openai
    import pytest

    from chatagent_test import InferenceEndpoint, NetworkDeniedError, RequestMatcher, reply, script

    PORTS = []


    def ask(client, text="hi"):
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return answer.choices[0].message.content


    @pytest.mark.inference(script=[script.text("First."), script.text("Second.")])
    def test_scripts_answer_at_whichever_endpoint_asks(mock_inference):
        said = mock_inference.anthropic_client().messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
        assert said.content[0].text == "First."
        assert mock_inference.openai_client().responses.create(model="m", input="hi").output_text == "Second."


    @pytest.mark.inference(allow_echo=True)
    def test_options(mock_inference):
        assert ask(mock_inference.openai_client(), "ping") == "Echo: ping"


    @pytest.mark.inference(script=script.text("Hello."))
    @pytest.mark.usefixtures("mock_inference_environment")
    def test_code_that_makes_its_own_client():
        client = openai.OpenAI()
        assert client.api_key == "test-key"
        assert ask(client) == "Hello."


    def test_the_environment_is_as_it_was():
        assert "test-key" not in os.environ.values()


    def test_a_server_for_all_tests(mock_inference_session):
        PORTS.append(mock_inference_session.origin)
        assert ask(mock_inference_session.openai_client(), "ping") == "Echo: ping"


    def test_it_is_the_same_one(mock_inference_session):
        assert PORTS == [mock_inference_session.origin]


    @pytest.mark.inference(script=script.text("Unasked."))
    def test_a_marked_test_gets_its_server_unnamed():
        pass


    @pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.inference(allow_echo=True)), 2])
    def test_a_mark_of_one_case(request, case):
        assert ("mock_inference" in request.fixturenames) == (case == 1)


    def test_an_error_that_was_swallowed(mock_inference):
        try:
            ask(mock_inference.openai_client())
        except openai.APIStatusError:
            pass


    def test_the_failure_is_told_with_the_requests(mock_inference):
        chat = RequestMatcher.any(InferenceEndpoint.CHAT_COMPLETIONS)
        mock_inference.expect_response("greeting", chat, script.text("Hello."))
        mock_inference.expect_response("weather", chat.where(last_user="weather"), script.text("Sunny."))
        assert ask(mock_inference.openai_client()) == "Goodbye."


    @pytest.mark.inference(script=script.text("Hello."), stric=False)
    def test_a_misspelt_option():
        pass


    @pytest.mark.inference("Hello.")
    def test_an_option_without_a_name():
        pass


    def test_the_network(no_network):
        with pytest.raises(NetworkDeniedError):
            httpx2.get("https://example.invalid/")
        assert [denied.url for denied in no_network.denied] == ["https://example.invalid/"]


    @pytest.fixture
    def mock_agent_options():
        return {"strict": False}


    def test_clients_of_one_s_own_making(mock_agent, mock_agent_factory):
        mock_agent.responses.queue(reply.assistant("Unsaid."))
        made = [mock_agent, mock_agent_factory(), mock_agent_factory(strict=True)]
        assert [each.transport.strict for each in made] == [False, False, True]


    def test_a_client_of_a_test_without_a_loop(mock_agent_factory):
        mock_agent_factory(strict=True).responses.queue(reply.assistant("Unsaid."))
"""
ASYNCIO = "    import pytest\n    import pytest_asyncio\n    pytestmark = pytest.mark.asyncio\n"


def module(head: str, fixture: str) -> str:
    return f"{head}\f{SHOP.replace('FIXTURE', fixture)}\f{TESTS}"


STRICT = {
    "test_anyio": module(ANYIO, "pytest.fixture"),
    "test_asyncio": module(ASYNCIO, "pytest_asyncio.fixture"),
    "test_plain": PLAIN,
}
AUTO = {"test_asyncio": module("    import pytest", "pytest.fixture")}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return run_reporting(tmp_path_factory.mktemp("project"), STRICT)


def of(reports: Reports, name: str) -> dict[str, str]:
    """Return how each test of a module ended: `passed`, or the line of its error."""
    found: dict[str, str] = {}
    for each in reports.of(name):
        test = each["test"].partition("::")[2]
        if each["outcome"] == "failed":
            errors = [line[1:].strip() for line in each["text"].splitlines() if line.startswith("E ")]
            found[test] = f"{each['when']}: {errors[0]}"
        else:
            found.setdefault(test, "passed")
    return found


UNNAMED = "`inference` is ('Hello.',): give arguments of `@pytest.mark.inference` by name, such as script="
UNUSED = "call: chatagent_test.transport.errors.UnusedScriptsError: 1 unused or unexpected at the end of the test:"
ENDS = {
    "test_a_client": "passed",
    "test_two_clients": "passed",
    "test_a_client_that_another_fixture_has": "passed",
    "test_the_network_of_a_loop_that_began_before_the_guard": "passed",
    "test_a_provider": "passed",
    "test_a_script_that_nobody_claims": UNUSED,
    "test_a_test_that_fails_itself": "call: AssertionError: assert 'Said.' == 'Another.'",
}


def test_strict_pytest_asyncio(reports: Reports) -> None:
    assert of(reports, "asyncio") == ENDS


def test_anyio_s_plugin_on_both_backends(reports: Reports) -> None:
    assert of(reports, "anyio") == {
        f"{name}[{backend}]": how for name, how in ENDS.items() for backend in ("asyncio", "trio")
    }


def test_pytest_asyncio_in_auto_mode(tmp_path_factory: pytest.TempPathFactory) -> None:
    reports = run_reporting(tmp_path_factory.mktemp("auto"), AUTO, "-o", "asyncio_mode=auto")

    assert of(reports, "asyncio") == ENDS


def test_tests_without_a_loop(reports: Reports) -> None:
    ends = of(reports, "plain")

    failed = {name: how for name, how in ends.items() if how != "passed"}
    strict = "call: chatagent_test.inference.errors.StrictInferenceError: the mock inference server is strict:"
    wrong = "setup: chatagent.errors.InvalidArgumentError: "
    assert {name: how.partition(": `@pytest.mark")[0] for name, how in failed.items()} == {
        "test_a_marked_test_gets_its_server_unnamed": strict,
        "test_an_error_that_was_swallowed": strict,
        "test_the_failure_is_told_with_the_requests": "call: AssertionError: assert 'Hello.' == 'Goodbye.'",
        "test_a_misspelt_option": f"{wrong}`stric` is False",
        "test_an_option_without_a_name": f"{wrong}{UNNAMED}",
        "test_a_client_of_a_test_without_a_loop": UNUSED,
    }
    assert Counter(ends.values())["passed"] == 10


def test_the_report_has_the_requests_and_what_was_not_met(reports: Reports) -> None:
    (failure,) = [each for each in reports.failures("plain") if "told_with_the_requests" in each["test"]]

    ((_, text),) = [section for section in failure["sections"] if section[0] == "chatagent inference server"]
    assert text.splitlines() == [
        "requests:",
        "  [0] POST /v1/chat/completions: 200, expectation:greeting, complete",
        "not as expected:",
        "  inference expectation `weather` (state: Pending) was not satisfied",
    ]


def test_the_report_has_the_conversation_and_what_was_not_said(reports: Reports) -> None:
    failures = [each for each in reports.failures("anyio") if "fails_itself" in each["test"]]

    assert len(failures) == 2
    for failure in failures:
        ((_, text),) = [section for section in failure["sections"] if section[0] == "chatagent mock agent"]
        assert "Said." in text
        assert "not claimed: reply.assistant('Unsaid.'), queued at test_anyio.py:" in text
