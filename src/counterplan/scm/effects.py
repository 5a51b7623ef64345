"""Random effects: what stays with an episode, and is in no column.

A model h of all episodes leaves r = z' - h(x) of a step, per feature that moves. Where episodes
differ in something that persists (a patient who responds less to a drug), that is not luck anew at
every step:

    r_it = g_i . f(x_it) + phi(x_it) e_it,     f(x) = [1, (x - m) / s],     g_i ~ N(0, diag(v))

with x the moving features and the action, e ~ N(0, n). Given its steps, an episode's effects are
normal, with rows of F and r divided by phi:

    A = diag(1 / v) + F^T F / n,     g | r ~ N(a, A^-1),     a = A^-1 F^T r / n

v and n maximise the likelihood of all steps, by expectation and maximisation over the episodes,

    v_j = mean_i (a_j^2 + (A^-1)_jj),     n = mean_it ((r - F a)^2 + F A^-1 F^T)

which holds although states follow from effects: given these, every step is a law of its own. An
effect has to earn its place: first by the products of rests at different steps of an episode,
E[r_it r_is] = sum_j v_j f_j(x_it) f_j(x_is), least squares over v >= 0, clearly above 0 with any
tenth of the episodes left out (jackknife); then by the likelihood, which must fall without it.

Abduction so has two parts: every member draws the effects of an episode from what it leaves itself,
and what is left after them is the noise of the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError

# Episodes with so many steps tell, if there are so many of them.
STEPS, EPISODES = 3, 20
# Parts that are left out in turn, standard errors above 0, and the least share of what is left
# unexplained, that make a variance clear.
PARTS, CLEAR, LEAST_SHARE = 10, 3.0, 0.02
# Rests beyond this many standard deviations count as this many.
LARGEST = 4.0
# Steps of expectation and maximisation, and nats that an effect has to bring.
TURNS, WORTH = 60, 5.0


class Effects(NamedTuple):
    """Of a model with O moving features and Q = O + d inputs, in its own units.

    centre    (Q,) m
    spread    (Q,) s
    variance  (O, 1 + Q) v, of the constant first
    noise     (O,) n
    normals   (B, O, 1 + Q) standard normal numbers, from which each of B members draws its effects
    """

    centre: FloatArray
    spread: FloatArray
    variance: FloatArray
    noise: FloatArray
    normals: FloatArray

    def check(self, members: int, moving: int, components: int) -> None:
        """Raise unless they fit a model."""
        Q = moving + components
        shapes = (Q,), (Q,), (moving, 1 + Q), (moving,), (members, moving, 1 + Q)
        for name, array, shape in zip(self._fields, self, shapes, strict=True):
            if np.shape(array) != shape or not np.isfinite(array).all():
                raise InputError(
                    f"{name} of effects: expected finite numbers of shape {shape}, got "
                    f"{np.shape(array)}"
                )
        if (self.variance < 0.0).any() or (self.noise <= 0.0).any() or (self.spread <= 0.0).any():
            raise InputError("effects have a variance below 0, or a noise or spread of 0")

    def features(self, inputs: FloatArray) -> FloatArray:
        """(n, 1 + Q) f of inputs (n, Q)."""
        return np.column_stack([np.ones(len(inputs)), (inputs - self.centre) / self.spread])

    def drawable(self, size: FloatArray, members: int, rng: np.random.Generator) -> Effects:
        """For members, with rests multiplied by a size (O,)."""
        normals = rng.standard_normal((members, *self.variance.shape))
        variance, noise = self.variance * size[:, None] ** 2, self.noise * size**2
        return Effects(self.centre, self.spread, variance, noise, normals)

    def drawn(self, inputs: FloatArray, rests: FloatArray, scale: FloatArray) -> FloatArray:
        """(B, O, 1 + Q) slopes on the inputs, after the constant, that members draw for an
        episode with inputs (T, Q), by their rests (B, T, O) and the scale (T, O)."""
        f, found = self.features(inputs), np.zeros(self.normals.shape)
        for o, variance in enumerate(self.variance):
            there = np.flatnonzero(variance)
            if not there.size:
                continue
            own = f[:, there]
            weighted = own / (scale[:, o : o + 1] ** 2 * self.noise[o])
            precision = np.diag(1.0 / variance[there]) + own.T @ weighted
            factor = np.linalg.cholesky(precision)
            mean = np.linalg.solve(precision, weighted.T @ rests[:, :, o].T)
            noise = np.linalg.solve(factor.T, self.normals[:, o, there].T)
            found[:, o, there] = (mean + noise).T
        found[:, :, 1:] /= self.spread
        found[:, :, 0] -= found[:, :, 1:] @ self.centre
        return found

    def surprises(self, inputs: FloatArray, rests: FloatArray, scale: FloatArray) -> FloatArray:
        """(T, O) what the earlier steps of an episode do not tell of its rests (T, O), divided by
        the scale (T, O), with a variance of n: the effects are learned step by step."""
        f, found = self.features(inputs), rests.copy()
        for o, variance in enumerate(self.variance):
            there, n = np.flatnonzero(variance), self.noise[o]
            mean, covariance = np.zeros(there.size), np.diag(variance[there])
            for t, own in enumerate(f[:, there] / scale[:, o : o + 1]) if there.size else ():
                along = covariance @ own
                total, error = own @ along + n, rests[t, o] - own @ mean
                found[t, o] = error * np.sqrt(n / total)
                mean += along * (error / total)
                covariance -= np.outer(along, along) / total
        return found


def find_effects(
    inputs: FloatArray, rests: FloatArray, scale: FloatArray, episode: IntArray
) -> Effects | None:
    """Effects of inputs (n, Q) on what a model leaves (n, O) with its scale (n, O), in units of
    that, rows sorted by episode; None where there are none, or too few episodes to tell."""
    steps = np.unique(episode, return_counts=True)[1]
    if np.count_nonzero(steps >= STEPS) < EPISODES:
        return None
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    spread[spread == 0.0] = 1.0
    variance, noise = np.zeros((rests.shape[1], 1 + inputs.shape[1])), np.ones(rests.shape[1])
    found = Effects(centre, spread, variance, noise, np.empty((0, *variance.shape)))
    f, size = found.features(inputs), rests.std(axis=0)
    clipped = np.clip(rests, -LARGEST * size, LARGEST * size)
    grams, crosses = _moments(f, clipped, steps)
    starts = np.cumsum(steps) - steps
    for o, square in enumerate(size**2):
        first = _clear(grams, crosses[:, :, o], square)
        if first.any():
            likely = _Likelihood(f / scale[:, o : o + 1], clipped[:, o] / scale[:, o], starts)
            variance[o], noise[o] = likely.worthwhile(np.flatnonzero(first))
    return found if variance.any() else None


class _Estimate(NamedTuple):
    """The likelihood at its maximum over the variances of effects `there`."""

    there: IntArray
    variance: FloatArray
    noise: float
    value: float


class _Likelihood:
    """Of rests (n,) with features (n, 1 + Q), both divided by the scale, of episodes that begin at
    rows `starts`."""

    def __init__(self, f: FloatArray, rests: FloatArray, starts: IntArray) -> None:
        self._n, self._width = f.shape
        products = [np.add.reduceat(f * f[:, j : j + 1], starts) for j in range(self._width)]
        self._gram = np.stack(products, axis=1)
        self._cross = np.add.reduceat(f * rests[:, None], starts)
        self._square = np.add.reduceat(rests**2, starts)

    def worthwhile(self, there: IntArray) -> tuple[FloatArray, float]:
        """(1 + Q,) variances of those effects that are worth it, and the noise."""
        best = self._maximum(there)
        while there.size:
            fewer = [self._maximum(np.delete(there, j)) for j in range(len(there))]
            next_best = max(fewer, key=lambda one: one.value)
            if next_best.value < best.value - WORTH:
                break
            there, best = next_best.there, next_best
        found = np.zeros(self._width)
        found[best.there] = best.variance
        return found, best.noise

    def _maximum(self, there: IntArray) -> _Estimate:
        gram, cross = self._gram[:, there[:, None], there], self._cross[:, there]
        noise = float(self._square.sum()) / self._n / (1 + len(there))
        variance = np.full(len(there), noise)
        for _ in range(TURNS):
            covariance = np.linalg.inv(gram / noise + np.diag(1.0 / variance))
            mean = (covariance @ cross[:, :, None])[:, :, 0] / noise
            spread = np.diagonal(covariance, axis1=1, axis2=2)
            variance = np.maximum((mean**2 + spread).mean(axis=0), 1e-12 * noise)
            around = mean[:, :, None] * mean[:, None, :] + covariance
            left = (
                self._square - 2.0 * (mean * cross).sum(axis=1) + (gram * around).sum(axis=(1, 2))
            )
            noise = max(float(left.sum()) / self._n, 1e-300)
        precision = gram / noise + np.diag(1.0 / variance)
        own = (cross * np.linalg.solve(precision, cross[:, :, None])[:, :, 0]).sum() / noise**2
        size = self._n * np.log(noise) + len(gram) * np.log(variance).sum()
        size += np.linalg.slogdet(precision)[1].sum()
        value = -0.5 * (float(self._square.sum()) / noise - own + size)
        return _Estimate(there, variance, noise, float(value))


def _moments(f: FloatArray, rests: FloatArray, steps: IntArray) -> tuple[FloatArray, FloatArray]:
    """G (PARTS, 1 + Q, 1 + Q) and c (PARTS, 1 + Q, O) of the episodes, dealt into parts; rows are
    sorted by episode."""
    Q, O = f.shape[1], rests.shape[1]  # noqa: E741
    grams, crosses = np.zeros((PARTS, Q, Q)), np.zeros((PARTS, Q, O))
    for i, end in enumerate(np.cumsum(steps)):
        rows = slice(end - steps[i], end)
        own, left = f[rows], rests[rows]
        both = own.T @ left
        grams[i % PARTS] += (own.T @ own) ** 2 - (own**2).T @ own**2
        crosses[i % PARTS] += both**2 - (own**2).T @ left**2
    return grams, crosses


def _clear(grams: FloatArray, crosses: FloatArray, total: float) -> FloatArray:
    """(1 + Q,) variances that are clearly above 0, by moments in parts; `total`: of the rests."""
    there = np.arange(grams.shape[1])
    for _ in range(2):
        gram, cross = grams.sum(axis=0), crosses.sum(axis=0)
        whole = _least_squares(gram, cross, there)
        parts = zip(gram - grams, cross - crosses, strict=True)
        without = np.stack([_least_squares(*part, there) for part in parts])
        error = np.sqrt((PARTS - 1) / PARTS * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
        there = np.flatnonzero((whole > CLEAR * error) & (whole > LEAST_SHARE * total))
    return _least_squares(gram, cross, there)


def _least_squares(gram: FloatArray, cross: FloatArray, there: IntArray) -> FloatArray:
    from scipy.optimize import nnls

    found = np.zeros(len(cross))
    if there.size:
        # min |R v - R^-T c|^2 with G = R^T R.
        values, vectors = np.linalg.eigh(gram[np.ix_(there, there)])
        root = np.sqrt(np.maximum(values, 1e-9 * max(float(np.abs(values).max()), 1e-300)))
        found[there] = nnls(root[:, None] * vectors.T, (vectors / root).T @ cross[there])[0]
    return found
