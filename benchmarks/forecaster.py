"""A deep forecaster to compare with: recurrent networks, each of a bootstrap sample of episodes.

As such forecasters are used: a GRU reads fixed features, states and actions up to a step, then the
planned actions alone, and forecasts the reward of each later state. Trained with the step at random
(everything before it is seen, nothing after). An improvement is the difference of two forecasts
from the first changed step on: with the plan, and with what was done. No noise is inferred from
what was observed after that step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

HIDDEN, NETWORKS, STEPS, BATCH, RATE = 64, 5, 1500, 64, 3e-3
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """Episodes of one length or less, padded.

    states   (n, T, D)
    actions  (n, T-1, d) vectors
    rewards  (n, T)
    there    (n, T-1) 1 where a transition is
    """

    states: Array
    actions: Array
    rewards: Array
    there: Array


def _cell(p: Any, h: Any, x: Any) -> Any:
    z = jax.nn.sigmoid(x @ p["xz"] + h @ p["hz"] + p["bz"])
    r = jax.nn.sigmoid(x @ p["xr"] + h @ p["hr"] + p["br"])
    new = jnp.tanh(x @ p["xn"] + r * (h @ p["hn"]) + p["bn"])
    return (1.0 - z) * new + z * h


def _forecast(p: Any, states: Any, actions: Any, seen: Any) -> Any:
    """(T-1,) rewards after each step, of one episode; states after step `seen` are not read."""
    steps = jnp.arange(len(actions))

    def one(h: Any, at: Any) -> Any:
        state, action, t = at
        known = t <= seen
        x = jnp.concatenate([jnp.where(known, state, states[0] * 0.0), action, known[None]])
        h = _cell(p, h, x)
        return h, (jax.nn.relu(h @ p["o1"] + p["c1"]) @ p["o2"] + p["c2"])[0]

    # What never changes is in the first state, which is always seen.
    return jax.lax.scan(one, jnp.zeros(HIDDEN), (states[:-1], actions, steps))[1]


def _start(key: Any, width: int) -> Any:
    keys = iter(jax.random.split(key, 8))
    p = {}
    for gate in "zrn":
        p[f"x{gate}"] = jax.random.normal(next(keys), (width, HIDDEN)) / np.sqrt(width)
        p[f"h{gate}"] = jax.random.normal(next(keys), (HIDDEN, HIDDEN)) / np.sqrt(HIDDEN)
        p[f"b{gate}"] = jnp.zeros(HIDDEN)
    p["o1"] = jax.random.normal(next(keys), (HIDDEN, HIDDEN)) / np.sqrt(HIDDEN)
    p["c1"] = jnp.zeros(HIDDEN)
    p["o2"], p["c2"] = jnp.zeros((HIDDEN, 1)), jnp.zeros(1)
    return p


class Forecaster:
    """The networks, and the scale of their inputs and rewards."""

    def __init__(self, data: Course, seed: int = 0) -> None:
        self.scales = [_scale(one, data.there) for one in (data.states[:, :-1], data.actions)]
        rewards = data.rewards[:, 1:][data.there > 0]
        self.mean, self.spread = float(rewards.mean()), float(rewards.std())
        states, actions = self._inputs(data.states, data.actions)
        target = jnp.asarray((data.rewards[:, 1:] - self.mean) / self.spread)
        self.networks = _train(states, actions, target, jnp.asarray(data.there), seed)

    def _inputs(self, states: Array, actions: Array) -> tuple[Any, Any]:
        given = [
            jnp.asarray((one - mean) / spread)
            for one, (mean, spread) in zip((states, actions), self.scales, strict=True)
        ]
        return given[0], given[1]

    def improvements(self, states: Array, plans: Array, done: Array, first: Any) -> Array:
        """(networks, n) of plans (n, T-1, d) over what was done (T-1, d), seeing states (T, D) up
        to the first changed step of each, (n,)."""
        there, vectors = self._inputs(np.broadcast_to(states, (len(plans), *states.shape)), plans)
        _, same = self._inputs(states, done)

        def total(p: Any, course: Any, plan: Any, seen: Any) -> Any:
            both = jax.vmap(_forecast, (None, None, 0, None))(
                p, course, jnp.stack([plan, same]), seen
            )
            after = jnp.arange(len(plan)) >= seen
            return ((both[0] - both[1]) * after).sum()

        every = jax.vmap(jax.vmap(total, (None, 0, 0, 0)), (0, None, None, None))
        return np.asarray(every(self.networks, there, vectors, jnp.asarray(first)) * self.spread)


def _scale(values: Array, there: Array) -> tuple[Array, Array]:
    used = values[there > 0]
    return used.mean(axis=0), np.maximum(used.std(axis=0), 1e-9)


def _train(states: Any, actions: Any, target: Any, there: Any, seed: int) -> Any:
    n, length = there.shape
    width = states.shape[2] + actions.shape[2] + 1
    keys = jax.random.split(jax.random.key(seed), NETWORKS)
    optimiser = optax.adamw(optax.cosine_decay_schedule(RATE, STEPS), weight_decay=1e-4)
    start = jax.vmap(lambda key: _start(key, width))(keys)

    def loss(p: Any, rows: Any, seen: Any) -> Any:
        found = jax.vmap(_forecast, (None, 0, 0, 0))(p, states[rows], actions[rows], seen)
        weight = there[rows] * (jnp.arange(length) >= seen[:, None])
        return (weight * (found - target[rows]) ** 2).sum() / weight.sum()

    def learn(p: Any, key: Any) -> Any:
        sample = jax.random.randint(key, (n,), 0, n)

        def step(carried: Any, at: Any) -> Any:
            p, state = carried
            one, two = jax.random.split(at)
            rows = sample[jax.random.randint(one, (BATCH,), 0, n)]
            seen = jax.random.randint(two, (BATCH,), 0, length)
            updates, state = optimiser.update(jax.grad(loss)(p, rows, seen), state, p)
            return (optax.apply_updates(p, updates), state), None

        carried, _ = jax.lax.scan(step, (p, optimiser.init(p)), jax.random.split(key, STEPS))
        return carried[0]

    return jax.jit(jax.vmap(learn))(start, keys)
