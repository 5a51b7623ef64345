"""Processes whose law is known, and episodes of them in physical units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterplan.core.episode import Episode
from counterplan.scm.point import LocationScaleSCM

Mechanism = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Process:
    """Three features, the first fixed; actions have one component, 0, 1 or 2."""

    location: Mechanism
    scale: Mechanism
    cholesky: np.ndarray

    @property
    def scm(self) -> LocationScaleSCM:
        return LocationScaleSCM(self.location, self.scale, fixed=1)

    def episodes(self, n: int, seed: int, T: int = 9) -> list[Episode]:
        rng = np.random.default_rng(seed)
        states = [rng.normal(size=(n, 3))]
        actions = rng.integers(0, 3, size=(T - 1, n, 1)).astype(float)
        for t in range(T - 1):
            noise = rng.normal(size=(n, 2)) @ self.cholesky.T
            states.append(self.scm.step(states[-1], actions[t], noise))
        path = np.stack(states, axis=1)
        return [Episode(path[i], actions[:, i], id=f"{i}") for i in range(n)]

    def log_likelihood(
        self, states: np.ndarray, actions: np.ndarray, after: np.ndarray
    ) -> np.ndarray:
        from scipy.stats import multivariate_normal

        noise = self.scm.infer(states, actions, after)
        density = multivariate_normal(np.zeros(2), self.cholesky @ self.cholesky.T)
        return np.asarray(density.logpdf(noise) - np.log(self.scale(states, actions)).sum(axis=1))


def linear(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    slope = np.array([[0.1, 0.6, 0.2], [-0.2, -0.1, 0.7]])
    return np.asarray(states @ slope.T + actions @ np.array([[0.4], [-0.3]]).T + 0.1)


def curved(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    _, x, y = states.T
    a = actions[:, 0]
    return np.stack(
        [0.7 * x + 0.4 * np.sin(y) + 0.4 * (a - 1), 0.5 * y + 0.5 * np.tanh(1.5 * x) - 0.2 * a],
        axis=1,
    )


def constant_spread(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.full((len(states), 2), 0.4)


def varying_spread(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    _, x, y = states.T
    return np.stack([0.2 + 0.15 / (1 + np.exp(-3 * y)), 0.3 + 0.1 * np.tanh(x)], axis=1)


FACTOR = np.array([[1.0, 0.0], [0.5, 0.8]])
LINEAR = Process(linear, constant_spread, FACTOR)
CURVED = Process(curved, varying_spread, FACTOR)
