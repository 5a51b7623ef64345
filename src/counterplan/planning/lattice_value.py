"""An approximate value of any model with few resource numbers, on a lattice of what may happen.

On the chain of `lattice` (nodes i of time t) and a grid of the levels that actions lead to,

    W_t(i, d') = rho_j[ V_{t+1}(j, d') | i ]                  what is ahead: the mean, or with risk
    V_t(i, d)  = max_a  r_t(x_i, d, a) + W_t(i, d'),   d' = step_t(x_i, d, a)

backwards, with the model's own `actions` and `step`; between levels values lie on straight lines,
between nodes likewise where one number of x varies, else they are weighed by distance. A state that
cannot be (its actions are refused) takes the value of the nearest level that can.

It is an estimate: x is a lattice's and levels are a grid's (`exact_value` is exact where it
applies). Its use is the policy that it makes, executed, and the leaf of a search:

    a_t(x, d) = argmax_a  r_t(x, d, a) + W_t(x, d')           at the true x and d

V and W go to compiled code as one flat table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import NotApplicableError, StoppedError
from counterplan.planning.compiled import MATRIX, VECTOR, jit
from counterplan.planning.exact_value import choices, remembered
from counterplan.planning.lattice import Lattice
from counterplan.planning.model import ExogenousModel, State, offered, sign_of, stepped
from counterplan.planning.policies import Rule
from counterplan.planning.risk import MEAN, Risk, RiskLike

# Nodes of x where chance is not listed, and futures that they are made from.
NODES, PATHS = 24, 20_000
# Levels at a time: the most, the least, those of a grid that keeps them as they are; and how many
# actions at all nodes and levels of all times are looked at.
MOST_LEVELS, LEAST_LEVELS, LISTED_LEVELS, ROWS = 500, 27, 800, 6_000_000
# More numbers that vary are not put on a grid.
MOST_DIMENSIONS = 3
# Levels that tell whether nodes offer the same actions, and nodes that tell which levels there are.
PROBES, SCOUTS = 12, 5
# So many states are futures that are played, not decisions that are made.
MANY = 16


class LatticeValue:
    """The value of a model from a state on.

    tables  V and W, flat, for `read`
    basis   what this is, in words
    """

    def __init__(
        self,
        model: ExogenousModel,
        state: State | None = None,
        seed: Seed = 0,
        risk: Risk = MEAN,
        progress: ProgressCallback | None = None,
    ) -> None:
        at = model.start if state is None else state
        self._model, self._t, self._risk = model, at.t, risk
        self._width = offered(model, at).shape[1]
        self.lattice = Lattice.of(model, NODES, PATHS, seed, at)
        self._watch = Watch("levels", progress=progress)
        self.axes = self._levels(at)
        sizes = [int(np.prod([len(axis) for axis in axes])) for axes in self.axes]
        self._same = set[int]()  # times when all nodes offer the same
        self.tables = self._solved()
        nodes = max(len(one) for one in self.lattice.values)
        self.basis = f"value on a lattice ({nodes} nodes, {max(sizes)} levels; an estimate)"

    def taken(self, t: int, x: FloatArray, d: FloatArray, actions: FloatArray) -> FloatArray:
        """(m,) reward and what is ahead of actions (m, A) in (X,), (D,), to be maximised."""
        m = len(actions)
        return self._totals(t, np.tile(x, (m, 1)), np.tile(d, (m, 1)), actions)

    def actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) the best actions in states (n, X), (n, D)."""
        which = np.arange(len(resource))
        if len(resource) >= MANY and t - self._t in self._same:  # equal levels are asked once
            _, first, row = np.unique(resource, axis=0, return_index=True, return_inverse=True)
            which = first[row.ravel()]
        asked = {i: offered(self._model, State(t, exogenous[i], resource[i])) for i in {*which}}
        sets = [asked[i] for i in which]
        counts, actions = [len(one) for one in sets], np.concatenate(sets)
        x, d = (np.repeat(one, counts, axis=0) for one in (exogenous, resource))
        totals, ends = self._totals(t, x, d, actions), np.cumsum(counts)
        pairs = zip(counts, ends, strict=True)
        return np.asarray(actions[[int(np.argmax(totals[e - n : e])) + e - n for n, e in pairs]])

    def _totals(self, t: int, x: FloatArray, d: FloatArray, actions: FloatArray) -> FloatArray:
        """(n,) likewise, of each state (n, X), (n, D) one action."""
        rewards, after = stepped(self._model, t, x, d, actions)
        totals = sign_of(self._model) * rewards
        now, then = (np.ascontiguousarray(one, dtype=np.float64) for one in (x, after))
        read_ahead(self.tables, t, now, then, totals)
        return totals

    def covers(self, state: State) -> bool:
        """Whether the state's levels lie within the grid."""
        s = state.t - self._t
        if not 0 <= s < len(self.axes):
            return False
        pairs = zip(self.axes[s], state.resource, strict=True)
        return all(axis[0] - 1e-9 <= one <= axis[-1] + 1e-9 for axis, one in pairs)

    def _offer(self, state: State) -> FloatArray | None:
        """The actions of a state, None where it cannot be: a grid has corners that no one meant."""
        try:
            found = offered(self._model, state)
        except Exception:  # whatever a model of one's own says to such a state
            return None
        return found if found.shape[1] == self._width else None

    def _alike(self, t: int, nodes: FloatArray, levels: FloatArray) -> bool:
        """Whether the same is offered at all nodes, as far as some of them tell."""
        some = nodes[np.unique(np.linspace(0, len(nodes) - 1, 3).astype(int))]
        for d in levels[np.unique(np.linspace(0, len(levels) - 1, PROBES).astype(int))]:
            sets = [self._offer(State(t, x.copy(), d.copy())) for x in some]
            if any((one is None) != (sets[0] is None) for one in sets):
                return False
            if sets[0] is not None and any(not np.array_equal(sets[0], one) for one in sets[1:]):  # type: ignore[arg-type]
                return False
        return True

    def _levels(self, at: State) -> list[list[FloatArray]]:
        """By time, for each number of the resource, the levels of its axis: all that actions lead
        to from those of the step before, or so many evenly between the least and the most."""
        model, T = self._model, len(self.lattice.values)
        m = len(offered(model, at))
        nodes = sum(len(one) for one in self.lattice.values)
        most = int(np.clip(ROWS / (nodes * m), LEAST_LEVELS, MOST_LEVELS))
        found = [[np.array([float(one)]) for one in at.resource]]
        for s, values in enumerate(self.lattice.values[:-1]):
            t = at.t + s
            ends = [f(values[:, i]) for i in range(values.shape[1]) for f in (np.argmin, np.argmax)]
            some = values[np.unique([*ends, len(values) // 2])[:SCOUTS]]
            levels = grid(found[-1])
            wanted = np.ones((len(some), len(levels)), dtype=bool)
            after = [
                one.after.reshape(-1, len(found[-1]))
                for one in choices(model, t, (some, levels), wanted, self._offer)
            ]
            if not after:
                raise NotApplicableError(f"no action is offered at t={t} at any level")
            found.append(_axes(np.concatenate(after), most, t + 1))
            self._told(s + 1, 2 * T)
        return found

    def _solved(self) -> FloatArray:
        """Backwards over time; the flat table."""
        model, T = self._model, len(self.lattice.values)
        ahead, blocks = np.empty(0), list[FloatArray]()
        for s in reversed(range(T)):
            t, nodes, levels = self._t + s, self.lattice.values[s], grid(self.axes[s])
            waiting = np.empty(0)
            if s + 1 < T:
                waiting = _ahead(self.lattice.chances[s], ahead, self._risk)
            values = np.full((len(nodes), len(levels)), np.nan)
            wanted, alike = np.ones(values.shape, dtype=bool), self._alike(t, nodes, levels)
            self._same |= {s} if alike else set()
            for one in choices(model, t, (nodes, levels), wanted, self._offer, alike):
                following = np.zeros((1, 1))
                if s + 1 < T:
                    following = _between(self.axes[s + 1], one.after, waiting[one.nodes])
                values[np.ix_(one.nodes, one.levels)] = one.best(following)[0]
            ahead = _filled(values, levels, t)
            blocks.append(_block(nodes, self.axes[s], ahead, waiting))
            self._told(2 * T - s, 2 * T)
        blocks.reverse()
        head = [self._t, T, nodes.shape[1], levels.shape[1]]
        starts = len(head) + T + np.cumsum([0, *(len(one) for one in blocks)])[:-1]
        return np.concatenate([head, starts, *blocks])

    def _told(self, done: int, total: int) -> None:
        if self._watch.must_stop(done, total=total):
            raise StoppedError("stopped before the value on the lattice was known")


def lattice_value(
    model: ExogenousModel, state: State, risk: Risk = MEAN, progress: ProgressCallback | None = None
) -> LatticeValue:
    """The value from the model's start on, or from the state where its levels lie beyond; made
    once, from futures of its own."""
    known: dict[Any, LatticeValue] = remembered(model, ("lattices", risk), dict)
    for one in known.values():
        if one.covers(state):
            return one
    for at in (model.start, state):
        made = LatticeValue(model, at, risk=risk, progress=progress)
        if made.covers(state):
            break
    known[len(known)] = made
    return made


@dataclass(frozen=True)
class OnLattice:
    """The best by the value on a lattice, which is prepared once.

    risk  what is ahead counts by it at every step: 1 the mean, a share such as 0.25, or the mean's
          weight and a share; nested, so the policy is time consistent
    """

    risk: RiskLike = 1.0
    name: ClassVar[str] = "lattice"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule."""
        return lattice_value(model, model.start, Risk.of(self.risk)).actions


def grid(axes: list[FloatArray]) -> FloatArray:
    """(G, D) all combinations, the last number first."""
    return np.array(list(product(*axes)), dtype=np.float64)


def _axes(levels: FloatArray, most: int, t: int) -> list[FloatArray]:
    """For each of the numbers of levels (n, D) those that its axis has."""
    distinct = [np.unique(column.round(9)) for column in levels.T]
    vary = [len(one) > 1 for one in distinct]
    if sum(vary) > MOST_DIMENSIONS:
        raise NotApplicableError(
            f"{sum(vary)} numbers of the resource vary at t={t}: a grid holds {MOST_DIMENSIONS}"
        )
    if np.prod([float(len(one)) for one in distinct]) <= max(most, min(LISTED_LEVELS, 2 * most)):
        return distinct
    size = max(2, int(most ** (1.0 / sum(vary))))
    return [one if len(one) <= size else np.linspace(one[0], one[-1], size) for one in distinct]


def _between(axes: list[FloatArray], levels: FloatArray, values: FloatArray) -> FloatArray:
    """(n, R) values (n, G) on a grid, at levels (n or 1, R, D)."""
    weights = [np.ones(levels.shape[:-1])]
    places = [np.zeros(levels.shape[:-1], dtype=np.int64)]
    for k, axis in enumerate(axes):
        d = np.clip(levels[..., k], axis[0], axis[-1])
        low = np.clip(np.searchsorted(axis, d, side="right") - 1, 0, max(len(axis) - 2, 0))
        share = np.zeros(d.shape)
        if len(axis) > 1:
            share = (d - axis[low]) / (axis[low + 1] - axis[low])
        sides = [(0, 1.0 - share), (1, share)] if share.any() else [(0, 1.0 - share)]
        pairs = [
            (w * v, p * len(axis) + low + i)
            for w, p in zip(weights, places, strict=True)
            for i, v in sides
        ]
        weights, places = [w for w, _ in pairs], [p for _, p in pairs]
    rows = np.arange(len(values))[:, np.newaxis]
    return np.asarray(sum(w * values[rows, p] for w, p in zip(weights, places, strict=True)))


def _ahead(chances: FloatArray, values: FloatArray, risk: Risk) -> FloatArray:
    """(N, G) of values (N', G)."""
    if risk.is_mean:
        return np.asarray(chances @ values)
    return np.stack([risk.value(values.T, row) for row in chances])


def _filled(values: FloatArray, levels: FloatArray, t: int) -> FloatArray:
    """Values (N, G), where there is none that of the nearest level (G, D) that has one."""
    missing = np.isnan(values)
    if missing.all():
        raise NotApplicableError(f"no action is offered at t={t} at any level")
    for n in np.flatnonzero(missing.any(axis=1)):
        known = np.flatnonzero(~missing[n])
        if not known.size:
            values[n] = np.nanmean(values, axis=0)
            values[n, np.isnan(values[n])] = np.nanmean(values)
            continue
        scale = np.maximum(np.ptp(levels, axis=0), 1e-12)
        for g in np.flatnonzero(missing[n]):
            away = np.abs((levels[known] - levels[g]) / scale).sum(axis=1)
            values[n, g] = values[n, known[int(np.argmin(away))]]
    return values


def _block(
    nodes: FloatArray, axes: list[FloatArray], values: FloatArray, waiting: FloatArray
) -> FloatArray:
    """What `read` reads of one time: N, which number of x varies (-1: several), lengths and levels
    of the axes, scales and nodes, sorted where one number varies, V and W."""
    spread = np.ptp(nodes, axis=0)
    varies = np.flatnonzero(spread > 0.0)
    line = int(varies[0]) if len(varies) == 1 else -1
    if line >= 0 or not len(varies):
        line = max(line, 0)
        order = np.argsort(nodes[:, line], kind="stable")
        nodes, values = nodes[order], values[order]
        waiting = waiting[order] if waiting.size else waiting
    scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, nodes.std(axis=0), 1.0), 0.0)
    lengths = [len(axis) for axis in axes]
    head = np.array([len(nodes), line, *lengths], dtype=np.float64)
    return np.concatenate([one.ravel() for one in (head, *axes, scale, nodes, values, waiting)])


# --- Compiled ---------------------------------------------------------------------------------


@jit(types.float64(VECTOR, types.int64, types.int64, types.int64, VECTOR))
def _on_grid(tables, block, first, D, d):  # type: ignore[no-untyped-def]
    """The value at levels d of the values that begin at `first`, on the axes of a block."""
    total = 0.0
    for corner in range(1 << D):
        weight, place, axis = 1.0, 0, block + 2 + D
        for k in range(D):
            if weight == 0.0:
                break
            size = int(tables[block + 2 + k])
            low, high = 0, size - 1
            at = min(max(d[k], tables[axis]), tables[axis + high])
            while high - low > 1:
                middle = (low + high) // 2
                if tables[axis + middle] <= at:
                    low = middle
                else:
                    high = middle
            share = 0.0
            if high > low:
                share = (at - tables[axis + low]) / (tables[axis + high] - tables[axis + low])
            up = (corner >> k) & 1
            weight *= share if up else 1.0 - share
            place = place * size + low + (up if high > low else 0)
            axis += size
        if weight != 0.0:
            total += weight * tables[first + place]
    return total


NEAR = types.Tuple([types.UniTuple(types.int64, 3), types.UniTuple(types.float64, 3)])  # type: ignore[no-untyped-call]


@jit(NEAR(VECTOR, types.int64, VECTOR))
def nearby(tables, t, x):  # type: ignore[no-untyped-def]
    """The nodes of time t that x lies among, and their weights: two where one number varies."""
    s, T, X, D = t - int(tables[0]), int(tables[1]), int(tables[2]), int(tables[3])
    if s >= T:
        return (0, 0, 0), (0.0, 0.0, 0.0)
    block = int(tables[4 + s])
    N, line, scales = int(tables[block]), int(tables[block + 1]), block + 2 + D
    for k in range(D):
        scales += int(tables[block + 2 + k])
    nodes = scales + X
    if line >= 0:
        low, high = 0, N - 1
        while high - low > 1:
            middle = (low + high) // 2
            if tables[nodes + middle * X + line] <= x[line]:
                low = middle
            else:
                high = middle
        first, last = tables[nodes + low * X + line], tables[nodes + high * X + line]
        share = min(max((x[line] - first) / (last - first), 0.0), 1.0) if last > first else 0.0
        return (low, high, 0), (1.0 - share, share, 0.0)
    a = b = c = -1
    at_a = at_b = at_c = np.inf
    for i in range(N):
        away = 0.0
        for j in range(X):
            away += ((tables[nodes + i * X + j] - x[j]) * tables[scales + j]) ** 2
        if away < at_a:
            a, b, c, at_a, at_b, at_c = i, a, b, away, at_a, at_b
        elif away < at_b:
            b, c, at_b, at_c = i, b, away, at_b
        elif away < at_c:
            c, at_c = i, away
    if at_a < 1e-18:
        return (a, 0, 0), (1.0, 0.0, 0.0)
    one, two, three = 1.0 / at_a, 1.0 / at_b, 1.0 / at_c  # 0 where there are not so many
    total = one + two + three
    return (a, max(b, 0), max(c, 0)), (one / total, two / total, three / total)


@jit(types.float64(VECTOR, types.int64, NEAR, VECTOR, types.boolean))
def read_at(tables, t, near, d, ahead):  # type: ignore[no-untyped-def]
    """V_t, or W_t, among nodes and at levels d, to be maximised."""
    s, T, X, D = t - int(tables[0]), int(tables[1]), int(tables[2]), int(tables[3])
    if s >= T or (ahead and s == T - 1):
        return 0.0
    block = int(tables[4 + s])
    levels = int(tables[4 + s + 1]) if ahead else block
    N, size, after, scales = int(tables[block]), 1, 1, block + 2 + D
    for k in range(D):
        size *= int(tables[block + 2 + k])
        after *= int(tables[levels + 2 + k])
        scales += int(tables[block + 2 + k])
    values, found = scales + X + N * X + (N * size if ahead else 0), 0.0
    for k in range(3):
        if near[1][k] > 0.0:
            found += near[1][k] * _on_grid(tables, levels, values + near[0][k] * after, D, d)
    return found


@jit(types.float64(VECTOR, types.int64, VECTOR, VECTOR, types.boolean))
def read(tables, t, x, d, ahead):  # type: ignore[no-untyped-def]
    """V_t(x, d), or W_t(x, d), to be maximised."""
    return read_at(tables, t, nearby(tables, t, x), d, ahead)


@njit(types.void(VECTOR, types.int64, MATRIX, MATRIX, VECTOR), cache=True)
def read_ahead(tables, t, x, d, totals):  # type: ignore[no-untyped-def]
    """Adds W_t(x, d) of (n, X), (n, D) to totals (n,)."""
    for i in range(len(totals)):
        totals[i] += read(tables, t, x[i], d[i], True)
