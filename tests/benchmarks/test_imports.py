"""What importing costs, beyond pydantic and anyio themselves, with every public name resolved."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.conftest import Bench

TIMED = """
import time, pydantic, anyio
for name in ("BaseModel", "TypeAdapter", "ValidationError"): getattr(pydantic, name)
began = time.perf_counter()
from {package} import *
print(time.perf_counter() - began)
"""


@pytest.mark.parametrize(("package", "limit"), [("chatagent", 0.3), ("chatagent_test", None)])
def test_importing_is_quick(bench: Bench, tmp_path: Path, package: str, limit: float | None) -> None:
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-X", f"pycache_prefix={tmp_path}", "-c", TIMED.format(package=package)]

    runs = [
        float(subprocess.run(command, env=surroundings, capture_output=True, check=True).stdout)
        for _ in range(bench.size(6, 1))
    ]
    seconds = min(runs)

    bench.report(f"importing {package} and all its names: {seconds * 1000:.0f} ms")
    assert not (bench.measuring and limit) or seconds <= limit
