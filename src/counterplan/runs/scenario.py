"""What a run of scenarios is about, and all of them together; nobody judges or plans here.

A problem goes along as a description and the files that it is made from (`regret_spec`), so that it
can be made again anywhere (`runs.run.open_problem`); `Summary` adds up what the scenarios lost.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.run import PARQUET, Run, open_run
from counterplan.runs.store import sha256
from counterplan.runs.task import REGRET, TaskSpec

if TYPE_CHECKING:
    from counterplan.core.limits import ProgressCallback
    from counterplan.domains.problems import ProblemChoice
    from counterplan.tables.scenarios import ScenarioFile


def regret_spec(
    problem: ProblemChoice,
    planner: str | None,
    simulations: int,
    clip: bool,
    seed: int,
    k: int | None = None,
) -> TaskSpec:
    """The task for a problem; `planner` None: no planner decides along; `k`: what at most so many
    changed decisions would have brought is told, too."""
    if planner:
        from counterplan.planning.search.planners import PLANNERS

        PLANNERS[planner](simulations)  # a bad number is told of before anything is written
    asked: dict[str, Any] = {"domain": problem.domain}
    files = {}
    for name, value in problem.options.items():
        if isinstance(value, Path):
            ending = PARQUET if value.suffix.lower() == PARQUET else ""
            files[name + ending] = value.read_bytes()
        elif value:
            asked[name] = value
    searched = {"planner": planner, "simulations": simulations, "clip": clip} if planner else {}
    changed = {} if k is None else {"k": k}
    return TaskSpec(REGRET, {"problem": asked, "seed": seed, **searched, **changed}, files)


def run_scenarios(
    table: ScenarioFile,
    spec: TaskSpec,
    folder: Path,
    progress: ProgressCallback | None = None,
    **places: Any,
) -> Run:
    """Judge all scenarios of a table and keep everything in a folder; `places`: the workers or the
    cluster of `RunSettings`."""
    from counterplan.tables.scenarios import scenario_parts

    about = spec.description
    searched = {name: about.get(name) for name in ("planner", "simulations", "clip")}
    changed = {"k": about["k"]} if "k" in about else {}
    with Path(table.path).open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    settings = RunSettings(
        arguments={**about["problem"], **searched, **changed},
        hashes={"input": checksum, **{name: sha256(one) for name, one in spec.files.items()}},
        seed=about["seed"],
        **places,
    )
    parts = scenario_parts(table.scenarios(), table.columns, settings.part_size)
    return open_run(run_cohort(spec, parts, folder, settings, progress).out)


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
    _totals: Sequence[Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
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
        known = {name: row[name] for name in TOTALS if row[name] is not None}
        self._totals[is_executed].update(known)
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
        names = ("scenarios", "executed", "failed", "sense", "totals", "worst", "failures")
        out = None if output is None else str(output)
        return {"out": out, **{name: getattr(self, name) for name in names}}


def lost(row: dict[str, Any]) -> float:
    """What a scenario lost: in expectation, or where that is not known against the policy."""
    known = (row[name] for name in ("expected_regret", "regret_policy"))
    return float(next((value for value in known if value is not None), 0.0))
