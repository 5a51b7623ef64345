"""Estimates of one law from a record: least squares for where prices go, regimes for the rest.

Given phi, profiles are least squares of y_{t+1} - phi y_t; given the profile, phi is; both in turn
until nothing moves, then phi is corrected by (1 + 3 phi) / T for its bias (Kendall). Regimes are
fitted to the shocks by expectation maximisation over Hamilton's filter.

Parameters have a normal posterior around the estimate: least squares' for phi and profile, the
inverse of the curvature of the log-likelihood for what the shocks are made of (logs of standard
deviations, logits of chances).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray
from counterplan.planning.processes.autoregression import design, log_densities
from counterplan.planning.processes.series import Series

# Regimes: iterations, and what of the pooled covariance each has at least.
ITERATIONS, LEAST_SHARE = 500, 1e-3


class Noise(NamedTuple):
    """What shocks are made of: shift (K, S), covariance (K, S, S) and chances (K, K)."""

    shift: FloatArray
    covariance: FloatArray
    chances: FloatArray


class Structure(NamedTuple):
    """phi (S,), profile (F, S), shocks of all rows (n - 1, S), and what they change with: for each
    series (rows - 1, p), phi first unless it is 1."""

    phi: FloatArray
    profile: FloatArray
    shocks: FloatArray
    slopes: list[FloatArray]


def estimate(record: Series, law: tuple[str, bool], rows: int, upto: int) -> Structure:
    """From the first rows; shocks up to a later one."""
    kind, logs = law
    y = np.log(record.values[:upto]) if logs else record.values[:upto]
    T = len(record.values)
    first = np.arange(1.0 - T, upto + 1.0 - T) if kind == "walk" else np.ones(upto)
    stamps = first if record.stamps is None else record.stamps[:upto]
    features = design(first, stamps, record.seasons if kind == "seasonal" else ())
    phi, profile, slopes = np.ones(y.shape[1]), np.zeros((features.shape[1], y.shape[1])), []
    for i, one in enumerate(y.T):
        if kind == "walk":
            slopes.append(np.diff(features[:rows], axis=0))
            profile[:, i] = np.linalg.lstsq(slopes[i], np.diff(one[:rows]), rcond=None)[0]
        else:
            phi[i], profile[:, i] = _reversion(one[:rows], features[:rows])
            below = one[: rows - 1] - features[: rows - 1] @ profile[:, i]
            slopes.append(
                np.column_stack([below, features[1:rows] - phi[i] * features[: rows - 1]])
            )
    u = y - features @ profile
    return Structure(phi, profile, u[1:] - phi * u[:-1], slopes)


def _reversion(y: FloatArray, features: FloatArray) -> tuple[float, FloatArray]:
    """phi and the profile of one series, by products that are computed once."""
    a, b, f, g = y[:-1], y[1:], features[:-1], features[1:]
    squares, right = (g.T @ g, g.T @ f + f.T @ g, f.T @ f), (g.T @ b, g.T @ a + f.T @ b, f.T @ a)
    most = 1.0 - 1.0 / len(y)

    def profile(phi: float) -> FloatArray:
        weights = (1.0, -phi, phi * phi)
        left = sum(w * part for w, part in zip(weights, squares, strict=True))
        target = sum(w * part for w, part in zip(weights, right, strict=True))
        return np.asarray(np.linalg.lstsq(left, target, rcond=1e-13)[0], dtype=np.float64)

    phi = 0.5
    for _ in range(1000):
        beta = profile(phi)
        u, v = a - f @ beta, b - g @ beta
        after = float(np.clip(u @ v / max(float(u @ u), 1e-300), -most, most))
        if abs(after - phi) < 1e-12:
            break
        phi = after
    phi = float(np.clip(phi + (1.0 + 3.0 * phi) / len(y), -most, most))
    return phi, profile(phi)


@njit(cache=True)
def _filtered(densities, chances, first):  # type: ignore[no-untyped-def]
    """Hamilton's filter over (n, K) densities: chances of each regime before and after each step,
    and the log-likelihood of each."""
    n, K = densities.shape
    before, after, fits = np.empty((n, K)), np.empty((n, K)), np.empty(n)
    belief = first.copy()
    for t in range(n):
        total = 0.0
        for j in range(K):
            before[t, j] = 0.0
            for i in range(K):
                before[t, j] += belief[i] * chances[i, j]
            after[t, j] = before[t, j] * densities[t, j]
            total += after[t, j]
        for j in range(K):
            after[t, j] = after[t, j] / total if total > 0.0 else before[t, j]
            belief[j] = after[t, j]
        fits[t] = np.log(max(total, 1e-300))
    return before, after, fits


@njit(cache=True)
def _smoothed(before, after, chances):  # type: ignore[no-untyped-def]
    """Kim's smoother: chances of each regime at each step given all, and sums over steps of those
    of each pair."""
    n, K = after.shape
    found, pairs = after.copy(), np.zeros((K, K))
    for t in range(n - 2, -1, -1):
        for i in range(K):
            total = 0.0
            for j in range(K):
                part = after[t, i] * chances[i, j] * found[t + 1, j] / max(before[t + 1, j], 1e-300)
                pairs[i, j] += part
                total += part
            found[t, i] = total
    return found, pairs


def _steady(chances: FloatArray) -> FloatArray:
    """(K,) how often each regime reigns in the long run."""
    if len(chances) == 1:
        return np.ones(1)
    away, back = chances[0, 1], chances[1, 0]
    return np.asarray(np.array([back, away]) / max(away + back, 1e-300))


def regimes(shocks: FloatArray) -> Noise:
    """Means (2, S), covariances (2, S, S) and chances (2, 2), the calm regime first: the better of
    two beginnings, large shocks apart from small ones and high from low."""
    pooled = np.cov(shocks.T).reshape(shocks.shape[1], -1)
    size = np.einsum("ij,jk,ik->i", shocks, np.linalg.inv(pooled), shocks)
    found = []
    for apart in (size > np.quantile(size, 0.8), shocks[:, 0] > np.quantile(shocks[:, 0], 0.7)):
        weights = np.column_stack([~apart, apart]) * 0.9 + 0.05
        chances, last = np.array([[0.9, 0.1], [0.2, 0.8]]), -np.inf
        for _ in range(ITERATIONS):
            total = weights.sum(axis=0)
            shift = (weights.T @ shocks) / total[:, None]
            around = shocks[:, None] - shift
            covariance = (
                np.einsum("tk,tki,tkj->kij", weights, around, around) / total[:, None, None]
            )
            covariance += LEAST_SHARE * pooled
            logs = log_densities(shocks, shift, covariance)
            top = logs.max(axis=1, keepdims=True)
            before, after, fits = _filtered(np.exp(logs - top), chances, _steady(chances))
            weights, pairs = _smoothed(before, after, chances)
            chances = (pairs + 0.1) / (pairs + 0.1).sum(axis=1, keepdims=True)
            score = float((fits + top[:, 0]).sum())
            if score - last < 1e-7 * len(shocks):
                break
            last = score
        order = np.argsort(np.linalg.det(covariance))
        made = Noise(shift[order], covariance[order], chances[np.ix_(order, order)])
        found.append((score, made))
    return max(found, key=lambda one: one[0])[1]


def noise_of(theta: FloatArray, K: int, S: int) -> Noise:
    """Shift, covariance and chances from unbounded numbers: means (of two regimes), roots of the
    covariances with logs on the diagonal, logits of staying."""
    shift, lower = np.zeros((K, S)), np.tril_indices(S)
    if K > 1:
        shift, theta = theta[: K * S].reshape(K, S), theta[K * S :]
    roots, size = np.zeros((K, S, S)), len(lower[0])
    for k in range(K):
        roots[k][lower] = theta[k * size : (k + 1) * size]
    diagonal = np.arange(S)
    roots[:, diagonal, diagonal] = np.exp(np.clip(roots[:, diagonal, diagonal], -200, 200))
    covariance = roots @ roots.transpose(0, 2, 1)
    if K == 1:
        return Noise(shift, covariance, np.ones((1, 1)))
    stay = 1.0 / (1.0 + np.exp(-np.clip(theta[K * size :], -30, 30)))
    return Noise(shift, covariance, np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]]))


def _theta(noise: Noise) -> FloatArray:
    """The other way round."""
    shift, covariance, chances = noise
    K, S = shift.shape
    roots, diagonal = np.linalg.cholesky(covariance), np.arange(S)
    roots[:, diagonal, diagonal] = np.log(roots[:, diagonal, diagonal])
    parts = [shift.ravel()] if K > 1 else []
    parts += [root[np.tril_indices(S)] for root in roots]
    stay = np.clip(np.diag(chances), 1e-9, 1 - 1e-9)
    return np.concatenate([*parts, np.log(stay / (1 - stay)) if K > 1 else []])


def fits_of(shocks: FloatArray, noise: Noise) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Chances of the regimes before and after each step, and its log density."""
    shift, covariance, chances = noise
    logs = log_densities(shocks, shift, covariance)
    top = logs.max(axis=1, keepdims=True)
    before, after, fits = _filtered(np.exp(logs - top), chances, _steady(chances))
    return before, after, fits + top[:, 0]


def posterior(made: Structure, noise: Noise, shocks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """theta (p,) and its covariance (p, p): phi of each series unless 1, the profile row by row,
    and what shocks are made of."""
    S, count = len(made.phi), len(made.profile)
    free = int(made.slopes[0].shape[1] > count)
    spread = np.cov(shocks.T).reshape(S, S)
    bread = [np.linalg.pinv(one.T @ one) for one in made.slopes]
    size = (free + count) * S
    covariance = np.zeros((size, size))
    for i in range(S):
        for j in range(S):
            cross = bread[i] @ (made.slopes[i].T @ made.slopes[j]) @ bread[j] * spread[i, j]
            # phi, then the profile: entry r of series i stands at r S + i
            covariance[i::S, j::S] = cross
    K = len(noise.chances)
    if K > 1 and not free:  # the regimes' means are in place of the drift
        covariance[free * S : (free + 1) * S] = covariance[:, free * S : (free + 1) * S] = 0.0
    theta = _theta(noise)
    curved = np.linalg.pinv(_curvature(theta, shocks, K), hermitian=True)
    values, vectors = np.linalg.eigh(curved)
    curved = (vectors * np.maximum(values, 0.0)) @ vectors.T
    whole = np.zeros((size + len(theta), size + len(theta)))
    whole[:size, :size], whole[size:, size:] = covariance, curved
    return np.concatenate([made.phi] * free + [made.profile.ravel(), theta]), whole


def _curvature(theta: FloatArray, shocks: FloatArray, K: int) -> FloatArray:
    """(p, p) minus the second derivatives of the log-likelihood, by differences."""
    p, S = len(theta), shocks.shape[1]
    steps = 1e-3 * np.maximum(np.abs(theta), 1.0)
    if K > 1:  # means are in units of the shocks
        steps[: K * S] = np.tile(1e-3 * shocks.std(axis=0), K)
    lower = np.array([i != j for i, j in zip(*np.tril_indices(S), strict=True)] * K)
    offset = K * S if K > 1 else 0
    steps[offset : offset + len(lower)][lower] = 1e-3 * shocks.std(axis=0).min()

    def value(*moves: tuple[int, float]) -> float:
        moved = theta.copy()
        for i, sign in moves:
            moved[i] += sign * steps[i]
        return float(fits_of(shocks, noise_of(moved, K, S))[2].sum())

    found, middle = np.empty((p, p)), value()
    for i in range(p):
        for j in range(i + 1):
            if i == j:
                second = value((i, 1.0)) - 2 * middle + value((i, -1.0))
            else:
                second = sum(a * b * value((i, a), (j, b)) for a in (1, -1) for b in (1, -1)) / 4
            found[i, j] = found[j, i] = -second / (steps[i] * steps[j])
    return found
