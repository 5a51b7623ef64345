"""Whether claims come true: `python -m benchmarks.claims [PROCESS ...]` in the repository's root.

Models are learned by `SmoothSCM`, from several simulated cohorts of each size, and asked about
fresh episodes that simulators replay with their own luck: sepsis, two versions of the infection,
and the five tables of `benchmarks.own_tables`. Two changes are chosen greedily for the worst
quarter of the members, among those that the posterior mean thinks best, and their improvement is
claimed with an interval, as `cp.replay` does.

    ratio     claimed / true, means over all episodes
    coverage  how often the 90 % interval holds the true improvement; by cohort, least and most
    width     of the intervals, on average
    worse     how often the changes are truly worse than what was done

`--exact SECONDS` searches instead, for so long at most; `--cohorts` says how many models to learn,
`--fresh` how many episodes to ask in all, `--sizes` which sizes alone. Writes results/claims.md,
the rows that were asked for alone. `--unknowable flipped|hidden` asks instead how often the ranges
of `cp.sensitivity` hold the truth.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import counterplan as cp
from benchmarks import own_tables
from counterplan.core.constraints import Constraints
from counterplan.core.problem import Problem
from counterplan.counterfactual.continuous.setting import (
    DEFAULT_RISK,
    prepare_sequence,
    worst_mean,
)
from counterplan.runs.explain import open_cohort
from counterplan.runs.question import Question
from counterplan.tables.schema import schema_from_dict
from experiments import ground_truth

RESULTS = Path(__file__).parent / "results" / "claims.md"
K, SHORT = 2, 10
SIZES = {
    ground_truth.SEPSIS: (250, 1_000, 4_000, 16_000),
    "plain": (240, 960),
    "response": (240, 960),
}
COHORTS, FRESH = 10, 330
# Of simulated sepsis patients three quarters stay long enough.
ADMITTED = 1.34
# Of fresh noise for each rho; of the hidden cause, in units of the noise (0.25 against some 0.2).
DRAWS, STRENGTH = 50, 1.25
HEADING = (
    "| process | episodes | cohorts x fresh | claimed | true | ratio | coverage | width | worse |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
)


@dataclass(frozen=True, eq=False)
class Asked:
    """A fresh episode: what may be done, and what sequences (T-1,) truly bring."""

    episode: cp.Episode
    actions: Any
    reward: Any
    true: Callable[[NDArray[np.int64]], float]
    constraints: Constraints


def simulated(process: str, size: int, cohort: int, fresh: int) -> tuple[Any, list[Asked]]:
    """A model of sepsis or of the infection, and fresh patients."""
    admitted = ADMITTED if process == ground_truth.SEPSIS else 1.0
    seeds = {"seed": cohort, "fresh_seed": ground_truth.FRESH_SEED + cohort}
    found = ground_truth.learn(process, size, round(admitted * fresh), members=16, **seeds)

    def true(case: ground_truth.Case, sequence: NDArray[np.int64]) -> float:
        return ground_truth.true_improvement(found, case, sequence)

    return found.model, [
        Asked(case.episode, case.vectors, found.reward, partial(true, case), Constraints())
        for case in found.cases
    ]


def table(name: str, size: int, cohort: int, fresh: int) -> tuple[Any, list[Asked]]:
    """A model of one of the five tables, and fresh episodes in another."""
    import tomllib

    process = own_tables.TABLES[name]
    schema = schema_from_dict(tomllib.loads(process.schema))
    rng = np.random.default_rng(cohort)
    cases = [own_tables.simulate(process, rng) for _ in range(size + fresh)]
    every = [process.rows(number, case) for number, case in enumerate(cases)]
    first, second = (
        pl.DataFrame([row for rows in part for row in rows], infer_schema_length=None)
        for part in (every[:size], every[size:])
    )
    model = cp.fit(_as_read(first), schema, learner="smooth")
    opened = open_cohort(_as_read(second), model, None, ())
    explainer: Any = opened.explainer
    named = {
        str(next(iter(rows[0].values()))): case for rows, case in zip(every, cases, strict=True)
    }

    def true(recorded: Any, sequence: NDArray[np.int64]) -> float:
        case = named[str(recorded.episode.id)]
        plan = case.actions.copy()
        taken = explainer.actions_taken(recorded.episode)[:-1]
        for t in np.flatnonzero(sequence != np.array(taken)):
            plan[t] = _number(process, explainer.layout.choices, int(sequence[t]))
        both = own_tables.truth(process, case, np.stack([plan, case.actions]))
        return float(both[0] - both[1])

    question, asked = Question(budgets=(K,)), []
    for recorded in opened.episodes():
        given = explainer.problem(recorded.episode)
        limits = explainer.constraints(recorded.episode, question)
        asked.append(
            Asked(
                recorded.episode, given["actions"], given["reward"], partial(true, recorded), limits
            )
        )
    return model, asked


def _as_read(frame: pl.DataFrame) -> pl.DataFrame:
    """With the types that a file would have."""
    return pl.read_csv(frame.write_csv().encode(), infer_schema_length=None)


def _number(process: own_tables.Process, grid: Any, cell: int) -> int:
    """Which of the process's actions a cell of the grid of levels is."""
    values = [
        (column.labels or column.levels)[place]
        for column, place in zip(grid.columns, grid.places(cell), strict=True)
    ]
    return [list(map(str, one)) for one in process.actions].index(
        [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    )


def claim(model: Any, one: Asked, seconds: float | None) -> list[float]:
    """Claimed and true improvement, and the ends of the interval."""
    given: dict[str, Any] = {"actions": one.actions, "reward": one.reward}
    if seconds is None:
        chosen = shortlisted(Problem(model, one.episode, K, one.constraints, **given))
        observed = prepare_sequence(Problem(model, one.episode, K, **given)).observed
        changes = {int(t): int(chosen[t]) for t in np.flatnonzero(chosen != observed)}
        found: Any = cp.replay(model, one.episode, changes, **given)
    else:
        limits = cp.Limits(seconds=seconds)
        found = cp.explain(
            model, one.episode, K, constraints=one.constraints, limits=limits, **given
        )
    return [found.improvement, one.true(found.actions), *found.interval]


def shortlisted(problem: Any) -> NDArray[np.int64]:
    """K times the best single change for the worst members, among those best on average."""
    every: Any = prepare_sequence(replace(problem, risk=DEFAULT_RISK))
    mean = prepare_sequence(problem)
    best, value = (
        mean.observed,
        float(worst_mean(every.outcomes_by_member(mean.observed[None]), DEFAULT_RISK)[0]),
    )
    for _ in range(K):
        gains = np.where(mean.affordable(best), mean.single_change_values(best), -np.inf)
        tried = []
        for place in np.argsort(-gains, axis=None)[:SHORT]:
            t, action = np.unravel_index(place, gains.shape)
            if np.isfinite(gains[t, action]):
                tried.append(best.copy())
                tried[-1][t] = action
        inside = mean.is_inside(np.array(tried))
        worths = worst_mean(every.outcomes_by_member(np.array(tried)), DEFAULT_RISK)
        worths[~inside] = -np.inf
        place = int(np.argmax(worths))
        if not worths[place] > value:
            break
        best, value = tried[place], float(worths[place])
    return best


def row(name: str, size: int, found: list[NDArray[np.float64]]) -> str:
    """As a line of the table of results."""
    claimed, true, low, high = np.concatenate(found).T
    held = [np.mean((one[:, 2] <= one[:, 1]) & (one[:, 1] <= one[:, 3])) for one in found]
    cover = np.mean((low <= true) & (true <= high))
    return (
        f"| {name} | {size:,} | {len(found)} x {len(found[0])} | {claimed.mean():.2f} | "
        f"{true.mean():.2f} | {claimed.mean() / true.mean():.2f} | {100 * cover:.0f} % "
        f"({100 * min(held):.0f} to {100 * max(held):.0f}) | {np.mean(high - low):.2f} | "
        f"{100 * np.mean(true < -own_tables.SAME):.1f} % |"
    )


def rows(
    chosen: list[str], only: list[int], cohorts: int, fresh: int, seconds: float | None
) -> Iterator[str]:
    """One for each process and size."""
    every: dict[str, Any] = {name: (simulated, sizes) for name, sizes in SIZES.items()}
    every |= dict.fromkeys(own_tables.TABLES, (table, (own_tables.EPISODES,)))
    for name, (make, sizes) in every.items():
        for size in sizes if not chosen or name in chosen else ():
            if only and size not in only:
                continue
            found = []
            for cohort in range(cohorts):
                model, asked = make(name, size, cohort, fresh // cohorts)
                found.append(np.array([claim(model, one, seconds) for one in asked]))
            yield row(name, size, found)


def unknowable(process: str, size: int, fresh: int) -> str:
    """How often what no data can tell is inside: the range over rho in [-1, 1] (`flipped`), or at
    gamma as strong as the hidden cause (`hidden`)."""
    model, asked = simulated(process, size, 0, fresh)
    held, sure, widths = [], [], []
    for one in asked:
        given: dict[str, Any] = {"actions": one.actions, "reward": one.reward}
        chosen = shortlisted(Problem(model, one.episode, K, one.constraints, **given))
        changes = {int(t): int(chosen[t]) for t in np.flatnonzero(chosen != one.episode.actions)}
        found: Any = cp.replay(model, one.episode, changes, **given)
        said = cp.sensitivity(model, one.episode, found, draws=DRAWS)
        ends = said.interval if process == "flipped" else said.interval_at(STRENGTH)
        true = one.true(found.actions)
        held.append(ends.low <= true <= ends.high)
        sure.append(found.interval.low <= true <= found.interval.high)
        widths.append((ends.high - ends.low, found.interval.high - found.interval.low))
    wide, narrow = np.mean(widths, axis=0)
    return (
        f"{process}, {size:,} patients: the range holds the truth for {100 * np.mean(held):.0f} % "
        f"of {len(held)} (mean width {wide:.2f}); the 90 % interval for "
        f"{100 * np.mean(sure):.0f} % ({narrow:.2f})"
    )


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*SIZES, *own_tables.TABLES]
    parser.add_argument("process", nargs="*", help=f"of: {', '.join(known)}; none: all")
    parser.add_argument("--cohorts", type=int, default=COHORTS)
    parser.add_argument("--fresh", type=int, default=FRESH)
    parser.add_argument("--sizes", type=int, nargs="*", default=[], metavar="EPISODES")
    parser.add_argument("--exact", type=float, metavar="SECONDS")
    parser.add_argument("--unknowable", choices=("flipped", "hidden"))
    given = parser.parse_args()
    if unknown := set(given.process) - set(known):
        parser.error(f"no process {unknown.pop()!r}")
    if given.unknowable:
        for size in given.sizes or [960]:
            print(unknowable(given.unknowable, size, given.fresh), flush=True)
        return 0
    lines = list(HEADING)
    for line in rows(given.process, given.sizes, given.cohorts, given.fresh, given.exact):
        print(line, flush=True)
        lines.append(line)
        heading = "# Whether claims come true\n\nWritten by `python -m benchmarks.claims`.\n\n"
        RESULTS.write_text(heading + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
