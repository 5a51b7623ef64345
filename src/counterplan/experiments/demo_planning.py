"""The demo's third part: voyages whose fuel was bought by a plan made in the first port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterplan.cohort.manifest import sha256
from counterplan.cohort.reading import open_run
from counterplan.cohort.regret_task import regret_spec
from counterplan.cohort.run import PART_SIZE, RunSettings, run_cohort
from counterplan.io.plan_question import Question, problem_of
from counterplan.io.scenario_form import form_of
from counterplan.io.scenario_parts import scenario_parts
from counterplan.io.scenario_table import open_scenarios
from counterplan.io.scenario_template import write_template

TABLE = "voyages.csv"
PLANNER, SIMULATIONS = "uct", 1_000


def run_voyages(folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """Sample voyages, and judge the decisions of the plan for expected prices into `out`."""
    question = Question(domain="bunkering")
    form = form_of(problem_of(question))
    path = folder / TABLE
    path.unlink(missing_ok=True)  # of an earlier demo
    write_template(path, form, seed)
    table = open_scenarios(path, form)
    spec = regret_spec(question, PLANNER, SIMULATIONS, True, seed)
    searched = {name: spec.description.get(name) for name in ("planner", "simulations", "clip")}
    settings = RunSettings(
        arguments={**spec.description["problem"], **searched},
        hashes={"input": sha256(path.read_bytes())},
        seed=seed,
    )
    run_cohort(
        spec, lambda: scenario_parts(table.scenarios(), table.form, PART_SIZE), out, settings
    )
    results = open_run(out).scan("results").collect()
    totals = {name: float(results[name].sum()) for name in ("executed", "planned", "hindsight")}
    return {"voyages": results.height, **{f"voyages_{name}": totals[name] for name in totals}}
