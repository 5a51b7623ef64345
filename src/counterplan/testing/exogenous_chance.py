"""Checks that everything a model says about chance is one law.

Shares and means of samples are compared with what they should be within SIGMAS standard errors
(of the share sqrt(p (1 - p) / n), of the mean s / sqrt(n)): at six, a correct model fails about
once in 10^8 comparisons, more often only where a mean has hardly converged for lack of samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.exogenous.model import (
    ExogenousModel,
    FiniteSupport,
    HasMeanPath,
    SamplesPaths,
    State,
)

SAMPLES = 4000
STATES = 6
SIGMAS = 6.0


def check_chance(model: ExogenousModel, states: Sequence[State], rng: np.random.Generator) -> None:
    """Check draws, successors, paths and means from some of the states."""
    for state in some_before_last(model, states, rng):
        drawn = _draws(model, state, rng)
        if isinstance(model, FiniteSupport):
            _check_successors(model, state, drawn)
        _check_rows(model, state, model.start.exogenous, rng)
        if isinstance(model, SamplesPaths):
            _check_paths(model, state, drawn, rng)
        if isinstance(model, HasMeanPath):
            _check_means(model, state, drawn)


def some_before_last(
    model: ExogenousModel, states: Sequence[State], rng: np.random.Generator
) -> list[State]:
    """A few of the states that something follows."""
    before_last = [state for state in states if state.t + 1 < model.horizon]
    chosen = rng.permutation(len(before_last))[:STATES]
    return [before_last[i] for i in chosen]


def _draws(model: ExogenousModel, state: State, rng: np.random.Generator) -> FloatArray:
    """(SAMPLES, X)."""
    same = np.repeat(state.exogenous[None], SAMPLES, axis=0)
    drawn = np.asarray(model.draw(state.t, same, rng))
    assert drawn.shape == same.shape, (
        f"draw at t={state.t} gives {drawn.shape} for {same.shape}: one row for each row"
    )
    assert np.isfinite(drawn).all(), f"draw at t={state.t} gives numbers that are not finite"
    return drawn


def _check_successors(model: FiniteSupport, state: State, drawn: FloatArray) -> None:
    values, chances = (np.asarray(part) for part in model.successors(state.t, state.exogenous))
    M, X = len(values), drawn.shape[1]
    assert values.shape == (M, X), f"successors at t={state.t} give {values.shape}, X is {X}"
    assert chances.shape == (M,), f"successors at t={state.t} give {chances.shape} probabilities"
    assert (chances >= 0).all(), f"a successor at t={state.t} has a negative probability"
    assert abs(chances.sum() - 1) <= 1e-9, (
        f"the probabilities of the successors at t={state.t} sum to {chances.sum()}"
    )
    scale = 1e-9 * (1.0 + np.abs(values))
    hits = (np.abs(drawn[:, None] - values) <= scale).all(axis=2)
    each = hits.sum(axis=1)
    stray = drawn[int(np.argmin(each))].tolist()
    assert each.all(), f"draw at t={state.t} gives {stray}, which is no successor"
    shares = (hits / each[:, None]).mean(axis=0)
    allowed = SIGMAS * np.sqrt(chances * (1 - chances) / len(drawn)) + 1.0 / len(drawn)
    # Equal successors share their draws evenly.
    merged = np.array([chances[(np.abs(values - v) <= scale).all(axis=1)].mean() for v in values])
    i = int(np.argmax(np.abs(shares - merged) - allowed))
    assert abs(shares[i] - merged[i]) <= allowed[i], (
        f"successor {values[i].tolist()} at t={state.t} has probability {chances[i]:.4f}, but "
        f"{shares[i]:.4f} of {len(drawn)} draws gave it"
    )


def _check_rows(
    model: ExogenousModel, state: State, other: FloatArray, rng: np.random.Generator
) -> None:
    """Each row is drawn from its own state: two kinds of rows, mixed and apart."""
    mixed = np.repeat(state.exogenous[None], 2 * SAMPLES, axis=0)
    mixed[1::2] = other
    together = np.asarray(model.draw(state.t, mixed, rng))
    for offset, exogenous in enumerate((state.exogenous, other)):
        apart = model.draw(state.t, np.repeat(exogenous[None], SAMPLES, axis=0), rng)
        where = f"draw at t={state.t} mixes up the rows of different states: the mean of x_t+1"
        _same_mean(together[offset::2], np.asarray(apart), where)


def _check_paths(
    model: SamplesPaths, state: State, drawn: FloatArray, rng: np.random.Generator
) -> None:
    assert isinstance(model, ExogenousModel)
    paths = np.asarray(model.sample_paths(SAMPLES, rng, state))
    wanted = (SAMPLES, model.horizon - state.t, len(state.exogenous))
    assert paths.shape == wanted, f"sample_paths from t={state.t}: {paths.shape}, not {wanted}"
    assert (paths[:, 0] == state.exogenous).all(), (
        f"sample_paths from t={state.t} does not begin with the state's x_t"
    )
    seeds = model.sample_paths(3, 1, state), model.sample_paths(3, 1, state)
    assert np.array_equal(*seeds), "sample_paths gives other paths for the same seed"
    where = "sample_paths and draw disagree: the mean of x"
    _same_mean(paths[:, 1], drawn, f"{where} at t={state.t + 1}")
    now = drawn
    for s in range(2, paths.shape[1]):
        now = np.asarray(model.draw(state.t + s - 1, now, rng))
        _same_mean(paths[:, s], now, f"{where} at t={state.t + s}")


def _check_means(model: HasMeanPath, state: State, drawn: FloatArray) -> None:
    assert isinstance(model, ExogenousModel)
    means = np.asarray(model.mean_path(state))
    wanted = (model.horizon - state.t, len(state.exogenous))
    assert means.shape == wanted, f"mean_path from t={state.t}: {means.shape}, not {wanted}"
    assert np.allclose(means[0], state.exogenous), (
        f"mean_path from t={state.t} does not begin with the state's x_t"
    )
    where = f"mean_path and draw disagree: the mean of x at t={state.t + 1}"
    _same_mean(drawn, np.repeat(means[1:2], 2, axis=0), where)


def _same_mean(first: FloatArray, second: FloatArray, where: str) -> None:
    a, b = first.mean(axis=0), second.mean(axis=0)
    error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    allowed = SIGMAS * error + 1e-9 * (1.0 + np.abs(a))
    i = int(np.argmax(np.abs(a - b) - allowed))
    assert abs(a[i] - b[i]) <= allowed[i], f"{where} (number {i}) is {a[i]:.6g} or {b[i]:.6g}"
