"""The mock inference server."""

from __future__ import annotations

from chatagent_test.inference.log import LogEntry
from chatagent_test.inference.server.models import MockModel, StorageUpload
from chatagent_test.inference.server.options import ServerOptions
from chatagent_test.inference.server.server import MockInferenceServer

__all__ = ["LogEntry", "MockInferenceServer", "MockModel", "ServerOptions", "StorageUpload"]
