"""Recorded exchanges: their files, secrets taken out, and answers from them."""

from __future__ import annotations

from chatagent_test.inference.recording.cases import case_response
from chatagent_test.inference.recording.exchanges import Exchange
from chatagent_test.inference.recording.library import Recordings
from chatagent_test.inference.recording.scrubbing import Scrubber

__all__ = ["Exchange", "Recordings", "Scrubber", "case_response"]
