"""Who contributed: the effect of several actors on the outcome of one episode.

v(C) is the expected counterfactual outcome had the steps in C followed a reference policy instead
of what was done; v of no step is what was observed. The total effect of an actor is v(all its
steps) - v(none). Shared out fairly among steps, and so among actors, is v(all) - v(none): the
Shapley share of step t, the mean over sizes j of the mean of v(C + t) - v(C) over all C of j other
steps. There are 2^(T-1) of them, and one pass over steps for all: with K0, R0 the counterfactual
rows and rewards of what was done, K1, R1 those of the policy, and means over all sets of j among
the n steps from t on (before t),

    H_t(., j) = (1 - j/n) (R0 + K0 H_{t+1}(., j)) + (j/n) (R1 + K1 H_{t+1}(., j - 1))
    M_{t+1}(., i) = (1 - i/(t+1)) M_t(., i) K0 + (i/(t+1)) M_t(., i - 1) K1
    share_t = 1/T sum_{i, j} h(i, j) M_t(., i) . [R1 + K1 H_{t+1}(., j) - R0 - K0 H_{t+1}(., j)]

where h(i, j) is the chance that of i + j steps drawn from the others i lie before t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.shown import module_tells
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.discrete.dynamic_program import PolicyTable, Setting
from counterplan.counterfactual.discrete.laws import Law
from counterplan.counterfactual.discrete.policy_value import chosen_actions, policy_shares
from counterplan.errors import InputError
from counterplan.scm.gumbel import GumbelMaxSCM, table_of
from counterplan.scm.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class Contributions:
    """What the steps and actors of an episode contributed.

    actors    (T,) who decided at each step
    observed  what happened
    expected  had all of them followed the policy
    steps     (T,) Shapley shares of expected - observed
    total     what each actor's steps alone would have changed
    """

    episode: Episode = field(repr=False)
    actors: tuple[str, ...]
    observed: float
    expected: float
    steps: FloatArray
    total: dict[str, float]

    @property
    def shares(self) -> dict[str, float]:
        """The Shapley share of each actor: that of its steps. They add up to what all changed."""
        names = np.array(self.actors)
        return {one: float(self.steps[names == one].sum()) for one in self.total}

    def table(self) -> list[dict[str, Any]]:
        """One row for each actor, for a report: steps, total effect, Shapley share."""
        return [
            {
                "actor": one,
                "steps": self.actors.count(one),
                "total": self.total[one],
                "share": share,
            }
            for one, share in self.shares.items()
        ]


def contributions(
    mdp: TabularMDP | GumbelMaxSCM, episode: Episode, actors: Sequence[str], policy: ArrayLike
) -> Contributions:
    """The effect of each actor of an episode, against a policy that they might have followed.

    actors  (T,) who decided at each step
    policy  an action for each state (S,), or their probabilities (S, A)
    """
    model = table_of(mdp)
    model.check_episode(episode)
    names = tuple(str(one) for one in actors)
    if len(names) != len(episode):
        raise InputError(f"{episode.name}: {len(names)} actors for {len(episode)} steps")
    if not np.isfinite(model.outcome(episode)):
        raise InputError(f"{episode.name}: an outcome of -inf cannot be shared out")
    chosen = chosen_actions(policy_shares(policy, "policy", model))
    world = _World(model, episode, chosen)
    everyone = np.ones(len(episode), dtype=np.bool_)
    total = {
        one: world.value(np.array([name == one for name in names])) - world.value(~everyone)
        for one in dict.fromkeys(names)
    }
    return Contributions(
        episode, names, model.outcome(episode), world.value(everyone), world.shares(), total
    )


class _World:
    """The counterfactual steps of an episode: K0, R0 as was done, K1, R1 by the policy, in the
    states that a mixture of both can reach."""

    def __init__(
        self, mdp: TabularMDP, episode: Episode, policy: tuple[IntArray, FloatArray]
    ) -> None:
        T, (S, A) = len(episode), mdp.row_of.shape
        done = np.broadcast_to(episode.actions[:, None, None, None], (T, S, 1, 1))
        other = np.broadcast_to(policy[0][None, :, None], (T, S, 1, policy[0].shape[1]))
        setting = Setting(mdp, episode, Constraints().resolve(T, S, A), 0)
        both = PolicyTable(np.concatenate([done, other], axis=3))
        self.states, self.law = setting.followed(both), Law(mdp, episode)
        ones = np.ones((S, 1))
        self.kept, self.changed = (
            [self._step(t, *rule) for t in range(T)]
            for rule in ((np.zeros((S, 1), dtype=np.int64) - 1, ones), policy)
        )

    def _step(self, t: int, actions: IntArray, weights: FloatArray) -> tuple[Any, FloatArray]:
        """(n, n') the kernel from the states of a step to those of the next, and (n, 1) rewards; an
        action of -1 is the observed one."""
        from scipy.sparse import csr_array

        mdp, episode, here = self.law.mdp, self.law.episode, self.states[t]
        T, taken, shares = len(episode), actions[here], weights[here]
        taken = np.where(taken < 0, episode.actions[t], taken)
        rewards = mdp.rewards_at(t, T)[here[:, None], taken]
        earned = np.where(shares > 0.0, shares * rewards, 0.0).sum(axis=1, keepdims=True)
        if t == T - 1:
            return csr_array((len(here), 0)), earned
        ids, column = np.unique(mdp.row_of[here[:, None], taken], return_inverse=True)
        rows = self.law.rows_at(t, ids.astype(np.int32))
        known = (here == episode.states[t])[:, None] & (taken == episode.actions[t])
        pairs = np.where(known, 0.0, shares).ravel(), column.ravel()
        starts = np.arange(len(here) + 1) * shares.shape[1]
        mix = csr_array((*pairs, starts), shape=(len(here), len(ids)))
        parts = rows.probabilities, rows.indices, rows.indptr
        kernel = mix @ csr_array(parts, shape=(len(ids), mdp.n_states))
        led = np.where(known, shares, 0.0).sum(axis=1)
        after = np.full(len(here), episode.states[t + 1])
        certain = csr_array((led, after, np.arange(len(here) + 1)), shape=kernel.shape)
        return (kernel + certain)[:, self.states[t + 1]], earned

    def value(self, follows: Any) -> float:
        """v of the steps at which the policy is followed (T,)."""
        ahead = np.zeros((0, 1))
        for t in range(len(self.states) - 1, -1, -1):
            kernel, earned = self.changed[t] if follows[t] else self.kept[t]
            ahead = earned + kernel @ ahead
        return float(ahead[0, 0])

    def shares(self) -> FloatArray:
        """(T,) Shapley shares of the steps."""
        from scipy.stats import hypergeom

        T = len(self.states)
        gains, ahead = [], np.zeros((0, 1))
        for t in range(T - 1, -1, -1):
            kept, changed = (r + k @ ahead for k, r in (self.kept[t], self.changed[t]))
            gains.append(changed - kept)
            part = np.arange(T - t + 1) / (T - t)
            kept = np.pad(kept, ((0, 0), (0, 1)))
            ahead = (1.0 - part) * kept + part * np.pad(changed, ((0, 0), (1, 0)))
        result, mass = np.empty(T), np.ones((1, 1))
        for t in range(T):
            i, j = np.ogrid[: t + 1, : T - t]
            chance = hypergeom.pmf(i, max(T - 1, 1), t, i + j)
            result[t] = np.sum(chance * (mass @ gains[T - 1 - t])) / T
            part = np.arange(t + 2)[:, None] / (t + 1)
            kept, changed = mass @ self.kept[t][0], mass @ self.changed[t][0]
            mass = (1.0 - part) * np.pad(kept, ((0, 1), (0, 0)))
            mass = mass + part * np.pad(changed, ((1, 0), (0, 0)))
        return result


module_tells(globals())
