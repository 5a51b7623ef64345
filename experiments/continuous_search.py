"""Figures 2 and 5 of the 2023 paper: how far the search has to look, and for how long.

Figure 2 varies the constant L_h of the model, the number M of sampled alternatives that anchors
come from, and the budget k; figure 5 the strategy that chooses anchors, and their number. The
paper has M up to 2000 and 200 patients; the cost of anchors grows with their square, so the sizes
here are those that end within minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.counterfactual.continuous.anchors import STRATEGIES
from counterplan.viz import style
from experiments.continuous_panels import BRANCHING, SECONDS, Sample, draw_averages, style_quantity
from experiments.continuous_study import (
    HORIZON,
    LOCATION,
    OURS,
    PAPERS,
    PAPERS_NODES,
    SCALE,
    Cell,
    Study,
)
from experiments.figure import Drawn, Options, Track
from experiments.panels import canvas, set_title
from experiments.parts import Parts, finish

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Drawing

Results = Mapping[Cell, Mapping[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What is varied, and what the rest is meanwhile.

    locations, samples, budgets  values of L_h, M and k in figure 2
    sample, budget               M and k where they are not varied
    sizes                        numbers of anchors in figure 5, with its own budget and patients
    """

    patients: int = 16
    locations: tuple[float, ...] = (0.8, 0.9, 1.0, 1.1)
    samples: tuple[int, ...] = (25, 50, 100, 200, 400)
    budgets: tuple[int, ...] = (1, 2, 3)
    sample: int = 100
    budget: int = 3
    sizes: tuple[int, ...] = (100, 200, 400, 800)
    strategy_budget: int = 2
    strategy_patients: int = 10


FULL = Plan()
QUICK = Plan(
    patients=3,
    locations=(0.8, 1.0),
    samples=(15, 50),
    budgets=(1, 2),
    sample=50,
    budget=2,
    sizes=(50, 200),
    strategy_budget=1,
    strategy_patients=3,
)


def figure2(options: Options, track: Track) -> Drawn:
    """Branching factor and run time against L_h, M and k, for both bounds."""
    study, plan = Study(options), QUICK if options.quick else FULL
    columns = {
        "location network's constant $L_h$": (
            plan.locations,
            [(plan.sample, location, plan.budget) for location in plan.locations],
        ),
        "alternatives sampled for anchors M": (
            plan.samples,
            [(sample, LOCATION, plan.budget) for sample in plan.samples],
        ),
        "changes allowed k": (
            plan.budgets,
            [(plan.sample, LOCATION, k) for k in plan.budgets],
        ),
    }
    series = {
        title: (places, {bound: _cells(bound, points, plan) for bound in (OURS, PAPERS)})
        for title, (places, points) in columns.items()
    }
    every = [
        cell
        for _, bounds in series.values()
        for groups in bounds.values()
        for group in groups
        for cell in group
    ]
    results = _results(study, every, "figure 2", track)
    return Drawn(_draw2(series, results, study, plan), _numbers(results))


def figure5(options: Options, track: Track) -> Drawn:
    """Branching factor and run time of the three strategies against the number of anchors."""
    study, plan = Study(options), QUICK if options.quick else FULL
    patients = range(plan.strategy_patients)
    k = plan.strategy_budget
    groups = {
        strategy: [
            [Cell(strategy, size, LOCATION, k, patient, sized=True) for patient in patients]
            for size in plan.sizes
        ]
        for strategy in STRATEGIES
    }
    groups[OURS] = [[Cell(OURS, 0, LOCATION, k, patient) for patient in patients]] * len(plan.sizes)
    every = [cell for group in groups.values() for cells in group for cell in cells]
    results = _results(study, every, "figure 5", track)
    return Drawn(_draw5(groups, results, study, plan), _numbers(results))


def _cells(bound: str, points: Sequence[tuple[int, float, int]], plan: Plan) -> list[list[Cell]]:
    """For each point (M, L_h, k) a cell for each patient; ours has no M."""
    return [
        [
            Cell(bound, 0 if bound == OURS else sample, location, k, patient)
            for patient in range(plan.patients)
        ]
        for sample, location, k in points
    ]


def _results(study: Study, cells: Sequence[Cell], figure: str, track: Track) -> Results:
    parts = Parts(study.options.parts, study.settings(figure=figure))
    return finish(study.search, cells, parts, list, (track, "searches"))


def _sample(cells: Sequence[Cell], results: Results, quantity: str) -> Sample:
    values = np.array([results[cell][quantity] for cell in cells], dtype=np.float64)
    return Sample(values, any(results[cell]["status"] != "optimal" for cell in cells))


def _numbers(results: Results) -> pl.DataFrame:
    import polars as pl

    rows = [
        {
            "bound": cell.bound,
            "anchors": cell.amount if cell.sized else None,
            "M": None if cell.sized or cell.bound == OURS else cell.amount,
            "L_h": cell.location,
            "L_phi": SCALE,
            "k": cell.k,
            **result,
        }
        for cell, result in results.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _stopped(results: Results) -> str:
    """How many searches ran into the limit of nodes: their numbers are lower than the truth."""
    count = sum(result["status"] != "optimal" for result in results.values())
    limit = f"{count} of {len(results)} searches stopped at {PAPERS_NODES:,} nodes"
    return f"\nopen markers: lower bounds, {limit}" if count else ""


def _title(what: str, results: Results, study: Study, patients: int) -> str:
    return (
        f"{what}, T = {HORIZON}, $L_\\phi$ = {SCALE:g}\n{patients} patients, models learned "
        f"from {study.sizes.simulated} simulated stays, 95 % intervals{_stopped(results)}"
    )


def _draw2(
    series: Mapping[str, tuple[Sequence[float], Mapping[str, list[list[Cell]]]]],
    results: Results,
    study: Study,
    plan: Plan,
) -> Drawing:
    drawing = canvas(8.6, 5.0, _title("Efficiency of the search", results, study, plan.patients))
    rows = drawing.subplots(2, 3, sharey="row", sharex="col")
    others = (f"M = {plan.sample}", f"$L_h$ = {LOCATION:g}", f"k = {plan.budget}")
    fixed = (others[0::2], others[1:], others[:2])
    for column, (title, (places, bounds)) in enumerate(series.items()):
        for axes, quantity in zip(rows[:, column], (BRANCHING, SECONDS), strict=True):
            samples = {
                bound: [_sample(cells, results, quantity) for cells in groups]
                for bound, groups in bounds.items()
            }
            draw_averages(axes, places, samples)
        set_title(rows[0, column], f"({'abc'[column]})  {', '.join(fixed[column])}")
        rows[1, column].set_xlabel(title)
    for axes, quantity in zip(rows[:, 0], (BRANCHING, SECONDS), strict=True):
        style_quantity(axes, quantity)
    style.add_legend(rows[0, 1], loc="lower left")
    return drawing


def _draw5(
    groups: Mapping[str, list[list[Cell]]], results: Results, study: Study, plan: Plan
) -> Drawing:
    what = f"How anchors are chosen, $L_h$ = {LOCATION:g}, k = {plan.strategy_budget}"
    drawing = canvas(8.0, 4.0, _title(what, results, study, plan.strategy_patients))
    row = drawing.subplots(1, 2)
    for axes, quantity, letter in zip(row, (BRANCHING, SECONDS), "ab", strict=True):
        samples = {
            bound: [_sample(cells, results, quantity) for cells in group]
            for bound, group in groups.items()
        }
        draw_averages(axes, plan.sizes, samples)
        style_quantity(axes, quantity)
        axes.set_xlabel("anchors (ours has none)")
        set_title(axes, f"({letter})")
    handles, names = row[0].get_legend_handles_labels()
    drawing.legend(
        handles, names, loc="outside lower left", ncols=2, frameon=False,
        fontsize=style.SMALL_SIZE, labelcolor=style.INK,
    )  # fmt: skip
    return drawing
