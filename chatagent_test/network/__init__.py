"""The network guard: an HTTP request that nobody mocked fails where it was asked for."""

from chatagent_test.network.errors import NetworkDeniedError
from chatagent_test.network.guard import LOOPBACK, NetworkGuard, deny_network

__all__ = ["LOOPBACK", "NetworkDeniedError", "NetworkGuard", "deny_network"]
