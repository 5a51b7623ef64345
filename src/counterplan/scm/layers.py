"""A trained predictor as a causal model: s' = f(s, a) + u, with slopes that are certified where the
predictor's layers are known.

Layers are z_0 = (s, a), z_l = sigma_l(W_l z_{l-1} + b_l) with sigma linear, tanh, ReLU or softplus.
Over a region of states every number lies in an interval, centre and radius: that of what goes into
a unit is (W c + b, |W| r); a unit's slope lies between its least and largest over that interval;
and with slopes in D = d +- e the Jacobian of a layer, A +- R, becomes (by absolute values)

    diag(D) W (A +- R)  =  d * W A  +-  ( |d| * |W| R  +  e * (|W A| + |W| R) )

So f(s, a) - f(c, a) = M (s - c) with every entry of M in J +- E: what the first-order bound of the
search needs (`scm.point`). Other predictors have no such bound: then every sequence is tried.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.point import AdditiveNoiseSCM, Region, number_array

INTERCEPT = ("(Intercept)", "Intercept", "const", "1")


class Activation(NamedTuple):
    """A function of each unit, its slope, and whether that is largest at 0; others' slopes rise."""

    value: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]
    peaks: bool = False


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


ACTIVATIONS = {
    "linear": Activation(lambda x: x, np.ones_like),
    "tanh": Activation(np.tanh, lambda x: np.asarray(1.0 - np.tanh(x) ** 2), peaks=True),
    "relu": Activation(lambda x: np.maximum(x, 0.0), lambda x: np.where(x > 0.0, 1.0, 0.0)),
    "softplus": Activation(lambda x: np.logaddexp(0.0, x), _sigmoid),
}
# What libraries call them.
CALLED = {
    "identity": "linear", "Identity": "linear", "Tanh": "tanh", "ReLU": "relu", "Relu": "relu",
    "Softplus": "softplus",
}  # fmt: skip


# Models of scikit-learn whose prediction is a sum of coefficients times what is given.
LINEAR = (
    *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV"),
    *("BayesianRidge", "ARDRegression", "HuberRegressor", "TheilSenRegressor", "Lars", "LassoLars"),
    *("MultiTaskLasso", "MultiTaskElasticNet", "LinearSVR", "SGDRegressor"),
)


class Layer(NamedTuple):
    """sigma(weights z + bias): weights (out, in), bias (out,)."""

    weights: FloatArray
    bias: FloatArray
    activation: str = "linear"


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers one after the other, as a function of states and actions, with slopes."""

    layers: tuple[Layer, ...]
    residual: int | None = None

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        value = np.hstack([states, actions])
        if value.shape[1] != self.layers[0].weights.shape[1]:
            raise InputError(
                f"the predictor takes {self.layers[0].weights.shape[1]} numbers, but states and "
                f"actions have {states.shape[1]} and {actions.shape[1]}"
            )
        for weights, bias, name in self.layers:
            value = ACTIVATIONS[name].value(value @ weights.T + bias)
        return value if self.residual is None else value + states[:, self.residual :]

    def slopes(self, region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, O, D) J and E over a region, for actions (n, d)."""
        n, D = len(actions), len(region.centre)
        centre = np.hstack([np.broadcast_to(region.centre, (n, D)), actions])
        radius = np.zeros_like(centre)
        radius[:, :D] = np.minimum(region.box, region.radius)
        # Rounding in the sums below is no more than this share of the largest of them.
        margin = 1e-12
        jacobian = np.broadcast_to(np.eye(centre.shape[1], D), (n, centre.shape[1], D))
        spread = np.zeros_like(jacobian)
        for weights, bias, name in self.layers:
            size = np.abs(weights)
            centre, radius = centre @ weights.T + bias, radius @ size.T
            radius = radius + margin * (np.abs(centre) + radius)
            jacobian, spread = weights @ jacobian, size @ spread
            low, high = _slope_range(name, centre - radius, centre + radius)
            middle, half = ((high + low) / 2)[:, :, None], ((high - low) / 2)[:, :, None]
            spread = np.abs(middle) * spread + half * (np.abs(jacobian) + spread)
            jacobian = middle * jacobian
            ends = [ACTIVATIONS[name].value(centre + side * radius) for side in (-1.0, 1.0)]
            centre, radius = (ends[1] + ends[0]) / 2, (ends[1] - ends[0]) / 2
        spread = spread + margin * np.abs(jacobian)
        if self.residual is not None:
            jacobian = jacobian + np.eye(D)[self.residual :]
        return jacobian, spread


def _slope_range(name: str, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least and largest slope of units whose inputs lie between low and high."""
    slope = ACTIVATIONS[name].slope
    ends = slope(low), slope(high)
    least, most = np.minimum(*ends), np.maximum(*ends)
    if ACTIVATIONS[name].peaks:
        most = np.where((low <= 0.0) & (high >= 0.0), 1.0, most)
    if name == "relu":  # at 0 itself the slope is anything from 0 to 1
        least = np.where(low <= 0.0, 0.0, least)
    return least, most


def from_network(network: Any, *, fixed: int = 0, residual: bool = False) -> AdditiveNoiseSCM:
    """The causal model s' = network(s, a) + u of a trained predictor whose layers are known.

    network   a PyTorch `Sequential` of Linear, Tanh, ReLU, Softplus; an ONNX model of such; a
              scikit-learn linear model, `MLPRegressor`, or a pipeline of `StandardScaler` and
              these; or a list of (weights, bias, activation). It takes (states, actions) side by
              side and returns the features that move
    fixed     leading features that never change
    residual  whether it predicts the change of the features instead of their next values
    """
    try:
        layers = tuple(_checked(_layers(network)))
    except AttributeError as problem:  # scikit-learn's weights appear when it is fitted
        raise InputError(f"the predictor is not fitted yet, so fit it first: {problem}") from None
    found = Layers(layers, fixed if residual else None)
    if hasattr(network, "predict"):  # what it says itself is what counts
        given = np.random.default_rng(0).normal(size=(8, found.layers[0].weights.shape[1]))
        plain = Layers(found.layers)(given, given[:, :0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of columns that had names
            told = np.reshape(network.predict(given), plain.shape)
        if not np.allclose(plain, told, rtol=1e-5, atol=1e-5):
            raise InputError(
                f"{type(network).__name__} predicts something else than its layers say: pass it as "
                "a function, cp.AdditiveNoiseSCM(function)"
            )
    return AdditiveNoiseSCM(found, fixed=fixed, slopes=found.slopes)


def _checked(layers: Iterable[tuple[Any, Any, str]]) -> Iterator[Layer]:
    width = None
    for i, (given, shift, name) in enumerate(layers):
        if given is None:  # an activation alone: as wide as what comes in
            given, shift = np.eye(width or 0), 0.0
        weights, bias = number_array(given, f"layer {i}"), number_array(shift, f"layer {i}, bias")
        weights = np.atleast_2d(weights)
        if weights.ndim != 2 or np.size(bias) not in (1, len(weights)):
            raise InputError(
                f"layer {i} has weights of shape {weights.shape} and a bias of shape {bias.shape}: "
                "give (out, in) and (out,)"
            )
        bias = np.broadcast_to(np.ravel(bias), len(weights))
        name = CALLED.get(name, name)
        if name not in ACTIVATIONS:
            raise InputError(
                f"layer {i} has the activation {name!r}, whose slopes are not known here: there "
                f"are {', '.join(ACTIVATIONS)}; pass the predictor as a function, "
                "cp.AdditiveNoiseSCM(function), which is searched without a bound"
            )
        if width is not None and weights.shape[1] != width:
            raise InputError(
                f"layer {i} has weights of shape {weights.shape}, but {width} numbers come in"
            )
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise InputError(f"layer {i} has weights that are not finite")
        width = len(weights)
        yield Layer(weights, np.asarray(bias, dtype=np.float64), name)
    if width is None:
        raise InputError("the network has no layers")


def _layers(network: Any) -> Iterator[tuple[Any, Any, str]]:
    """(weights, bias, activation) of whatever it is; told by what it has, nothing is imported."""
    if isinstance(network, str | PathLike):
        raise InputError(
            f"{str(network)!r} is a name: give the network itself, such as onnx.load of it"
        )
    if isinstance(network, Sequence):
        yield from network
    elif hasattr(network, "graph") and hasattr(network, "opset_import"):
        yield from _of_onnx(network)
    elif hasattr(network, "steps"):  # a pipeline
        for _, part in network.steps:
            yield from _layers(part)
    elif type(network).__name__ == "StandardScaler":
        one = np.ones(network.n_features_in_)
        scale = one if network.scale_ is None else network.scale_
        mean = network.mean_ if network.with_mean else 0.0 * one
        yield np.diag(1.0 / scale), -mean / scale, "linear"
    elif type(network).__name__ == "MLPRegressor":
        parts = list(zip(network.coefs_, network.intercepts_, strict=True))
        for i, (weights, bias) in enumerate(parts):
            name = network.out_activation_ if i == len(parts) - 1 else network.activation
            yield np.asarray(weights).T, bias, name
    elif type(network).__name__ in LINEAR:
        yield np.atleast_2d(network.coef_), network.intercept_, "linear"
    elif hasattr(network, "children") and hasattr(network, "state_dict"):
        yield from _of_torch(network)
    else:
        raise InputError(
            f"{type(network).__name__} is no network whose layers are known here: pass it as a "
            "function, cp.AdditiveNoiseSCM(function), or as a list of (weights, bias, activation)"
        )


def _of_torch(network: Any) -> Iterator[tuple[Any, Any, str]]:
    """Of a Sequential: each Linear with the activation that follows it."""
    if type(network).__name__ == "Linear":
        parts = [network]
    elif type(network).__name__ == "Sequential":
        parts = [one for one in network.children() if type(one).__name__ != "Dropout"]
    else:
        raise InputError(
            f"{type(network).__name__} has a forward of its own, so its layers are not known: pass "
            "a torch.nn.Sequential, or a function, cp.AdditiveNoiseSCM(function)"
        )
    for part in parts:
        name = type(part).__name__
        if name == "Sequential":
            yield from _of_torch(part)
        elif name == "Linear":
            weights = part.weight.detach().cpu().double().numpy()
            given = part.bias
            bias = (
                np.zeros(len(weights)) if given is None else given.detach().cpu().double().numpy()
            )
            yield weights, bias, "linear"
        else:
            softened = name == "Softplus" and getattr(part, "beta", 1) != 1
            yield None, None, "Softplus with another beta" if softened else name


def _of_onnx(model: Any) -> Iterator[tuple[Any, Any, str]]:
    """Of a graph that is a chain of Gemm, MatMul, Add and activations."""
    from importlib import import_module

    read = import_module("onnx.numpy_helper").to_array
    known = {one.name: read(one).astype(np.float64) for one in model.graph.initializer}
    last = model.graph.input[0].name
    for node in model.graph.node:
        inputs = [one for one in node.input if one not in known]
        settings = {one.name: one for one in node.attribute}
        is_turned = node.input[:1] != [last] and node.op_type != "Add"
        if inputs != [last] or is_turned or ("transA" in settings and settings["transA"].i):
            raise InputError(
                f"the ONNX graph is no chain of rows times weights: {node.op_type} {node.name!r} "
                f"takes {[*node.input]}; pass it as a function, cp.AdditiveNoiseSCM(function)"
            )
        weights = [known[one] for one in node.input if one in known]
        if node.op_type == "Gemm":
            scales = [settings[k].f if k in settings else 1.0 for k in ("alpha", "beta")]
            turned = "transB" in settings and settings["transB"].i
            matrix = scales[0] * (weights[0] if turned else weights[0].T)
            bias = scales[1] * weights[1] if len(weights) > 1 else np.zeros(len(matrix))
            yield matrix, bias, "linear"
        elif node.op_type == "MatMul":
            yield weights[0].T, np.zeros(weights[0].shape[1]), "linear"
        elif node.op_type == "Add":
            bias = np.ravel(weights[0])
            yield np.eye(len(bias)), bias, "linear"
        else:
            yield None, None, node.op_type
        last = node.output[0]
    if [one.name for one in model.graph.output] != [last]:
        raise InputError(f"the ONNX graph does not end with its last node, {last!r}: cut it there")


# --- Tables of coefficients -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Polynomial:
    """Sums of coefficients times products of columns, as regressions are reported.

    powers  (m, D + d) how often each column stands in a term
    weights (O, m)
    """

    powers: FloatArray
    weights: FloatArray

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        given = np.hstack([states, actions])
        terms = (given[:, None, :] ** self.powers).prod(axis=2)
        return np.asarray(terms @ self.weights.T)

    def slopes(self, region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, O, D): the slope of a term is another term, whose factors lie in intervals."""
        n, D = len(actions), len(region.centre)
        half = np.minimum(region.box, region.radius)
        ends = np.stack([region.centre - half, region.centre + half])
        low, high = (np.hstack([np.broadcast_to(one, (n, D)), actions]) for one in ends)
        jacobian, spread = np.zeros((2, n, len(self.weights), D))
        for j in range(D):
            often = self.powers[:, j]
            rest = self.powers.copy()
            rest[:, j] = np.maximum(often - 1, 0)
            least, most = _products(low, high, rest)
            middle, width = (most + least) / 2 * often, (most - least) / 2 * often
            jacobian[:, :, j] = middle @ self.weights.T
            spread[:, :, j] = width @ np.abs(self.weights).T
        return jacobian, spread + 1e-12 * np.abs(jacobian)


def _products(low: FloatArray, high: FloatArray, powers: FloatArray) -> tuple[Any, Any]:
    """(n, m) the least and largest product of powers of numbers between low and high (n, p)."""
    least, most = np.ones((2, len(low), len(powers)))
    for i in range(low.shape[1]):
        ends = np.stack([low[:, [i]] ** powers[:, i], high[:, [i]] ** powers[:, i]])
        bottom, top = ends.min(axis=0), ends.max(axis=0)
        inside = (low[:, [i]] < 0.0) & (high[:, [i]] > 0.0) & (powers[:, i] % 2 == 0)
        bottom = np.where(inside & (powers[:, i] > 0), 0.0, bottom)
        every = np.stack([least * bottom, least * top, most * bottom, most * top])
        least, most = every.min(axis=0), every.max(axis=0)
    return least, most


def from_coefficients(
    coefficients: Any,
    features: Sequence[str],
    actions: Sequence[str],
) -> AdditiveNoiseSCM:
    """The causal model of regressions, as R or statsmodels report them.

    coefficients  of each feature's next value a mapping, term -> estimate. A term is "(Intercept)",
                  a column, a product such as "x:dose", or a power such as "I(x^2)". A feature
                  without an entry is fixed, and comes first in `features`
    features      the columns of states, in their order
    actions       the columns of action vectors
    """
    if not (isinstance(coefficients, Mapping) and all(
        isinstance(one, Mapping) for one in coefficients.values()
    )):  # fmt: skip
        raise InputError(
            "coefficients are a mapping for each feature, {'y': {'(Intercept)': 1, 'y': 0.8}}; "
            "of a frame with a row for each term {'y': dict(zip(frame['term'], frame['estimate']))}"
        )
    columns = [*features, *actions]
    if len(set(columns)) < len(columns) or not coefficients:
        raise InputError("from_coefficients: name every column once, and give some coefficients")
    moving = [name for name in features if name in coefficients]
    fixed = len(features) - len(moving)
    if unknown := [name for name in coefficients if name not in features]:
        raise InputError(f"coefficients of {unknown[0]!r}, which is no feature: {list(features)}")
    if moving != list(features[fixed:]):
        raise InputError(f"features without coefficients are fixed and come first: {moving} move")
    terms = list(dict.fromkeys(term for name in moving for term in coefficients[name]))
    powers = np.array([_powers(term, columns) for term in terms])
    weights = np.array([[coefficients[name].get(term, 0.0) for term in terms] for name in moving])
    if not np.isfinite(weights).all():
        at, term = np.argwhere(~np.isfinite(weights))[0]
        raise InputError(
            f"the coefficient {terms[term]!r} of {moving[at]!r} is {weights[at, term]}: leave a "
            "term out that was not estimated"
        )
    found = Polynomial(powers, number_array(weights, "coefficients"))
    return AdditiveNoiseSCM(found, fixed=fixed, slopes=found.slopes)


def _powers(term: str, columns: Sequence[str]) -> list[float]:
    found = dict.fromkeys(columns, 0.0)
    for factor in () if term in INTERCEPT and term not in found else term.split(":"):
        inner = re.fullmatch(r"I\((.+)\^(\d+)\)", factor, re.ASCII)
        name, power = (inner[1], inner[2]) if inner else (factor, "1")
        if name not in found:
            raise InputError(
                f"term {term!r}: {factor!r} is none of {', '.join(columns)}, nor a whole power of "
                "one, such as I(x^2)"
            )
        found[name] += float(power)
    return list(found.values())
