"""Crashing an agent everywhere: a conversation is repeated with a crash at each point, and its outcome is checked."""

from chatagent_test.crashes.chat import CrashingChat
from chatagent_test.crashes.explore import CrashPointKind, Scenario, explore_crashes
from chatagent_test.crashes.report import CrashReport, CrashViolation

__all__ = ["CrashPointKind", "CrashReport", "CrashViolation", "CrashingChat", "Scenario", "explore_crashes"]
