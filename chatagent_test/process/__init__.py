"""Helpers for tests of programs: a server that counts the connections they make."""

from __future__ import annotations

from chatagent_test.process.counting import CountingServer

__all__ = ["CountingServer"]
