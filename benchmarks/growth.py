"""How the time of a whole frontier grows when one size doubles and the others stay.

The exponent is the slope of log seconds over log size, by least squares over all rows of a table:
1 would be proportional. A pass costs O(T R (m log m + m K)) for R rows of m non-zeros, so with
dense rows S enters twice, and K only through the part that applies rows to columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import counterplan as cp
from benchmarks.measure import Timing, timed, timing
from benchmarks.problems import BUDGET, HORIZON, sparse_process, synthetic_problem

REPEATS = 5


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
    return [
        _table(
            "states S (dense rows, A = 10, T = 20, K = 10)",
            (20, 40, 80, 160, 320),
            lambda size: (*synthetic_problem(size, HORIZON), BUDGET),
        ),
        _table(
            "steps T (S = 20, A = 10, K = 10)",
            (20, 40, 80, 160, 320),
            lambda size: (*synthetic_problem(20, size), BUDGET),
        ),
        _table(
            "budget K (S = 20, A = 10, T = 80)",
            (5, 10, 20, 40, 80),
            lambda size: (*synthetic_problem(20, 80), size),
        ),
        _table(
            "non-zeros per row (S = 320, A = 10, T = 20, K = 10)",
            (10, 20, 40, 80, 160, 320),
            lambda size: (*sparse_process(320, 10, size), BUDGET),
        ),
    ]


def _table(
    what: str,
    sizes: tuple[int, ...],
    problem: Callable[[int], tuple[cp.TabularMDP, cp.Episode, int]],
) -> Growth:
    return Growth(what, sizes, tuple(_frontier_seconds(*problem(size)) for size in sizes))


def _frontier_seconds(mdp: cp.TabularMDP, episode: cp.Episode, k: int) -> Timing:
    cp.frontier(mdp, episode, k_max=k)
    return timing([timed(lambda: cp.frontier(mdp, episode, k_max=k)) for _ in range(REPEATS)])
