"""The harness: an agent's real run, driven in memory."""

from chatagent_test.harness.harness import ChatAgentHarness
from chatagent_test.harness.mock import mock_chat_agent
from chatagent_test.harness.sending import Until
from chatagent_test.harness.state import Mode
from chatagent_test.harness.turn import PendingTurn, Turn

__all__ = ["ChatAgentHarness", "Mode", "PendingTurn", "Turn", "Until", "mock_chat_agent"]
