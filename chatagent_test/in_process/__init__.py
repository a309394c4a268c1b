"""A real client over the real agent, in one process and on a virtual clock."""

from __future__ import annotations

from chatagent_test.in_process.client import InProcessClient, create_in_process_client
from chatagent_test.in_process.harness import InProcessHarness
from chatagent_test.in_process.responses import InProcessResponses

__all__ = ["InProcessClient", "InProcessHarness", "InProcessResponses", "create_in_process_client"]
