"""What a counterfactual policy leads to, computed without sampling.

Every question is one forward pass over the nodes (state, budget left): the distribution of nodes
with the moments of the reward so far, the distribution of any sum of whole-numbered increments
(rewards on a lattice base + step * 0, 1, 2, ..., the number of changes), or the likeliest path.
Sampling (Algorithm 1) is here too, for those who want realizations.

A compiled step moves what is known about the nodes of step t by the policy's actions (S, C, M) with
weights (S, C, M), their costs (A,), and the counterfactual rows of the pairs in use: `law` is
row_of (S, A), position (R,) of a row id among the rows, and these as (indptr, indices,
probabilities).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.compiled import njit, plain
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.discrete.dynamic_program import PolicyTable, Setting
from counterplan.counterfactual.discrete.laws import Law
from counterplan.errors import NotApplicableError
from counterplan.scm.gumbel import KeptRows, kernel_row

# Larger lattices would cost more memory than the answer is worth.
LARGEST_INDEX = 100_000
TOLERANCE = 1e-9
# Stands for minus infinity where numbers are counted in steps.
LOST = -(2**62)


class Lattice(NamedTuple):
    """The values base + step * 0, 1, 2, ..."""

    base: float
    step: float


def find_lattice(values: ArrayLike) -> Lattice | None:
    """The coarsest lattice that holds all finite values, or None if there is no small one."""
    array = np.asarray(values, dtype=np.float64)
    distinct = np.unique(array[np.isfinite(array)])
    if distinct.size == 0:
        return Lattice(0.0, 1.0)
    base = float(distinct[0])
    gaps = distinct[1:] - base
    if gaps.size == 0:
        return Lattice(base, 1.0)
    noise = TOLERANCE * float(gaps[-1])
    step = float(gaps[0])
    for gap in gaps[1:]:
        step = _common_divisor(step, float(gap), noise)
        if gaps[-1] / step > LARGEST_INDEX:
            return None
        # Each division of Euclid's multiplies the rounding error: fit the step to the gap again.
        step = float(gap / np.rint(gap / step))
    positions = gaps / step
    if np.abs(positions - np.rint(positions)).max() > TOLERANCE * max(1.0, positions[-1]):
        return None
    return Lattice(base, step)


def _common_divisor(a: float, b: float, noise: float) -> float:
    """Euclid's algorithm, taking remainders below `noise` for zero."""
    while b > noise:
        a, b = b, a % b
        if a - b <= noise:  # a remainder just below the divisor is rounding, not a remainder
            b = 0.0
    return a


@njit(cache=True, nogil=True)
def push_moments(
    nodes: tuple[Any, Any, Any], policy: tuple[Any, Any], costs: Any, rewards: Any, law: Any
) -> tuple[Any, Any, Any]:
    """Mass, mean and weighted squared deviation of the reward so far, (S, C) each, one step on.

    Streams of reward that meet in a node are merged by the pairwise update of Chan et al., so the
    variance never comes out of a difference of large numbers.
    """
    mass, mean, spread = nodes
    actions, weights = policy
    row_of, position, indptr, indices, probabilities = law
    n_states, columns = mass.shape
    new_mass = np.zeros((n_states, columns))
    new_mean = np.zeros((n_states, columns))
    new_spread = np.zeros((n_states, columns))
    for s in range(n_states):
        for c in range(columns):
            if mass[s, c] == 0.0:
                continue
            for m in range(actions.shape[2]):
                a = actions[s, c, m]
                share = mass[s, c] * weights[s, c, m]
                if share == 0.0:
                    continue
                left = c - costs[a]
                total = mean[s, c] + rewards[s, a]
                variance = spread[s, c] / mass[s, c]
                row = position[row_of[s, a]]
                for j in range(indptr[row], indptr[row + 1]):
                    weight = share * probabilities[j]
                    if weight > 0.0:
                        i = indices[j]
                        merged = new_mass[i, left] + weight
                        shift = total - new_mean[i, left]
                        part = weight / merged
                        new_spread[i, left] += weight * variance
                        new_spread[i, left] += new_mass[i, left] * part * shift * shift
                        new_mean[i, left] += part * shift
                        new_mass[i, left] = merged
    return new_mass, new_mean, new_spread


@njit(cache=True, nogil=True)
def push_sums(
    mass: Any, policy: tuple[Any, Any], costs: Any, increments: Any, law: Any, window: Any
) -> tuple[Any, float]:
    """Distribution of a sum of whole-numbered increments (S, A), (S, C, G) -> (S, C, G').

    window  the sum that the first column stands for before, and the least and largest sum kept
            after; sums beyond these are counted as them

    An increment of LOST stands for minus infinity; the mass that meets it is returned apart.
    """
    actions, weights = policy
    row_of, position, indptr, indices, probabilities = law
    n_states, columns, sums = mass.shape
    before, low, high = window
    result = np.zeros((n_states, columns, high - low + 1))
    lost = 0.0
    for s in range(n_states):
        for c in range(columns):
            here = mass[s, c].sum()
            if here == 0.0:
                continue
            for m in range(actions.shape[2]):
                weight = weights[s, c, m]
                if weight == 0.0:
                    continue
                a = actions[s, c, m]
                increment = increments[s, a]
                if increment == LOST:
                    lost += weight * here
                    continue
                left = c - costs[a]
                row = position[row_of[s, a]]
                for j in range(indptr[row], indptr[row + 1]):
                    factor = weight * probabilities[j]
                    if factor > 0.0:
                        target = result[indices[j], left]
                        for g in range(sums):
                            place = min(max(before + g + increment, low), high) - low
                            target[place] += factor * mass[s, c, g]
    return result, lost


@njit(cache=True, nogil=True)
def push_most_likely(
    score: Any, policy: tuple[Any, Any], costs: Any, law: Any
) -> tuple[Any, Any, Any]:
    """Log probability of the likeliest path into each node (S, C), with the node (s * C + c) it
    comes from and the action taken there."""
    actions, weights = policy
    row_of, position, indptr, indices, probabilities = law
    n_states, columns = score.shape
    new_score = np.full((n_states, columns), -np.inf)
    source = np.full((n_states, columns), -1, dtype=np.int64)
    taken = np.full((n_states, columns), -1, dtype=np.int32)
    for s in range(n_states):
        for c in range(columns):
            if score[s, c] == -np.inf:
                continue
            for m in range(actions.shape[2]):
                if weights[s, c, m] == 0.0:
                    continue
                a = actions[s, c, m]
                left = c - costs[a]
                row = position[row_of[s, a]]
                for j in range(indptr[row], indptr[row + 1]):
                    probability = weights[s, c, m] * probabilities[j]
                    if probability > 0.0:
                        candidate = score[s, c] + np.log(probability)
                        if candidate > new_score[indices[j], left]:
                            new_score[indices[j], left] = candidate
                            source[indices[j], left] = s * columns + c
                            taken[indices[j], left] = a
    return new_score, source, taken


@njit(cache=True, nogil=True)
def follow(path: Any, model: Any, policy: Any, costs: Any, seen: Any, kept: Any) -> Any:
    """What the steps above find of a policy that is certain, along a whole episode of a Gumbel-Max
    model and to the last digit: (T, A) how likely each action is; the states and actions (2, T) of
    the likeliest path and its log probability; and how likely a pair is that was not seen.

    path    (2, T) the observed states and actions
    model   indptr, indices and probabilities of the rows, and row_of (S, A)
    policy  actions (T, S, K, 1), and how many budgets count
    seen    (S, A) pairs, empty where that is not asked
    kept    see `gumbel.KeptRows.along`
    """
    (actions, columns), (indptr, indices, probabilities, row_of) = policy, model
    n_states, horizon, widest = row_of.shape[0], path.shape[1], np.diff(indptr).max()
    scratch = np.empty((2, widest)), np.empty(widest, dtype=np.int64)
    kernel, logs, factual = np.empty(widest), np.empty(widest), np.zeros(n_states)
    mass, score = np.zeros((2, n_states, columns)), np.full((n_states, columns), -np.inf)
    mass[:, path[0, 0], columns - 1], score[path[0, 0], columns - 1] = 1.0, 0.0
    taken, lost = np.zeros((horizon, row_of.shape[1])), 0.0
    source = np.full((horizon, n_states, columns), -1, dtype=np.int64)
    for t in range(horizon):
        after, further, gone = np.zeros(mass.shape), np.full(score.shape, -np.inf), 0.0
        outcome, is_last = path[0, min(t + 1, horizon - 1)], t == horizon - 1
        _write_row(model, row_of[path[0, t], path[1, t]], 1.0, factual)
        for s in range(n_states):
            formed = -1  # the action whose kernel row is at hand: budgets often do the same
            for c in range(columns):
                if score[s, c] == -np.inf:
                    continue
                a, share, stays = actions[t, s, c, 0], mass[0, s, c], mass[1, s, c]
                taken[t, a] += share
                if seen.shape[0] and not seen[s, a]:
                    gone += stays
                    stays = 0.0
                left, row = c if a == path[1, t] else c - costs[a], row_of[s, a]
                targets = indices[indptr[row] : indptr[row + 1]]
                if a != formed and not is_last:
                    q = probabilities[indptr[row] : indptr[row + 1]]
                    slot, n_rows = kept[0][t], indptr.shape[0] - 1
                    if slot < 0:
                        kernel_row(factual, outcome, targets, q, scratch, kernel)
                    for j in range(q.shape[0]):
                        if slot >= 0:
                            kernel[j] = kept[1][slot, targets[j] * n_rows + row]
                        logs[j] = np.log(kernel[j]) if kernel[j] > 0.0 else -np.inf
                    formed = a
                for j in range(0 if is_last else targets.shape[0]):
                    i = np.uint32(targets[j])
                    after[0, i, left] += share * kernel[j]
                    if seen.shape[0]:
                        after[1, i, left] += kernel[j] * stays
                    if score[s, c] + logs[j] > further[i, left]:
                        further[i, left] = score[s, c] + logs[j]
                        source[t + 1, i, left] = s * columns + c
        _write_row(model, row_of[path[0, t], path[1, t]], 0.0, factual)
        lost += gone
        if not is_last:
            mass, score = after, further
    return taken, *_traced(score, source, actions), lost


@njit(cache=True, nogil=True)
def _traced(score: Any, source: Any, actions: Any) -> Any:
    """States and actions (2, T) of the likeliest path, and its log probability, from that of the
    nodes (S, C) of the last step; the first of equals, by the budget that is left and the state."""
    horizon, n_states, columns = source.shape
    found, best, node = np.empty((2, horizon), dtype=np.int64), -np.inf, 0
    for c in range(columns):
        for s in range(n_states):
            if score[s, c] > best:
                best, node = score[s, c], s * columns + c
    for t in range(horizon - 1, -1, -1):
        s, c = node // columns, node % columns
        found[0, t], found[1, t] = s, actions[t, s, c, 0]
        node = source[t, s, c]
    return found, best


@njit(cache=True, nogil=True)
def forward_values(
    paths: Any, model: Any, policy: Any, costs: Any, rewards: Any, visits: Any, least: float
) -> Any:
    """(N,) counterfactual mean outcomes of a policy pi on episodes of a Gumbel-Max model: with all
    of the budget c in its first state,

        mu_{t+1}(s', c') = sum_{s,c,a} mu_t(s, c) pi_t(a | s, c) P_t(s' | s, a)
        v = sum_t E_mu_t[ R(s, a) ]

    paths    where each episode starts, (N + 1,), in all states and actions
    model    indptr, indices and probabilities of the rows, and row_of (S, A)
    policy   actions (T, S, C, M), or (1, S, C, M) for the same at every step, and their weights,
             empty where the first is certain
    costs    (A,) of a change
    rewards  (2, S, A) before the last step, and there
    visits   (S, A) to which how often each pair is met is added
    least    courses of events below it are left out
    """
    (starts, states, taken), (actions, weights) = paths, policy
    indptr, indices, probabilities, row_of = model
    steps, n_states, columns, options = actions.shape
    widest = np.diff(indptr).max()
    scratch = np.empty((2, widest)), np.empty(widest, dtype=np.int64)
    kernel, factual = np.empty(widest), np.zeros(n_states)
    result = np.zeros(starts.shape[0] - 1)
    mass, after = np.zeros((n_states, columns)), np.zeros((n_states, columns))
    for n in range(result.shape[0]):
        mass[:] = 0.0
        mass[states[starts[n]], columns - 1] = 1.0
        for at in range(starts[n], starts[n + 1]):
            last, t = at == starts[n + 1] - 1, min(at - starts[n], steps - 1)
            after[:] = 0.0
            observed = row_of[states[at], taken[at]]
            _write_row(model, observed, 1.0, factual)
            for s in range(n_states):
                formed = -1  # the action whose kernel row is at hand: budgets often do the same
                for c in range(columns):
                    for m in range(options if mass[s, c] > least else 0):
                        a, share = actions[t, s, c, m], mass[s, c]
                        share *= weights[t, s, c, m] if weights.shape[0] else 1.0
                        if share <= least:
                            continue
                        left = c if a == taken[at] else c - costs[a]
                        result[n] += share * rewards[int(last), s, a]
                        visits[s, a] += share
                        if last:
                            continue
                        if s == states[at] and a == taken[at]:
                            after[states[at + 1], left] += share
                            continue
                        begin, end = indptr[row_of[s, a]], indptr[row_of[s, a] + 1]
                        targets, q = indices[begin:end], probabilities[begin:end]
                        if a != formed:
                            kernel_row(factual, states[at + 1], targets, q, scratch, kernel)
                            formed = a
                        for j in range(targets.shape[0]):
                            after[targets[j], left] += share * kernel[j]
            _write_row(model, observed, 0.0, factual)
            mass, after = after, mass
    return result


@njit(cache=True, nogil=True)
def _write_row(model: Any, row: int, factor: float, dense: Any) -> None:
    indptr, indices, probabilities, _ = model
    for j in range(indptr[row], indptr[row + 1]):
        dense[indices[j]] = factor * probabilities[j]


@njit(cache=True, nogil=True)
def draw_actions(states: Any, left: Any, policy: tuple[Any, Any], uniforms: Any) -> Any:
    """(n,) one action for each realization."""
    actions, weights = policy
    result = np.empty(states.shape[0], dtype=np.int32)
    for n in range(states.shape[0]):
        choice = _draw(weights[states[n], left[n]], uniforms[n])
        result[n] = actions[states[n], left[n], choice]
    return result


@njit(cache=True, nogil=True)
def draw_states(states: Any, actions: Any, law: Any, uniforms: Any) -> Any:
    """(n,) the next state of each realization."""
    row_of, position, indptr, indices, probabilities = law
    result = np.empty(states.shape[0], dtype=np.int64)
    for n in range(states.shape[0]):
        row = position[row_of[states[n], actions[n]]]
        start, end = indptr[row], indptr[row + 1]
        result[n] = indices[start + _draw(probabilities[start:end], uniforms[n])]
    return result


@njit(cache=True, nogil=True)
def _draw(probabilities: Any, uniform: float) -> int:
    """Inverse of the cumulative sum; never an entry of probability zero."""
    total = 0.0
    choice = 0
    for j in range(probabilities.shape[0]):
        if probabilities[j] > 0.0:
            choice = j
            total += probabilities[j]
            if uniform < total:
                break
    return choice


# (S, C, G) entries above which a distribution of sums is refused: 1.6 GB for the two arrays.
LARGEST_SUMS = 100_000_000


class Realizations(NamedTuple):
    """Sampled counterfactual episodes.

    states, actions  (n, T)
    outcomes         (n,) sums of rewards
    changes          (n,) how many actions differ from the observed ones
    """

    states: IntArray
    actions: IntArray
    outcomes: FloatArray
    changes: IntArray


class Moments(NamedTuple):
    """Mean and variance of the outcome, and (T, A) probabilities of each change."""

    mean: float
    variance: float
    change_probabilities: FloatArray


class Path(NamedTuple):
    """The likeliest counterfactual episode."""

    states: IntArray
    actions: IntArray
    probability: float


@dataclass(frozen=True, eq=False)
class PolicyProcess:
    """The counterfactual process under a policy, starting with the whole budget."""

    setting: Setting
    law: Law
    table: PolicyTable

    def moments(self) -> Moments:
        setting, T = self.setting, len(self.setting.episode)
        mass = self._start()
        nodes = (mass, np.zeros_like(mass), np.zeros_like(mass))
        changes = np.zeros((T, setting.mdp.n_actions))
        for t in range(T):
            changes[t] = self._changes_at(t, nodes[0])
            rewards = setting.rewards_at(t)
            rewards = np.where(rewards > -np.inf, rewards, 0.0)
            # After the last step all mass meets in one node, which merges what it earned.
            costs, law = self._step(t, nodes[0] > 0.0)
            nodes = push_moments(nodes, self._policy(t), costs, rewards, law)
        total = nodes[0][0].sum()
        mean = float(nodes[1][0] @ nodes[0][0] / total)
        spread = float(nodes[2][0].sum() + nodes[0][0] @ (nodes[1][0] - mean) ** 2)
        return Moments(mean, float(spread / total), changes)

    def barred(self) -> tuple[int, int, int] | None:
        """The first (t, state, action) of reward -inf that the policy may come to; of those of one
        step the likeliest."""
        mass = self._start()
        nothing, pairs = np.zeros_like(mass), np.arange(len(mass))[:, None, None]
        for t in range(len(self.setting.episode)):
            (actions, weights), rewards = self._policy(t), self.setting.rewards_at(t)
            shares = mass[:, :, None] * weights * (rewards[pairs, actions] == -np.inf)
            if shares.any():
                node = np.unravel_index(int(np.argmax(shares)), shares.shape)
                return t, int(node[0]), int(actions[node])
            costs, law = self._step(t, mass > 0.0)
            nodes = (mass, nothing, nothing)
            mass = push_moments(nodes, (actions, weights), costs, np.zeros_like(rewards), law)[0]
        return None

    def sums(self, increments: list[NDArray[np.int64]]) -> tuple[int, FloatArray, float]:
        """Distribution of sum_t increments[t][s_t, a_t] as (smallest sum, probabilities, lost):
        increments are whole numbers (S, A), or LOST for what ends in minus infinity."""
        windows = _reachable(increments)
        probabilities, lost = self._push_sums(increments, windows)
        return windows[-1][0], probabilities, lost

    def positive(self, increments: list[NDArray[np.int64]]) -> float:
        """The probability that the sum is positive; sums whose sign can no longer change are kept
        together, so that memory grows only with what is still open."""
        ahead = _reachable(increments[::-1])[::-1]
        windows = []
        for (low, high), (falls, rises) in zip(_reachable(increments), ahead, strict=True):
            lowest, highest = -rises, 1 - falls
            windows.append((min(max(low, lowest), highest), max(min(high, highest), lowest)))
        probabilities, _ = self._push_sums(increments, windows)
        return float(min(1.0, probabilities[max(0, 1 - windows[-1][0]) :].sum()))

    def _push_sums(
        self, increments: list[NDArray[np.int64]], windows: list[tuple[int, int]]
    ) -> tuple[FloatArray, float]:
        """Distribution of the sum over its last window, and the mass lost to minus infinity."""
        T, lost = len(self.setting.episode), 0.0
        mass = self._start()[:, :, None]
        for t in range(T):
            (before, _), (low, high) = windows[t], windows[t + 1]
            _check_size(mass.shape[0] * mass.shape[1] * (high - low + 1))
            costs, law = self._step(t, np.any(mass > 0.0, axis=2))
            window = (before, low, high)
            mass, gone = push_sums(mass, self._policy(t), costs, increments[t], law, window)
            lost += gone
        return mass.sum(axis=(0, 1)), lost

    def change_probabilities(self) -> FloatArray:
        """(T, A) of each change."""
        if self._followed is None:
            return self.moments().change_probabilities
        taken, observed = self._followed[0], self.setting.episode.actions
        taken[np.arange(len(observed)), observed] = 0.0
        return taken

    def unseen(self, seen: NDArray[np.bool_]) -> float:
        """The probability of a pair that is not one of those seen (S, A)."""
        if seen.all():
            return 0.0
        if self._followed is not None:
            return float(self._follow(seen)[3])
        return self.sums([np.where(seen, 0, LOST)] * len(self.setting.episode))[2]

    @cached_property
    def _followed(self) -> tuple[FloatArray, IntArray, float, float] | None:
        """What `follow` says, None where rows are not Gumbel-Max's or the policy is not certain."""
        if (
            self.law.source is not None
            or self.law.compiled is None
            or self.table.weights is not None
        ):
            return None
        return self._follow(np.zeros((0, 0), dtype=np.bool_))

    def _follow(self, seen: NDArray[np.bool_]) -> tuple[FloatArray, IntArray, float, float]:
        mdp, setting = self.law.mdp, self.setting
        model, policy = (*mdp.rows.arrays, mdp.row_of), (plain(self.table.actions), setting.k + 1)
        path, costs = setting.game[4], setting.constraints.costs
        kept = KeptRows.of(mdp).along(mdp, setting.episode)
        found: tuple[FloatArray, IntArray, float, float] = follow(
            path, model, policy, costs, seen, kept
        )
        return found

    def most_likely(self) -> Path:
        """The single likeliest path (Viterbi)."""
        if self._followed is not None:
            (states, actions), log = self._followed[1:3]
            return Path(states, actions, math.exp(log))
        T, columns = len(self.setting.episode), self.setting.k + 1
        with np.errstate(divide="ignore"):
            score = np.log(self._start())
        back: list[tuple[IntArray, NDArray[np.int32]]] = []
        for t in range(T):
            costs, law = self._step(t, score > -np.inf)
            score, source, taken = push_most_likely(score, self._policy(t), costs, law)
            back.append((source, taken))
        node = int(np.argmax(score))
        probability = math.exp(score.flat[node])
        states, actions = np.empty(T, dtype=np.int64), np.empty(T, dtype=np.int64)
        for t in range(T - 1, -1, -1):
            source, taken = back[t]
            actions[t] = taken.flat[node]
            node = int(source.flat[node])
            states[t] = node // columns
        return Path(states, actions, probability)

    def sample(self, n: int, rng: np.random.Generator) -> Realizations:
        """Algorithm 1, all realizations side by side."""
        setting, T = self.setting, len(self.setting.episode)
        states, actions = np.empty((n, T), dtype=np.int64), np.empty((n, T), dtype=np.int64)
        outcomes = np.zeros(n)
        state = np.full(n, setting.episode.states[0])
        left = np.full(n, setting.k, dtype=np.int64)
        for t in range(T):
            action = draw_actions(state, left, self._policy(t), rng.random(n))
            states[:, t], actions[:, t] = state, action
            outcomes += setting.rewards_at(t)[state, action]
            if t < T - 1:
                law = self._law_of_rows(t, np.unique(self.law.row_of[state, action]))
                state = draw_states(state, action, law, rng.random(n))
                left = left - setting.costs_at(t)[action]
        changes = (actions != setting.episode.actions).sum(axis=1)
        return Realizations(states, actions, outcomes, changes)

    def _start(self) -> FloatArray:
        mass = np.zeros((self.setting.mdp.n_states, self.setting.k + 1))
        mass[self.setting.episode.states[0], self.setting.k] = 1.0
        return mass

    def _policy(self, t: int) -> tuple[NDArray[np.integer[Any]], FloatArray]:
        return self.table.at(t, self.setting.k)

    def _changes_at(self, t: int, mass: FloatArray) -> FloatArray:
        """(A,) probability that step t is changed to each action."""
        actions, weights = self._policy(t)
        shares, count = mass[:, :, None] * weights, self.setting.mdp.n_actions
        probabilities = np.bincount(actions.ravel(), shares.ravel(), count).astype(np.float64)
        probabilities[self.setting.episode.actions[t]] = 0.0
        return probabilities

    def _step(self, t: int, occupied: NDArray[np.bool_]) -> tuple[IntArray, tuple[Any, ...]]:
        """(A,) costs of step t, and the rows of the pairs that the policy takes in occupied nodes;
        after the last step everything comes to rest in state 0, at no cost."""
        if t == len(self.setting.episode) - 1:
            zero, row_of = np.zeros(1, dtype=np.int64), np.zeros_like(self.law.row_of)
            sink = (row_of, zero, np.array([0, 1]), zero.astype(np.int32), np.ones(1))
            return np.zeros(row_of.shape[1], dtype=np.int64), sink
        state, left = np.nonzero(occupied)
        actions, weights = self._policy(t)
        used = self.law.row_of[state[:, None], actions[state, left]][weights[state, left] > 0.0]
        ids = np.unique(used)
        return self.setting.costs_at(t), self._law_of_rows(t, ids)

    def _law_of_rows(self, t: int, ids: NDArray[np.int32]) -> tuple[Any, ...]:
        position = np.full(int(self.law.row_of.max()) + 1, -1, dtype=np.int64)
        position[ids] = np.arange(len(ids))
        return self.law.row_of, position, *self.law.rows_at(t, ids).arrays


def _reachable(increments: list[NDArray[np.int64]]) -> list[tuple[int, int]]:
    """The smallest and largest sum before each step, and at the end."""
    windows = [(0, 0)]
    for step in increments:
        kept = step[step != LOST]
        low, high = (int(kept.min()), int(kept.max())) if kept.size else (0, 0)
        windows.append((windows[-1][0] + low, windows[-1][1] + high))
    return windows


def _check_size(entries: int) -> None:
    if entries > LARGEST_SUMS:
        raise NotApplicableError(
            f"the exact distribution would need {entries:,} numbers (limit {LARGEST_SUMS:,}): "
            "use sample(n) instead"
        )
