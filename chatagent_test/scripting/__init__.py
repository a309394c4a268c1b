"""What a scripted model says, as values: the `script` builder and the steps that it makes."""

from __future__ import annotations

from chatagent_test.scripting.builder import Script, script

__all__ = ["Script", "script"]
