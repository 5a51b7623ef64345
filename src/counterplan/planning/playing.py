"""Futures of any model, and a rule played along them."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.exogenous.model import ExogenousModel, SamplesPaths, State
from counterplan.planning.policy import Rule


def futures(
    model: ExogenousModel, n: int, seed: Seed = 0, state: State | None = None
) -> FloatArray:
    """(n, T - t, X) futures that begin with the state's x_t (default: the start)."""
    n = whole_number(n, "paths", minimum=1)
    if isinstance(model, SamplesPaths):
        return model.sample_paths(n, seed, state)
    t, first, _ = state or model.start
    rng = generator(seed)
    paths = np.empty((n, model.horizon - t, first.size))
    paths[:, 0] = first
    for s in range(1, paths.shape[1]):
        paths[:, s] = model.draw(t + s - 1, paths[:, s - 1], rng)
    return paths


def follow(
    model: ExogenousModel, rule: Rule, paths: FloatArray, state: State | None = None
) -> FloatArray:
    """(n,) what the rule earns (or costs) along paths (n, T - t, X); it sees x_t, never beyond."""
    t, _, resource = state or model.start
    resources = np.tile(resource, (len(paths), 1))
    totals = np.zeros(len(paths))
    for s in range(paths.shape[1]):
        now = np.ascontiguousarray(paths[:, s])
        actions = rule(t + s, now, resources)
        rewards, resources = model.step(t + s, now, resources, actions)
        totals += rewards
    return totals
