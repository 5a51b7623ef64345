"""The conformance check of continuous models passes what is right and fails what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm.network import Network
from counterplan.scm.point import BatchReplay, IntervalSlopes, PointSCM, Region
from counterplan.testing import check_scm
from counterplan.testing.continuous import MODELS, random_sequence_problem

Floats = NDArray[np.float64]


def episode_of(scm: PointSCM, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    problem = random_sequence_problem(scm, rng, horizon=9, n_actions=4, k=1)
    return {"episodes": [problem.episode], "actions": problem.actions}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_right_models_pass(kind: str, seed: int) -> None:
    scm = MODELS[kind](np.random.default_rng(seed))
    check_scm(scm, **episode_of(scm, seed), seed=seed)


class Good(cp.AdditiveNoiseSCM):
    """s' = sin(s) / 2 + a + u for two features after a fixed one."""

    def __init__(self, lipschitz: float | None = 0.5) -> None:
        super().__init__(lambda s, a: 0.5 * np.sin(s[:, 1:]) + a, lipschitz, fixed=1, slopes=None)

    def slopes(self, region: Region, actions: Floats, noise: Floats) -> IntervalSlopes:
        jacobian = np.zeros((len(actions), 3, 3))
        jacobian[:, 0, 0] = 1.0
        jacobian[:, [1, 2], [1, 2]] = 0.5 * np.cos(region.centre[1:])
        deviation = np.zeros_like(jacobian)
        deviation[:, [1, 2], [1, 2]] = 0.5 * np.minimum(region.box[1:], region.radius)
        return IntervalSlopes(jacobian, deviation)


class WrongNoise(Good):
    def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
        return super().infer(states, actions, after) + 1e-6


class Drifts(Good):
    def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        after = super().step(states, actions, noise)
        after[:, 0] += 1e-3 * (actions[:, 0] > 0.5)
        return after


class Mixes(Good):
    """Feature 2 takes the noise of feature 1 as well."""

    def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        after = super().step(states, actions, noise)
        after[:, 2] += noise[:, 0]
        return after

    def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
        noise = super().infer(states, actions, after)
        noise[:, 1] -= noise[:, 0]
        return noise


class Folds(Good):
    """Beyond a noise of 3 the feature comes back."""

    def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        return super().step(states, actions, np.where(noise > 0.2, 0.4 - noise, noise))


class TightSlopes(Good):
    def slopes(self, region: Region, actions: Floats, noise: Floats) -> IntervalSlopes:
        right = super().slopes(region, actions, noise)
        return IntervalSlopes(right.jacobian, 0.1 * right.deviation)


class TightRemainder(Good):
    def slopes(self, region: Region, actions: Floats, noise: Floats) -> Any:
        class Tight(IntervalSlopes):
            def remainder(self, directions: Floats) -> Floats:
                return 0.1 * super().remainder(directions)

        right = super().slopes(region, actions, noise)
        return Tight(right.jacobian, right.deviation)


class WrongReplay(Good):
    def replay(self, vectors: Floats, noise: Floats, start: Floats) -> Any:
        return BatchReplay(self, vectors, noise + 1e-6)


def plain_episode() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    states = rng.normal(size=(40, 3))
    states[:, 0] = 1.0
    states[:, 1:] = np.clip(states[:, 1:], -1.5, 1.5)
    return {
        "episodes": [cp.Episode(states, rng.integers(3, size=39))],
        "actions": np.array([[0.0, 0.1], [0.3, -0.2], [1.0, 0.5]]),
    }


def test_the_good_one_passes() -> None:
    check_scm(Good(), **plain_episode())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (WrongNoise(), "the abducted noise at t=.* leads to"),
        (Drifts(), "said to be fixed|leads to"),
        (Mixes(), "noise 0 moves other features than number 1"),
        (Folds(), "leads to|not strictly monotone"),
        (Good(lipschitz=0.3), "more than the stated Lipschitz constant 0.3 allows"),
        (TightSlopes(), "moves by more than the stated slopes allow"),
        (TightRemainder(), "remainder of the slopes in a direction is too small"),
        (WrongReplay(), "replay misses step by"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_wrong_models_fail(wrong: PointSCM, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_scm(wrong, **plain_episode(), trials=200)


def test_neural_slopes_that_forget_the_scale_fail() -> None:
    """The softplus and its product with the gates matter."""
    scm = MODELS["neural"](np.random.default_rng(2))
    assert isinstance(scm, cp.NeuralSCM)

    class Forgets(cp.NeuralSCM):
        def slopes(self, region: Region, actions: Floats, noise: Floats) -> Any:
            return super().slopes(region, actions, 0.5 * noise)

    wrong = Forgets(scm.location, scm.scale, scm.noise_cholesky, scm.fixed)
    with pytest.raises(AssertionError, match="slopes"):
        check_scm(wrong, **episode_of(scm), trials=200)


def test_slopes_of_a_curved_softplus_behind_a_linear_layer() -> None:
    """Gates hardly move, the softplus does: its slopes need their own interval."""
    scm = MODELS["neural"](np.random.default_rng(4))
    assert isinstance(scm, cp.NeuralSCM)

    def flat(network: Network) -> Network:
        small = {name: 1e-4 * getattr(network, name) for name in ("state", "action", "bias")}
        return replace(network, output=2e4 * network.output, **small)

    curved = replace(scm, location=flat(scm.location), scale=flat(scm.scale))
    check_scm(curved, **episode_of(curved, 3), trials=200)


def test_needs_transitions() -> None:
    with pytest.raises(InputError, match=r"pass episodes=\[\.\.\.\]"):
        check_scm(Good())


def test_episodes_of_one_state_have_nothing_to_check() -> None:
    given = plain_episode()
    (episode,) = given["episodes"]
    start = cp.Episode(episode.states[:1], np.zeros(0, dtype=int))
    with pytest.raises(InputError, match="none of the episodes has a transition: pass one with"):
        check_scm(Good(), episodes=[start], actions=given["actions"])
    check_scm(Good(), episodes=[start, episode], actions=given["actions"])


def test_physical_units_change_nothing() -> None:
    """A scaled model and the model inside it give the same counterfactuals."""
    scaled = MODELS["scaled neural"](np.random.default_rng(1))
    assert isinstance(scaled, cp.NeuralSCM)
    inner, scaling = scaled.internal()
    assert scaling is not None
    rng = np.random.default_rng(2)
    states, actions, noise = (
        rng.normal(size=(6, 4)),
        rng.normal(size=(6, 2)),
        rng.normal(size=(6, 3)),
    )
    encoded = scaling.encode_states(states), scaling.encode_actions(actions)
    expected = scaling.decode_states(inner.step(*encoded, noise))
    after = scaled.step(states, actions, noise)
    assert after == pytest.approx(expected)
    assert after[:, :1] == pytest.approx(states[:, :1])
    assert scaled.infer(states, actions, after) == pytest.approx(noise)
    assert scaled.lipschitz(noise) is None, "constants are in the model's own units"
    assert replace(scaled, scaling=None).lipschitz(noise) is not None
