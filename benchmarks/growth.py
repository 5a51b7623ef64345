"""How cost grows, and how much faster than plain ways: `python -m benchmarks.growth`, one core.

Each table doubles one size and keeps the others. The exponent is the slope of log seconds over log
size, by least squares over all columns: 1 would be proportional. Seconds are processor time,
medians; what a column costs over the one before it hardly depends on the machine. The ratios are
those of `ratios`. The searches over the model published with the 2023 paper are left out where it
is not at hand (see `sepsis_model`).

A pass over discrete states costs O(T R (m log m + m K)) for R rows of m non-zeros, so with dense
rows S enters twice, and K only through the part that applies rows to columns.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.discrete import ONE_THREAD

if __name__ == "__main__":  # before libraries are loaded, which read it then
    os.environ.update(ONE_THREAD)

import numpy as np

import counterplan as cp
from benchmarks.measure import Timing, machine, timed, timing
from benchmarks.problems import (
    BUDGET,
    HORIZON,
    first_frontier,
    sparse_process,
    synthetic_problem,
)

RESULTS = Path(__file__).parent / "results" / "growth.md"
REPEATS = 5
LEARNED_FROM, ASKED = 250, 5


@dataclass(frozen=True)
class Growth:
    """Seconds by size.

    what   the size that doubles, and what stays
    sizes  its values
    taken  the timing at each
    """

    what: str
    sizes: tuple[int, ...]
    taken: tuple[Timing, ...]

    @property
    def exponent(self) -> float:
        seconds = [taken.cpu.median for taken in self.taken]
        return float(np.polyfit(np.log(self.sizes), np.log(seconds), 1)[0])

    @property
    def factors(self) -> tuple[float | None, ...]:
        """Each time over the one before it."""
        medians = [taken.cpu.median for taken in self.taken]
        return (None, *(b / a for a, b in pairwise(medians)))


def measure_growth() -> list[Growth]:
    """Discrete states."""
    return [
        _frontiers(
            "states S (dense rows, A = 10, T = 20, K = 10)",
            (20, 40, 80, 160, 320),
            lambda size: (*synthetic_problem(size, HORIZON), BUDGET),
        ),
        _frontiers(
            "steps T (S = 20, A = 10, K = 10)",
            (20, 40, 80, 160, 320),
            lambda size: (*synthetic_problem(20, size), BUDGET),
        ),
        _frontiers(
            "budget K (S = 20, A = 10, T = 80)",
            (5, 10, 20, 40, 80),
            lambda size: (*synthetic_problem(20, 80), size),
        ),
        _frontiers(
            "non-zeros per row (S = 320, A = 10, T = 20, K = 10)",
            (10, 20, 40, 80, 160, 320),
            lambda size: (*sparse_process(320, 10, size), BUDGET),
        ),
    ]


def sparse_growth() -> list[Growth]:
    """Many states, a few next ones each."""
    return [
        _frontiers(
            "states S (10 next states each, A = 10, T = 20, K = 10)",
            (1_000, 2_000, 4_000, 8_000),
            lambda size: (*sparse_process(size, 10, 10), BUDGET),
        )
    ]


def search_growth() -> list[Growth]:
    """Proofs over the published model."""
    from benchmarks import sepsis_model

    if not sepsis_model.available():
        return []
    reward = sepsis_model.reward()

    def asked(cases: Iterable[Any], k: int) -> Iterator[Callable[[], object]]:
        for case in cases:
            options = {"actions": case.actions, "reward": reward}
            yield lambda: cp.explain(sepsis_model.model(), case.episode, k, **options)  # noqa: B023

    return [
        _table(
            "steps T (published network, k = 3, proof)",
            (12, 24, 48),
            lambda size: asked(sepsis_model.simulated(size, ASKED), 3),
        ),
        _table(
            "budget k (published network, T = 20, proof)",
            (1, 2, 4, 8),
            lambda size: asked(sepsis_model.simulated(20, ASKED), size),
        ),
    ]


def learned_growth() -> list[Growth]:
    """Proofs over a model learned from simulated patients, inside the data."""
    from benchmarks.members import questions
    from benchmarks.ratios import learned

    model, reward = learned(LEARNED_FROM)

    def asked(horizon: int, k: int, members: int) -> Iterator[Callable[[], object]]:
        scm = replace(model, draws=model.draws[:members] if members else None)
        options: dict[str, Any] = {"risk": 0.25} if members else {}
        for episode, actions in questions(ASKED, horizon):
            given = {"actions": actions, "reward": reward, **options}
            yield lambda: cp.explain(scm, episode, k, **given)  # noqa: B023

    return [
        _table("steps T (learned, k = 2, proof)", (5, 10, 20), lambda n: asked(n, 2, 0)),
        _table("budget k (learned, T = 12, proof)", (1, 2, 3), lambda n: asked(12, n, 0)),
        _table("members (learned, T = 12, k = 2, proof)", (4, 8, 16), lambda n: asked(12, 2, n)),
    ]


def planning_growth() -> list[Growth]:
    """Simulations, and plans that were carried out."""
    from benchmarks.executed_plans import voyage

    ship = cp.domains.Bunkering("A")

    def decision(size: int) -> Iterator[Callable[[], object]]:
        decide = cp.UCT(size).begin(ship, False, 0)
        return (lambda: decide(ship.start) for _ in range(REPEATS))

    def voyages(legs: int) -> Iterator[Callable[[], object]]:
        lengths = np.random.default_rng(legs).uniform(5.0, 30.0, size=legs).round(1)
        for seed in range(ASKED):
            question = voyage(lengths, seed)
            yield lambda: cp.explain(*question, 3)  # noqa: B023

    return [
        _table("simulations of a decision (UCT, bunkering A)", (1_000, 10_000, 100_000), decision),
        _table("legs of an executed plan (k = 3, proof)", (10, 20, 40), voyages),
    ]


def table_growth() -> list[Growth]:
    """Runs over whole tables, with one worker."""
    from benchmarks.cohort import _run
    from benchmarks.cohort_problems import icu_cohort, sepsis_cohort

    def run(make: Callable[[int], Any], size: int) -> Timing:
        cohort = make(size)
        return timing([_run(cohort, 1)[:2] for _ in range(2)][1:])

    found, sizes = [], (100, 200, 400)
    for name, make in (("ICU-Sepsis", icu_cohort), ("the sepsis network", sepsis_cohort)):
        taken = tuple(run(make, size) for size in sizes)
        found.append(Growth(f"episodes of a table ({name}, k = 3)", sizes, taken))
    return found


SECTIONS: dict[str, Callable[[], list[Growth]]] = {
    "Discrete states": measure_growth,
    "Discrete states, sparse": sparse_growth,
    "Continuous states: the network published with the 2023 paper": search_growth,
    "Continuous states: a smooth model learned from simulated patients": learned_growth,
    "Planning": planning_growth,
    "Whole tables": table_growth,
}


def _table(
    what: str,
    sizes: tuple[int, ...],
    calls: Callable[[int], Iterable[Callable[[], object]]],
) -> Growth:
    """The calls of each size, of which each is first made once for what it compiles and keeps."""
    taken = []
    for size in sizes:
        pairs = []
        for call in calls(size):
            call()
            pairs.append(timed(call))
        taken.append(timing(pairs))
    return Growth(what, sizes, tuple(taken))


def _frontiers(
    what: str,
    sizes: tuple[int, ...],
    problem: Callable[[int], tuple[cp.TabularMDP, cp.Episode, int]],
) -> Growth:
    return Growth(what, sizes, tuple(_frontier_seconds(*problem(size)) for size in sizes))


def _frontier_seconds(mdp: cp.TabularMDP, episode: cp.Episode, k: int) -> Timing:
    first_frontier(mdp, episode, k)
    return timing([timed(lambda: first_frontier(mdp, episode, k)) for _ in range(REPEATS)])


def _markdown(growth: Growth) -> list[str]:
    seconds = [f"{taken.cpu.median:.3g}" for taken in growth.taken]
    factors = ["" if factor is None else f"{factor:.2f}" for factor in growth.factors]
    return [
        f"| {growth.what} | " + " | ".join(f"{size:,}" for size in growth.sizes) + " | exponent |",
        "|---|" + "---:|" * (len(growth.sizes) + 1),
        "| seconds | " + " | ".join(seconds) + f" | {growth.exponent:.2f} |",
        "| times the one before | " + " | ".join(factors) + " | |",
        "",
    ]


def main() -> int:
    from benchmarks.ratios import KNOWN, MEASURED

    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = ["# Growth", "", "Written by `python -m benchmarks.growth`.", ""]
    lines += [f"One core of: {facts}. Load average {os.getloadavg()[0]:.1f} at the start.", ""]
    print("\n".join(lines), flush=True)
    began = time.process_time()

    def tell(more: list[str]) -> None:
        lines.extend(more)
        print("\n".join(more), flush=True)
        RESULTS.write_text("\n".join(lines), encoding="utf-8")

    tell(["## Times as fast as a plain way", "", "| | now | known |", "|---|---:|---:|"])
    tell(
        [f"| {name} | {measure():.1f} | {KNOWN[name]:.1f} |" for name, measure in MEASURED.items()]
    )
    for title, measure in SECTIONS.items():
        if tables := measure():
            tell(["", f"## {title}", ""])
        for growth in tables:
            tell(_markdown(growth))
    minutes = (time.process_time() - began) / 60
    tell([f"{minutes:.1f} minutes of processor time, workers aside.", ""])
    return 0


if __name__ == "__main__":
    sys.exit(main())
