"""What a run of scenarios is about, and all of them together; nobody judges or plans here.

A problem goes along as a description and the files that it is made from (`regret_spec`), so that it
can be made again anywhere (`runs.run.open_problem`); `summarised` adds up what scenarios lost.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.run import PARQUET, Run, open_run
from counterplan.runs.store import sha256
from counterplan.runs.task import REGRET, TaskSpec

if TYPE_CHECKING:
    import polars as pl

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


def summarised(results: pl.LazyFrame, most: int | None) -> dict[str, Any]:
    """All scenarios together: how many there are, totals (over those that say what was done, if
    there are any), and at most so many each of those that lost most, of equals the first in the
    table, and of those that failed."""
    import polars as pl

    is_failed = pl.col("status") == "failed"
    every = results.select("status", "sense", *TOTALS).collect()
    judged = every.filter(~is_failed)
    executed = judged.filter(pl.col("executed").is_not_null())
    known = (executed if len(executed) else judged).select(TOTALS)
    totals = {one.name: math.fsum(one.drop_nulls()) for one in known if one.count()}
    loss = pl.coalesce("expected_regret", "regret_policy", pl.lit(0.0))
    worst = results.filter(~is_failed).sort(loss, descending=True, maintain_order=True)
    return {
        "scenarios": len(every),
        "executed": len(executed),
        "failed": len(every) - len(judged),
        "sense": every["sense"][-1],
        "totals": totals,
        "worst": worst.slice(0, most).collect().to_dicts(),
        "failures": results.filter(is_failed).slice(0, most).collect().to_dicts(),
    }


def lost(row: dict[str, Any]) -> float:
    """What a scenario lost: in expectation, or where that is not known against the policy."""
    known = (row[name] for name in ("expected_regret", "regret_policy"))
    return float(next((value for value in known if value is not None), 0.0))
