"""The demo's second part: simulated sepsis stays, a neural model of them, and better doses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from counterplan.cohort.question import Question
from counterplan.cohort.reading import open_run
from counterplan.cohort.tables import RESULTS
from counterplan.domains.sepsis_simulator import write_cohort
from counterplan.experiments.demo_runs import explain_table
from counterplan.io.stay_models import CohortSettings, fit_cohort
from counterplan.viz.report.source import NOTES

TRAINING, TABLE, MODEL = "training.csv", "stays.csv", "model.safetensors"
# Large enough for the model to fit better than a linear one, small enough to learn in seconds.
LEARNED_FROM, HIDDEN, EPOCHS = 300, 64, 200
EXPLAINED = 60
K = 2
SOURCES = (
    "The stays are simulated by an invented mechanism: no record of a real person is shown, and "
    "nothing can be concluded for medical practice.",
)
# Of each search; the same as with `counterplan explain -o`.
NODES = 20_000


def run_stays(folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """Learn a model from simulated stays, and explain others into `out`."""
    write_cohort(folder / TRAINING, patients=LEARNED_FROM, seed=seed)
    write_cohort(folder / TABLE, patients=EXPLAINED, seed=seed + 1)
    model, _ = fit_cohort(folder / TRAINING, CohortSettings(HIDDEN, EPOCHS, seed=seed))
    replace(model, about={**model.about, NOTES: list(SOURCES)}).save(folder / MODEL)
    question = Question(budgets=tuple(range(K + 1)), nodes=NODES, seed=seed)
    explain_table(folder / TABLE, folder / MODEL, question, out)
    import polars as pl

    results = open_run(out).scan(RESULTS).filter(pl.col("k") == K)
    found = results.select(pl.len(), pl.col("improvement").mean()).collect().row(0)
    return {"stays": int(found[0]), "stays_mean_improvement": float(found[1])}
