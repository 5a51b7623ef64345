"""A certified second-order bound on what a last change can bring.

A node at step t that can afford one more change has a finite number of ends: what was done, or that
with one action replaced at a step u >= t. Up to u its states s_u are known; from there on the end
follows a course with the change at u. Nodes whose states at u lie close together, in a box around
c, share one that starts at c, which `scm.curvature` expands:

    W(c + x) <= W(c) + g . x + (x^T H x + |x|^T E |x|) / 2,         |x| <= half of the box

W(c) is exact, and the smaller the box the less E takes. A box is cut in two, where E takes most,
as long as so many of its ends are left that to follow them would take longer.

Of several models the weighted expansions add up (`setting`).
"""

from __future__ import annotations

import math
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
# So many ends are followed in the time that it takes to expand their course.
WORTH = 24


class Courses(NamedTuple):
    """What a change at one step leads to, for B models with M features that move, weighted.

    value    (p,) earned from the centre on
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
    """(n, p) upper bounds from states that are `away` (n, B, M) from the centre; -inf where
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

    def __init__(self, setting: SequenceSetting) -> None:
        self.setting = replace(setting, others=())
        self._layers = [layers_of(one) for one in setting.members]

    def upper(
        self,
        t: int,
        states: FloatArray,
        wanted: FloatArray,
        may: BoolArray,
        deadline: float = math.inf,
    ) -> FloatArray:
        """(n, N) the most that changes which may be made at step t, (n, N), earn from states
        (n, B, D) on if nothing changes after them; -inf where a change may not be made, or earns no
        more than what is wanted, (n,), and infinite where it takes longer to bound than to follow,
        or than there is time."""
        setting, groups = self.setting, [np.arange(len(states))]
        found = np.where(may, math.inf, -math.inf)
        states = states[:, : len(setting.members)]
        while groups and clock() <= deadline:
            rows = groups.pop()
            left = found[rows] > wanted[rows, None]
            columns = np.flatnonzero(left.sum(axis=0) > WORTH)
            if not columns.size:
                continue
            rows = rows[left[:, columns].any(axis=1)]
            here = states[rows]
            low, high = here.min(axis=0), here.max(axis=0)
            centre = (low + high) / 2
            away = plain((here - centre)[:, :, setting.fixed :])
            half = np.abs(away).max(axis=0)
            courses = self._courses(t, columns, centre, half)
            upper = heights(courses, away, wanted[rows])
            upper += OUTWARD * (setting.terms + np.abs(np.where(upper > -math.inf, upper, 0.0)))
            part = np.ix_(rows, columns)
            found[part] = np.minimum(found[part], upper)
            # Where the size of x takes most.
            taken = half * np.einsum("pbij,bj->bi", courses.slack, half)
            taken[~(half > 0.0)] = -math.inf
            b, i = np.unravel_index(int(np.nan_to_num(taken, nan=math.inf).argmax()), half.shape)
            if half[b, i] > 0.0:
                above = away[:, b, i] > 0.0
                groups += [rows[above], rows[~above]]
        return found

    def _courses(self, t: int, actions: IntArray, centre: FloatArray, half: FloatArray) -> Courses:
        """Those that start with some of the actions (p,) at step t, in states of a box around its
        centre (B, D), no farther than half (B, M)."""
        setting = self.setting
        courses = np.repeat(setting.observed[None, t:], len(actions), axis=0)
        courses[:, 0] = actions
        starts = np.broadcast_to(centre, (len(actions), *centre.shape))
        path = setting.path(t, starts, courses)
        every = range(len(setting.members))
        expanded = [self._expanded(b, t, path[:, :, b], courses, half[b]) for b in every]
        slope, bend, slack = (np.stack(part, axis=1) for part in zip(*expanded, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):  # infinite is a bound too
            steep = np.linalg.norm(bend, axis=(2, 3)) + np.linalg.norm(slack, axis=(2, 3))
        return Courses(setting.earned(path, courses, t), slope, bend, slack, steep * (1 + 1e-9))

    def _expanded(
        self, b: int, t: int, path: FloatArray, courses: IntArray, half: FloatArray
    ) -> tuple[FloatArray, ...]:
        """One member's g, H and E of some of the courses at step t, weighted."""
        setting, one, layers = self.setting, self.setting.members[b], self._layers[b]
        assert layers is not None  # or there is no such bound
        vectors = one.vectors[np.arange(t, setting.horizon - 1), courses]
        gradients = (
            np.ascontiguousarray(reward.gradient(one.states.shape[1])[layers.fixed :])
            for reward in (one.reward, one.last)
        )
        found = along(layers, plain(path), vectors, one.noise[t:], half, *gradients)
        return tuple(setting.weights[b] * part for part in found)


def layers_of(member: Member) -> Layers | None:
    """What the bound needs: networks with one hidden layer, and linear rewards."""
    if max(member.reward.remainder, member.last.remainder) > 0.0:
        return None
    found: Layers | None = getattr(member.scm, "dose_layers", None)
    return found
