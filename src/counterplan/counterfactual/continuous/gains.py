"""A certified bound on what changes can gain, one by one.

Let W_t(s) be what is earned from state s of step t on if all that was done is done again. Changes
to a_1, a_2, .. at steps t_1 < t_2 < .. from t on earn exactly

    W_t(s) + sum_j D_j,     D_j = W_{t_j + 1}(F(s_j, a_j)) - W_{t_j + 1}(F(s_j, o))

where s_j is the state in which the j-th is made, and o what was done there. So what is not known
exactly counts once for each change. Cones (`first_order`) pay for all actions at every step: over
few steps they are the better ones, over many they rise without end.

Let x = s - s_t be within the region of a level l of the budget spent (`reach`), and

    |z . e_a| <= v_a(z) . |x|  for a direction z,       |F_t(s, a) - F_t(s_t, a)| <= N_a |x|

Then W is linear but for eta, from the last step back, and so are gains:

    |W_t(s) - W_t(s_t) - g_t . x| <= eta_{t,l} . |x|
    g_t = c + J_o^T g_{t+1},       eta_{t,l} = r_R + v_o(g_{t+1}) + N_o^T eta_{t+1,l}

    D <= g . d_a + eta_{l_a} . |d_a| + p . x + q . |x|          (g and eta of step t + 1)
    p = (J_a - J_o)^T g,     q = v_a(g) + v_o(g) + N_a^T eta_{l_a} + N_o^T eta_l

The most that is left to gain is the best choice of changes, each at the best place of the region
of its level. Of several models gains add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.reach import Local, Reach, norms_of
from counterplan.counterfactual.continuous.setting import (
    OUTWARD,
    Levels,
    SequenceSetting,
    rounded_up,
)


class Gains:
    """The bound of one problem, for every step t and level l; made one step after the other,
    backward in time.

    known     (T,) W_t(s_t), enlarged by
    rounding  more than that of its sum
    slope     (T, B, M) g, of B models with M features that move, weighted
    loose     (T, L, B, M) eta
    ahead     (T, L) the most that is left to gain
    """

    def __init__(self, setting: SequenceSetting, levels: Levels, reaches: Sequence[Reach]) -> None:
        self._setting, self._levels, self._reaches = setting, levels, reaches
        T, width, fixed = setting.horizon, setting.states.shape[2], setting.fixed
        self.slope = np.zeros((T, len(setting.members), width - fixed))
        self.loose = np.zeros((T, len(levels.first), len(setting.members), width - fixed))
        self.ahead = np.zeros((T, len(levels.first)))
        for b, (one, weight) in enumerate(zip(setting.members, setting.weights, strict=True)):
            self.slope[:-1, b] = weight * one.reward.gradient(width)[fixed:]
            self.slope[-1, b] = weight * one.last.gradient(width)[fixed:]
            self.loose[:-1, :, b] = weight * one.reward.remainder
            self.loose[-1, :, b] = weight * one.last.remainder
        earned = setting.reward(setting.states)
        earned[-1] = setting.last(setting.states[-1:])[0]
        earned[:-1] += setting.bonus[np.arange(T - 1), setting.observed]
        self.rounding = OUTWARD * T * (1.0 + setting.terms)
        self.known = np.cumsum(earned[::-1])[::-1] + self.rounding

    def step(self, t: int) -> None:
        """Step t, after those that follow it."""
        setting, levels, first = self._setting, self._levels, self._reaches[0].locals[t]
        place, within = levels.of(first.level), first.spent <= setting.k
        after = levels.of(np.where(within, first.spent, first.level))
        kept = np.flatnonzero(first.actions == setting.observed[t])
        own = np.searchsorted(place[kept], place)  # which of these is of the same level
        gain = setting.bonus[t, first.actions] - setting.bonus[t, setting.observed[t]]
        for b, reach in enumerate(self._reaches):
            local, g, loose = reach.locals[t], self.slope[t + 1, b], self.loose[t + 1, :, b]
            missed, sizes = _missed(local, g), np.abs(local.jumps)
            through = np.einsum("nij,ni->nj", local.widest, loose[after])
            stays = np.einsum("nij,ni->nj", local.widest[kept], loose[place[kept]]) + missed[kept]
            tilt = np.einsum("nij,i->nj", local.jacobian - local.jacobian[kept][own], g)
            steep = np.abs(tilt) + missed + through + stays[own]
            gain = gain + local.jumps @ g + (loose[after] * sizes).sum(axis=1)
            gain += OUTWARD * (1.0 + sizes @ np.abs(g)) + _most(steep, reach, t, local)
            self.slope[t, b] += local.jacobian[kept[0]].T @ g
            self.loose[t, place[kept], b] = rounded_up(self.loose[t, place[kept], b] + stays)
        gain = rounded_up(gain) + self.ahead[t + 1, after]
        gain[kept] = self.ahead[t + 1, place[kept]]
        gain[np.isnan(gain)] = np.inf
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        best = np.maximum.reduceat(np.where(within, gain, -np.inf), starts)
        self.ahead[t, place[starts]] = best

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) upper bounds on the rewards from step t on, for states (n, B, D) with `used`
        spent."""
        away, level = self._setting.away(t, states), self._levels.of(used)
        sums = np.einsum("nbm,bm->n", away, self.slope[t])
        sums += np.einsum("nbm,nbm->n", np.abs(away), self.loose[t, level])
        return rounded_up(self.known[t] + sums + self.ahead[t, level])


def _missed(local: Local, g: FloatArray) -> FloatArray:
    """(n, M) v_a(g), and what rounding does to J g."""
    assert local.slopes is not None
    fixed = local.slopes.jacobian.shape[1] - len(g)
    directions = np.zeros((len(local.actions), fixed + len(g)))
    directions[:, fixed:] = g
    sizes = np.einsum("nij,i->nj", local.widest, np.abs(g))
    return np.asarray(local.slopes.remainder(directions)[:, fixed:] + OUTWARD * (1.0 + sizes))


def _most(slopes: FloatArray, reach: Reach, t: int, local: Local) -> FloatArray:
    """(n,) the most that slopes (n, M), not negative, come to over the regions."""
    levels = np.unique(local.level)
    here = [reach.regions[t, level] for level in levels.tolist()]
    place, fixed = np.searchsorted(levels, local.level), len(here[0].box) - slopes.shape[1]
    boxes = np.stack([one.box[fixed:] for one in here])[place]
    radii = np.array([one.radius for one in here])[place]
    return np.asarray(np.minimum((slopes * boxes).sum(axis=1), norms_of(slopes) * radii))
