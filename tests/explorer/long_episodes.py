"""Episodes that are long enough for a search to go on and on."""

from __future__ import annotations

import numpy as np

import counterplan as cp
from counterplan.tables.parts import Recorded

STEPS = 140


def long_episodes(scm: cp.NeuralSCM, count: int = 2, steps: int = STEPS) -> list[Recorded]:
    """As `continuous_episodes` has them, but longer."""
    rng = np.random.default_rng(5)
    found = []
    for number in range(count):
        states = [np.array([50.0, rng.uniform(5, 15), rng.uniform(70, 90)])]
        actions = np.column_stack([rng.integers(0, 3, steps - 1), rng.integers(0, 2, steps - 1)])
        for action in actions * 1.0:
            noise = rng.normal(size=(1, 2)) * 0.1
            states.append(scm.step(states[-1][None], action[None], noise)[0])
        episode = cp.Episode(np.array(states), actions * 1.0, id=f"long {number}")
        found.append(Recorded(episode, 6.0 * np.arange(steps), 0, (("died", "0"),)))
    return found
