"""Benchmarks: quick runs without limits by default, measured ones with `--benchmark-enable`.

They compare two things of one process with each other, so that a noisy machine makes both slow. Only ratios have
limits.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass
class Bench:
    """Measures, or only tries."""

    measuring: bool
    report: Callable[[str], None]

    def size(self, measured: int, tried: int) -> int:
        """Return how much to do."""
        return measured if self.measuring else tried

    async def seconds(self, work: Callable[[], Awaitable[object]]) -> float:
        """Return how long one run of some work takes."""
        gc.collect()
        began = time.perf_counter()
        await work()
        return time.perf_counter() - began

    async def median(self, work: Callable[[], Awaitable[object]], *, runs: int) -> float:
        """Return the median over so many runs."""
        times: list[float] = []
        for _ in range(runs if self.measuring else 2):
            began = time.perf_counter()
            await work()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    def ratio(self, name: str, ours: float, yardstick: float, *, limit: float | None = None) -> None:
        """Report a ratio, and hold it against its limit when measuring."""
        ratio = ours / yardstick
        self.report(f"{name}: {ratio:.2f}" + ("" if limit is None else f" (limit {limit:g})"))
        if self.measuring and limit is not None:
            assert ratio <= limit, f"{name}: {ratio:.2f} is over its limit of {limit:g}"


@pytest.fixture
def bench(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Bench:
    measuring = bool(request.config.getoption("benchmark_enable"))

    def report(line: str) -> None:
        if measuring:
            with capsys.disabled():
                print(f"\n  {line}", end="")

    return Bench(measuring, report)


@pytest.fixture
def anyio_backend() -> str:
    """Limits are for asyncio."""
    return "asyncio"
