"""Timings of calls and what is said about them."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from counterplan.core import compiled

# What is timed is compiled from its first call on. What first questions take as plain Python stands
# under start-up, in processes of their own.
compiled.SMALL = 0


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one quantity."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated calls, by the clock on the wall and of the processor."""

    wall: Spread
    cpu: Spread


@dataclass(frozen=True)
class Finding:
    """One measured line of the report.

    wall    what was measured; for ratios and seconds, by the clock on the wall
    cpu     the same in processor time, None where it does not apply
    unit    's', 'x' (times as fast) or 'MB'
    target  None, or the value to reach: at least it for 'x', at most it otherwise
    """

    what: str
    wall: Spread
    unit: str
    cpu: Spread | None = None
    target: float | None = None

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        reached = self.wall.median >= self.target
        return reached if self.unit == "x" else self.wall.median <= self.target


def timed(call: Callable[[], object], calls: int = 1) -> tuple[float, float]:
    """Seconds (wall, processor) of one call, as the mean over `calls`."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        call()
    return (time.perf_counter() - wall) / calls, (time.process_time() - cpu) / calls


def timing(pairs: list[tuple[float, float]]) -> Timing:
    walls, cpus = zip(*pairs, strict=True)
    return Timing(Spread(walls), Spread(cpus))


def ratio(slow: Timing, fast: Timing) -> tuple[Spread, Spread]:
    """How many times as fast, round by round: by the wall clock and in processor time."""
    wall = zip(slow.wall.values, fast.wall.values, strict=True)
    cpu = zip(slow.cpu.values, fast.cpu.values, strict=True)
    return Spread(tuple(s / f for s, f in wall)), Spread(tuple(s / f for s, f in cpu))


def machine() -> dict[str, Any]:
    """What the numbers depend on; no names of hosts or paths."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba")},
    }


def conditions(document: dict[str, Any]) -> str:
    """The `machine` of a document of results and, where it was noted, its `load`, in words."""
    facts = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    if "load" not in document:
        return facts
    return f"{facts}. Load average {min(document['load']):.1f} to {max(document['load']):.1f}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()
