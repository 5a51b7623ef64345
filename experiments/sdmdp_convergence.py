"""Figures 3, 7, 9, 11, 13 and 15 of the 2025 paper: the value at the root against simulations.

Searches of the first state with more and more simulations, each with seeds of its own, with and
without clipping. UCT's value is that of its best action, MENTS's is soft: reward plus temperature
times entropy, so that it may end above V* (below, for costs). The lines are V* and what it is known
to lie between: hindsight and the plan for expected values, executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.planning.bounds import value_bounds
from experiments.figure import Drawn, Options, Track
from experiments.parts import Parts, finish
from experiments.sdmdp_domains import DOMAINS, Case
from experiments.sdmdp_panels import Curve, Lines, Panel, draw_convergence
from experiments.sdmdp_study import CONTENDERS, Contender, Study, planner

if TYPE_CHECKING:
    import polars as pl

Results = Mapping["Cell", Mapping[str, Any]]


class Cell(NamedTuple):
    """All searches of one planner on one problem; no planner: the lines."""

    case: Case
    contender: Contender | None = None

    def key(self) -> list[Any]:
        """Its name in the parts."""
        return [*self.case, self.contender.name if self.contender else "lines"]


def converge(options: Options, track: Track, figure: int, domains: Sequence[str]) -> Drawn:
    """A panel for each problem of a domain; of several domains, one problem each and MENTS only."""
    study = Study(options)
    several = len(domains) > 1
    cases = study.featured(domains) if several else study.cases(domains)
    contenders = [one for one in CONTENDERS if one.algorithm == "MENTS" or not several]
    cells = [Cell(case, one) for case in cases for one in (None, *contenders)]
    parts = Parts(options.parts, study.settings(figure))
    results = finish(lambda cell: _work(study, cell), cells, parts, Cell.key, (track, "searches"))
    panels = [_panel(study, case, contenders, results, several) for case in cases]
    drawing = draw_convergence(_title(domains, study), panels)
    return Drawn(drawing, _numbers(study, results))


def _work(study: Study, cell: Cell) -> dict[str, Any]:
    if cell.contender is None:
        return _lines(study, cell.case)
    problem, sizes = study.played_by(cell.case, cell.contender), study.sizes
    place = CONTENDERS.index(cell.contender)
    values = []
    for budget in sizes.budgets:
        search = planner(cell.contender.algorithm, budget)
        own = study.options.generator(study.seed(cell.case), place, budget)
        decide = search.begin(problem, cell.contender.clip, own)
        decisions: list[Any] = [decide(problem.start) for _ in range(sizes.seeds)]
        values.append([decision.value for decision in decisions])
    return {"values": values}


def _lines(study: Study, case: Case) -> dict[str, Any]:
    problem, reference = study.problem(case), study.reference(case)
    bounds = value_bounds(problem, study.sizes.samples, study.seed(case))
    below, above = (bounds.lower, bounds.lower_se), (bounds.upper, bounds.upper_se)
    hindsight, open_loop = (below, above) if problem.sense == "min" else (above, below)
    return {
        "low": reference.low,
        "high": reference.high,
        "hindsight": hindsight[0],
        "hindsight_se": hindsight[1],
        "open_loop": open_loop[0],
        "open_loop_se": open_loop[1],
    }


def _panel(
    study: Study, case: Case, contenders: Sequence[Contender], results: Results, several: bool
) -> Panel:
    domain, found = DOMAINS[case.domain], results[Cell(case)]
    lines = Lines((found["low"], found["high"]), found["hindsight"], found["open_loop"])
    curves = [
        Curve(one.name, study.sizes.budgets, np.array(results[Cell(case, one)]["values"]))
        for one in contenders
    ]
    better = "lower" if study.problem(case).sense == "min" else "higher"
    title = f"{domain.title}, {case.title}" if several else case.title
    return Panel(title, f"{domain.quantity} ({better} is better)", lines, curves=curves)


def _title(domains: Sequence[str], study: Study) -> str:
    what = DOMAINS[domains[0]].title if len(domains) == 1 else "One problem of each domain"
    soft = "MENTS's value is soft: reward plus entropy"
    return (
        f"{what}: value at the root against simulations\n"
        f"means of {study.sizes.seeds} searches, 95 % intervals; {soft}"
    )


def _numbers(study: Study, results: Results) -> pl.DataFrame:
    import polars as pl

    rows: list[dict[str, Any]] = []
    for cell, found in results.items():
        if cell.contender is None:
            continue
        lines = results[Cell(cell.case)]
        for budget, values in zip(study.sizes.budgets, found["values"], strict=True):
            sample = np.array(values)
            mean, spread = float(sample.mean()), float(sample.std(ddof=1))
            row = {
                **cell.case._asdict(),
                "method": cell.contender.name,
                "simulations": budget,
                "mean": mean,
                "se": spread / np.sqrt(len(values)),
                "searches": len(values),
                "v_star_low": lines["low"],
                "v_star_high": lines["high"],
            }
            more = ("hindsight", "hindsight_se", "open_loop", "open_loop_se")
            rows.append(row | {name: lines[name] for name in more})
    return pl.DataFrame(rows, infer_schema_length=None)
