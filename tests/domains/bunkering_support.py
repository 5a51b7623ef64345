"""Random voyages small enough to solve by listing everything."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from counterplan.domains.bunkering import Bunkering
from counterplan.planning.processes.prices import GBM


@st.composite
def voyages(draw: st.DrawFn, most_ports: int = 4, fixed: bool = True) -> Bunkering:
    """Whole or fractional legs, any tank that covers them, independent or global prices."""
    unit = draw(st.sampled_from([1.0, 0.37]))
    count = draw(st.integers(1, most_ports))
    legs = [unit * draw(st.integers(0, 20)) for _ in range(count)]
    capacity = max(legs) + unit * draw(st.integers(0, 30)) + 0.1
    kind = draw(st.sampled_from(["independent", "global"]))
    volatility = draw(st.floats(0.0, 1.5))
    drift = draw(st.floats(-1.0, 1.0))
    fixed_cost = draw(st.sampled_from([0.0, 3.0, 40.0])) if fixed else 0.0
    prices = GBM(10.0, drift, volatility, 0.5, kind=kind)
    return Bunkering(prices=prices, legs=legs, capacity=capacity, fixed_cost=fixed_cost)


def visited(
    problem: Bunkering, episodes: int, seed: int
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """States (t, x (n, 1), d (n, 1)) met by random play."""
    rng = np.random.default_rng(seed)
    paths = problem.sample_paths(episodes, rng)
    levels = np.zeros((episodes, 1))
    states = []
    for t in range(problem.horizon):
        x = np.ascontiguousarray(paths[:, t])
        states.append((t, x, levels))
        amounts = problem.levels.purchases(t, levels[:, 0])
        scores = np.where(np.isnan(amounts), -1.0, rng.random(amounts.shape))
        chosen = amounts[np.arange(episodes), scores.argmax(axis=1)][:, None]
        levels = problem.step(t, x, levels, chosen)[1]
    return states
