"""What all scenarios of a run come to, and which of them lost most."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOTALS = ("executed", "hindsight", "without_foresight", "open_loop", "planned", "expected_regret")


@dataclass
class Summary:
    """Results as they come: totals, and those that lost most.

    most      how many of these are kept
    executed  scenarios that say what was done; totals are over these, if there are any
    """

    most: float
    scenarios: int = 0
    executed: int = 0
    sense: str = "max"
    failures: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    _totals: tuple[Counter[str], Counter[str]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    _worst: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Another scenario."""
        self.scenarios += 1
        self.sense = row["sense"]
        if row["status"] == "failed":
            self.failed += 1
            if len(self.failures) < self.most:
                self.failures.append(row)
            return
        is_executed = row["executed"] is not None
        self.executed += is_executed
        totals = self._totals[is_executed]
        totals.update({name: row[name] for name in TOTALS if row[name] is not None})
        keep = heapq.heappush if len(self._worst) < self.most else heapq.heappushpop
        keep(self._worst, (lost(row), -self.scenarios, row))

    @property
    def totals(self) -> dict[str, float]:
        """Sums over the scenarios."""
        return dict(self._totals[self.executed > 0])

    @property
    def worst(self) -> list[dict[str, Any]]:
        """Those that lost most, the most first; of equals the first in the table."""
        return [row for _, _, row in sorted(self._worst, reverse=True)]

    def record(self, output: Path | None) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "out": None if output is None else str(output),
            "scenarios": self.scenarios,
            "executed": self.executed,
            "failed": self.failed,
            "sense": self.sense,
            "totals": self.totals,
            "worst": self.worst,
            "failures": self.failures,
        }


def lost(row: dict[str, Any]) -> float:
    """What a scenario lost: in expectation, or where that is not known against the policy."""
    for name in ("expected_regret", "regret_policy"):
        if row[name] is not None:
            return float(row[name])
    return 0.0
