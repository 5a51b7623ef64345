"""Figures 4, 6, 8, 10, 12 and 14 of the 2025 paper: what planners and policies earn or cost.

Everyone plays the same futures, so differences are paired, and penalties with mean zero take out
most of what chance brought. Means are V* plus the difference to its policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.figure import Drawn, Options, Track
from experiments.parts import Parts, finish
from experiments.sdmdp_domains import DOMAINS, Case, baseline
from experiments.sdmdp_panels import Dot, Lines, Panel, draw_comparison
from experiments.sdmdp_play import (
    BASELINE,
    Cell,
    Results,
    Speed,
    Steady,
    cells_of,
    play,
    take_luck_out,
    time_search,
)
from experiments.sdmdp_study import CONTENDERS, Study
from experiments.sdmdp_table import (
    EQUAL_TIME,
    HINDSIGHT,
    OPEN_LOOP,
    OPTIMAL,
    PAPER,
    Played,
    Standard,
    restored,
    rows,
)

if TYPE_CHECKING:
    import polars as pl


def compare(options: Options, track: Track, figure: int, domains: Sequence[str]) -> Drawn:
    """A panel for each problem of these domains; of several domains, one problem each."""
    study = Study(options)
    cases = study.cases(domains) if len(domains) == 1 else study.featured(domains)
    parts = Parts(options.parts, study.settings(figure))
    usual = [
        Speed(case, contender, study.simulations(case))
        for case in cases
        for contender in CONTENDERS
    ]
    timed = _timed(study, usual, parts, (track, "timing"))
    plan = {case: cells_of(study, case, timed) for case in cases}
    every = [cell for cells in plan.values() for cell, _ in cells]
    searches = [_speed(cell) for cell in every if cell.contender is not None]
    timed = _timed(study, searches, parts, (track, "timing"))
    results = finish(lambda cell: play(study, cell), every, parts, Cell.key, (track, "playing"))
    steady = finish(
        lambda one: take_luck_out(study, plan[one.case], results),
        [Steady(case) for case in cases],
        parts,
        Steady.key,
        (track, "comparing"),
    )
    everything: dict[Any, Mapping[str, Any]] = {**timed, **results, **steady}
    tables = {
        case: rows(_gathered(study, plan[case], everything), _standard(case, results))
        for case in cases
    }
    panels = [_panel(study, case, table, len(domains) > 1) for case, table in tables.items()]
    return Drawn(draw_comparison(_title(domains, study.budget), panels), _numbers(tables))


def _timed(
    study: Study, speeds: Sequence[Speed], parts: Parts, track: tuple[Track, str]
) -> Results:
    """How long these searches take; some serve several budgets."""
    once = list(dict.fromkeys(speeds))
    return finish(lambda speed: time_search(study, speed), once, parts, Speed.key, track)


def _speed(cell: Cell) -> Speed:
    assert cell.contender is not None
    assert cell.simulations is not None
    return Speed(cell.case, cell.contender, cell.simulations)


def _standard(case: Case, results: Results) -> Standard:
    kept = results[Cell(case, OPTIMAL)]
    return Standard(kept["low"], kept["high"], kept["expectation"], kept["se"])


def _gathered(study: Study, cells: Sequence[tuple[Cell, str]], found: Results) -> list[Played]:
    gathered = []
    for cell, budget in cells:
        kept, sense = found[cell], study.problem(cell.case).sense
        name = baseline(cell.case).name if cell.method == BASELINE else cell.method
        outcomes = restored(name, sense, kept["outcomes"], kept["futures"])
        values = found[Steady(cell.case)].get(json.dumps(cell.key()))
        steady = None if values is None else restored(name, sense, values, kept["futures"])
        milliseconds = None if cell.contender is None else 1000.0 * found[_speed(cell)]["seconds"]
        gathered.append(Played(name, budget, outcomes, steady, cell.simulations, milliseconds))
    return gathered


def _panel(study: Study, case: Case, table: Sequence[Mapping[str, Any]], several: bool) -> Panel:
    domain, sense = DOMAINS[case.domain], study.problem(case).sense
    by_method = {row["method"]: row for row in table}
    lines = Lines(
        optimum=(table[0]["v_star_low"], table[0]["v_star_high"]),
        hindsight=by_method[HINDSIGHT]["controlled_mean"],
        open_loop=by_method[OPEN_LOOP]["controlled_mean"],
    )
    dots = [
        Dot(row["method"], row["budget"], row["controlled_mean"], row["controlled_se"], _note(row))
        for row in table
        if row["method"] not in (HINDSIGHT, OPTIMAL)
    ]
    better = "lower" if sense == "min" else "higher"
    title = f"{domain.title}, {case.title}" if several else case.title
    return Panel(title, f"{domain.quantity} ({better} is better)", lines, dots=dots)


def _note(row: Mapping[str, Any]) -> str:
    """The loss to the optimum in per cent of it, with its standard error."""
    if row["budget"] == EQUAL_TIME:
        return ""
    whole = abs(row["v_star_low"])
    percent = round(100.0 * row["loss"] / whole, 2) + 0.0  # no minus in front of a zero
    return f"{percent:.2f} % ({100.0 * row['loss_se'] / whole:.2f})"


def _title(domains: Sequence[str], budget: str) -> str:
    number = "the paper's number of simulations"
    if budget != PAPER:
        number = "fewer simulations than the paper's"
    what = DOMAINS[domains[0]].title if len(domains) == 1 else "One problem of each domain"
    return (
        f"{what}: what policies and planners reach\n"
        "means over common futures, luck taken out, 95 % intervals; UCT+ plays on by the model's "
        "policy, the others at random\nto the right: loss to the optimum and its standard error, "
        f"with {number}"
    )


def _numbers(tables: Mapping[Case, Sequence[Mapping[str, Any]]]) -> pl.DataFrame:
    import polars as pl

    table = [{**case._asdict(), **row} for case, found in tables.items() for row in found]
    return pl.DataFrame(table, infer_schema_length=None)
