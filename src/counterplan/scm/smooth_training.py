"""Bayesian smooth regression: from transitions to a model with cosine units and its posterior.

With standardised inputs x = (state, action), the change of each moving feature over one step is

    z' - z = sum_j w_j psi_j(x) + phi(x) e,      psi = [cos(W x + b), x, 1],     e ~ N(0, 1 / beta)

Units come in groups: each looks at one input (at two length scales) or at a pair of inputs, since
most processes are sums of such parts; frequencies W are normal, divided by the length scale, phases
b uniform. This approximates a sum of Gaussian processes, one for each group. A weight of group g is
N(0, 1 / alpha_g) with alpha_g of its own for every feature, so the data decide for each feature
which inputs, pairs and length scales matter. They are found by the marginal likelihood
(MacKay's fixed point), with posterior N(mu, A^-1), A = beta Psi^T Psi + diag(alpha):

    gamma_g = n_g - alpha_g tr(A^-1)_gg,   alpha_g = gamma_g / |mu_g|^2,   beta = (n - gamma) / rss

A group whose alpha grows without end is switched off. Then the scale, LEAST_SCALE +
softplus(v . x), is fitted to what is left (L-BFGS with a ridge), and the weights once more with
rows divided by it.
Episodes held out tell how well the result predicts; in the end the posterior is taken with them.
A draw of w from the posterior is a member: no retraining.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtri

from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.scm.cosine import LEAST_SCALE, CosineNetwork, spread_of
from counterplan.scm.effects import Effects, find_effects
from counterplan.scm.network import sigmoid
from counterplan.scm.point import Scaling
from counterplan.scm.training import (
    LEAST_NOISE,
    Samples,
    Training,
    calibration,
    check_learnable,
    min_max_scaling,
    names_of,
    record_of,
    reference_losses,
    samples,
    split,
)
from counterplan.scm.transitions import Transitions

# Relative error of a sum of products.
ROUNDING = 1e-12
# Frequencies of units that look at one input, at each length scale (of standardised inputs); and
# those of pairs, from the fewest to the most.
SINGLES, LENGTHS = 3, (2.0, 0.7)
PAIRS, PAIR_LENGTH = (1, 6), 1.5
# So many units for pairs, and twice as many from so many rows on; of more pairs than fit, those
# count that a product hints at most.
PAIR_UNITS, MANY_ROWS = 480, 20_000
# Rows that choose pairs, groups and scale.
SCREENED, ROWS = 5_000, 40_000
CHUNK = 4_096
# Fixed-point steps at most; a group with a larger alpha is off; clear enough changes of log alpha.
STEPS, OFF, SETTLED = 40, 1e4, 0.1
RIDGE = 3.0
# Turns of finding effects and learning again with them, in so many episodes.
TURNS, VARYING = 10, 1_000
MOST_MEMBERS = 1_000


class Basis(NamedTuple):
    """psi: units and linear part of standardised inputs.

    mean, spread  (P,) of the inputs
    weights       (H, P) W
    phases        (H,) b
    group         (H + P + 1,) the group of each weight
    """

    mean: FloatArray
    spread: FloatArray
    weights: FloatArray
    phases: FloatArray
    group: IntArray

    def linear(self, inputs: FloatArray) -> FloatArray:
        """(n, P + 1) the linear part."""
        return np.column_stack([(inputs - self.mean) / self.spread, np.ones(len(inputs))])

    def design(self, inputs: FloatArray, kept: IntArray | None = None) -> FloatArray:
        """(n, H + P + 1), or some of its columns."""
        linear, H = self.linear(inputs), len(self.weights)
        units, rest = (np.arange(H), np.arange(linear.shape[1])) if kept is None else (
            kept[kept < H], kept[kept >= H] - H
        )  # fmt: skip
        argument = linear[:, :-1] @ self.weights[units].T + self.phases[units]
        return np.concatenate([np.cos(argument), linear[:, rest]], axis=1)


class Moments(NamedTuple):
    """Sums over n weighted rows: (Q, Q) of psi psi^T, (Q,) of psi y, and of y^2; or of several
    targets y, (Q, m) and (m,)."""

    gram: FloatArray
    cross: FloatArray
    square: Any
    n: int

    def of(self, target: int) -> Moments:
        """Those of one of several targets."""
        return self._replace(cross=self.cross[:, target], square=float(self.square[target]))

    def among(self, place: IntArray) -> Moments:
        """Those of some columns."""
        return self._replace(gram=self.gram[np.ix_(place, place)], cross=self.cross[place])

    def with_more(self, other: Moments) -> Moments:
        """Those of all rows of both."""
        return Moments(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of the weights of one feature.

    kept      (K,) those that are not off
    mean      (K,)
    factor    (K, K) lower Cholesky factor of the precision A
    alpha     by group
    beta      1 / variance of the noise
    share     of the rows that are not used up by what was learned, 1 - gamma / n
    moments   what it rests on
    """

    kept: IntArray
    mean: FloatArray
    factor: FloatArray
    alpha: FloatArray
    beta: float
    share: float
    moments: Moments

    def draws(self, count: int, rng: np.random.Generator) -> FloatArray:
        """(count, K)."""
        noise = rng.standard_normal((len(self.mean), count))
        return np.asarray(self.mean + solve_triangular(self.factor, noise, lower=True, trans="T").T)


@dataclass(frozen=True, eq=False)
class Learned:
    """All features: their posteriors, and (P + 1, O) weights of the scale."""

    basis: Basis
    centre: FloatArray
    size: FloatArray
    features: tuple[Posterior, ...]
    scale: FloatArray

    def residuals(self, data: Samples) -> tuple[FloatArray, FloatArray]:
        """(n, O) what is left of the standardised changes, in units of the scale; and the scale."""
        left, spread = changes(data), np.empty_like(data.targets)
        left = (left - self.centre) / self.size
        for rows in chunks(len(left)):
            for i, one in enumerate(self.features):
                left[rows, i] -= self.basis.design(data.inputs[rows], one.kept) @ one.mean
            spread[rows] = spread_of(self.basis.linear(data.inputs[rows]) @ self.scale)
        return left / spread, spread


def fit_smooth(
    transitions: Transitions,
    members: int = 16,
    fixed: int = 0,
    seed: Seed = 0,
    scaling: Scaling | None = None,
    validation: float = 0.1,
) -> dict[str, Any]:
    """What a `SmoothSCM` is made of."""
    whole_number(members, "members", 0, MOST_MEMBERS)
    whole_number(fixed, "fixed")
    Training(validation=validation)  # checked as for networks
    rng = generator(seed)
    transitions.check_fixed(fixed)
    transitions = transitions.plausible()
    scaling = scaling or min_max_scaling(transitions)
    scaling.check(transitions.before.shape[1], transitions.actions.shape[1])
    train, held_out = split(transitions, validation if transitions.n_episodes > 1 else 0.0, rng)
    check_learnable(train, scaling, fixed)
    parts = [train] if held_out is None else [train, held_out]
    data, *more = (samples(part, scaling, fixed) for part in parts)
    learned, judged = learn(data, rng), more[0] if more else data
    factor = noise_factor(learned, data)
    loss = losses(learned, factor, judged)
    record = {
        **record_of(train, held_out, seed, ("numpy", "scipy")),
        "members": members,
        "weights": [len(one.kept) for one in learned.features],
        "validation_nll": [float(loss[0])],
        "feature_nll": loss[1].tolist(),
        "reference_nll": reference_losses(data, judged),
    }
    every = data
    if more:
        left = learned.residuals(judged)[0] * learned.size
        record["calibration"] = calibration(left / np.sqrt((factor**2).sum(axis=1)))
        learned = with_more(learned, judged)
        inputs, targets = (np.concatenate(pair) for pair in zip(data[:2], judged[:2], strict=True))
        every = Samples(inputs, targets, data.features)
        factor = noise_factor(learned, every)
    about = {**names_of(transitions), "training": record}
    episode = np.concatenate([part.episode for part in parts])
    learned, found, shares = learn_effects(learned, every, episode)
    exported = export(learned, data.features, members, rng)
    effects = None
    if found is not None:
        record["effects"] = _named(shares, about, scaling, fixed)
        effects = found.drawable(learned.size, members, rng)
    return {
        **exported, "noise_cholesky": factor, "fixed": fixed, "scaling": scaling, "about": about,
        "effects": effects,
    }  # fmt: skip


# --- The basis --------------------------------------------------------------------------------


def draw_basis(inputs: FloatArray, left: FloatArray, rng: np.random.Generator) -> Basis:
    """Units for the inputs; `left` (n, O): what a linear regression leaves, which chooses pairs."""
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
    spread[spread == 0.0] = 1.0
    P = inputs.shape[1]
    # Of an input with two values a unit is linear.
    varied = [i for i in range(P) if len(np.unique(inputs[:SCREENED, i])) > 2]
    waves = [draw_waves([i], P, SINGLES, length, rng) for length in LENGTHS for i in varied]
    pairs = list(combinations(range(P), 2))
    units = PAIR_UNITS * (2 if len(inputs) >= MANY_ROWS else 1)
    count = int(np.clip(units // max(4 * len(pairs), 1), *PAIRS))
    chosen = likely_pairs((inputs - mean) / spread, left, pairs)[: units // (4 * count)]
    waves += [draw_waves(pair, P, count, PAIR_LENGTH, rng) for pair in chosen]
    weights = np.concatenate([np.zeros((0, P)), *(rows for rows, _ in waves)])
    phases = np.concatenate([np.zeros(0), *(shifts for _, shifts in waves)])
    parts = np.repeat(np.arange(len(waves)), [len(rows) for rows, _ in waves])
    group = np.concatenate([parts, len(waves) + np.arange(P + 1)])
    return Basis(mean, spread, weights, phases, group)


def draw_waves(
    columns: list[int], P: int, count: int, length: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Weights (m, P) and phases (m,) of units that look at some inputs: of each of `count`
    frequencies, spread evenly over their distribution, all combinations of cosines and sines."""
    even = (np.arange(count) + rng.random((len(columns), count))) / count
    sizes = ndtri(0.5 + rng.permuted(even, axis=1) / 2) / length
    signs = np.array([(1.0, *rest) for rest in product((1.0, -1.0), repeat=len(columns) - 1)])
    frequencies = (signs[:, None, :] * sizes.T).reshape(-1, len(columns))
    weights = np.zeros((2 * len(frequencies), P))
    weights[:, columns] = np.repeat(frequencies, 2, axis=0)
    shift = np.repeat(rng.uniform(0.0, 2.0 * np.pi, len(frequencies)), 2)
    return weights, shift + np.tile([0.0, np.pi / 2], len(frequencies))


def likely_pairs(
    inputs: FloatArray, left: FloatArray, pairs: list[tuple[int, int]]
) -> list[list[int]]:
    """Pairs of standardised inputs, first those whose product tells most of what is left."""
    few, hints = inputs[:SCREENED], []
    wanted = left[:SCREENED] - left[:SCREENED].mean(axis=0)
    wanted = wanted / np.maximum(np.linalg.norm(wanted, axis=0), 1e-300)
    for i, j in pairs:
        product = few[:, i] * few[:, j]
        product = product - product.mean()
        size = max(float(np.linalg.norm(product)), 1e-300)
        hints.append(float(np.abs(product @ wanted).max()) / size)
    return [list(pairs[place]) for place in np.argsort(-np.array(hints), kind="stable")]


# --- Learning ---------------------------------------------------------------------------------


def learn(data: Samples, rng: np.random.Generator) -> Learned:
    """All features, from all rows; a part of them chooses groups and scales."""
    few = rng.permutation(len(data.inputs))[:ROWS]
    inputs, change = data.inputs[few], changes(data)
    centre, size = change.mean(axis=0), change.std(axis=0)
    wanted = (change - centre) / size
    some = wanted[few]
    design = np.column_stack([np.ones(len(few)), inputs])
    basis = draw_basis(inputs, some - design @ np.linalg.lstsq(design, some)[0], rng)
    every, linear = np.arange(len(basis.group)), basis.linear(inputs)
    plain = sum_moments(basis, every, inputs, some, None)
    posteriors, scales = [], []
    for i in range(some.shape[1]):
        first = evidence(plain.of(i), basis.group, every)
        left = some[:, i] - basis.design(inputs, first.kept) @ first.mean
        scales.append(chosen_scale(linear, left * np.sqrt(first.beta), data.features))
        sums = sum_moments(basis, first.kept, data.inputs, wanted[:, i : i + 1], scales[-1])
        posteriors.append(evidence(sums.of(0), basis.group, first.kept, first.alpha))
    return Learned(basis, centre, size, tuple(posteriors), np.stack(scales, axis=1))


def with_more(learned: Learned, data: Samples) -> Learned:
    """The posteriors with more rows, under the same alpha, beta and scale."""
    wanted, basis, features = (changes(data) - learned.centre) / learned.size, learned.basis, []
    for i, one in enumerate(learned.features):
        scale, target = learned.scale[:, i], wanted[:, i : i + 1]
        sums = sum_moments(basis, one.kept, data.inputs, target, scale).of(0).with_more(one.moments)
        mean, factor = _solved(sums, one.alpha[basis.group[one.kept]], one.beta)
        features.append(replace(one, mean=mean, factor=factor, moments=sums))
    return replace(learned, features=tuple(features))


def learn_effects(
    learned: Learned, data: Samples, episode: IntArray
) -> tuple[Learned, Effects | None, FloatArray]:
    """The posteriors that allow for what stays with an episode: without, the state would have to
    tell which episode it is in, and its own slopes were wrong. Found in turns with these effects,
    whose shares (O, 1 + Q) of what is left unexplained come last."""
    order = np.argsort(episode, kind="stable")
    data, episode = data.rows(order), episode[order]
    chosen = np.unique(episode)
    chosen = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), VARYING)).astype(int)]
    some = np.isin(episode, chosen)
    few = data.rows(some)
    moving = few.inputs[:, few.features - few.targets.shape[1] :]
    last, now = None, learned
    for _ in range(TURNS):
        left, spread = now.residuals(few)
        rests = left * spread
        found = find_effects(moving, rests, spread, episode[some])
        if found is None:
            return learned, None, np.empty((0, 0))
        now = _allowing_for(learned, few, episode[some], found)
        if last is not None and np.allclose(last, found.variance, rtol=0.01, atol=1e-6):
            break
        last = found.variance
    assert found is not None
    shares = found.variance / rests.var(axis=0)[:, None]
    return _allowing_for(learned, data, episode, found), found, shares


def _allowing_for(learned: Learned, data: Samples, episode: IntArray, effects: Effects) -> Learned:
    """The posteriors under effects. Rows of an episode, divided by their scale, have noise of the
    covariance I + A A^T in units of its own, A = F diag(v / n)^1/2; what is left without it:

        (I + A A^T)^-1/2 Psi = Psi - A C A^T Psi,     A^T A = U diag(s) U^T,
                                C = U diag((1 - (1 + s)^-1/2) / s) U^T
    """
    wanted, basis = (changes(data) - learned.centre) / learned.size, learned.basis
    f = effects.features(data.inputs[:, data.features - wanted.shape[1] :])
    starts = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
    ends = np.append(starts[1:], len(episode))
    features = []
    for i, one in enumerate(learned.features):
        there = np.flatnonzero(effects.variance[i])
        if not there.size:
            features.append(one)
            continue
        K, noise = len(one.kept), effects.noise[i]
        gram, cross, square = np.zeros((K, K)), np.zeros(K), 0.0
        size = np.sqrt(effects.variance[i, there] / noise)
        for few in np.array_split(np.arange(len(starts)), max(len(episode) // CHUNK, 1)):
            rows = slice(starts[few[0]], ends[few[-1]])
            spread = spread_of(basis.linear(data.inputs[rows]) @ learned.scale[:, i])[:, None]
            design = basis.design(data.inputs[rows], one.kept)
            psi = np.column_stack([design, wanted[rows, i]]) / spread
            square += float((psi[:, K] ** 2).sum())
            left = _without_effects(
                psi, f[rows][:, there] * size / spread, starts[few] - rows.start
            )
            gram += left[:, :K].T @ left[:, :K]
            cross += left[:, :K].T @ left[:, K]
        kept = Moments(gram, cross, square, len(episode))
        mean, factor = _solved(kept, one.alpha[basis.group[one.kept]], 1.0 / noise)
        features.append(replace(one, mean=mean, factor=factor, moments=kept, beta=1.0 / noise))
    return replace(learned, features=tuple(features))


def _without_effects(psi: FloatArray, a: FloatArray, starts: IntArray) -> FloatArray:
    """(n, K) what is left of rows; A (n, J), and where episodes start."""
    shared = np.stack([np.add.reduceat(one[:, None] * psi, starts) for one in a.T], axis=1)
    small = np.stack([np.add.reduceat(one[:, None] * a, starts) for one in a.T], axis=1)
    s, u = np.linalg.eigh(small)
    s = np.maximum(s, 1e-300)
    weight = -np.expm1(-0.5 * np.log1p(s)) / s
    mixed = u @ (weight[:, :, None] * (u.swapaxes(1, 2) @ shared))
    lengths = np.diff(starts, append=len(psi))
    for j in range(a.shape[1]):
        psi = psi - a[:, j, None] * np.repeat(mixed[:, j], lengths, axis=0)
    return psi


def changes(data: Samples) -> FloatArray:
    """(n, O) how the moving features change."""
    O = data.targets.shape[1]  # noqa: E741
    return np.asarray(data.targets - data.inputs[:, data.features - O : data.features])


def chunks(n: int) -> Iterator[slice]:
    """Some rows at a time: a design of all rows would not fit in memory."""
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))


def sum_moments(
    basis: Basis, kept: IntArray, inputs: FloatArray, targets: FloatArray, scale: FloatArray | None
) -> Moments:
    """Moments of some columns and targets (n, m), rows divided by their scale if there is one."""
    gram, cross = np.zeros((len(kept), len(kept))), np.zeros((len(kept), targets.shape[1]))
    square = np.zeros(targets.shape[1])
    for rows in chunks(len(inputs)):
        design, wanted = basis.design(inputs[rows], kept), targets[rows]
        if scale is not None:
            spread = spread_of(basis.linear(inputs[rows]) @ scale)[:, None]
            design, wanted = design / spread, wanted / spread
        gram += design.T @ design
        cross += design.T @ wanted
        square += (wanted**2).sum(axis=0)
    return Moments(gram, cross, square, len(inputs))


def evidence(
    moments: Moments, group: IntArray, kept: IntArray, alpha: FloatArray | None = None
) -> Posterior:
    """The posterior at the maximum of the marginal likelihood, by its fixed point; `kept`: which
    weights the moments are about."""
    groups = int(group.max()) + 1
    alpha = np.ones(groups) if alpha is None else alpha
    beta = moments.n / float(moments.square)
    place = np.arange(len(kept))
    for step in range(STEPS):
        place = place[alpha[group[kept[place]]] < OFF] if step > 3 else place
        own = group[kept[place]]
        part = moments.among(place)
        mean, factor = _solved(part, alpha[own], beta)
        variance = (lapack.dtrtri(factor, lower=1)[0] ** 2).sum(axis=0)
        count, explained, size = (
            np.bincount(own, weights=one, minlength=groups)
            for one in (np.ones(len(own)), variance, mean**2)
        )
        free = np.maximum(count - alpha * explained, 1e-9)
        found = np.where(count > 0, np.clip(free / np.maximum(size, 1e-300), 1e-4, 1e8), 1e8)
        rest = float(part.square - 2.0 * mean @ part.cross + mean @ part.gram @ mean)
        left = max(moments.n - float(free[count > 0].sum()), 1.0)
        beta = left / max(rest, left * LEAST_NOISE**2)
        matters = (alpha < 1e3) & (count > 0)
        moved = np.abs(np.log(found / alpha))[matters].max(initial=0.0)
        alpha = found
        if step > 5 and moved < SETTLED:
            break
    # The last step's groups, with what it found.
    mean, factor = _solved(part, alpha[own], beta)
    share = 1.0 - float(free[count > 0].sum()) / moments.n
    return Posterior(kept[place], mean, factor, alpha, beta, max(share, 0.1), part)


def _solved(moments: Moments, alpha: FloatArray, beta: float) -> tuple[FloatArray, FloatArray]:
    """Mean and lower Cholesky factor of the precision of the posterior."""
    precision = beta * moments.gram
    # Where noise is tiny, rounding would outweigh the prior and leave no positive precision.
    precision[np.diag_indices_from(precision)] += alpha + ROUNDING * np.diag(precision)
    factor = cholesky(precision, lower=True, overwrite_a=True, check_finite=False)
    mean = cho_solve((factor, True), beta * moments.cross, check_finite=False)
    return np.asarray(mean), np.asarray(factor)


def chosen_scale(linear: FloatArray, left: FloatArray, states: int) -> FloatArray:
    """(P + 1,) v: the scale by the states, and by actions only where the likelihood clearly gains.

    A counterfactual keeps its noise: what an action is wrongly said to do to the scale is an effect
    that grows with the noise of a step, and searches look for such steps. By BIC, whose statistic
    heavy tails make too large by (kurtosis - 1) / 2.
    """
    every = np.arange(linear.shape[1])
    few = (every < states) | (every == every[-1])
    alone = np.zeros(linear.shape[1])
    alone[few] = fit_scale(linear[:, few], left)
    with_actions = fit_scale(linear, left)

    spreads = [spread_of(linear @ v) for v in (alone, with_actions)]
    plain, better = (2.0 * float((np.log(one) + left**2 / (2 * one**2)).sum()) for one in spreads)
    z = left / spreads[0]
    tails = max(float(np.mean(z**4) / np.mean(z**2) ** 2 - 1.0) / 2.0, 1.0)
    gain, more = (plain - better) / tails, np.count_nonzero(~few)
    return with_actions if gain > more * np.log(len(left)) else alone


def fit_scale(linear: FloatArray, left: FloatArray) -> FloatArray:
    """(P + 1,) v: the scale that makes `left` (n,), of variance about 1, most likely."""
    ridge = np.append(np.full(linear.shape[1] - 1, RIDGE), 0.0)
    square = left**2

    def loss(v: FloatArray) -> tuple[float, FloatArray]:
        outputs = linear @ v
        spread = spread_of(outputs)
        slope = (1.0 / spread - square / spread**3) * sigmoid(outputs)
        value = (np.log(spread) + square / (2.0 * spread**2)).sum() + 0.5 * ridge @ v**2
        return float(value), slope @ linear + ridge * v

    start = np.append(np.zeros(linear.shape[1] - 1), np.log(np.expm1(1.0 - LEAST_SCALE)))
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B").x)


def noise_factor(learned: Learned, data: Samples) -> FloatArray:
    """L, from what is left of the rows, which is too small by what was learned from them."""
    left = learned.residuals(data)[0] / np.sqrt([one.share for one in learned.features])
    covariance = left.T @ left / len(left) + LEAST_NOISE**2 * np.eye(left.shape[1])
    return np.asarray(np.linalg.cholesky(covariance) * learned.size[:, None])


def losses(learned: Learned, factor: FloatArray, data: Samples) -> tuple[float, FloatArray]:
    """Mean negative log-likelihood of a transition, and of each feature by itself (O,)."""
    left, spread = learned.residuals(data)
    left = left * learned.size
    white = np.linalg.solve(factor, left.T)
    volume, constant = np.log(spread).mean(axis=0), 0.5 * np.log(2.0 * np.pi)
    joint = 0.5 * (white**2).sum(axis=0).mean() + np.log(np.diag(factor)).sum()
    variance = (factor**2).sum(axis=1)
    own = 0.5 * (left**2).mean(axis=0) / variance + 0.5 * np.log(variance) + volume + constant
    return float(joint + volume.sum() + constant * len(factor)), own


# --- The model --------------------------------------------------------------------------------


def export(learned: Learned, D: int, members: int, rng: np.random.Generator) -> dict[str, Any]:
    """Networks that take inputs as they are, without units that are off everywhere, and draws."""
    basis, H = learned.basis, len(learned.basis.weights)
    P, O = len(basis.mean), len(learned.features)  # noqa: E741
    draws = np.zeros((1 + members, O, H + P + 1))
    for i, one in enumerate(learned.features):
        draws[0, i, one.kept] = one.mean
        draws[1:, i, one.kept] = one.draws(members, rng)
    draws *= learned.size[:, None]
    linear = draws[:, :, H:]
    linear[:, :, :P] /= basis.spread
    linear[:, :, P] += learned.centre - linear[:, :, :P] @ basis.mean
    linear[:, np.arange(O), np.arange(D - O, D)] += 1.0
    used = draws[:, :, :H].any(axis=(0, 1))
    draws = draws[:, :, np.append(used, np.ones(P + 1, dtype=bool))]
    weights = basis.weights[used] / basis.spread
    phases = basis.phases[used] - weights @ basis.mean
    scale = learned.scale.T.copy()
    scale[:, :P] /= basis.spread
    scale[:, P] -= scale[:, :P] @ basis.mean

    def network(linear: FloatArray, units: FloatArray) -> CosineNetwork:
        first = weights[: units.shape[1]]
        return CosineNetwork(
            state=first[:, :D], bias=phases[: len(first)], action=first[:, D:], output=units,
            output_bias=linear[:, P], skip=linear[:, :D], action_skip=linear[:, D:P],
        )  # fmt: skip

    location = network(draws[0, :, -P - 1 :], draws[0, :, : -P - 1])
    return {"location": location, "scale": network(scale, scale[:, :0]), "draws": draws[1:]}


def _named(
    shares: FloatArray, about: dict[str, Any], scaling: Scaling, fixed: int
) -> list[dict[str, float]]:
    """Shares (O, 1 + Q) of effects by the names of their inputs, for each moving feature; those of
    one category add up."""
    D, d = scaling.widths
    features = about["features"] or [f"feature {i}" for i in range(D)]
    actions = about["actions"] or [f"action component {i}" for i in range(d)]
    categories = scaling.action_categories
    sizes = np.ones(d, int) if categories is None else np.maximum(categories, 1)
    names = ["level", *features[fixed:], *np.repeat(actions, sizes).tolist()]
    rows = [dict.fromkeys(names, 0.0) for _ in shares]
    for row, own in zip(rows, shares, strict=True):
        for name, share in zip(names, own.tolist(), strict=True):
            row[name] += share
    return [{name: share for name, share in row.items() if share > 0.0} for row in rows]
