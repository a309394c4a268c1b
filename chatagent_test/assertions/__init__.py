"""What tests say about turns: assertions with differences that people can read, and transcripts for snapshots."""

from chatagent_test.assertions.chunks import assert_chunks
from chatagent_test.assertions.hooks import assert_hooks
from chatagent_test.assertions.transcript import transcript

__all__ = ["assert_chunks", "assert_hooks", "transcript"]
