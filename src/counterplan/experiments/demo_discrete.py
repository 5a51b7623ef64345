"""The demo's first part: deaths of the ICU-Sepsis model, explained."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterplan.cohort.cases import CaseQuery, review_list
from counterplan.cohort.question import Question
from counterplan.cohort.reading import open_run
from counterplan.cohort.tables import RESULTS
from counterplan.core.episode import Episode
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_sepsis import DEATH, LEVELS, IcuSepsis
from counterplan.experiments.demo_runs import explain_table
from counterplan.files.atomic import atomic_file
from counterplan.io.models import save_model
from counterplan.io.schema import Column, Schema
from counterplan.io.schema_layout import MEANS, SCHEMA
from counterplan.viz.report.source import NOTES, OUTCOME, SEVERITY

TABLE, MODEL = "deaths.csv", "icu-sepsis.safetensors"
HOURS = 4.0
SOURCES = (
    "ICU-Sepsis version 2 (package icu-sepsis 2.0.1, MIT licence), built from MIMIC-III. "
    "K. Choudhary, D. Gupta, P. S. Thomas: ICU-Sepsis: A Benchmark MDP Built from Real Medical "
    "Data, Reinforcement Learning Conference, 2024. It is a benchmark, and its authors ask not to "
    "draw conclusions for medical practice from it.",
    "The patients are simulated: no record of a real person is shown. At each step of four hours "
    "a patient is in one of 713 states (groups of similar patients), and gets one of five levels "
    "each of intravenous fluids and vasopressors, 0 for none and 4 for most.",
    "The outcome is 0 % for a death, 100 % for a discharge, and for whoever would still be in "
    "treatment when the observed patient died, the chance of surviving from there under usual "
    "care. Only treatments that clinicians chose often enough in a state are considered there.",
)
# Improvements below this are rounding.
ROUNDING = 1e-9


def run_deaths(
    folder: Path, out: Path, asked: tuple[int, int, int]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Sample patients, write model and table of those who died into `folder`, explain them into
    `out`; the improvable ones, ranked, and counts. `asked`: patients, seed, k."""
    patients, seed, k = asked
    model = icu_sepsis.load()
    episodes = model.sample_episodes(patients, seed)
    deaths = [episode for episode in episodes if model.died(episode)]
    in_treatment = sum(int(episode.states[-1]) < DEATH for episode in episodes)
    counts: dict[str, Any] = {
        "patients": len(episodes),
        "deaths": len(deaths),
        "discharged": len(episodes) - len(deaths) - in_treatment,
        "still_in_treatment": in_treatment,
        "k": k,
        "seed": seed,
    }
    if not deaths:
        return [], {**counts, "improvable": 0, "holds_in_every_model": 0, "mean_value_by_k": []}
    save_model(model.mdp.with_data(None, about(model)), folder / MODEL)
    _write_table(folder / TABLE, model, deaths)
    question = Question(budgets=tuple(range(k + 1)), robust=True, seed=seed)
    explain_table(folder / TABLE, folder / MODEL, question, out)
    return _found(out, k, counts)


def about(model: IcuSepsis) -> dict[str, Any]:
    """What the model tells of itself: columns, what the outcome is, how ill patients are."""
    levels = tuple(float(level) for level in range(LEVELS))
    columns = (
        Column("state", "state", labels=tuple(model.mdp.state_labels or ())),
        Column("fluids", "action", levels=levels),
        Column("vasopressor", "action", levels=levels),
    )
    schema = Schema(columns, episode="patient", step=HOURS, unit="h", kind="discrete")
    scores = [float(score) if s < DEATH else None for s, score in enumerate(model.sofa)]
    return {
        SCHEMA: schema.as_dict(),
        MEANS: {},
        OUTCOME: {"name": "survival probability", "percent": True},
        NOTES: list(SOURCES),
        SEVERITY: {"name": "SOFA", "unit": "points", "better": "lower", "values": scores},
    }


def _write_table(path: Path, model: IcuSepsis, deaths: Sequence[Episode]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["patient", "t", "state", "fluids", "vasopressor"])
    for death in deaths:
        for t, (state, action) in enumerate(zip(death.states, death.actions, strict=True)):
            doses = divmod(int(action), LEVELS)
            writer.writerow([death.id, t, model.mdp.state_name(int(state)), *doses])
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())


def _found(
    out: Path, k: int, counts: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import polars as pl

    run = open_run(out)
    ranked = review_list(run, CaseQuery(k=k, min_improvement=ROUNDING)).to_dicts()
    means = run.scan(RESULTS).group_by("k").agg(pl.col("value").mean()).sort("k").collect()
    table = [
        {
            "patient": row["episode_id"],
            **{name: row[name] for name in ("steps", "factual", "value", "improvement")},
            **{name: row[name] for name in ("bound", "gap", "status")},
            **{name: row[name] for name in ("interval_low", "interval_high")},
            "changes": [change["text"] for change in row["changes"]],
        }
        for row in ranked
    ]
    holds = sum(row["interval_low"] > row["factual"] + ROUNDING for row in ranked)
    summary = {
        **counts,
        "improvable": len(table),
        "holds_in_every_model": holds,
        "mean_value_by_k": means["value"].to_list(),
    }
    return table, summary
