"""Models with point abduction: conformance, location-scale and its relatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import PointSCM, PostNonlinearSCM
from counterplan.scm.network import Network
from counterplan.scm.point import BatchReplay, ElementwiseSCM, IntervalSlopes, Region
from counterplan.testing import check_scm
from counterplan.testing.continuous import MODELS, random_sequence_problem

# --- The conformance check of continuous models passes what is right and fails what is wrong ---

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


# --- Location-scale, additive and post-nonlinear models from any functions ---

STATES = np.array([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])
ACTIONS = np.array([[1.0], [-2.0]])
AFTER = np.array([[1.0, 0.3, 0.4], [0.0, -1.0, 2.0]])


def location(states: Floats, actions: Floats) -> Floats:
    return states[:, 1:] * 0.5 + actions


def scale(states: Floats, actions: Floats) -> Floats:
    return 1.0 + states[:, 1:] ** 2


def test_location_scale_by_hand() -> None:
    scm = cp.LocationScaleSCM(location, scale, lipschitz=(0.5, 2.0), fixed=1)
    noise = scm.infer(STATES, ACTIONS, AFTER)
    assert noise == pytest.approx(np.array([[-1.7 / 5.0, -0.1 / 2.0], [0.75 / 1.25, 2.5 / 10.0]]))
    assert scm.step(STATES, ACTIONS, noise) == pytest.approx(AFTER)
    assert scm.lipschitz(noise) == pytest.approx([0.5 + 2.0 * 0.34, 0.5 + 2.0 * 0.6])
    assert scm.slopes(Region(STATES[0], 1.0, np.ones(3)), ACTIONS, noise[0]) is None


def test_additive_noise_by_hand() -> None:
    scm = cp.AdditiveNoiseSCM(location, lipschitz=0.5, fixed=1)
    noise = scm.infer(STATES, ACTIONS, AFTER)
    assert noise == pytest.approx(np.array([[-1.7, -0.1], [0.75, 2.5]]))
    assert scm.step(STATES, ACTIONS, noise) == pytest.approx(AFTER)
    assert scm.lipschitz(noise) == pytest.approx([0.5, 0.5])


def test_post_nonlinear_by_hand() -> None:
    scm = PostNonlinearSCM(location, np.exp, np.log, lipschitz=(0.5, 3.0), fixed=1)
    after = np.abs(AFTER) + 0.1
    after[:, 0] = STATES[:, 0]
    noise = scm.infer(STATES, ACTIONS, after)
    assert noise == pytest.approx(np.log(after[:, 1:]) - location(STATES, ACTIONS))
    assert scm.step(STATES, ACTIONS, noise) == pytest.approx(after)
    assert scm.lipschitz(noise) == pytest.approx([1.5, 1.5])


@pytest.mark.parametrize(
    "scm",
    [
        cp.LocationScaleSCM(location, scale, fixed=1),
        cp.AdditiveNoiseSCM(location, fixed=1),
        PostNonlinearSCM(location, np.sinh, np.arcsinh, fixed=1),
    ],
)
def test_all_are_elementwise_and_silent_about_constants(scm: PointSCM) -> None:
    assert isinstance(scm, ElementwiseSCM)
    noise = scm.infer(STATES, ACTIONS, AFTER)
    assert noise.shape == (2, 2)
    assert scm.lipschitz(noise) is None


def test_abduct_reads_indices_and_vectors() -> None:
    scm = cp.AdditiveNoiseSCM(location, fixed=1)
    states = np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    by_index = scm.abduct(cp.Episode(states, [1, 0]), np.array([[0.0], [4.0]]))
    by_vector = scm.abduct(cp.Episode(states, [[4.0], [0.0]]))
    assert np.array_equal(by_index, by_vector)
    assert by_index == pytest.approx(np.array([[0.0 - 5.0, 1.0 - 5.5], [1.0, 0.5]]))
    with pytest.raises(InputError, match="its actions are indices: pass the vectors"):
        scm.abduct(cp.Episode(states, [1, 0]))


@pytest.mark.parametrize(
    ("kind", "parts", "options", "message"),
    [
        (cp.AdditiveNoiseSCM, (), {"lipschitz": -1.0}, "finite and not negative"),
        (cp.AdditiveNoiseSCM, (), {"fixed": -1}, "fixed must be at least 0"),
        (cp.AdditiveNoiseSCM, (), {"lipschitz": (1.0, 0.1)}, r"location must be .* \(1.0, 0.1\)"),
        (cp.LocationScaleSCM, (scale,), {"lipschitz": 1.0}, "two constants, of location and scale"),
        (cp.LocationScaleSCM, (scale,), {"lipschitz": (1, 2, 3)}, r"two constants.*\(1, 2, 3\)"),
        (cp.LocationScaleSCM, (scale,), {"lipschitz": "xy"}, "location must be a number.* 'x'"),
        (cp.LocationScaleSCM, (scale,), {"lipschitz": (1.0, None)}, "scale must be a .* got None"),
        (PostNonlinearSCM, (np.exp, np.log), {"lipschitz": 2.0}, "of location and link, or None"),
        (PostNonlinearSCM, (np.exp, np.log), {"lipschitz": (np.nan, 1.0)}, "Lipschitz"),
        (PostNonlinearSCM, (np.exp, np.log), {"lipschitz": (1.0, "x")}, "link must be .* got 'x'"),
    ],
)
def test_refuses_bad_arguments(
    kind: Any, parts: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        kind(location, *parts, **options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s, a: s, r"location returned shape \(2, 3\), expected \(2, 2\)"),
        (lambda s, a: np.full((2, 2), np.nan), "location is not finite for state"),
    ],
)
def test_refuses_what_functions_return(wrong: Any, message: str) -> None:
    for scm in (
        cp.AdditiveNoiseSCM(wrong, fixed=1),
        cp.LocationScaleSCM(wrong, scale, fixed=1),
        PostNonlinearSCM(wrong, np.sinh, np.arcsinh, fixed=1),
    ):
        with pytest.raises(InputError, match=message):
            scm.infer(STATES, ACTIONS, AFTER)


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_refuses_a_scale_that_is_not_positive(value: float) -> None:
    scm = cp.LocationScaleSCM(location, lambda s, a: np.array([[1.0, 1.0], [1.0, value]]), fixed=1)
    message = rf"the scale of feature 2 is {value} for state \[0.0, 0.5, 3.0\].*must be positive"
    for call in (scm.infer, scm.step):
        with pytest.raises(InputError, match=message):
            call(STATES, ACTIONS, AFTER if call == scm.infer else np.zeros((2, 2)))


def test_refuses_what_a_link_never_takes() -> None:
    scm = PostNonlinearSCM(location, np.exp, np.log, fixed=1)
    after = AFTER.copy()
    after[1, 2] = 0.0
    with (
        pytest.raises(InputError, match=r"feature 1 is -1\.0, which the link never takes"),
        np.errstate(all="ignore"),
    ):
        scm.infer(STATES, ACTIONS, after)
