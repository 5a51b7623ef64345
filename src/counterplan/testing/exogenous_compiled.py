"""Checks that a compiled model does what its Python methods do; rewards there are maximised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.exogenous.model import (
    Compiled,
    ExogenousModel,
    FiniteSupport,
    HasBoundTables,
    State,
)
from counterplan.testing.exogenous_chance import SIGMAS, some_before_last

if TYPE_CHECKING:
    from counterplan.planning.kernel import Kernel

BOUND_SAMPLES = 64
SAMPLES = 1000


def check_compiled(model: Compiled, states: Sequence[State], rng: np.random.Generator) -> None:
    """Check the kernel at given states."""
    assert isinstance(model, ExogenousModel)
    kernel = model.compiled()
    assert kernel.horizon == model.horizon, f"the kernel's horizon is {kernel.horizon}"
    for name in ("exogenous", "resource"):
        ours, theirs = getattr(model.start, name), getattr(kernel, name)
        assert np.array_equal(ours, theirs), f"the kernel starts with {name} {theirs}, not {ours}"
    tables = kernel.tables
    if isinstance(model, HasBoundTables):
        tables = model.bound_tables(BOUND_SAMPLES, rng)
    for state in states:
        plain = _contiguous(state)
        _check_decision(model, kernel, plain)
        _check_bounds(kernel, tables, plain, rng)
    for state in some_before_last(model, states, rng):
        plain = _contiguous(state)
        _check_draws(model, kernel, plain, rng)
        if isinstance(model, FiniteSupport):
            _check_successors(model, kernel, plain)


def _contiguous(state: State) -> State:
    """The state as compiled functions take it."""
    return State(state.t, *(np.array(part, dtype=np.float64) for part in state[1:]))


def _check_decision(model: ExogenousModel, kernel: Kernel, state: State) -> None:
    """The same actions in the same order, and for each the same step."""
    expected = np.asarray(model.actions(state))
    found = np.empty((kernel.most_actions, kernel.action_size))
    t, x, d = state
    m = kernel.actions(kernel.parameters, t, x, d, found)
    assert m == len(expected), f"the kernel offers {m} actions at t={t}, the model {len(expected)}"
    assert np.allclose(found[:m], expected, rtol=1e-9, atol=1e-9), (
        f"the kernel offers {found[:m].tolist()} at t={t}, the model {expected.tolist()}"
    )
    sign = 1.0 if model.sense == "max" else -1.0
    rewards, after = model.step(
        t, np.repeat(x[None], m, axis=0), np.repeat(d[None], m, axis=0), expected
    )
    for i in range(m):
        level = np.empty(len(d))
        action = np.array(expected[i], dtype=np.float64)
        reward = kernel.step(kernel.parameters, t, x, d, action, level)
        assert np.isclose(reward, sign * rewards[i], rtol=1e-9, atol=1e-9), (
            f"the kernel's reward of {expected[i].tolist()} at t={t} is {reward}, to be maximised; "
            f"the model's is {rewards[i]}"
        )
        assert np.allclose(level, after[i], rtol=1e-9, atol=1e-9), (
            f"action {expected[i].tolist()} at t={t} leads the kernel to {level.tolist()}, the "
            f"model to {np.asarray(after[i]).tolist()}"
        )


def _check_bounds(
    kernel: Kernel, tables: FloatArray, state: State, rng: np.random.Generator
) -> None:
    t, x, d = state
    out = np.empty(2)
    kernel.bounds(kernel.parameters, tables, t, x, d, rng, out)
    slack = 1e-9 * (1.0 + abs(out[0])) if np.isfinite(out).all() else 0.0
    assert out[0] <= out[1] + slack, f"the kernel's bounds at t={t} are {out[0]} and {out[1]}"


def _check_draws(
    model: ExogenousModel, kernel: Kernel, state: State, rng: np.random.Generator
) -> None:
    t, x, _ = state
    ours = np.asarray(model.draw(t, np.repeat(x[None], SAMPLES, axis=0), rng))
    theirs = np.empty_like(ours)
    for i in range(SAMPLES):
        kernel.draw(kernel.parameters, t, x, rng, theirs[i])
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / SAMPLES)
    off = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    assert (off <= SIGMAS * error + 1e-9 * (1.0 + np.abs(ours.mean(axis=0)))).all(), (
        f"the kernel draws x at t={t + 1} with mean {theirs.mean(axis=0).tolist()}, the model with "
        f"{ours.mean(axis=0).tolist()}"
    )


def _check_successors(model: FiniteSupport, kernel: Kernel, state: State) -> None:
    t, x, _ = state
    values, chances = model.successors(t, x)
    states = np.empty((kernel.most_successors, len(x)))
    probabilities = np.empty(kernel.most_successors)
    m = kernel.successors(kernel.parameters, t, x, states, probabilities)
    assert m == len(values), f"the kernel has {m} successors at t={t}, the model {len(values)}"
    ours = np.column_stack([values, chances])
    theirs = np.column_stack([states[:m], probabilities[:m]])
    same = np.allclose(_sorted(ours), _sorted(theirs), rtol=1e-9, atol=1e-9)
    assert same, f"the kernel's successors at t={t} are {theirs.tolist()}, not {ours.tolist()}"


def _sorted(rows: FloatArray) -> FloatArray:
    return np.asarray(rows[np.lexsort(np.round(rows, 9).T)])
