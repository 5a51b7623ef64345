"""Processes whose law is known, and episodes of them in physical units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import counterplan as cp
from counterplan.core.episode import Episode
from counterplan.scm.learned import LearnedSCM
from counterplan.scm.point import LocationScaleSCM
from counterplan.scm.transitions import Transitions

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


def excess(scm: LearnedSCM, process: Process) -> float:
    """Nats per unseen transition by which a model is worse than the truth."""
    data = Transitions.collect(process.episodes(500, 1))
    parts = data.before, data.actions, data.after
    return float(np.mean(process.log_likelihood(*parts) - scm.log_likelihood(*parts)))


def counterfactual_error(scm: LearnedSCM, process: Process) -> float:
    """After two other actions: the root mean square error of the states, as a share of how much
    the true counterfactual differs from what happened."""
    errors, effects = [], []
    for episode in process.episodes(100, 2):
        actions = np.array(episode.actions)
        actions[[0, 3]] = (actions[[0, 3]] + 1) % 3
        ours, truth = episode.states[:1], episode.states[:1]
        for t in range(len(episode) - 1):
            noise = (model.abduct(episode)[t : t + 1] for model in (scm, process.scm))
            ours = scm.step(ours, actions[t : t + 1], next(noise))
            truth = process.scm.step(truth, actions[t : t + 1], next(noise))
            errors.append(ours - truth)
            effects.append(truth - episode.states[t + 1])
    return float(np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(effects))))


# --- Patients who differ in something that is in no column ------------------------------------

DOSES = np.array([[0.0], [1.0], [2.0]])
# Of the response to a dose, and of the level, between patients.
RESPONSE, LEVEL = 0.3, 0.2


def simulate(n: int, seed: int, response: float, level: float) -> list[tuple[Episode, float]]:
    """Patients with a severity that a dose lowers, each by a response of their own, and a marker
    that follows it; the response is in no column."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        own, base = rng.normal(0.5, response), rng.normal(0.0, level)
        doses = rng.integers(0, 3, 10)
        states = [rng.normal(0.0, 1.0, 2)]
        for dose in doses:
            x, y = states[-1]
            luck = rng.normal(0.0, 0.2, 2)
            states.append(
                np.array([0.7 * x + 0.2 * y + luck[0], 0.8 * y - own * dose + base + luck[1]])
            )
        found.append((Episode(np.array(states), doses, id=str(i)), own))
    return found


@cache
def patients_model(response: float = RESPONSE, level: float = LEVEL) -> cp.SmoothSCM:
    """A model of such patients, with what stays with them."""
    episodes = [one for one, _ in simulate(300, 0, response, level)]
    return cp.SmoothSCM.fit(cp.Transitions.collect(episodes, DOSES), members=32, seed=0)
