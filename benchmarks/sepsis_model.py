"""The published sepsis model and the episodes simulated from it, where they are at hand.

Neither is part of the project: they are read from the folder `shared` beside the repository, or
from the folder that COUNTERPLAN_SHARED names.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterplan as cp

SHARED = Path(__file__).resolve().parents[2] / "shared"
SOFA = 11


class Case(NamedTuple):
    """One episode with its action vectors (T-1, 25, 3); ventilation is replayed."""

    episode: cp.Episode
    actions: np.ndarray


def available() -> bool:
    return _folder().joinpath("sepsis_scm.npz").exists()


@cache
def model() -> cp.NeuralSCM:
    stored = np.load(_folder() / "sepsis_scm.npz", allow_pickle=False)

    def network(name: str) -> dict[str, Any]:
        keys = {"state": "W_s", "bias": "b_s", "action": "W_a", "output": "W_z"}
        weights = {key: stored[f"{name}_{stem}"] for key, stem in keys.items()}
        weights["output_bias"] = stored[f"{name}_b_z"]
        return weights | {"multiplier": float(stored[f"{name}_mult"])}

    return cp.NeuralSCM.from_weights(
        network("loc"), network("scale"), stored["noise_chol_L"], fixed=3
    )


@cache
def cases(horizon: int) -> tuple[Case, ...]:
    stored = np.load(_folder() / "episodes.npz", allow_pickle=False)
    doses = np.array([[v / 4 - 0.5, f / 4 - 0.5] for v in range(5) for f in range(5)])
    found = []
    for states, levels in zip(
        stored[f"states_T{horizon}"], stored[f"levels_T{horizon}"], strict=True
    ):
        vectors = np.stack([np.c_[doses, np.full(25, vent - 0.5)] for vent in levels[:, 2]])
        taken = 5 * levels[:, 0] + levels[:, 1]
        found.append(Case(cp.Episode(states.astype(np.float64), taken), vectors))
    return tuple(found)


@cache
def simulated(horizon: int, count: int) -> tuple[Case, ...]:
    """Episodes of any length: doses as in those at hand, in any order, under the model's noise."""
    rng, scm = np.random.default_rng(0), model()
    pool, found = [case for T in (12, 16, 20) for case in cases(T)], []
    for _ in range(count):
        first, taken, noise = pool[rng.integers(len(pool))], [], rng.normal(size=(horizon, 9))
        states = [first.episode.states[0]]
        vectors = first.actions[np.minimum(np.arange(horizon - 1), len(first.actions) - 1)]
        for t in range(horizon - 1):
            other = pool[rng.integers(len(pool))].episode
            taken.append(int(other.actions[rng.integers(len(other) - 1)]))
            drawn = (noise[t] @ scm.noise_cholesky.T)[None]
            states.append(scm.step(states[-1][None], vectors[t, taken[t]][None], drawn)[0])
        found.append(Case(cp.Episode(np.array(states), np.array(taken)), vectors))
    return tuple(found)


def reward() -> cp.LinearReward:
    weights = np.zeros(12)
    weights[SOFA] = -1.0
    return cp.LinearReward(weights)


def _folder() -> Path:
    return Path(os.environ.get("COUNTERPLAN_SHARED", SHARED)) / "data" / "sepsis_scm"
