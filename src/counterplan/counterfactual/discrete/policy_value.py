"""What a whole policy would have meant for each of the patients that were seen.

For episode n the counterfactual mean outcome v_n under the policy pi is a forward pass with the
Gumbel-Max rows of its steps (`distributions.forward_values`). v_n - g_n, with g_n what was
observed, says who would have been better off. Two estimates stand beside their mean: importance
sampling,

    sum_n w_n g_n / sum_n w_n,      w_n = prod_t pi(a_t | s_t) / b(a_t | s_t)

and the model's own value, played from the same first states over the same number of steps. All of
them are wrong together where a hidden cause moved both actions and outcomes. So the value is also
bounded over rows that are up to Gamma times as likely or unlikely as the model says, the worst for
every step, and the *tipping Gamma* is the least at which the policy need not be better than what
was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.discrete.distributions import forward_values
from counterplan.counterfactual.discrete.dynamic_program import PolicyTable, Setting, evaluate
from counterplan.counterfactual.discrete.laws import Law, extremes_alone
from counterplan.errors import InputError
from counterplan.scm.gumbel import GumbelMaxSCM, table_of
from counterplan.scm.row_sets import RowSets
from counterplan.scm.tabular import SUM_TOLERANCE, TabularMDP, numbers

# Of intervals: 90 % of a normal distribution.
SPREAD = 1.645
# Gains below this are rounding.
SAME = 1e-9
# No hidden cause is sought beyond this factor, and the tipping one is found as closely as that.
LARGEST_GAMMA, CLOSE = 100.0, 1e-3


class Estimate(NamedTuple):
    """A mean with its 90 % interval, as if the model were right, and how many episodes it rests
    on."""

    value: float
    interval: Interval
    effective: float


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """A policy on observed episodes.

    observed        (N,) what happened
    counterfactual  (N,) what is expected to have happened under the policy, patient by patient
    importance      the mean by importance sampling
    model           the mean that the model itself expects, from the same first states
    rows            the sets that ranges are over, None for the model's own rows
    """

    mdp: TabularMDP = field(repr=False)
    episodes: Sequence[Episode] = field(repr=False)
    policy: tuple[IntArray, FloatArray] = field(repr=False)
    observed: FloatArray = field(repr=False)
    counterfactual: FloatArray = field(repr=False)
    importance: Estimate
    model: float
    rows: RowSets | None = field(default=None, repr=False)

    @property
    def gains(self) -> FloatArray:
        """(N,) by how much each patient would have been better off."""
        return self.counterfactual - self.observed

    @property
    def better(self) -> float:
        """The share of patients who would have been better off."""
        return float(np.mean(self.gains > SAME))

    @property
    def worse(self) -> float:
        """The share who would have been worse off."""
        return float(np.mean(self.gains < -SAME))

    @property
    def value(self) -> Estimate:
        """The mean counterfactual outcome."""
        return _mean(self.counterfactual, np.ones(len(self.counterfactual)))

    @cached_property
    def intervals(self) -> FloatArray:
        """(N, 2) the lowest and highest mean outcome of each patient over all causal models, and
        over the rows of the sets where there are any."""
        return np.array([self._interval(one) for one in self.episodes])

    def population(self, gamma: float) -> Interval:
        """The lowest and highest mean that the model, or its row sets, allow from the same first
        states where hidden causes make any outcome up to `gamma` times as likely, or unlikely."""
        sets = RowSets.gamma(self.mdp, gamma) if self.rows is None else self.rows.widened(gamma)
        ends = [_played(self.mdp, self.episodes, self.policy, sets, sign) for sign in (1.0, -1.0)]
        return Interval(min(ends), max(ends))

    @cached_property
    def tipping_gamma(self) -> float:
        """The least Gamma at which the policy need not be better than what was done: 1 where no
        hidden cause is needed for that, inf where not even a factor of 100 undoes it."""
        observed = float(self.observed.mean())
        if self.population(1.0).low <= observed + SAME:
            return 1.0
        low, high = 1.0, 2.0
        while self.population(high).low > observed + SAME:
            low, high = high, 2.0 * high
            if low > LARGEST_GAMMA:
                return float("inf")
        while high - low > CLOSE:
            middle = (low + high) / 2
            if self.population(middle).low > observed + SAME:
                low = middle
            else:
                high = middle
        return high

    def table(self) -> list[dict[str, Any]]:
        """One row for each patient, those first who would have gained most."""
        order = np.argsort(-self.gains, kind="stable")
        return [
            {
                "episode": self.episodes[n].name,
                "observed": float(self.observed[n]),
                "counterfactual": float(self.counterfactual[n]),
                "gain": float(self.gains[n]),
            }
            for n in order
        ]

    def _interval(self, episode: Episode) -> Interval:
        T, (S, A) = len(episode), self.mdp.row_of.shape
        free = Constraints().resolve(T, S, A)
        free = replace(free, costs=np.zeros_like(free.costs))
        actions, weights = self.policy
        shape = (T, S, 1, actions.shape[1])
        table = PolicyTable(
            np.broadcast_to(actions[:, None], shape), np.broadcast_to(weights[:, None], shape)
        )
        setting = Setting(self.mdp, episode, free, 0)
        laws = (Law(self.mdp, episode, 1.0, "none", up, self.rows) for up in (False, True))
        low, high = (float(evaluate(setting, law, table)[0]) for law in laws)
        return Interval(min(low, high), max(low, high))


def policy_value(
    mdp: TabularMDP | GumbelMaxSCM,
    episodes: Iterable[Episode],
    policy: ArrayLike,
    *,
    behaviour: ArrayLike | None = None,
    rows: RowSets | None = None,
) -> PolicyValue:
    """What a policy would have meant on observed episodes, exact under the Gumbel-Max model.

    policy     an action for each state (S,), or their probabilities (S, A)
    behaviour  (S, A) probabilities of what was done; None: their shares in the episodes
    rows       `intervals`, `population` and `tipping_gamma` are over these sets too
    """
    model = table_of(mdp)
    every = listed_episodes(episodes)
    if not every:
        raise InputError("policy_value: no episodes given")
    for one in every:
        model.check_episode(one)
    if rows is not None:
        rows.check(model)
    shares = policy_shares(policy, "policy", model)
    chosen = chosen_actions(shares)
    observed = np.array([model.outcome(one) for one in every])
    starts = np.concatenate([[0], np.cumsum([len(one) for one in every])]).astype(np.int64)
    paths = (
        starts,
        np.concatenate([one.states for one in every]),
        np.concatenate([one.actions for one in every]),
    )
    rewards = np.stack([model.rewards, model.rewards_at(0, 1)])
    steady, table = tuple(one[None, :, None] for one in chosen), (*model.rows.arrays, model.row_of)
    free, met = np.zeros(model.n_actions, dtype=np.int64), np.zeros(model.row_of.shape)
    values = forward_values(paths, table, steady, free, rewards, met, 0.0)
    done = (
        _done(every, model) if behaviour is None else policy_shares(behaviour, "behaviour", model)
    )
    with np.errstate(divide="ignore"):
        steps = np.log(shares[paths[1], paths[2]]) - np.log(done[paths[1], paths[2]])
    likelihood = np.add.reduceat(steps, starts[:-1])
    top = likelihood.max()
    weights = np.exp(likelihood - top) if np.isfinite(top) else np.zeros(len(every))
    played = _played(model, every, chosen, None, 1.0)
    return PolicyValue(
        model, every, chosen, observed, values, _mean(observed, weights), played, rows
    )


def _mean(values: FloatArray, weights: FloatArray) -> Estimate:
    total = weights.sum()
    if total == 0.0:
        return Estimate(np.nan, Interval(-np.inf, np.inf), 0.0)
    shares = weights / total
    mean = float(shares @ values)
    error = SPREAD * float(np.sqrt(np.sum((shares * (values - mean)) ** 2)))
    return Estimate(mean, Interval(mean - error, mean + error), float(1.0 / np.sum(shares**2)))


def policy_shares(given: ArrayLike, name: str, mdp: TabularMDP) -> FloatArray:
    """(S, A) probabilities, or an error that says which state has none."""
    S, A = mdp.row_of.shape
    array = np.asarray(given)
    if array.shape == (S,) and array.dtype.kind in "iuUO":
        result = np.zeros((S, A))
        result[np.arange(S), [mdp.action_number(one) for one in array.tolist()]] = 1.0
        return result
    result = numbers(given, name)
    if result.shape != (S, A):
        raise InputError(f"{name} has shape {result.shape}: expected actions ({S},), or ({S}, {A})")
    wrong = np.flatnonzero(
        ~((result >= 0.0).all(axis=1) & np.isclose(result.sum(axis=1), 1.0, atol=SUM_TOLERANCE))
    )
    if wrong.size:
        state = int(wrong[0])
        raise InputError(
            f"{name} of state {mdp.state_name(state)} is no distribution: its entries sum to "
            f"{result[state].sum():.9g}, the smallest is {result[state].min():g}"
        )
    return result


def chosen_actions(shares: FloatArray) -> tuple[IntArray, FloatArray]:
    """Actions (S, M) that are taken at all, and their probabilities."""
    order = np.argsort(-shares, axis=1, kind="stable")[:, : int((shares > 0.0).sum(axis=1).max())]
    return order.astype(np.int64), np.take_along_axis(shares, order, axis=1)


def _done(episodes: Sequence[Episode], mdp: TabularMDP) -> FloatArray:
    counts = np.zeros(mdp.row_of.shape)
    for one in episodes:
        np.add.at(counts, (one.states, one.actions), 1.0)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))


def _played(
    mdp: TabularMDP,
    episodes: Sequence[Episode],
    policy: tuple[IntArray, FloatArray],
    sets: RowSets | None,
    sign: float,
) -> float:
    """The mean outcome of a policy from the episodes' first states over as many steps; the lowest
    (sign 1) or highest (-1) over the rows of sets, every step for itself."""
    own: Any = RowSets.gamma(mdp, 1.0) if sets is None else sets
    actions, weights = policy
    ids, places = np.unique(
        own.row_of[np.arange(len(actions))[:, None], actions], return_inverse=True
    )
    ids, places = ids.astype(np.int32), places.reshape(actions.shape)
    # To know for certain what was observed says nothing about other rows: the filling of
    # `Law` with p_o = 1 is that of the sets alone.
    certain, lengths = np.ones((2, mdp.n_states)), [len(one) for one in episodes]
    unranked = np.empty((0, 0), dtype=np.int64)
    values, total = np.zeros((mdp.n_states, 1)), 0.0
    first: NDArray[np.int64] = np.array([one.states[0] for one in episodes])
    for left in range(1, max(lengths) + 1):
        ahead = np.zeros((len(ids), 1))
        if left > 1:
            how = sign, 0, unranked, (len(ids), 1, 0)
            ahead = extremes_alone(certain, 0, own.arrays, ids, values, how)
        rewards = mdp.rewards_at(max(lengths) - left, max(lengths))
        worths = np.take_along_axis(rewards, actions, axis=1) + ahead[places, 0]
        values = np.where(weights > 0.0, weights * worths, 0.0).sum(axis=1)[:, None]
        total += float(values[first[np.array(lengths) == left], 0].sum())
    return total / len(episodes)
