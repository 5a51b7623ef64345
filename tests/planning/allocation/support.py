"""An independent linear program, and random instances with ties, zeros and degenerate bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]
EXACT = 1e-9
# By default HiGHS takes numbers for equal that differ by less than 1e-7.
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def best_value(rewards: Floats, rows: Floats, limits: Floats, bounds: Floats) -> float | None:
    """max <rewards, a> with rows @ a <= limits and bounds on each a; None if there is no a."""
    pairs = [(low, None if np.isinf(high) else high) for low, high in bounds]
    finite = np.isfinite(limits)
    solved = linprog(-rewards, A_ub=rows[finite], b_ub=limits[finite], bounds=pairs, options=TIGHT)
    return None if solved.status == 2 else -float(solved.fun)


def close(value: float, expected: float) -> bool:
    return abs(value - expected) <= EXACT * (1.0 + abs(expected))


def prefix_value(rewards: Floats, steps: Floats, prefixes: Floats) -> float | None:
    """The optimum under bounds on steps and on prefix sums."""
    lower = np.tril(np.ones((len(rewards), len(rewards))))
    rows = np.vstack([lower, -lower])
    return best_value(rewards, rows, np.concatenate([prefixes[:, 1], -prefixes[:, 0]]), steps)


class Steps(NamedTuple):
    """rewards (T,), step bounds (T, 2) and an allocation within them (T,)."""

    rewards: Floats
    bounds: Floats
    inside: Floats


# Few distinct whole numbers make ties; the others make hardly any two rewards alike. None is so
# close to another that a linear program takes it for the same.
REWARDS = st.one_of(st.integers(-3, 3).map(float), st.integers(-9999, 9999).map(lambda i: i / 64))


@st.composite
def bounded_steps(draw: st.DrawFn, longest: int = 9) -> Steps:
    T = draw(st.integers(1, longest))
    rewards = [draw(REWARDS) for _ in range(T)]
    lows = [draw(st.integers(0, 3)) for _ in range(T)]
    rooms = [draw(st.integers(0, 6)) for _ in range(T)]
    parts = [draw(st.integers(0, 4)) / 4 for _ in range(T)]
    bounds = np.array([(low, low + room) for low, room in zip(lows, rooms, strict=True)], float)
    inside = np.array(
        [low + part * room for low, room, part in zip(lows, rooms, parts, strict=True)]
    )
    return Steps(np.array(rewards), bounds, inside)
