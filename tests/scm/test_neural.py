"""Neural models: networks, slopes, files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

import counterplan as cp
from counterplan.core.tensors import METADATA, digest
from counterplan.errors import FileError, InputError
from counterplan.scm import Scaling
from counterplan.scm.learned import NEURAL, NeuralSCM
from counterplan.scm.network import Network
from counterplan.scm.point import BatchReplay
from counterplan.scm.support import Seen

from .neural_support import patients_model

# --- One hidden layer: its formula, constant, gates, and replay near saturation ---


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


@given(st.floats(-30.0, 30.0), st.floats(1e-3, 10.0), st.floats(0.0, 1.0))
def test_gates_hold_every_slope_and_secant(low: float, width: float, share: float) -> None:
    high, network = low + width, Network.from_weights(weights(1, 1.0), "location")
    middle = np.array([low + width / 2])
    least, largest = network.chords(middle, np.array([width / 2]) * (1.0 + 1e-12))
    slope = 1.0 / np.cosh(low + share * width) ** 2
    assert least[0] - 1e-12 <= slope <= largest[0] + 1e-12
    first, second, third = network.derivatives(middle)
    moved = (share - 0.5) * width
    chord = np.tanh(middle + moved) - np.tanh(middle)
    error = chord - (first + second * moved) * moved
    (m3, m4), size = network.sizes, abs(moved)
    most = np.minimum(third + m4 / 24 * size, m3 / 6) * size**3
    assert abs(error) <= most + 1e-12
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": [1.0]}, "scale: weights must be a mapping with the keys"),
        ({"scale": None}, "scale: weights must be a mapping with the keys"),
        ({"scale": {**weights(), "multiplier": None}}, "scale: multiplier must be numbers, got N"),
        ({"noise_cholesky": np.eye(3) + np.triu(np.ones((3, 3)), 1)}, "must be lower triangular"),
        ({"noise_cholesky": np.ones(3)}, r"noise_cholesky has shape \(3,\), expected \(3, 3\)"),
        ({"noise_cholesky": "noise"}, "noise_cholesky must be numbers, got 'noise'"),
        ({"noise_cholesky": np.eye(2)}, r"noise_cholesky has shape \(2, 2\), expected \(3, 3\)"),
        ({"fixed": 2}, "they must add up"),
        ({"scale": {**weights(), "action": np.zeros((30, 1))}}, "location and scale disagree"),
    ],
)
def test_refuses_parts_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    good = {"location": weights(), "scale": weights(), "noise_cholesky": np.eye(3).tolist()}
    with pytest.raises(InputError, match=message):
        cp.NeuralSCM.from_weights(**{"fixed": 1, **good, **change})


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


# --- Files of neural models: bit for bit, or refused in one line ---

FEATURES = ["age", "x", "y"]


def network(rng: np.random.Generator) -> dict[str, Any]:
    shapes = {"state": (5, 3), "bias": 5, "action": (5, 2), "output": (2, 5), "output_bias": 2}
    return {key: rng.normal(size=shape) for key, shape in shapes.items()} | {"multiplier": 0.3}


def model(scaled: bool = True) -> NeuralSCM:
    rng = np.random.default_rng(0)
    plain = NeuralSCM.from_weights(network(rng), network(rng), [[0.1, 0.0], [0.3, 0.2]], fixed=1)
    scaling = Scaling(rng.normal(size=3), rng.uniform(1, 2, 3), rng.normal(size=2), np.ones(2))
    about = {"features": FEATURES, "actions": ["dose", "flow"], "training": {"nll": [0.1, 1 / 3]}}
    seen = Seen(*(rng.normal(size=(4, n)).astype(np.float32) for n in (3, 2)), 0.1, 0.2)
    limits = np.array([[-np.inf, 3.0], [0.0, np.inf]])
    more = {"scaling": scaling, "about": about, "seen": seen, "limits": limits}
    return replace(plain, **more) if scaled else plain


def test_what_is_held_at_a_limit_is_exactly_there() -> None:
    """In the units of the episode, too: no concentration of -1e-17."""
    scm, rng = model(), np.random.default_rng(1)
    states, actions = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    after = scm.step(states, actions, rng.normal(size=(200, 2)) - 3.0)
    assert (after[:, 2] == 0.0).any()
    assert (after[:, 1] <= 3.0).all()
    assert (after[:, 2] >= 0.0).all()
    course = np.abs(states[:5]) * [0.0, 1.0, 1.0]  # of one age
    episode = cp.Episode(course, np.zeros(4, dtype=int))
    asked = {
        "actions": [[0.0, 0.0], [-9.0, 4.0], [9.0, -4.0]],
        "reward": cp.LinearReward([0, 1, -1]),
    }
    found = [cp.replay(scm, episode, {t: a}, **asked).states for t in range(4) for a in (1, 2)]
    assert min(one[:, 2].min() for one in found) == 0.0


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    model().save(path)
    return path


def refusal(path: Path) -> str:
    messages = []
    for loader in (NeuralSCM.load, cp.load_model):
        with pytest.raises(FileError) as caught:
            loader(path)
        messages.append(str(caught.value))
        assert messages[-1].startswith(f"{path}")
        assert len(messages[-1].splitlines()) == 1
    return messages[0]


def arrays_of(one: Any) -> list[bytes]:
    """Everything that a model is made of, part by part."""
    if isinstance(one, np.ndarray):
        return [one.tobytes()]
    if is_dataclass(one):
        return [part for field in fields(one) for part in arrays_of(getattr(one, field.name))]
    if isinstance(one, tuple):
        return [part for field in one for part in arrays_of(field)]
    return [repr(one).encode()]


@pytest.mark.parametrize("kind", ["scaled", "plain", "smooth"])
def test_round_trip(tmp_path: Path, kind: str) -> None:
    """Loaded models are the same bit for bit: weights, draws, effects, doubts and what was seen."""
    path, again = tmp_path / "model.safetensors", tmp_path / "again.safetensors"
    one = patients_model() if kind == "smooth" else model(kind == "scaled")
    one.save(path)
    for two in (type(one).load(path), cp.load_model(path)):
        assert arrays_of(one) == arrays_of(two)
        cp.tables.save_model(two, again)
        assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_truncated(saved: Path, keep: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content))])
    assert "is damaged or no safetensors file" in refusal(saved)


def test_any_flipped_byte_is_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content), 60, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 1
        saved.write_bytes(bytes(damaged))
        refusal(saved)


def test_foreign_files(tmp_path: Path, saved: Path) -> None:
    foreign = tmp_path / "foreign.safetensors"
    foreign.write_bytes(save({"layer": np.zeros(3)}))
    assert "is a safetensors file, but not a model saved by counterplan" in refusal(foreign)
    foreign.write_bytes(b"\x80\x04K\x01.")
    assert "is damaged or no safetensors file" in refusal(foreign)
    assert "no such file" in refusal(tmp_path / "absent.safetensors")
    cp.tables.save_model(cp.TabularMDP([[[1.0]]], [[0.0]]), foreign)
    with pytest.raises(FileError, match="holds a counterplan tabular model, expected a counter"):
        NeuralSCM.load(foreign)
    with pytest.raises(FileError, match="holds a counterplan neural model, expected a coun"):
        cp.SmoothSCM.load(saved)
    with pytest.raises(FileError, match=r"'\.pkl', but files of neural models end in \.safetens"):
        NeuralSCM.load(tmp_path / "model.pkl")


def rewrite(path: Path, entries: dict[str, Any], arrays: dict[str, Any]) -> None:
    """A crafted file: changed contents with a checksum that matches."""
    stored = load(path.read_bytes())
    for name, array in arrays.items():
        if array is None:
            del stored[name]
        else:
            stored[name] = array
    about = {"fixed": 1, "about": {"features": FEATURES}, **entries}
    checksum = digest(NEURAL, stored, about)
    about = {"format": NEURAL.name, "version": 1, "sha256": checksum, **about}
    path.write_bytes(save(stored, metadata={METADATA: json.dumps(about)}))


CRAFTED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "array missing": ({}, {"scale_bias": None}, "the array 'scale_bias' is missing"),
    "single precision": ({}, {"scale_bias": np.zeros(5, dtype=np.float32)}, "has type F32, expec"),
    "a number for a table": ({}, {"location_state": np.array(1.0)}, "state weights have shape ()"),
    "nothing": ({}, {"location_action": np.zeros((5, 0))}, "action weights have shape (5, 0)"),
    "other units": ({}, {"location_bias": np.zeros(4)}, "location: state weights have shape"),
    "not finite": ({}, {"scale_output": np.full((2, 5), np.inf)}, "output weights are not all"),
    "other action": ({}, {"scale_action": np.zeros((5, 1))}, "disagree: action components 2 and 1"),
    "noise of another size": ({}, {"noise_cholesky": np.eye(3)}, "noise_cholesky has shape (3, 3)"),
    "noise not triangular": ({}, {"noise_cholesky": np.ones((2, 2))}, "must be lower triangular"),
    "noise nan": ({}, {"noise_cholesky": np.full((2, 2), np.nan)}, "must be lower triangular"),
    "no noise": ({}, {"noise_cholesky": np.zeros((2, 2))}, "zero on its diagonal"),
    "half a scaling": ({}, {"state_offset": None}, "of the scaling only state_range"),
    "scaling of another width": ({}, {"state_range": np.ones(2)}, "state_range must be 3 finite"),
    "range zero": ({}, {"state_range": np.zeros(3)}, "the range of state column 0 is 0.0"),
    "offset nan": ({}, {"state_offset": np.full(3, np.nan)}, "state_offset must be 3 finite"),
    "half of what was seen": (
        {},
        {"seen_actions": None},
        "of the seen data only seen_states",
    ),
    "no distances": ({}, {"seen_distances": np.ones(3)}, "'seen_distances' has shape"),
    "seen states": ({}, {"seen_states": np.zeros((3, 3), dtype=np.float32)}, "3 states but 4 acti"),
    "limits": ({}, {"limits": np.array([[1.0, 0.0], [0.0, 1.0]])}, "limits: expected 2 pairs"),
    "fixed no number": ({"fixed": "one"}, {}, "fixed must be a whole number"),
    "fixed too many": ({"fixed": 2}, {}, "they must add up"),
    "about no mapping": ({"about": [1]}, {}, "about is not a mapping"),
    "names no list": ({"about": {"features": 3}}, {}, "features must be a list of names"),
    "too few names": ({"about": {"actions": ["dose"]}}, {}, "1 names of actions, but the model"),
    "same name twice": ({"about": {"features": ["a", "a", "b"]}}, {}, "2 names of features"),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_file(saved: Path, case: str) -> None:
    entries, arrays, message = CRAFTED[case]
    rewrite(saved, entries, arrays)
    assert message in refusal(saved)


def test_what_json_cannot_hold_is_not_saved(tmp_path: Path) -> None:
    plain = model(scaled=False)
    for about in ({"when": object()}, {"loss": float("nan")}):
        with pytest.raises(InputError, match="cannot be written"):
            replace(plain, about=about).save(tmp_path / "model.safetensors")
    with pytest.raises(FileError, match=r"saved models end in \.safetensors"):
        plain.save(tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


def test_schema() -> None:
    scm = model()
    scm.check_schema(FEATURES, ["dose", "flow"])
    for features, actions, message in (
        (["age", "y", "x"], ["dose", "flow"], "features are in another order than the model's"),
        (["age", "x"], ["dose", "flow"], "it lacks y; the model was made for age, x, y"),
        (["age", "x", "z"], ["dose", "flow"], "lacks y and has z, which the model does not know"),
        (FEATURES, ["dose", "flow", "vent"], "actions are not the model's: it has vent, which"),
    ):
        with pytest.raises(InputError, match=message):
            scm.check_schema(features, actions)
    nameless = model(scaled=False)
    nameless.check_schema(["p", "q", "r"], ["a", "b"])
    with pytest.raises(InputError, match="the model has 3 features, but the data has 1: p"):
        nameless.check_schema(["p"], ["a", "b"])


def test_loading_needs_no_training_library(saved: Path) -> None:
    code = (
        "import sys, counterplan as cp\n"
        f"assert cp.load_model({str(saved)!r}).fixed == 1\n"
        "assert not {'jax', 'jaxlib', 'optax'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
