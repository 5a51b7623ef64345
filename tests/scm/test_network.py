"""One hidden layer: its formula, its certified constant, its gates, and replay near saturation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import Scaling
from counterplan.scm.network import Network, gate_interval
from counterplan.scm.point import BatchReplay


def weights(seed: int = 0, size: float = 1.0, hidden: int = 30) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "state": size * rng.normal(size=(hidden, 4)),
        "bias": size * rng.normal(size=hidden),
        "action": size * rng.normal(size=(hidden, 2)),
        "output": rng.normal(size=(3, hidden)),
        "output_bias": rng.normal(size=3),
    }


def test_the_multiplier_applies_to_both_layers() -> None:
    given = weights()
    network = Network.from_weights({**given, "multiplier": 0.3}, "location")
    rng = np.random.default_rng(1)
    states, actions = rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    inner = states @ given["state"].T + given["bias"] + actions @ given["action"].T
    expected = 0.3 * (np.tanh(0.3 * inner) @ given["output"].T + given["output_bias"])
    assert network(states, actions) == pytest.approx(expected)
    norms = np.linalg.norm(given["state"], 2) * np.linalg.norm(given["output"], 2)
    assert network.lipschitz == pytest.approx(0.09 * norms)


def test_the_constant_is_certified() -> None:
    """Never below the product of the norms, however these round."""
    for seed in range(20):
        network = Network.from_weights(weights(seed), "location")
        singular = [np.linalg.svd(part)[1][0] for part in (network.state, network.output)]
        assert network.lipschitz >= singular[0] * singular[1]


@given(st.floats(-30.0, 30.0), st.floats(0.0, 10.0), st.floats(0.0, 1.0))
def test_gates_hold_every_slope_of_the_interval(low: float, width: float, share: float) -> None:
    least, largest = gate_interval(np.array([low]), np.array([low + width]))
    slope = 1.0 / np.cosh(low + share * width) ** 2
    assert least[0] <= slope * (1.0 + 1e-12)
    assert slope <= largest[0] * (1.0 + 1e-12)


@given(st.floats(-20.0, 20.0), st.floats(-20.0, 20.0))
def test_gates_hold_secants(low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    if high - low < 1e-3:
        return
    least, largest = gate_interval(np.array([low]), np.array([high]))
    secant = (np.tanh(high) - np.tanh(low)) / (high - low)
    assert least[0] - 1e-12 <= secant <= largest[0] + 1e-12


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 30.0, 300.0])
def test_replay_equals_step_even_where_tanh_saturates(size: float) -> None:
    """The halves of the first layer may be large and of opposite signs: tanh of their sum cannot
    come from their tanh alone."""
    scm = cp.NeuralSCM.from_weights(weights(1, size), weights(2, size), np.eye(3), fixed=1)
    rng = np.random.default_rng(3)
    vectors, noise = rng.normal(size=(2, 6, 2)), rng.normal(size=(2, 3))
    states = rng.normal(size=(200, 4))
    replay, plain = scm.replay(vectors, noise, states[0]), BatchReplay(scm, vectors, noise)
    assert replay.children(1, states) == pytest.approx(plain.children(1, states), abs=1e-10)
    actions = rng.integers(6, size=200)
    expected = plain.follow(0, states, actions)
    assert replay.follow(0, states, actions) == pytest.approx(expected, abs=1e-10)


def test_replay_where_both_halves_cancel_exactly() -> None:
    one = {
        "state": np.array([[40.0, 0.0]]),
        "bias": np.zeros(1),
        "action": np.array([[-40.0]]),
        "output": np.ones((2, 1)),
        "output_bias": np.zeros(2),
    }
    scm = cp.NeuralSCM.from_weights(one, one, np.eye(2))
    replay = scm.replay(np.array([[[1.0], [1.01]]]), np.zeros((1, 2)), np.ones(2))
    found = replay.children(0, np.array([[1.0, 0.0]]))[0, :, 0]
    assert found == pytest.approx([0.0, np.tanh(-0.4)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": None}, "location: weights lack state"),
        ({"state": np.zeros((3, 4))}, r"location: state weights have shape \(3, 4\), expected"),
        ({"output": np.zeros((3, 7))}, r"location: output weights have shape \(3, 7\), expected"),
        ({"bias": np.full(30, np.nan)}, "location: bias weights are not all finite"),
        ({"bias": "abc"}, "location: bias weights must be numbers, got 'abc'"),
        ({"bias": [[1.0], [1.0, 2.0]]}, "location: bias weights: its rows differ in length"),
        ({"bias": 3.0}, r"location: bias weights have shape \(\), expected a vector"),
        ({"state": np.zeros(4)}, r"location: state weights have shape \(4,\), expected a matrix"),
        ({"action": np.zeros((30, 0))}, r"action weights have shape \(30, 0\), expected a matrix"),
        ({"mulitplier": 3.0}, "unknown weights 'mulitplier': the keys are state, .* multiplier"),
        ({"multiplier": "3"}, "location: multiplier must be numbers, got '3'"),
        ({"multiplier": 0.0}, "location: multiplier must be one positive number, got 0.0"),
        ({"multiplier": [1.0, 2.0]}, "location: multiplier must be one positive number"),
    ],
)
def test_refuses_weights_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    given = {key: value for key, value in {**weights(), **change}.items() if value is not None}
    with pytest.raises(InputError, match=message):
        cp.NeuralSCM.from_weights(given, weights(), np.eye(3), fixed=1)


def test_refuses_weights_that_are_none() -> None:
    with pytest.raises(InputError, match="location: multiplier must be numbers, got None"):
        cp.NeuralSCM.from_weights({**weights(), "multiplier": None}, weights(), np.eye(3), fixed=1)
    for wrong in ([1.0], None, "weights"):
        with pytest.raises(InputError, match="scale: weights must be a mapping with the keys"):
            cp.NeuralSCM.from_weights(weights(), wrong, np.eye(3), fixed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (np.eye(3) + np.triu(np.ones((3, 3)), 1), "noise_cholesky must be lower triangular"),
        (np.ones(3), r"noise_cholesky has shape \(3,\), expected \(3, 3\)"),
        ("noise", "noise_cholesky must be numbers, got 'noise'"),
        (None, "noise_cholesky must be numbers, got None"),
    ],
)
def test_refuses_noise_that_is_no_factor(noise: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cp.NeuralSCM.from_weights(weights(), weights(), noise, fixed=1)
    assert cp.NeuralSCM.from_weights(weights(), weights(), np.eye(3).tolist(), fixed=1)


@pytest.mark.parametrize("scaled", [True, False])
def test_refuses_states_and_actions_of_another_width(scaled: bool) -> None:
    scaling = Scaling(np.zeros(4), np.ones(4), np.zeros(2), np.ones(2)) if scaled else None
    scm = cp.NeuralSCM.from_weights(weights(), weights(), np.eye(3), 1, scaling)
    states, actions = np.zeros((5, 4)), np.zeros((5, 2))
    for wrong, message in (
        ((states[:, :3], actions, states), r"states have shape \(5, 3\), the model takes \(n, 4\)"),
        ((states, actions, states[:, :1]), r"states have shape \(5, 1\), the model takes \(n, 4\)"),
        ((states, actions[0], states), r"action vectors have shape \(2,\), the model takes"),
    ):
        with pytest.raises(InputError, match=message):
            scm.infer(*wrong)
        with pytest.raises(InputError, match=message):
            scm.log_likelihood(*wrong)
    with pytest.raises(InputError, match=r"states have shape \(5, 5\), the model takes"):
        scm.step(np.zeros((5, 5)), actions, np.zeros((5, 3)))
    problem = {"actions": np.eye(2), "reward": cp.LinearReward(np.ones(3))}
    with pytest.raises(InputError, match=r"states have"):
        cp.explain(scm, cp.Episode(np.zeros((4, 3)), [0, 1, 0]), 1, **problem)  # type: ignore[arg-type]


def test_refuses_parts_that_do_not_fit() -> None:
    good = weights()
    with pytest.raises(InputError, match="they must add up"):
        cp.NeuralSCM.from_weights(good, good, np.eye(3), fixed=2)
    with pytest.raises(InputError, match=r"noise_cholesky has shape \(2, 2\), expected \(3, 3\)"):
        cp.NeuralSCM.from_weights(good, good, np.eye(2), fixed=1)
    small = {**good, "output": good["output"][:2], "output_bias": good["output_bias"][:2]}
    with pytest.raises(InputError, match="location and scale disagree"):
        cp.NeuralSCM.from_weights(good, small, np.eye(3), fixed=1)
