"""A certified second-order bound on what a last change can bring.

A node at step t that can afford one more change has a finite number of ends: what was done, or that
with one action replaced at a step u >= t. Up to u its states s_u are known; from there on
the end follows a course that starts at the observed state of step u with the same change. That
course is known too, and `scm.curvature` expands what it earns around its own states:

    W(x) <= W(0) + g . x + (x^T H x + |x|^T E |x|) / 2,         x = s_u - observed,   |x| <= box_u

W(0) is exact, and x is only what the changes before u have moved. box_u holds what all single
changes lead to, times the number of changes before; for states outside nothing is known.

Of several models the weighted expansions add up (`setting`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit, plain
from counterplan.core.limits import clock
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.setting import SequenceSetting
from counterplan.scm.curvature import Layers, along

# Of the size of an outcome: more than the rounding of the sums behind it, less than what counts as
# better (`negligible`).
OUTWARD = 1e-13
# Boxes of so many sizes, each half of the one before.
HALVED = 3


class Courses(NamedTuple):
    """What a change at one step leads to, for B models with M features that move, weighted.

    value    (p,) earned from the observed state on
    slope    (p, B, M) g
    bend     (p, B, M, M) H
    slack    (p, B, M, M) E
    steep    (p, B) with |x^T H x| + |x|^T E |x| <= steep ||x||^2
    """

    value: FloatArray
    slope: FloatArray
    bend: FloatArray
    slack: FloatArray
    steep: FloatArray


@njit(cache=True, nogil=True, error_model="numpy")
def heights(courses: Any, away: Any, wanted: Any) -> Any:
    """(n, p) upper bounds from states that are `away` (n, B, M) from the observed one; -inf where
    they are seen to be no more than what is wanted, (n,)."""
    value, slope, bend, slack, steep = courses
    n, many, M = away.shape
    result, square = np.full((n, len(value)), -np.inf), np.zeros(many)
    for r in range(n):
        for b in range(many):
            square[b] = 0.0
            for i in range(M):
                square[b] += away[r, b, i] ** 2
        for p in range(len(value)):
            height, curve = value[p], 0.0
            for b in range(many):
                curve += steep[p, b] * square[b]
                for i in range(M):
                    height += slope[p, b, i] * away[r, b, i]
            if height + curve / 2 <= wanted[r]:
                continue
            curve = 0.0
            for b in range(many):
                for i in range(M):
                    for j in range(M):
                        product = away[r, b, i] * away[r, b, j]
                        curve += bend[p, b, i, j] * product + slack[p, b, i, j] * abs(product)
            height += curve / 2
            result[r, p] = height if height == height else np.inf
    return result


class LastChange:
    """The bound for one problem.

    setting  of the models that count
    """

    name = "second-order bound of the last change"

    def __init__(self, setting: SequenceSetting, deadline: float = math.inf) -> None:
        self.setting = setting = replace(setting, others=())
        self._before = max(setting.k // int(setting.costs.min()) - 1, 0)
        shape = setting.horizon, len(setting.members), setting.states.shape[2] - setting.fixed
        # (T, B, M) the most that single changes lead away, and for each step: (p, T-t, B, D) where
        # changes there lead, and (p,) what they earn
        self._boxes = np.zeros(shape)
        self._paths: list[FloatArray] = []
        self._exact: list[FloatArray] = []
        self._layers = [layers_of(one) for one in setting.members]
        self._kept: dict[tuple[int, int], dict[int, tuple[Any, ...]]] = {}
        for t in range(setting.horizon - 1):
            if clock() > deadline:
                break
            actions = self._actions(t)
            here = np.broadcast_to(setting.states[t], (len(actions), *setting.states[t].shape))
            path = setting.path(t, here, actions)
            moved = np.abs(path - setting.states[t:])[..., setting.fixed :]
            self._boxes[t:] = np.maximum(self._boxes[t:], moved.max(axis=0, initial=0.0))
            self._paths.append(path)
            self._exact.append(setting.earned(path, actions, t))

    @property
    def finished(self) -> bool:
        """Whether there was time for all of it."""
        return len(self._exact) == self.setting.horizon - 1

    def restricted(self, setting: SequenceSetting) -> LastChange:
        """The bound for a smaller budget."""
        smaller = copy(self)
        smaller.setting = replace(setting, others=())
        return smaller

    def upper(self, t: int, states: FloatArray, wanted: FloatArray, may: BoolArray) -> FloatArray:
        """(n, N) the most that changes which may be made at step t, (n, N), earn from states
        (n, B, D) on if nothing changes after them; -inf where a change may not be made, or earns no
        more than what is wanted, (n,)."""
        setting, result = self.setting, np.full(may.shape, -math.inf)
        changed = self._actions(t)[:, 0]
        asked = np.flatnonzero(may[:, changed].any(axis=0))
        if not asked.size:
            return result
        away = setting.away(t, states)
        if not away.any():
            found = np.repeat(self._exact[t][None, asked], len(states), axis=0)
        else:
            found = self._heights(t, asked, away, wanted)
        rounding = OUTWARD * (setting.terms + np.abs(found))
        found = np.where(found == -math.inf, found, found + rounding)
        result[:, changed[asked]] = found
        return np.where(may, result, -math.inf)

    def _actions(self, t: int) -> IntArray:
        """(p, T-1-t) the actions of the courses with a change at step t."""
        setting = self.setting
        changed = np.flatnonzero(setting.allowed[t])
        changed = changed[changed != setting.observed[t]]
        actions = np.repeat(setting.observed[None, t:], len(changed), axis=0)
        actions[:, 0] = changed
        return actions

    def _heights(self, t: int, asked: IntArray, away: FloatArray, wanted: FloatArray) -> FloatArray:
        """(n, p) the same of some of the changes, from states that are `away` (n, B, M) from the
        observed one; by the smaller boxes where larger ones that hold them leave too much."""
        box, found = self._boxes[t] * self._before, np.full((len(away), len(asked)), math.inf)
        for halved in range(HALVED):
            rows = (np.abs(away) <= box * 0.5**halved).all(axis=(1, 2))
            rows &= (found > wanted[:, None]).any(axis=1)
            columns = np.flatnonzero((found[rows] > wanted[rows, None]).any(axis=0))
            if not columns.size:
                break
            courses = self._courses(t, asked[columns], halved)
            part = np.ix_(rows, columns)
            lower = heights(courses, plain(away[rows]), wanted[rows])
            found[part] = np.minimum(found[part], lower)
        return found

    def _courses(self, t: int, asked: IntArray, halved: int) -> Courses:
        """Those of some of the changes at step t, (p,), over a box that is so often halved; each is
        expanded when it is first asked for."""
        kept = self._kept.setdefault((t, halved), {})
        if new := [place for place in asked.tolist() if place not in kept]:
            every = range(len(self.setting.members))
            expanded = [self._expanded(b, t, new, halved) for b in every]
            slope, bend, slack = (np.stack(part, axis=1) for part in zip(*expanded, strict=True))
            with np.errstate(over="ignore", invalid="ignore"):  # infinite is a bound too
                steep = np.linalg.norm(bend, axis=(2, 3)) + np.linalg.norm(slack, axis=(2, 3))
            steep *= 1 + 1e-9
            parts = zip(self._exact[t][new], slope, bend, slack, steep, strict=True)
            kept |= dict(zip(new, parts, strict=True))
        chosen = zip(*(kept[place] for place in asked.tolist()), strict=True)
        return Courses(*map(np.array, chosen))

    def _expanded(self, b: int, t: int, places: list[int], halved: int) -> tuple[FloatArray, ...]:
        """One member's g, H and E of some of the courses at step t, weighted."""
        setting, one = self.setting, self.setting.members[b]
        layers = self._layers[b]
        assert layers is not None  # or there is no such bound
        actions, box = self._actions(t)[places], self._boxes[t, b] * self._before * 0.5**halved
        vectors = one.vectors[np.arange(t, setting.horizon - 1), actions]
        gradients = (
            np.ascontiguousarray(reward.gradient(one.states.shape[1])[layers.fixed :])
            for reward in (one.reward, one.last)
        )
        path = plain(self._paths[t][places, :, b])
        found = along(layers, path, vectors, one.noise[t:], box, *gradients)
        return tuple(setting.weights[b] * part for part in found)


def layers_of(member: Member) -> Layers | None:
    """What the bound needs: networks with one hidden layer, and linear rewards."""
    if max(member.reward.remainder, member.last.remainder) > 0.0:
        return None
    found: Layers | None = getattr(member.scm, "dose_layers", None)
    return found
