"""Strict requests: what real providers refuse and mocks accept."""

from __future__ import annotations

from chatagent_test.inference.validation.checking import request_problems, validate_request
from chatagent_test.inference.validation.findings import Finding

__all__ = ["Finding", "request_problems", "validate_request"]
