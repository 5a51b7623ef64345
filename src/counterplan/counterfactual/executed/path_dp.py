"""Which k decisions should have been others, among those that a model offers: a dynamic program.

For models that are no resource program: options to exercise, fuel in whole units, fixed costs.
Along the realised path, with e_t executed at step t and c changes left,

    V_t(d, c) = max( r_t(d, e_t) + V_{t+1}(d', c),
                     max_{a offered} r_t(d, a) + V_{t+1}(d', c - 1) )                      V_T = 0

over every resource d that k changes can reach; what hindsight did at a step counts as offered, so
that enough changes reach it. One pass yields every budget 0..k. Ties keep what
was executed.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from counterplan.core.limits import Watch
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.executed.setting import AllocationSetting
from counterplan.errors import NotApplicableError

# More (step, resource) pairs are not listed: about ten seconds of work.
MOST_STATES = 100_000
# Numbers that agree to this many decimals are one level.
DECIMALS = 9
# Worths that differ by this share are the same but for rounding: no reason for a change.
NEGLIGIBLE = 1e-12

Key: TypeAlias = bytes


class Choices(NamedTuple):
    """What may be done with a resource: actions (m, A), the executed one first where it is
    possible, rewards (m,) to be maximised, what each costs (m,), and the resources that follow."""

    actions: FloatArray
    rewards: FloatArray
    costs: FloatArray
    after: list[Key]


class PathProgram:
    """Everything that k changes can reach, and the best of it for every budget."""

    def __init__(
        self, setting: AllocationSetting, hindsight: FloatArray | None, watch: Watch
    ) -> None:
        """Raises TimeoutError if the watch says stop."""
        self._setting, self._hindsight = setting, hindsight
        self.states = 0
        self._layers: list[dict[Key, Choices]] = []
        self._list(watch)
        self._solve()

    def _list(self, watch: Watch) -> None:
        """Forward: the resources that can be reached, with the fewest changes each takes."""
        setting = self._setting
        first = np.array(setting.state.resource, dtype=np.float64)
        reached = {_key(first): (first, 0)}
        for s in range(len(setting.path)):
            layer: dict[Key, Choices] = {}
            following: dict[Key, tuple[FloatArray, int]] = {}
            for key, (resource, used) in reached.items():
                choices, after = self._choices(s, resource, setting.k - used)
                layer[key] = choices
                for name, level, cost in zip(choices.after, after, choices.costs, strict=True):
                    spent = used + int(cost)
                    if name not in following or spent < following[name][1]:
                        following[name] = level, spent
            self.states += len(layer)
            if self.states > MOST_STATES:
                raise NotApplicableError(
                    f"more than {MOST_STATES:,} states can be reached, too many to list: lower k, "
                    "or ask for k=None, plain hindsight"
                )
            if watch.must_stop(self.states, setting.done.value):
                raise TimeoutError
            self._layers.append(layer)
            reached = following

    def _choices(self, s: int, resource: FloatArray, left: int) -> tuple[Choices, FloatArray]:
        setting, executed = self._setting, self._setting.done.actions[s]
        is_kept = setting.is_possible(s, resource, executed)
        actions = executed[None][: int(is_kept)]
        if left > 0 and setting.movable[s]:
            known = None if self._hindsight is None else self._hindsight[s]
            actions = np.concatenate([actions, setting.alternatives(s, resource, known)])
        m = len(actions)
        costs = np.ones(m)
        costs[: int(is_kept)] = 0.0
        rewards, after = np.empty(0), np.empty((0, len(resource)))
        if m:
            x, d = (np.repeat(one[None], m, axis=0) for one in (setting.path[s], resource))
            rewards, after = setting.model.step(setting.state.t + s, x, d, actions)
        keys = [_key(level) for level in after]
        return Choices(actions, setting.sign * np.asarray(rewards), costs, keys), after

    def _solve(self) -> None:
        """Backward: (k + 1,) values of every resource by what is left, and which choice."""
        columns = self._setting.k + 1
        self._best: list[dict[Key, IntArray]] = []
        later: dict[Key, FloatArray] | None = None
        for layer in reversed(self._layers):
            now, best = {}, {}
            for key, choices in layer.items():
                worths = np.full((len(choices.rewards) + 1, columns), -np.inf)
                for i, (reward, cost) in enumerate(
                    zip(choices.rewards, choices.costs.astype(np.int64), strict=True)
                ):
                    ahead = np.zeros(columns) if later is None else later[choices.after[i]]
                    worths[i, cost:] = reward + ahead[: columns - cost]
                chosen = worths.argmax(axis=0)
                slack = np.nan_to_num(NEGLIGIBLE * (1.0 + np.abs(worths[0])))
                chosen[worths.max(axis=0) <= worths[0] + slack] = 0
                now[key], best[key] = worths[chosen, np.arange(columns)], chosen
            self._best.append(best)
            later = now
        assert later is not None
        self._best.reverse()
        self.values: FloatArray = later[self._start]

    @property
    def _start(self) -> Key:
        return _key(np.asarray(self._setting.state.resource, dtype=np.float64))

    def actions(self, k: int) -> FloatArray:
        """(T, A) the best decisions with at most k changes."""
        key, taken, left = self._start, [], k
        for layer, best in zip(self._layers, self._best, strict=True):
            choices, i = layer[key], int(best[key][left])
            taken.append(choices.actions[i])
            key, left = choices.after[i], left - int(choices.costs[i])
        return np.array(taken)


def _key(levels: FloatArray) -> Key:
    return (np.round(levels, DECIMALS) + 0.0).tobytes()
