"""The optimal value without foresight, by dynamic programming.

A model may bring a dynamic program of its own (`HasExactValue`). Where chance and actions are
finite, the general one here lists every state (x, d) that can be reached, forwards, and solves

    V_t(x, d) = max_a Q_t(x, d, a),    V_T = 0
    Q_t(x, d, a) = r_t(x, d, a) + sum_x' P(x' | x) V_{t+1}(x', step_t(x, d, a))

backwards (min for costs; with a `Risk` in place of the sum, see `risk`). It is exact, and meant for
problems small enough to list. All levels of a node, and where x changes neither what is offered nor
where it leads (`StepsApart`) all nodes, are handled at once. A problem is solved once: what is
asked of it later, along another path or from another level, adds the states that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import NotApplicableError, StoppedError
from counterplan.planning.model import (
    ExogenousModel,
    FiniteSupport,
    HasExactValue,
    State,
    checked_problem,
    checked_state,
    following,
    offered,
    sign_of,
    stepped,
)
from counterplan.planning.risk import MEAN, Risk

# More (state, time) pairs are not listed: some seconds of work; more where steps are apart.
MOST_STATES = 100_000
APART_STATES = 20
# Numbers that agree to this many decimals are one state.
DECIMALS = 9
# Numbers held at once while actions are listed.
CHUNK = 4_000_000

# The attribute under which a problem keeps what was made of it.
PLACE = "_counterplan_made"

Key: TypeAlias = bytes
Made = TypeVar("Made")


@runtime_checkable
class StepsApart(Protocol):
    """A model that knows whether x touches rewards alone, which are linear in the action."""

    @property
    def steps_apart(self) -> bool: ...

    def rates(self, t: int, exogenous: FloatArray) -> FloatArray:
        """(n, A) rewards per unit at t for (n, X)."""
        ...


def exact_value(
    problem: ExogenousModel,
    state: State | None = None,
    progress: ProgressCallback | None = None,
) -> float:
    """V* in a state (default: the start): the best expected total without foresight.

    Raises NotApplicableError where no dynamic program applies. `progress` is called for each step
    of the general one; False stops it, and raises StoppedError.
    """
    checked_problem(problem)
    at = None if state is None else checked_state(problem, state)
    if isinstance(problem, HasExactValue):
        return problem.optimal_value(at)
    at = problem.start if at is None else at
    found = solved(problem, at, progress)
    return found.value if at.t == problem.horizon else found.sign * found.at(at)[0]


class Choices(NamedTuple):
    """What may be done in some nodes at some levels, to be maximised.

    nodes, levels  (n,), (k,) which of them
    first          (k,) the row where each level's actions begin
    actions        (R, A)
    rewards        (n, R)
    after          (n, R, D), or (1, R, D) where the nodes do not matter
    """

    nodes: IntArray
    levels: IntArray
    first: IntArray
    actions: FloatArray
    rewards: FloatArray
    after: FloatArray

    def best(self, waiting: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The highest reward plus what is ahead (n, R): (n, k), and whose it is: (n, k, A)."""
        totals = self.rewards + waiting
        top = np.maximum.reduceat(totals, self.first, axis=1)
        counts = np.diff(self.first, append=totals.shape[1])
        rows = np.where(
            totals == np.repeat(top, counts, axis=1), np.arange(totals.shape[1]), 1 << 60
        )
        return top, self.actions[np.minimum.reduceat(rows, self.first, axis=1)]


def choices(
    model: ExogenousModel,
    t: int,
    places: tuple[FloatArray, FloatArray],
    wanted: Any,
    offer: Callable[[State], FloatArray | None] | None = None,
    alike: bool = False,
) -> Iterator[Choices]:
    """The choices at nodes (N, X) and levels (G, D) where `wanted` (N, G) says so.

    offer  the actions of a state (default: the model's own); None: it cannot be
    alike  every node is known to offer the same actions
    """
    nodes, levels = places
    ask = partial(offered, model) if offer is None else offer
    apart = isinstance(model, StepsApart) and model.steps_apart
    each = np.flatnonzero(wanted.any(axis=1))
    for some in [each] if apart or alike else [np.array([n]) for n in each]:
        at, sets = list[int](), list[FloatArray]()
        for g in np.flatnonzero(wanted[some].any(axis=0)):
            found = ask(State(t, nodes[some[0]].copy(), levels[g].copy()))
            if found is not None:
                at.append(int(g))
                sets.append(found)
        if not sets:
            continue
        counts, actions = [len(one) for one in sets], np.concatenate(sets)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        before = np.repeat(levels[at], counts, axis=0)
        size = max(1, CHUNK // (actions.size + before.size))
        for part in np.array_split(some, -(-len(some) // size)):
            stepped = _stepped(model, t, nodes[part], before, actions, apart)
            yield Choices(part, np.array(at), first, actions, *stepped)


def _stepped(
    model: Any, t: int, x: FloatArray, d: FloatArray, actions: FloatArray, apart: bool
) -> tuple[FloatArray, FloatArray]:
    """Rewards (n, R), to be maximised, and levels after (n or 1, R, D)."""
    R, sign = len(actions), sign_of(model)
    n = 1 if apart else len(x)
    given = np.repeat(x[:n], R, axis=0), np.tile(d, (n, 1)), np.tile(actions, (n, 1))
    rewards, after = stepped(model, t, *given)
    if apart:
        rewards = model.rates(t, x) @ actions.T
    return sign * np.reshape(rewards, (len(x), R)), np.reshape(after, (n, R, -1))


class _Layer:
    """What is known at one time: nodes (N, X), the chances of the next time's (N, N') sparse,
    levels (G, D), values (N, G), nan where not yet solved, and the best actions (N, G, A)."""

    def __init__(self, nodes: FloatArray, chances: Any, levels: int, actions: int) -> None:
        self.nodes, self.chances = nodes, chances
        self.node_places = {key_of(one): i for i, one in enumerate(nodes)}
        self.level_places = dict[Key, int]()
        self.levels = np.empty((0, levels))
        self.values = np.empty((len(nodes), 0))
        self.best = np.empty((len(nodes), 0, actions))

    def place(self, levels: FloatArray) -> IntArray:
        """(...,) where levels (..., D) are listed; new ones are added."""
        rows = np.round(levels, DECIMALS).reshape(-1, levels.shape[-1]) + 0.0
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        places, count = np.empty(len(distinct), dtype=np.int64), len(self.levels)
        for i, one in enumerate(distinct):
            places[i] = self.level_places.setdefault(one.tobytes(), len(self.level_places))
        added = len(self.level_places) - count
        if added:
            # As they are, not rounded.
            _, firsts = np.unique(inverse.ravel(), return_index=True)
            new = np.flatnonzero(places >= count)
            new = new[np.argsort(places[new])]
            flat = levels.reshape(-1, levels.shape[-1])
            self.levels = np.concatenate([self.levels, flat[firsts[new]]])
            wide = ((0, 0), (0, added))
            self.values = np.pad(self.values, wide, constant_values=np.nan)
            self.best = np.pad(self.best, (*wide, (0, 0)), constant_values=np.nan)
        return places[inverse.ravel()].reshape(levels.shape[:-1])


def listed(
    process: Any, t: int, start: FloatArray, horizon: int, most: int
) -> tuple[list[FloatArray], list[Any]]:
    """Every x that may follow, by time: nodes (N, X), and sparse chances (N, N') in between; raises
    NotApplicableError where they are more than `most` at some time."""
    from scipy.sparse import csr_array

    nodes, chances = [np.asarray(start, dtype=np.float64)[np.newaxis]], []
    for s in range(t, horizon - 1):
        places, found = dict[Key, int](), list[FloatArray]()
        columns, odds, ends = list[IntArray](), list[FloatArray](), [0]
        last = np.empty(0)
        for x in nodes[-1]:
            values, probabilities = following(process, s, x)
            if not np.array_equal(values, last):  # else the same again, as in a plain matrix
                keys, last = [key_of(y) for y in values], np.array(values, dtype=np.float64)
                for i, key in enumerate(keys):
                    if places.setdefault(key, len(found)) == len(found):
                        found.append(np.asarray(last[i]))
                at = np.array([places[key] for key in keys])
            columns.append(at)
            odds.append(np.asarray(probabilities, dtype=np.float64))
            ends.append(ends[-1] + len(at))
            if len(found) > most:
                raise NotApplicableError(
                    f"more than {most:,} states can be reached by t={s + 1}, too many to list; "
                    "value_bounds brackets the value"
                )
        shape = (len(nodes[-1]), len(found))
        entries = np.concatenate(odds), np.concatenate(columns), ends
        chances.append(csr_array(entries, shape=shape))
        nodes.append(np.stack(found))
    return nodes, chances


class Solution:
    """A model solved from one state on; states that cannot be reached from there are solved when
    they are met.

    value  V* in that state
    sign   turns values to be maximised into the model's sense
    """

    def __init__(
        self,
        model: ExogenousModel,
        state: State | None = None,
        progress: ProgressCallback | None = None,
        risk: Risk = MEAN,
    ) -> None:
        if not isinstance(model, FiniteSupport):
            raise NotApplicableError(
                f"{type(model).__name__} has neither an exact solution of its own nor finitely "
                "many successors, so no dynamic program applies; value_bounds brackets the value"
            )
        at = model.start if state is None else state
        self._model, self.sign, self._t, self._risk = model, sign_of(model), at.t, risk
        self._apart = isinstance(model, StepsApart) and model.steps_apart
        self._most = MOST_STATES * (APART_STATES if self._apart else 1)
        self._others, self._count, self.value = dict[tuple[int, Key], Solution](), 0, 0.0
        self._layers = list[_Layer]()
        if at.t >= model.horizon:
            return
        self._progress = progress
        sizes = len(at.resource), offered(model, at).shape[1]
        nodes, chances = listed(model, at.t, at.exogenous, model.horizon, self._most)
        self._layers = [_Layer(*one, *sizes) for one in zip(nodes, [*chances, None], strict=True)]
        self.value = self.sign * self.at(at)[0]
        self._progress = None

    def covers(self, state: State) -> bool:
        """Whether the state's x is among those that may follow where this begins."""
        s = state.t - self._t
        known = 0 <= s < len(self._layers)
        return known and key_of(state.exogenous) in self._layers[s].node_places

    def at(self, state: State) -> tuple[float, FloatArray]:
        """V*, to be maximised whatever the sense, and the best action."""
        if not self.covers(state):
            key = state.t, key_of(state.exogenous)
            if key not in self._others:
                self._others[key] = Solution(self._model, state, None, self._risk)
            return self._others[key].at(state)
        layer = self._layers[state.t - self._t]
        n = layer.node_places[key_of(state.exogenous)]
        g = int(layer.place(np.asarray(state.resource, dtype=np.float64)[np.newaxis])[0])
        if np.isnan(layer.values[n, g]):
            self._solve(state.t, np.array([n]), g)
        return float(layer.values[n, g]), layer.best[n, g].copy()

    def actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) the optimal actions in states (n, X), (n, D)."""
        states = zip(exogenous, resource, strict=True)
        return np.array([self.at(State(t, x, d))[1] for x, d in states])

    def taken(self, t: int, x: FloatArray, d: FloatArray, actions: FloatArray) -> FloatArray:
        """(m,) Q* of actions (m, A) in (X,), (D,), to be maximised."""
        assert isinstance(self._model, FiniteSupport)
        m = len(actions)
        given = np.repeat(x[np.newaxis], m, axis=0), np.repeat(d[np.newaxis], m, axis=0)
        rewards, after = stepped(self._model, t, *given, actions)
        totals = self.sign * rewards
        if t + 1 == self._model.horizon:
            return totals
        successors, chances = following(self._model, t, x)
        ahead, s = np.empty((m, len(successors))), t + 1 - self._t
        known = self._layers[s].node_places if 0 <= s < len(self._layers) else {}
        nodes = np.array([known.get(key_of(y), -1) for y in successors])
        for i, e in enumerate(after):
            if nodes.min() < 0:
                ahead[i] = [self.at(State(t + 1, y, e))[0] for y in successors]
                continue
            g = int(self._layers[s].place(e[np.newaxis])[0])
            if np.isnan(self._layers[s].values[nodes, g]).any():
                self._solve(t + 1, nodes, g)
            ahead[i] = self._layers[s].values[nodes, g]
        return np.asarray(totals + self._risk.value(ahead, np.asarray(chances)))

    def loss(self, t: int, x: FloatArray, d: FloatArray, a: FloatArray) -> float:
        """V* - Q* >= 0: what an action (A,) loses in expectation in (X,), (D,)."""
        return self.at(State(t, x, d))[0] - float(self.taken(t, x, d, a[np.newaxis])[0])

    def _solve(self, t: int, nodes: IntArray, level: int) -> None:
        """Solve some nodes of time t at a level, and what may follow that is not yet solved."""
        model, T = self._model, self._model.horizon
        known = list[list[tuple[Choices, IntArray]]]()
        layers, watch = (
            self._layers[t - self._t :],
            Watch("listing states", progress=self._progress),
        )
        wanted = np.zeros(layers[0].values.shape, dtype=bool)
        wanted[nodes, level] = True
        for s, (layer, ahead) in enumerate(zip(layers, [*layers[1:], None], strict=True)):
            found, reached = list[tuple[Choices, IntArray]](), list[tuple[IntArray, IntArray]]()
            for one in choices(model, t + s, (layer.nodes, layer.levels), wanted):
                places = (
                    np.zeros((1, 1), dtype=np.int64) if ahead is None else ahead.place(one.after)
                )
                found.append((one._replace(after=np.empty(0)), places))
                reached.append((one.nodes, places))
            known.append(found)
            if ahead is None:
                break
            following = np.zeros((len(layer.nodes), len(ahead.levels)), dtype=bool)
            for some, places in reached:
                following[some[:, np.newaxis], places] = True
            wanted = (layer.chances.T.astype(bool) @ following) & np.isnan(ahead.values)
            self._count += int(wanted.sum())
            if self._count > self._most:
                raise NotApplicableError(
                    f"more than {self._most:,} states can be reached by t={t + s + 1}, too many to "
                    "list; value_bounds brackets the value"
                )
            _stop_if(watch, s + 1, T - t)
        self._back(layers, known)

    def _back(self, layers: list[_Layer], known: list[list[tuple[Choices, IntArray]]]) -> None:
        """Value what was listed, the last step first."""
        watch = Watch("backward pass", progress=self._progress)
        for s in reversed(range(len(layers))):
            layer, is_last = layers[s], s + 1 == len(layers)
            columns = np.unique(np.concatenate([[0], *(places.ravel() for _, places in known[s])]))
            waiting = np.zeros((1, 1))
            if not is_last and known[s]:
                waiting = expected(layer.chances, layers[s + 1].values[:, columns], self._risk)
            for one, places in known[s]:
                rows = 0 if is_last else one.nodes[:, np.newaxis]
                block = np.ix_(one.nodes, one.levels)
                ahead = waiting[rows, np.searchsorted(columns, places)]
                layer.values[block], layer.best[block] = one.best(ahead)
            _stop_if(watch, len(layers) - s, len(layers))


def expected(chances: Any, values: FloatArray, risk: Risk) -> FloatArray:
    """(N, G) what is ahead of each node, of values (N', G) with sparse chances (N, N')."""
    if risk.is_mean:
        return np.asarray(chances @ values)
    ends, columns, odds = chances.indptr, chances.indices, chances.data
    rows = [slice(*pair) for pair in pairwise(ends)]
    return np.stack([risk.value(values[columns[one]].T, odds[one]) for one in rows])


def solved(
    model: ExogenousModel,
    state: State,
    progress: ProgressCallback | None = None,
    risk: Risk = MEAN,
) -> Solution:
    """The model's solution from a state on, made once."""
    known: dict[Any, Solution] = remembered(model, ("solutions", risk), dict)
    for one in known.values():
        if one.covers(state):
            return one
    key = state.t, key_of(state.exogenous)
    known[key] = Solution(model, state, progress, risk)
    return known[key]


class _Made(dict[Any, Any]):
    """What was made of a problem, kept with it as long as its own numbers stay as they are."""

    marks: Mapping[str, object] = MappingProxyType({})

    def __reduce__(self) -> tuple[Any, ...]:
        """A problem that is sent elsewhere goes without."""
        return (_Made, ())


def remembered(model: Any, key: Any, make: Callable[[], Made]) -> Made:
    """What `make` made of a model when it was first asked for under this key."""
    try:
        made, marks = vars(model).get(PLACE), _marks(model)
        if made is None or made.marks != marks:
            made = _Made()
            made.marks = marks
            object.__setattr__(model, PLACE, made)
    except (TypeError, AttributeError):  # what has no attributes of its own is not remembered
        return make()
    if key not in made:
        made[key] = make()
    found: Made = made[key]
    return found


def _marks(model: Any) -> dict[str, object]:
    """Of what a model is made of; what it derives from that itself, and keeps, does not count."""
    kind = type(model)
    own = {
        name: one
        for name, one in vars(model).items()
        if name != PLACE and not isinstance(getattr(kind, name, None), cached_property)
    }
    # Those of the class count as well: problems are often written so.
    own |= {name: getattr(model, name, None) for name in ("horizon", "sense", "start")}
    return {name: _mark(one) for name, one in own.items()}


def _mark(value: object) -> object:
    """What tells that an attribute is no longer what it was."""
    if isinstance(value, np.ndarray):
        return value.shape, hash(value.tobytes())
    if isinstance(value, list | tuple):
        return tuple(map(_mark, value))
    if isinstance(value, dict):
        return tuple((name, _mark(one)) for name, one in value.items())
    return value if isinstance(value, int | float | str) else id(value)


def _stop_if(watch: Watch, done: int, total: int) -> None:
    if watch.must_stop(done, total=total):
        raise StoppedError(f"stopped after {done} of {total} steps: no value is known yet")


def key_of(values: FloatArray) -> Key:
    """Numbers as one state."""
    # Adding 0.0 makes -0.0 and 0.0 the same bytes.
    return (np.round(np.asarray(values, dtype=np.float64), DECIMALS) + 0.0).tobytes()
