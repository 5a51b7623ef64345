"""Trained predictors as causal models: their slopes hold, and searches with them are exact."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.counterfactual.continuous.astar import NoBound
from counterplan.errors import InputError
from counterplan.scm.layers import ACTIVATIONS
from counterplan.scm.point import Region
from counterplan.testing import check_scm

ACTIONS = np.array([[0.0], [0.5], [1.0]])
REWARD = cp.LinearReward([0.0, 0.0, 1.0])


def network(rng: np.random.Generator, name: str) -> list[tuple[Any, Any, str]]:
    """Of three features, the first fixed, and a dose."""
    first, second = rng.normal(0.0, 0.5, (8, 4)), rng.normal(0.0, 0.5, (2, 8))
    return [(first, rng.normal(size=8), name), (second, rng.normal(size=2), "linear")]


def episode(scm: Any, rng: np.random.Generator, steps: int = 6) -> cp.Episode:
    states, taken = [rng.normal(size=3)], rng.integers(0, 3, steps - 1)
    for action in taken:
        noise = rng.normal(0.0, 0.1, (1, 2))
        states.append(scm.step(states[-1][None], ACTIONS[[action]], noise)[0])
    return cp.Episode(states=np.array(states), actions=taken)


def assert_slopes_hold(scm: Any, rng: np.random.Generator, sizes: tuple[float, ...]) -> None:
    for size in sizes:
        centre, box = rng.normal(size=3), size * rng.uniform(0.1, 1.0, 3)
        region = Region(centre, float(np.linalg.norm(box)), box)
        slopes = scm.slopes(region, ACTIONS, np.zeros(2))
        for _ in range(200):
            state = centre + box * rng.uniform(-1.0, 1.0, 3)
            both = (np.repeat(one[None], 3, axis=0) for one in (state, centre))
            there, here = (scm.step(one, ACTIONS, np.zeros((3, 2))) for one in both)
            off = there - here - slopes.jacobian @ (state - centre)
            assert (np.abs(off) <= slopes.deviation @ np.abs(state - centre) + 1e-9).all()


def assert_exact(scm: Any, rng: np.random.Generator) -> None:
    for _ in range(3):
        one = episode(scm, rng)
        found = cp.explain(scm, one, k=2, actions=ACTIONS, reward=REWARD)
        every = cp.explain(scm, one, k=2, actions=ACTIONS, reward=REWARD,
                           solver=cp.AStar(NoBound()))  # fmt: skip
        assert found.status == "optimal"
        assert found.value == pytest.approx(every.value, abs=1e-9)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_of_layers_hold_and_searches_are_exact(name: str, residual: bool) -> None:
    rng = np.random.default_rng(1)
    scm = cp.scm.from_network(network(rng, name), fixed=1, residual=residual)
    assert_slopes_hold(scm, rng, (0.01, 0.3, 3.0))
    assert_exact(scm, rng)
    check_scm(scm, episodes=[episode(scm, rng)], actions=ACTIONS)


def test_slopes_of_coefficients_hold() -> None:
    rng = np.random.default_rng(2)
    told = {
        "x": {"(Intercept)": 0.3, "x": 0.8, "dose": -0.4, "x:dose": -0.2, "age": 0.01},
        "y": {"y": 0.5, "x": 0.2, "I(x^2)": -0.05, "x:y": 0.03, "dose": 0.3, "age:dose": 0.1},
    }
    scm = cp.scm.from_coefficients(told, ["age", "x", "y"], ["dose"])
    age, x, y, dose = 2.0, 1.5, -0.5, 0.5
    after = scm.step(np.array([[age, x, y]]), np.array([[dose]]), np.zeros((1, 2)))[0]
    expected = [
        age,
        0.3 + 0.8 * x - 0.4 * dose - 0.2 * x * dose + 0.01 * age,
        0.5 * y + 0.2 * x - 0.05 * x**2 + 0.03 * x * y + 0.3 * dose + 0.1 * age * dose,
    ]
    np.testing.assert_allclose(after, expected, atol=1e-12)
    assert_slopes_hold(scm, rng, (0.01, 0.3, 3.0))
    assert_exact(scm, rng)


def test_scikit_learn_models_are_what_they_predict() -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(3)
    given = rng.normal(2.0, 3.0, (300, 4))
    after = np.tanh(given[:, :2]) + given[:, 3:]
    network = MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=50, random_state=0)
    for predictor in (Ridge(), make_pipeline(StandardScaler(), network)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 50 iterations are few
            predictor.fit(given, after)
        scm = cp.scm.from_network(predictor, fixed=1)
        found = scm.step(given[:, :3], given[:, 3:], np.zeros((300, 2)))[:, 1:]
        np.testing.assert_allclose(found, predictor.predict(given), atol=1e-9)
        assert_slopes_hold(scm, rng, (0.3,))


def test_scikit_learn_models_may_know_names_of_columns_and_must_be_fitted() -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pandas = pytest.importorskip("pandas")
    for predictor in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        with pytest.raises(InputError, match="not fitted yet, so fit it first"):
            cp.scm.from_network(predictor)
        given = np.random.default_rng(6).normal(size=(50, 2))
        predictor.fit(pandas.DataFrame(given, columns=["x", "dose"]), given[:, :1])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cp.scm.from_network(predictor)


def test_modules_of_pytorch_and_onnx_are_what_they_predict() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    given = rng.normal(size=(50, 4))
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 6),
        torch.nn.Softplus(), torch.nn.Linear(6, 2),
    ).double().eval()  # fmt: skip
    scm = cp.scm.from_network(module, fixed=1)
    expected = module(torch.tensor(given)).detach().numpy()
    found = scm.step(given[:, :3], given[:, 3:], np.zeros((50, 2)))[:, 1:]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    with pytest.raises(InputError, match="'GELU', whose slopes are not known"):
        cp.scm.from_network(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.GELU()))
    with pytest.raises(InputError, match="has a forward of its own"):
        cp.scm.from_network(torch.nn.LSTM(4, 2))


def test_onnx_graphs_are_what_they_compute() -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    rng, make = np.random.default_rng(5), onnx.helper.make_node
    weights = {"A": rng.normal(size=(8, 4)), "b": rng.normal(size=8), "C": rng.normal(size=(8, 2)),
               "d": rng.normal(size=2)}  # fmt: skip
    nodes = [
        make("Gemm", ["x", "A", "b"], ["h"], transB=1),
        make("Tanh", ["h"], ["g"]),
        make("MatMul", ["g", "C"], ["f"]),
        make("Add", ["f", "d"], ["y"]),
    ]
    number, info = onnx.TensorProto.DOUBLE, onnx.helper.make_tensor_value_info
    held = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    ends = [info("x", number, [None, 4])], [info("y", number, [None, 2])]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "f", *ends, held))
    given = rng.normal(size=(20, 4))
    (expected,) = ReferenceEvaluator(model).run(None, {"x": given})
    scm = cp.scm.from_network(model, fixed=1)
    found = scm.step(given[:, :3], given[:, 3:], np.zeros((20, 2)))[:, 1:]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # Weights times columns is another thing than rows times weights, and square ones hide it.
    turned = [make("MatMul", ["S", "x"], ["y"])]
    held = [onnx.numpy_helper.from_array(rng.normal(size=(4, 4)), "S")]
    ends = [info("x", number, [4, None])], [info("y", number, [4, None])]
    with pytest.raises(InputError, match="no chain of rows times weights"):
        cp.scm.from_network(
            onnx.helper.make_model(onnx.helper.make_graph(turned, "f", *ends, held))
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no layers"),
        (object(), "no network whose layers are known"),
        ([(np.ones((3, 2)), np.ones(2), "tanh")], r"weights of shape \(3, 2\) and a bias of shape"),
        ("net.onnx", "is a name: give the network itself, such as onnx.load"),
        ([([[1.0, 2.0]], [0.0], "gelu")], "'gelu', whose slopes are not known"),
        ([([[1.0, np.nan]], [0.0], "tanh")], "not finite"),
        ([(np.ones((3, 2)), 0.0, "tanh"), (np.ones((1, 2)), 0.0, "linear")], "3 numbers come in"),
    ],
)
def test_what_is_no_network_is_named(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cp.scm.from_network(given)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"z": {"x": 1.0}}, "'z', which is no feature"),
        ({"age": {"x": 1.0}}, "fixed and come first"),
        ({"x": {"x": 1.0, "dose": np.nan}}, "'dose' of 'x' is nan: leave a term out"),
        ({"x": {"log(x)": 1.0}}, r"'log\(x' is none of|'log\(x\)' is none of"),
    ],
)
def test_what_is_no_table_of_coefficients_is_named(told: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cp.scm.from_coefficients(told, ["age", "x"], ["dose"])


def test_a_frame_of_coefficients_is_told_how_it_becomes_a_mapping() -> None:
    frame = pl.DataFrame({"term": ["(Intercept)", "x", "dose"], "estimate": [1.0, 0.8, -0.1]})
    with pytest.raises(InputError, match="of a frame with a row for each term"):
        cp.scm.from_coefficients(frame, ["x"], ["dose"])
    told = {"x": dict(zip(frame["term"], frame["estimate"], strict=True))}
    scm = cp.scm.from_coefficients(told, ["x"], ["dose"])
    after = scm.step(np.array([[2.0]]), np.array([[3.0]]), np.zeros((1, 1)))
    assert after == pytest.approx(1.0 + 1.6 - 0.3)


def test_check_says_what_a_predictor_lacks() -> None:
    """In 32 bits a row's answer depends on the rows beside it; a bare function is no model."""

    def rounded(states: Any, actions: Any) -> Any:
        noisy = np.hstack([states, actions]).mean(axis=1, keepdims=True)
        return noisy + 1e-6 * len(states)  # as kernels that sum in another order

    seen = cp.Episode(states=[[0.1], [0.4], [0.3]], actions=[0, 1])
    with pytest.raises(AssertionError, match=r"beside other rows: .* 64 bits"):
        check_scm(cp.AdditiveNoiseSCM(rounded), episodes=[seen], actions=ACTIONS)
    with pytest.raises(AssertionError, match=r"cp\.scm\.from_network\(predictor\)"):
        check_scm(rounded)  # type: ignore[arg-type]
