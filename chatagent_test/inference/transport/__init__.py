"""In-process transports: clients of `httpx` and `httpx2` reach a mock inference server without a socket."""

from __future__ import annotations

from chatagent_test.inference.transport.exchange import HTTPLibrary
from chatagent_test.inference.transport.interception import PROVIDER_ORIGINS, Interception, Others
from chatagent_test.inference.transport.transports import create_transport

__all__ = ["PROVIDER_ORIGINS", "HTTPLibrary", "Interception", "Others", "create_transport"]
