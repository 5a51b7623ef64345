"""Small random continuous problems, of every kind of model that is shipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.reward import LinearReward, LipschitzReward, Reward
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.scm.location_scale import AdditiveNoiseSCM, LocationScaleSCM, PostNonlinearSCM
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.point import PointSCM, Region
from counterplan.scm.scaling import Scaling

FEATURES, COMPONENTS, FIXED = 4, 2, 1
MOVING = FEATURES - FIXED


def random_sequence_problems(
    count: int, seed: Seed = 0, *, horizon: int = 5, n_actions: int = 3, k: int = 3
) -> list[Problem]:
    """Problems of up to `horizon` states, `n_actions` actions and budget `k`, the kinds of models
    in turn, with constraints of every sort here and there."""
    rng = generator(seed)
    kinds = list(MODELS.values())
    return [
        random_sequence_problem(
            kinds[i % len(kinds)](rng),
            rng,
            horizon=int(rng.integers(1, horizon + 1)),
            n_actions=int(rng.integers(2, n_actions + 1)),
            k=int(rng.integers(0, k + 1)),
        )
        for i in range(count)
    ]


def random_sequence_problem(
    scm: PointSCM, rng: np.random.Generator, *, horizon: int, n_actions: int, k: int
) -> Problem:
    """A problem about an episode that the model itself has made."""
    vectors = rng.uniform(-1.0, 1.0, size=(n_actions, COMPONENTS))
    if rng.random() < 0.3:  # the last component is replayed from the episode
        vectors = np.repeat(vectors[None], horizon - 1, axis=0)
        vectors[:, :, -1] = rng.uniform(-1.0, 1.0, size=(horizon - 1, 1))
    taken = rng.integers(n_actions, size=horizon - 1)
    states = [rng.normal(size=FEATURES)]
    for t in range(horizon - 1):
        vector = vectors[t, taken[t]] if vectors.ndim == 3 else vectors[taken[t]]
        noise = 0.5 * rng.normal(size=(1, MOVING))
        states.append(scm.step(states[-1][None], vector[None], noise)[0])
    return Problem(
        scm,
        Episode(np.stack(states), taken),
        k,
        _random_constraints(rng, horizon - 1, n_actions),
        actions=vectors,
        reward=_random_reward(rng),
    )


def _random_constraints(rng: np.random.Generator, decisions: int, n_actions: int) -> Constraints:
    def some(probability: float) -> bool:
        return bool(rng.random() < probability) and decisions > 0

    return Constraints(
        allowed=rng.random((decisions, n_actions)) < 0.8 if some(0.3) else None,
        fixed_steps=[int(rng.integers(decisions))] if some(0.2) else (),
        change_costs=rng.integers(1, 3, size=n_actions) if some(0.3) else None,
        max_move=float(rng.uniform(0.5, 2.0)) if some(0.2) else None,
    )


def _random_reward(rng: np.random.Generator) -> Reward:
    weights = rng.normal(size=FEATURES)
    if rng.random() < 0.6:
        return LinearReward(weights, float(rng.normal()))
    target = float(rng.normal())
    steepness = float(np.linalg.norm(weights)) * (1.0 + 1e-12)
    return LipschitzReward(lambda states: -np.abs(states @ weights - target), steepness)


def _matrix(rng: np.random.Generator, rows: int, columns: int, norm: float) -> FloatArray:
    drawn = rng.normal(size=(rows, columns))
    return np.asarray(norm * drawn / np.linalg.norm(drawn, 2))


def linear_model(rng: np.random.Generator) -> PointSCM:
    """s' = own s + dose a + u, slopes known exactly."""
    own, dose = _matrix(rng, MOVING, FEATURES, 0.9), rng.normal(size=(MOVING, COMPONENTS))

    def slopes(region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        exact = np.repeat(own[None], len(actions), axis=0)
        return exact, np.zeros_like(exact)

    return AdditiveNoiseSCM(
        lambda states, actions: states @ own.T + actions @ dose.T,
        lipschitz=0.9 * (1.0 + 1e-12),
        fixed=FIXED,
        slopes=slopes,
    )


def waves_model(rng: np.random.Generator) -> PointSCM:
    """s' = own s + outward sin(inward s + dose a) + u, whose slopes over a region are
    own + outward diag(cos) inward."""
    own, outward = _matrix(rng, MOVING, FEATURES, 0.5), _matrix(rng, MOVING, 5, 1.0)
    inward, dose = _matrix(rng, 5, FEATURES, 1.0), rng.normal(size=(5, COMPONENTS))

    def slopes(region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        angle = region.centre @ inward.T + actions @ dose.T
        turn = np.minimum(
            np.linalg.norm(inward, axis=1) * region.radius, np.abs(inward) @ region.box
        )
        jacobian = own + (outward * np.cos(angle)[:, None, :]) @ inward
        deviation = (np.abs(outward) * np.minimum(turn, 2.0)) @ np.abs(inward) + 1e-12
        return jacobian, np.repeat(deviation[None], len(actions), axis=0)

    return AdditiveNoiseSCM(
        lambda states, actions: (
            states @ own.T + np.sin(states @ inward.T + actions @ dose.T) @ outward.T
        ),
        lipschitz=1.5 * (1.0 + 1e-12),
        fixed=FIXED,
        slopes=slopes,
    )


def location_scale_model(rng: np.random.Generator) -> PointSCM:
    """s' = outward sin(inward s + dose a) + (1 + 0.8 tanh(spread s)) * u, constants only."""
    outward, inward = _matrix(rng, MOVING, 5, 1.0), _matrix(rng, 5, FEATURES, 1.1)
    dose, spread = rng.normal(size=(5, COMPONENTS)), _matrix(rng, MOVING, FEATURES, 0.5)
    return LocationScaleSCM(
        lambda states, actions: np.sin(states @ inward.T + actions @ dose.T) @ outward.T,
        lambda states, actions: 1.0 + 0.8 * np.tanh(states @ spread.T),
        lipschitz=(1.1 * (1.0 + 1e-12), 0.4 * (1.0 + 1e-12)),
        fixed=FIXED,
    )


def post_nonlinear_model(rng: np.random.Generator) -> PointSCM:
    """s' = 2 arsinh(own s + outward sin(dose a) + u), constants only."""
    own, outward = _matrix(rng, MOVING, FEATURES, 0.6), rng.normal(size=(MOVING, 5))
    dose = rng.normal(size=(5, COMPONENTS))
    return PostNonlinearSCM(
        lambda states, actions: states @ own.T + np.sin(actions @ dose.T) @ outward.T,
        link=lambda values: 2.0 * np.arcsinh(values),
        inverse=lambda values: np.sinh(0.5 * values),
        lipschitz=(0.6 * (1.0 + 1e-12), 2.0),
        fixed=FIXED,
    )


def neural_model(rng: np.random.Generator) -> NeuralSCM:
    """Random weights, about as nonlinear as a trained model."""

    def network(norm: float) -> dict[str, Any]:
        return {
            "state": _matrix(rng, 12, FEATURES, norm),
            "bias": 0.5 * rng.normal(size=12),
            "action": rng.normal(size=(12, COMPONENTS)),
            "output": _matrix(rng, MOVING, 12, norm),
            "output_bias": 0.3 * rng.normal(size=MOVING),
        }

    return NeuralSCM.from_weights(network(1.1), network(0.6), np.eye(MOVING), fixed=FIXED)


def scaled_neural_model(rng: np.random.Generator) -> NeuralSCM:
    """The same in physical units."""
    scaling = Scaling(
        rng.normal(size=FEATURES),
        rng.uniform(0.5, 5.0, size=FEATURES),
        rng.normal(size=COMPONENTS),
        rng.uniform(0.5, 2.0, size=COMPONENTS),
    )
    return replace(neural_model(rng), scaling=scaling)


MODELS: dict[str, Callable[[np.random.Generator], PointSCM]] = {
    "linear": linear_model,
    "waves": waves_model,
    "location-scale": location_scale_model,
    "post-nonlinear": post_nonlinear_model,
    "neural": neural_model,
    "scaled neural": scaled_neural_model,
}
