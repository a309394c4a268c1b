"""Telemetry of runs: their turns, hooks, waits and the like as spans of OpenTelemetry. Needs `chatagent[otel]`."""

from chatagent.telemetry.spans import OpenTelemetry

__all__ = ["OpenTelemetry"]
