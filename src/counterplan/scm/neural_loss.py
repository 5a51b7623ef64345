"""What training minimises, and one epoch of it, compiled.

For each of location and scale, with a wanted Lipschitz constant C and m = sqrt(C),

    z = tanh(m (W_s / |W_s| s + b + W_a a)),      o = m (W_z / |W_z| z + b_z)

where |.| are spectral norms, estimated by one power iteration a step; without a constant, weights
are used as they are. With h = o of the location, phi = softplus(o) of the scale and
u = (s' - h) / phi,

    NLL = |L^{-1} u|^2 / 2 + log det L + sum_i log phi_i + (O / 2) log 2 pi

The noise's factor L is learned through L^{-1} = diag(exp r) (I + M), M strictly lower triangular:
its entries are regression coefficients, log-precisions r have no bounds, and no system is solved
in a step. Adam's iterates keep moving by about the learning rate, which is not small against the
noise of a quiet feature. So what counts is their running mean, over about AVERAGED steps.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax import Array

AVERAGED = 200
Batch: TypeAlias = tuple[Array, Array]


class Layers(NamedTuple):
    """Weights of one network, before normalisation; shapes as in `Network`."""

    state: Array
    bias: Array
    action: Array
    output: Array
    output_bias: Array


class Parameters(NamedTuple):
    """All that is learned.

    mixing     (O, O) M, of which only the part below the diagonal counts
    precision  (O,) r
    """

    location: Layers
    scale: Layers
    mixing: Array
    precision: Array


class Directions(NamedTuple):
    """Where power iteration stands: left vectors of W_s (H,) and W_z (O,)."""

    state: Array
    output: Array


class TrainingState(NamedTuple):
    """What one epoch hands to the next.

    directions  of location and scale
    averaged    running mean of the parameters
    steps       taken so far
    """

    parameters: Parameters
    directions: tuple[Directions, Directions]
    averaged: Parameters
    optimiser: Any
    steps: Array


class Rates(NamedTuple):
    """Numbers that may differ between runs of the same compiled epoch: m of location and scale,
    and the learning rate."""

    location: float
    scale: float
    learning: float


def begin(parameters: Parameters) -> TrainingState:
    """Before the first step."""
    directions = (_first_directions(parameters.location), _first_directions(parameters.scale))
    optimiser = optax.scale_by_adam().init(parameters)
    return TrainingState(parameters, directions, parameters, optimiser, jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnames="constrained")
def epoch(
    state: TrainingState, data: Batch, order: Array, rates: Rates, constrained: bool
) -> tuple[TrainingState, Array]:
    """One pass over the data in batches `order` (n_batches, batch); also the mean loss."""

    def one(current: TrainingState, rows: Array) -> tuple[TrainingState, Array]:
        return step(current, (data[0][rows], data[1][rows]), rates, constrained)

    state, losses = jax.lax.scan(one, state, order)
    return state, losses.mean()


def step(
    state: TrainingState, batch: Batch, rates: Rates, constrained: bool
) -> tuple[TrainingState, Array]:
    """One step of Adam, and the loss before it."""
    if constrained:
        parameters = state.parameters
        directions = (
            _power_iteration(parameters.location, state.directions[0]),
            _power_iteration(parameters.scale, state.directions[1]),
        )
    else:
        directions = state.directions

    def loss(parameters: Parameters) -> Array:
        if constrained:
            location = _normalised(parameters.location, directions[0], rates.location)
            scale = _normalised(parameters.scale, directions[1], rates.scale)
            parameters = parameters._replace(location=location, scale=scale)
        return negative_log_likelihood(parameters, batch)

    value, gradient = jax.value_and_grad(loss)(state.parameters)
    update, optimiser = optax.scale_by_adam().update(gradient, state.optimiser)
    parameters = jax.tree.map(lambda p, u: p - rates.learning * u, state.parameters, update)
    # The mean forgets the start faster than it will forget later steps.
    weight = jnp.maximum(1.0 / AVERAGED, 9.0 / (10.0 + state.steps))
    averaged = jax.tree.map(lambda e, p: e + weight * (p - e), state.averaged, parameters)
    return TrainingState(parameters, directions, averaged, optimiser, state.steps + 1), value


@partial(jax.jit, static_argnames="constrained")
def evaluate(parameters: Parameters, batch: Batch, rates: Rates, constrained: bool) -> Array:
    """The loss with exact spectral norms."""
    if constrained:
        location = _exactly_normalised(parameters.location, rates.location)
        scale = _exactly_normalised(parameters.scale, rates.scale)
        parameters = parameters._replace(location=location, scale=scale)
    return negative_log_likelihood(parameters, batch)


def negative_log_likelihood(parameters: Parameters, batch: Batch) -> Array:
    """Mean over the batch, for weights as the model uses them."""
    inputs, targets = batch
    phi = jax.nn.softplus(_outputs(parameters.scale, inputs))
    noise = (targets - _outputs(parameters.location, inputs)) / phi
    precision = parameters.precision
    white = (noise + noise @ jnp.tril(parameters.mixing, -1).T) * jnp.exp(precision)
    each = 0.5 * (white * white).sum(axis=1) + jnp.log(phi).sum(axis=1)
    return each.mean() - precision.sum() + 0.5 * len(precision) * math.log(2.0 * math.pi)


def _outputs(layers: Layers, inputs: Array) -> Array:
    # One product for states and actions is faster than two.
    weights = jnp.concatenate([layers.state, layers.action], axis=1)
    return jnp.tanh(inputs @ weights.T + layers.bias) @ layers.output.T + layers.output_bias


def _power_iteration(layers: Layers, directions: Directions) -> Directions:
    def improved(weights: Array, left: Array) -> Array:
        return _unit(weights @ _unit(weights.T @ left))

    return Directions(
        improved(layers.state, directions.state), improved(layers.output, directions.output)
    )


def _normalised(layers: Layers, directions: Directions, multiplier: float) -> Layers:
    """Spectral norms by the estimated singular vectors; gradients pass through the norms."""

    def norm(weights: Array, left: Array) -> Array:
        right = jax.lax.stop_gradient(_unit(weights.T @ left))
        return left @ weights @ right

    return _scaled(
        layers,
        norm(layers.state, directions.state),
        norm(layers.output, directions.output),
        multiplier,
    )


def _exactly_normalised(layers: Layers, multiplier: float) -> Layers:
    state, output = (jnp.linalg.norm(part, 2) for part in (layers.state, layers.output))
    return _scaled(layers, state, output, multiplier)


def _scaled(layers: Layers, state_norm: Array, output_norm: Array, multiplier: float) -> Layers:
    unit = layers._replace(state=layers.state / state_norm, output=layers.output / output_norm)
    return Layers(*(multiplier * part for part in unit))


def _first_directions(layers: Layers) -> Directions:
    """Any vectors of the columns' span: training starts with all singular values equal."""
    return Directions(_unit(layers.state.sum(axis=1)), _unit(layers.output.sum(axis=1)))


def _unit(vector: Array) -> Array:
    return jnp.divide(vector, jnp.linalg.norm(vector))
