"""Training of the neural location-scale model: from transitions to a certified NeuralSCM.

For each of location and scale, with a wanted Lipschitz constant C and m = sqrt(C),

    z = tanh(m (W_s / |W_s| s + b + W_a a)),      o = m (W_z / |W_z| z + b_z)

where |.| are spectral norms, estimated by one power iteration a step; without a constant, weights
are used as they are. With h = o of the location, phi = softplus(o) of the scale and
u = (s' - h) / phi, networks and noise are learned jointly by Adam, which minimises

    NLL = |L^{-1} u|^2 / 2 + log det L + sum_i log phi_i + (O / 2) log 2 pi

The noise's factor L is learned through L^{-1} = diag(exp r) (I + M), M strictly lower triangular:
its entries are regression coefficients, log-precisions r have no bounds, and no system is solved in
a step. Adam's iterates keep moving by about the learning rate, which is not small against the noise
of a quiet feature. So what counts is their running mean, over about AVERAGED steps.

Training starts near a fit, not at random. Constrained: with W_s of orthonormal columns and W_z its
transpose, W_z tanh(W_s s) is nearly s, so the location starts at "nothing changes", the best guess
for a slow process. Unconstrained: hidden units are random functions of the inputs, with W_z by
ridge regression. The noise starts as the residuals of a linear regression. From random weights,
most epochs go into finding just that.

Episodes held out for validation choose the epoch. A run that ends worse than it began, and worse
than a constant guess, has diverged: there is no model then. At the end spectral norms are no longer
estimated: weights are divided by their largest singular value, so that the constants of the model
are never above the wanted ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import TrainingError
from counterplan.scm.network import Network
from counterplan.scm.point import two_constants
from counterplan.scm.training import (
    MOST_UNITS,
    Samples,
    Training,
    check_learnable,
    min_max_scaling,
    names_of,
    progress_bar,
    record_of,
    reference_losses,
    regression,
    samples,
    split,
)
from counterplan.scm.transitions import Transitions

# Steps that the running mean of the weights spans.
AVERAGED = 200
# Units differ in weight by about this factor exp(+-UNEVEN) and in bias: equal ones bend the same.
UNEVEN = 0.75
BIAS = 0.3
ACTION = 0.1
# Unconstrained: pre-activations from this size (a nearly linear unit) to that (one that saturates),
# how much ridge regression shrinks, and the rows it looks at.
BENDS = (0.1, 2.0)
RIDGE = 1e-3
ROWS = 20_000
# Exported norms stay below the wanted ones by more than their own rounding.
MARGIN = 1.0 - 1e-10
# What has always worked; more is never advised.
USUAL_RATE = 1e-3
USUAL_CONSTANTS = (1.0, 0.1)
Batch: TypeAlias = tuple[Array, Array]
# Something of W_s and W_z, for location and scale.
Pairs: TypeAlias = list[tuple[Array, Array]]


class Layers(NamedTuple):
    """Weights of one network, before normalisation; shapes as in `Network`."""

    state: Array
    bias: Array
    action: Array
    output: Array
    output_bias: Array


class Parameters(NamedTuple):
    """All that is learned.

    networks   location and scale
    mixing     (O, O) M, of which only the part below the diagonal counts
    precision  (O,) r
    """

    networks: tuple[Layers, Layers]
    mixing: Array
    precision: Array

    def matrices(self) -> Pairs:
        """Those whose spectral norms are constrained."""
        return [(layers.state, layers.output) for layers in self.networks]

    def normalised(self, multipliers: tuple[float, float], norms: Pairs) -> Parameters:
        """The networks as the model uses them, given the spectral norms of their matrices."""
        location, scale = (
            Layers(*(m * part for part in layers._replace(state=W_s / s, output=W_z / z)))
            for layers, m, (W_s, W_z), (s, z) in zip(
                self.networks, multipliers, self.matrices(), norms, strict=True
            )
        )
        return self._replace(networks=(location, scale))


class TrainingState(NamedTuple):
    """What one epoch hands to the next.

    directions  left vectors of power iteration, (H,) and (O,)
    averaged    running mean of the parameters
    """

    parameters: Parameters
    directions: Pairs
    averaged: Parameters
    optimiser: Any


class Rates(NamedTuple):
    """Numbers that may differ between runs of the same compiled epoch: m of location and scale,
    None without constraints, and the learning rate."""

    multipliers: tuple[float, float] | None
    learning: float


def begin(parameters: Parameters) -> TrainingState:
    """Before the first step; all singular values are equal, so any vectors of the span will do."""
    directions = jax.tree.map(lambda weights: _unit(weights.sum(axis=1)), parameters.matrices())
    optimiser = optax.scale_by_adam().init(parameters)
    return TrainingState(parameters, directions, parameters, optimiser)


@jax.jit
def epoch(
    state: TrainingState, data: Batch, order: Array, rates: Rates
) -> tuple[TrainingState, Array]:
    """One pass over the data in batches `order` (n_batches, batch); also the mean loss."""

    def one(current: TrainingState, rows: Array) -> tuple[TrainingState, Array]:
        return step(current, (data[0][rows], data[1][rows]), rates)

    state, losses = jax.lax.scan(one, state, order)
    return state, losses.mean()


def step(state: TrainingState, batch: Batch, rates: Rates) -> tuple[TrainingState, Array]:
    """One step of Adam, and the loss before it."""
    directions = state.directions
    if rates.multipliers is not None:
        directions = jax.tree.map(
            lambda weights, left: _unit(weights @ _unit(weights.T @ left)),
            state.parameters.matrices(),
            directions,
        )

    def norm(weights: Array, left: Array) -> Array:
        # Gradients pass through the norm, not through its singular vectors.
        return left @ weights @ jax.lax.stop_gradient(_unit(weights.T @ left))

    def loss(parameters: Parameters) -> Array:
        if rates.multipliers is not None:
            norms = jax.tree.map(norm, parameters.matrices(), directions)
            parameters = parameters.normalised(rates.multipliers, norms)
        return negative_log_likelihood(parameters, batch)

    value, gradient = jax.value_and_grad(loss)(state.parameters)
    update, optimiser = optax.scale_by_adam().update(gradient, state.optimiser)
    parameters = jax.tree.map(lambda p, u: p - rates.learning * u, state.parameters, update)
    # The mean forgets the start faster than it will forget later steps.
    weight = jnp.maximum(1.0 / AVERAGED, 9.0 / (10.0 + state.optimiser.count))
    averaged = jax.tree.map(lambda e, p: e + weight * (p - e), state.averaged, parameters)
    return TrainingState(parameters, directions, averaged, optimiser), value


@jax.jit
def evaluate(parameters: Parameters, batch: Batch, rates: Rates) -> Array:
    """The loss with exact spectral norms."""
    if rates.multipliers is not None:
        norms = jax.tree.map(lambda weights: jnp.linalg.norm(weights, 2), parameters.matrices())
        parameters = parameters.normalised(rates.multipliers, norms)
    return negative_log_likelihood(parameters, batch)


def negative_log_likelihood(parameters: Parameters, batch: Batch) -> Array:
    """Mean over the batch, for weights as the model uses them."""
    inputs, targets = batch
    phi = jax.nn.softplus(_outputs(parameters.networks[1], inputs))
    noise = (targets - _outputs(parameters.networks[0], inputs)) / phi
    precision = parameters.precision
    white = (noise + noise @ jnp.tril(parameters.mixing, -1).T) * jnp.exp(precision)
    each = 0.5 * (white * white).sum(axis=1) + jnp.log(phi).sum(axis=1)
    return each.mean() - precision.sum() + 0.5 * len(precision) * math.log(2.0 * math.pi)


def _outputs(layers: Layers, inputs: Array) -> Array:
    # One product for states and actions is faster than two.
    weights = jnp.concatenate([layers.state, layers.action], axis=1)
    return jnp.tanh(inputs @ weights.T + layers.bias) @ layers.output.T + layers.output_bias


def _unit(vector: Array) -> Array:
    return jnp.divide(vector, jnp.linalg.norm(vector))


def constrained_layers(
    data: Samples, hidden: int, multiplier: float, rng: np.random.Generator, persist: bool
) -> Layers:
    """First weights with spectral norms 1.

    persist  start at o(s) = s, features that move (or less, if the constant does not allow it);
             else at o = 0 but for the units' small curvature
    """
    D, O, H = data.features, data.targets.shape[1], hidden  # noqa: E741
    rows = max(H, D + O)
    weights = np.exp(UNEVEN * rng.normal(size=(rows, 1)))
    basis = np.linalg.qr(weights * rng.normal(size=(rows, D + O)))[0][:H]
    state, other = basis[:, :D], basis[:, D:]
    # Of W_z's unit rows the part along W_s makes the slope, m^2 of it; the rest is orthogonal.
    along = min(1.0, multiplier**-2) if persist else 0.0
    output = along * state[:, D - O :].T + np.sqrt(1.0 - along**2) * other.T
    bias = rng.uniform(-BIAS, BIAS, H)
    action = rng.uniform(-ACTION, ACTION, (H, data.inputs.shape[1] - D))
    every = state, bias, action, output, -output @ np.tanh(multiplier * bias)
    return Layers(*map(_single, every))


def free_layers(data: Samples, hidden: int, rng: np.random.Generator, fitted: bool) -> Layers:
    """First weights of a network without constraint; fitted to the data, else o = 0."""
    D, O, H = data.features, data.targets.shape[1], hidden  # noqa: E741
    few = rng.permutation(len(data.inputs))[:ROWS]
    inputs, targets = data.inputs[few], data.targets[few]
    size = np.exp(rng.uniform(np.log(BENDS[0]), np.log(BENDS[1]), H))
    weights = rng.normal(size=(H, inputs.shape[1])) / np.sqrt(inputs.var(axis=0).sum())
    weights *= size[:, None]
    bias = size * rng.uniform(-1.0, 1.0, H) - weights @ inputs.mean(axis=0)
    output, output_bias = np.zeros((O, H)), np.zeros(O)
    if fitted:
        units = np.tanh(inputs @ weights.T + bias)
        centred = units - units.mean(axis=0)
        gram = centred.T @ centred + RIDGE * len(few) * np.eye(H)
        output = np.linalg.solve(gram, centred.T @ targets).T
        output_bias = targets.mean(axis=0) - output @ units.mean(axis=0)
    return Layers(*map(_single, (weights[:, :D], bias, weights[:, D:], output, output_bias)))


def first_noise(data: Samples) -> tuple[FloatArray, FloatArray]:
    """First mixing (O, O) and log-precision (O,), if the scale starts at softplus(0)."""
    whitening = np.linalg.inv(regression(data.inputs, data.targets)[1]) * np.log(2.0)
    precision = np.diag(whitening).copy()
    return whitening / precision[:, None], np.log(precision)


@dataclass(frozen=True)
class Request:
    """What is to be learned; see `NeuralSCM.fit`."""

    hidden: int = 200
    lipschitz: tuple[float, float] | None = (1.0, 0.1)
    epochs: int = 100
    seed: Seed = 0
    fixed: int = 0
    training: Training | None = None
    progress: ProgressCallback | None = None

    def __post_init__(self) -> None:
        whole_number(self.hidden, "hidden", 1, MOST_UNITS)
        whole_number(self.epochs, "epochs", minimum=1)
        whole_number(self.fixed, "fixed")
        two_constants(self.lipschitz, ("location", "scale"), may_be_0=False)

    @property
    def settings(self) -> Training:
        """How to train."""
        return self.training or Training()

    @property
    def rates(self) -> Rates:
        """Multipliers and learning rate, as the compiled epoch takes them."""
        pair = self.lipschitz
        multipliers = None if pair is None else (math.sqrt(pair[0]), math.sqrt(pair[1]))
        return Rates(multipliers, self.settings.learning_rate)


class History(NamedTuple):
    """Losses in nats per transition, in the model's units.

    train       means over an epoch's steps
    validation  of the averaged weights after an epoch
    best        the epoch that was kept
    """

    train: list[float]
    validation: list[float]
    best: int = 0

    @property
    def reached(self) -> float:
        """The loss of the epoch that was kept."""
        return (self.validation or self.train)[self.best - 1]


def fit_neural(transitions: Transitions, request: Request) -> tuple[Any, ...]:
    """Train; what a `NeuralSCM` is made of."""
    rng, fixed, settings = generator(request.seed), request.fixed, request.settings
    transitions.check_fixed(fixed)
    transitions = transitions.plausible()
    scaling = min_max_scaling(transitions) if settings.scaling is None else settings.scaling
    scaling.check(transitions.before.shape[1], transitions.actions.shape[1])
    train, held_out = split(transitions, settings.validation, rng)
    check_learnable(train, scaling, fixed)
    data = samples(train, scaling, fixed)
    check = None if held_out is None else samples(held_out, scaling, fixed)
    with jax.default_device(jax.devices("cpu")[0]):
        start = _start(data, request, rng)
        learned, history = _train(start, data, check, request, rng)
        references = _compare(start, history, data, check, request)
    record = {
        **record_of(train, held_out, request.seed, ("jax", "jaxlib", "numpy", "optax")),
        "hidden": request.hidden,
        "lipschitz": None if request.lipschitz is None else list(request.lipschitz),
        "epochs": len(history.train),
        "best_epoch": history.best,
        "train_nll": history.train,
        "validation_nll": history.validation,
        "batch": settings.batch,
        "learning_rate": settings.learning_rate,
        "reference_nll": references,
    }
    about = {**names_of(transitions), "training": record}
    return (*_export(learned, request.lipschitz), fixed, scaling, about)


def _start(data: Samples, request: Request, rng: np.random.Generator) -> Parameters:
    hidden, multipliers = request.hidden, request.rates.multipliers
    if multipliers is None:
        networks = free_layers(data, hidden, rng, True), free_layers(data, hidden, rng, False)
    else:
        location = constrained_layers(data, hidden, multipliers[0], rng, persist=True)
        networks = location, constrained_layers(data, hidden, multipliers[1], rng, persist=False)
    return Parameters(networks, *map(_single, first_noise(data)))


def _train(
    start: Parameters,
    data: Samples,
    check: Samples | None,
    request: Request,
    rng: np.random.Generator,
) -> tuple[Parameters, History]:
    """The parameters of the best epoch (of the last, if nothing is held out)."""
    settings, rates = request.settings, request.rates
    n = len(data.inputs)
    batch = min(settings.batch, n)
    used = n // batch * batch
    arrays, held_out = _batch(data), None if check is None else _batch(check)
    state, best, history = begin(start), start, History([], [])
    watch = Watch("training", progress=request.progress)
    with progress_bar("training", request.epochs, settings.progress) as advance:
        for number in range(1, request.epochs + 1):
            order = rng.permutation(n)[:used].reshape(-1, batch).astype(np.int32)
            state, loss = epoch(state, arrays, jnp.asarray(order), rates)
            value = _finite(loss, number, "training", request)
            losses, is_better = history.train, True
            if held_out is not None:
                history.train.append(value)
                loss = evaluate(state.averaged, held_out, rates)
                value = _finite(loss, number, "validation", request)
                losses = history.validation
                is_better = value < min(losses, default=math.inf)
            losses.append(value)
            if is_better:
                best, history = state.averaged, history._replace(best=number)
            advance(f"NLL {value:.3f}")
            if settings.patience is not None and number - history.best >= settings.patience:
                break
            if watch.must_stop(number, history.reached, total=request.epochs):
                break
    return best, history


def _finite(loss: Array, number: int, what: str, request: Request) -> float:
    if not math.isfinite(value := float(loss)):
        raise TrainingError(
            f"training diverged: the {what} loss is {value} in epoch {number}; {_advice(request)}"
        )
    return value


def _compare(
    start: Parameters, history: History, data: Samples, check: Samples | None, request: Request
) -> dict[str, float]:
    """Losses of simple models on the data that judges the fit; raises if that has diverged."""
    judged = data if check is None else check
    references = reference_losses(data, judged)
    began = float(evaluate(start, _batch(judged), request.rates))
    # Not to be better than the start may be chance; to be worse than a constant as well is not.
    if history.reached > max(began, references["constant"]):
        raise TrainingError(
            f"training diverged: the loss is {history.reached:.4g} nats in epoch {history.best}, "
            f"{began:.4g} before training and {references['constant']:.4g} if nothing but a "
            f"constant is learned; {_advice(request)}"
        )
    return references


def _advice(request: Request) -> str:
    """What to try; the command line knows Lipschitz constants, but no learning rate."""
    outliers = "look for outliers: scaled columns should fill [-0.5, 0.5], not crowd at one end"
    if request.settings.learning_rate > USUAL_RATE:
        return (
            f"lower the learning rate, e.g. Training(learning_rate={USUAL_RATE:g}), and {outliers}"
        )
    if request.lipschitz is None or tuple(request.lipschitz) != USUAL_CONSTANTS:
        location, scale = USUAL_CONSTANTS
        return f"try the Lipschitz constants {location:g} and {scale:g}, and {outliers}"
    return outliers


def _export(
    learned: Parameters, lipschitz: tuple[float, float] | None
) -> tuple[Network, Network, FloatArray]:
    """Networks with certified norms and the noise's factor L, in double precision."""
    mixing = np.tril(_double(learned.mixing), -1) + np.eye(len(learned.precision))
    whitening = np.exp(_double(learned.precision))[:, None] * mixing
    networks = []
    for layers, wanted in zip(learned.networks, lipschitz or (None, None), strict=True):
        weights: dict[str, Any] = {name: _double(part) for name, part in layers._asdict().items()}
        if wanted is not None:
            for name in ("state", "output"):
                weights[name] *= MARGIN / np.linalg.norm(weights[name], 2)
            weights["multiplier"] = math.sqrt(wanted)
        networks.append(Network.from_weights(weights, "trained network"))
    return networks[0], networks[1], np.tril(np.linalg.inv(whitening))


def _batch(data: Samples) -> Batch:
    return _single(data.inputs), _single(data.targets)


def _single(array: FloatArray) -> jax.Array:
    return jnp.asarray(array, dtype=jnp.float32)


def _double(array: jax.Array) -> FloatArray:
    return np.asarray(array, dtype=np.float64)
