"""The exact solver of continuous problems: best-first search over sequences of actions.

A node is a state reached at step t with l units of the budget spent. Its promise is

    f = (rewards earned before t) + U(s, l, t),        never more than its parent's

where U is any admissible bound (Eq. 10 of the 2023 paper with an upper bound for the value). The
search expands the most promising nodes, many of one step at a time: all children of a batch are one
call to the model. A child whose promise does not beat the best sequence known is dropped; one whose
budget is spent is followed to the end at once, and so is one that can afford a last change, with
each change whose own promise (`last_change`) is enough. Of many models (`ensemble`) nodes
know those whose weighted outcome bounds what is optimised, and sequences that end well are judged
by all. Children that leave the data are not opened where
alternatives have to stay inside it, and a sequence counts once all of it does: whether a state is
near is asked when its node is expanded or ends a better sequence, so that a bound on all sequences
bounds these. When nothing open promises more than the best
sequence known, that sequence is optimal; stopped earlier, the largest open promise certifies how
much better the optimum can be. A bound that is not a finite number promises everything: where
numbers overflow nothing is dropped. What is better by rounding only is not better: ties keep what
was done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from counterplan.core.limits import Watch, clock
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import BoolArray, FloatArray, IntArray, whole_number
from counterplan.counterfactual.continuous.ensemble import prepare_continuous
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.last_change import LastChange, layers_of
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    SequenceSetting,
    greedy_sequence,
)
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.point import PointSCM, Region

# In place of an action that was not changed.
UNCHANGED = -1
# Sequences that are judged, ends that are followed and nodes that are ended at a time.
JUDGED, FOLLOWED, ENDED = 32, 256, 2_048
# With so few nodes before the last change, bounds on them cost more than they save.
FEW_NODES = 100_000
# For the sequence to start from, whatever the limit.
START_SECONDS = 0.3


@dataclass(frozen=True, eq=False)
class Nodes:
    """n nodes of one step.

    states   (n, D)
    used     (n,) budget spent
    earned   (n,) rewards of the states and actions before
    promise  (n,) the most that any sequence through the node can earn
    actions  (n, T-1) what was changed on the way, UNCHANGED where nothing was; in few bytes
    """

    states: FloatArray
    used: IntArray
    earned: FloatArray
    promise: FloatArray
    actions: NDArray[np.signedinteger]

    @classmethod
    def root(cls, state: FloatArray, decisions: int, n_actions: int) -> Nodes:
        """The first state, nothing changed."""
        return cls(
            state[None].copy(),
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
            np.full(1, math.inf),
            np.full((1, decisions), UNCHANGED, dtype=np.min_scalar_type(-n_actions)),
        )

    def __len__(self) -> int:
        return len(self.used)

    def take(self, rows: NDArray[np.bool_] | IntArray | slice) -> Nodes:
        """Some of the nodes; a slice is not copied."""
        return Nodes(*(part[rows] for part in vars(self).values()))

    def expanded(self, setting: SequenceSetting, t: int) -> Nodes:
        """All children within the budget, with the promises of their parents."""
        earned = self.earned + setting.reward(self.states)
        after = setting.replay.children(t, self.states)
        spent = self.used[:, None] + setting.costs_at(t)[None, :]
        parent, action = np.nonzero(setting.may_take(t, self.states, self.used))
        actions = self.actions[parent]
        actions[:, t] = np.where(action == setting.observed[t], UNCHANGED, action)
        place = (parent, action)
        earned = earned[parent] + setting.bonus[t, action]
        return Nodes(after[place], spent[place], earned, self.promise[parent], actions)

    def sequences(self, observed: IntArray, rows: IntArray) -> IntArray:
        """(m, T-1) the whole action sequences of nodes that change nothing any more."""
        changed = self.actions[rows]
        return np.where(changed == UNCHANGED, observed, changed).astype(np.int64)


class Pool:
    """Open nodes of one step; the most promising are taken first.

    They lie in runs, each sorted best first. Runs of similar size are merged, so that a node is
    copied O(log n) times however many are open, and taking the best looks at the runs' heads only.
    """

    def __init__(self) -> None:
        self._runs: list[Nodes] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def largest(self) -> float:
        """The most that any open node promises."""
        return max((float(run.promise[0]) for run in self._runs), default=-math.inf)

    def push(self, nodes: Nodes) -> None:
        if len(nodes) == 0:
            return
        self._runs.append(_best_first(nodes))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(_best_first(_joined([before, last])))

    def pop(self, count: int, above: float) -> tuple[Nodes, float]:
        """Up to `count` of the most promising nodes; those not above the threshold are dropped,
        and the largest promise among these is told."""
        enough = [int(np.count_nonzero(run.promise > above)) for run in self._runs]
        dropped = max(
            (float(r.promise[n]) for r, n in zip(self._runs, enough, strict=True) if n < len(r)),
            default=-math.inf,
        )
        heads = [run.promise[: min(n, count)] for run, n in zip(self._runs, enough, strict=True)]
        owner = np.repeat(np.arange(len(heads)), [len(head) for head in heads])
        # Stable, so that what is taken of a run is its beginning, also among equals.
        order = np.argsort(-np.concatenate(heads), kind="stable")[:count]
        used = np.bincount(owner[order], minlength=len(heads))
        parts = [run.take(slice(0, n)) for run, n in zip(self._runs, used, strict=True)]
        rests = [
            _compact(run.take(slice(first, last)))
            for run, first, last in zip(self._runs, used, enough, strict=True)
        ]
        self._runs = [rest for rest in rests if len(rest)]
        return _joined(parts), dropped


def _best_first(nodes: Nodes) -> Nodes:
    return nodes.take(np.argsort(-nodes.promise, kind="stable"))


def _compact(nodes: Nodes) -> Nodes:
    """The same nodes; copied where they would keep a much larger array alive."""
    held = nodes.used.base
    if held is not None and len(held) > 2 * len(nodes):
        return nodes.take(np.arange(len(nodes)))
    return nodes


def _joined(batches: list[Nodes]) -> Nodes:
    if len(batches) == 1:
        return batches[0]
    parts = zip(*(vars(batch).values() for batch in batches), strict=True)
    return Nodes(*(np.concatenate(part) for part in parts))


# Moments of a search that are told.
LONGEST = 4096


class Moment(NamedTuple):
    """After so many nodes the best value was this, and nothing better than the bound is left."""

    expanded: int
    value: float
    bound: float


class History:
    """The moments of one search, of millions of nodes told by a few thousand: once there are more,
    every second one is forgotten and only every second further one is kept. Moments at which
    something better was found are never forgotten."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest, self._stride, self._seen = longest, 1, 0
        self._moments: list[Moment] = []
        self._last: Moment | None = None

    def add(self, expanded: int, value: float, bound: float) -> None:
        last = self._last
        self._last = Moment(expanded, value, bound)
        if last is not None and last.expanded == expanded:
            # Nothing was expanded since: what is known now replaces what was known.
            if self._moments and self._moments[-1] == last:
                self._moments[-1] = self._last
            return
        is_better = last is not None and value > last.value
        if is_better or self._seen % self._stride == 0:
            self._moments.append(self._last)
            if len(self._moments) > self._longest:
                self._thin()
        self._seen += 1

    def array(self) -> FloatArray:
        """(m, 3) moments in order; the last is where the search ended."""
        moments = list(self._moments)
        if self._last is not None and moments[-1:] != [self._last]:
            moments.append(self._last)
        return np.array(moments, dtype=np.float64).reshape(-1, 3)

    def _thin(self) -> None:
        moments = self._moments
        self._moments = [
            moment
            for place, moment in enumerate(moments)
            if place % 2 == 0 or moment.value > moments[place - 1].value
        ]
        self._stride *= 2


class UpperBound(Protocol):
    """An admissible bound, prepared for one problem."""

    @property
    def name(self) -> str: ...

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) no sequence earns more from step t on, states (n, D) included, with `used` spent."""
        ...

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        """The bound of the same problem with a smaller budget."""
        ...


class Search:
    """One run of `AStar` from a sequence that is known to be possible.

    sequence  (T-1,) the best found, and its
    value
    bound     no sequence is better
    complete  whether nothing is left to look into
    expanded, added  nodes so far; without rollouts every child counts as added, as in a textbook
              search, which drops none
    """

    def __init__(
        self,
        solver: AStar,
        setting: SequenceSetting,
        bound: Prepared,
        start: IntArray,
        watch: Watch,
    ) -> None:
        self._solver, self._judge, self._watch = solver, setting, watch
        self._setting, self._upper, self._last = bound.setting, bound.others.upper, bound.last
        self.sequence, self.value = start, float(setting.outcomes(start[None])[0])
        self.bound, self.complete, self.expanded, self.added = math.inf, False, 0, 0
        self.history = History()
        self._pools = [Pool() for _ in range(setting.horizon)]
        # Nodes that may be open; states of several models are as many times as wide.
        alone = self._setting.members[0].states.shape[1]
        self._most = solver.memory * alone // self._setting.states.shape[1]
        # The largest promise that was dropped: never more than the wanted gap above the value.
        self._dropped = -math.inf
        self._run()

    def _run(self) -> None:
        """Search until the watch says stop."""
        setting, watch = self._setting, self._watch
        if setting.horizon > 1:
            root = Nodes.root(setting.states[0], setting.horizon - 1, setting.n_actions)
            self._keep(0, root, self._promise(0, root))
        while True:
            t, promise = self._most_promising()
            self.bound = max(self.value, promise, self._dropped)
            self.history.add(self.expanded, self.value, self.bound)
            self.complete = promise <= self._enough
            if self.complete or watch.must_stop(self.expanded, self.value, self.bound):
                return
            count = watch.remaining(self._solver.batch, self.expanded)
            nodes, dropped = self._pools[t].pop(count, self._enough)
            self._dropped = max(self._dropped, dropped)
            self.expanded += len(nodes)
            if len(nodes):
                self._expand(t, nodes)

    @property
    def _enough(self) -> float:
        """What a sequence has to exceed to be of interest."""
        return self.value + max(self._watch.gap, self._judge.negligible(self.value))

    def _most_promising(self) -> tuple[int, float]:
        """The step whose open nodes promise most; the latest with open nodes if memory is short or
        nothing is bounded, since depth-first order soon empties it."""
        promises = [pool.largest for pool in self._pools]
        best = int(np.argmax(promises))
        is_full = sum(len(pool) for pool in self._pools) > self._most
        if is_full or promises[best] == math.inf:
            return max(t for t, pool in enumerate(self._pools) if len(pool)), promises[best]
        return best, promises[best]

    def _expand(self, t: int, nodes: Nodes) -> None:
        setting = self._setting
        children = nodes.expanded(setting, t)
        if not self._solver.rollout:
            self.added += len(children)
        if t + 1 == setting.horizon - 1:
            self._finish(t + 1, children, children.earned + setting.last(children.states))
            return
        promise = self._promise(t + 1, children)
        self._keep(t + 1, children, np.minimum(promise, children.promise))

    def _promise(self, t: int, nodes: Nodes) -> FloatArray:
        """(n,) the most that sequences through the nodes can earn, infinite where no bound of
        whatever kind could be computed: the one place where bounds on nodes enter the search (those
        on last changes: `_end`)."""
        promise = nodes.earned + self._upper(t, nodes.used, nodes.states)
        return np.where(np.isfinite(promise), promise, math.inf)

    def _keep(self, t: int, nodes: Nodes, promise: FloatArray) -> None:
        """Open nodes that promise enough; follow those whose budget is spent to their end."""
        setting, rollout = self._setting, self._solver.rollout
        worth = promise > self._enough
        more = int(setting.costs.min()) * (1 if self._last is None else 2)
        spent = (nodes.used + more > setting.k) & rollout
        final = worth & spent
        if final.any():
            leaves = replace(nodes.take(final), promise=promise[final])
            for first in range(0, len(leaves), ENDED):
                self._end(t, leaves.take(slice(first, first + ENDED)))
            worth &= promise > self._enough
        missed = promise[~worth & ~final]
        self._dropped = max(self._dropped, float(missed.max(initial=-math.inf)))
        stay = worth & ~spent
        if rollout:
            self.added += int(np.count_nonzero(stay))
        self._pools[t].push(replace(nodes.take(stay), promise=promise[stay]))

    def _end(self, t: int, nodes: Nodes) -> None:
        """Follow nodes of step t that can afford one more change at most to their ends."""
        setting, T = self._setting, self._setting.horizon
        taken = np.repeat(setting.observed[None, t:], len(nodes), axis=0)
        path = setting.path(t, nodes.states, taken)
        stays = setting.stays(path, nodes.used > 0)
        ended = nodes.earned + setting.earned(path, taken, t)
        self._finish(t, nodes, np.where(stays[:, -1], ended, -math.inf))
        if self._last is None or (nodes.used + setting.costs.min() > setting.k).all():
            return
        earned, ends = nodes.earned, []
        # How far ends are below this is not computed: so little that the gap to it is allowed.
        gap = self._watch.gap * (1.0 - 1e-12)
        least = self.value + max(gap, self._judge.negligible(self.value) / 2)
        for u in range(t, T - 1):
            states = path[:, u - t]
            may = self._may_end(u, states, nodes.used, stays[:, u - t])
            promise = self._last.upper(u, states, least - earned, may) + earned[:, None]
            promise = np.minimum(promise, nodes.promise[:, None])
            promise[np.isnan(promise)] = math.inf  # what cannot be bounded is not dropped
            row, action = np.nonzero(may & (promise > least))
            known = earned[row], promise[row, action], states[row]
            ends.append(Ends(np.full(len(row), u), row, action, *known))
            if (may & (promise <= least)).any():
                self._dropped = max(self._dropped, least)
            earned = earned + setting.reward(states) + setting.bonus[u, setting.observed[u]]
        self._follow(t, nodes, Ends(*(np.concatenate(part) for part in zip(*ends, strict=True))))

    def _may_end(self, u: int, states: FloatArray, used: IntArray, stays: BoolArray) -> BoolArray:
        """(n, N) the last changes that may be made at step u, in states (n, D) that have stayed
        inside the data (n,)."""
        setting = self._setting
        may = np.zeros((len(states), setting.n_actions), dtype=np.bool_)
        may[stays] = setting.may_take(u, states[stays], used[stays])
        may[:, setting.observed[u]] = False
        return may

    def _follow(self, t: int, nodes: Nodes, ends: Ends) -> None:
        """Follow ends of nodes of step t, the most promising first; if there is no time for all,
        their nodes stay open."""
        order = np.argsort(-ends.promise, kind="stable")
        for first in range(0, len(order), FOLLOWED):
            batch = ends.take(order[first : first + FOLLOWED])
            if batch.promise[0] <= self._enough:
                self._dropped = max(self._dropped, float(batch.promise[0]))
                return
            if self._watch.must_stop(self.expanded, self.value, self.bound):
                self._pools[t].push(nodes.take(np.unique(ends.row[order[first:]])))
                return
            actions = nodes.actions[batch.row]
            actions[np.arange(len(actions)), batch.step] = batch.action
            values = np.empty(len(actions))
            for u in np.unique(batch.step):
                rows = batch.step == u
                taken = np.repeat(self._setting.observed[None, u:], rows.sum(), axis=0)
                taken[:, 0] = batch.action[rows]
                ended = batch.earned[rows] + self._setting.ends(u, batch.states[rows], taken)
                better = np.flatnonzero(ended > self.value)
                if better.size and self._setting.is_bound:
                    path = self._setting.path(u, batch.states[rows][better], taken[better])
                    ended[better[~self._setting.stays(path[:, 1:])[:, -1]]] = -math.inf
                values[rows] = ended
            self._finish(t, replace(nodes.take(batch.row), actions=actions), values)

    def _finish(self, t: int, nodes: Nodes, values: FloatArray) -> None:
        """Whole sequences from nodes of step t on: keep the best of those inside the data."""
        judge, whole = self._judge, partial(nodes.sequences, self._setting.observed)
        order = np.argsort(-values, kind="stable")
        size = len(order) if judge is self._setting else JUDGED
        for first in range(0, len(order), max(size, 1)):
            least = self.value + judge.negligible(self.value)
            rows = order[first : first + size]
            rows = rows[values[rows] > least]
            if not rows.size:
                return
            ended = whole(rows)
            judged = values[rows] if judge is self._setting else judge.outcomes(ended)
            better = np.where(judged > least, judged, -math.inf)
            best = judge.best_inside(ended.__getitem__, better, since=t)
            if best is not None:
                self.value, self.sequence = float(judged[best]), ended[best]


class Ends(NamedTuple):
    """Last changes of nodes: the step, the node's row, the new action, what was earned before, what
    is promised, and the state there."""

    step: IntArray
    row: IntArray
    action: IntArray
    earned: FloatArray
    promise: FloatArray
    states: FloatArray

    def take(self, rows: IntArray) -> Ends:
        """Some of them."""
        numbers = self.step[rows], self.row[rows], self.action[rows]
        return Ends(*numbers, self.earned[rows], self.promise[rows], self.states[rows])


@runtime_checkable
class Heuristic(Protocol):
    """A kind of upper bound; `AStar` prepares it for a problem."""

    def refuses(self, setting: SequenceSetting) -> str | None:
        """What the model would have to provide, or None."""
        ...

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """The bound of one problem; what is not known at the deadline (by `core.limits.clock`)
        is left unbounded."""
        ...


@dataclass(frozen=True)
class FirstOrderBound:
    """The certified first-order bound, from the model's slopes or at least its constants."""

    def refuses(self, setting: SequenceSetting) -> str | None:
        """Why there is no such bound: the model knows neither constants nor slopes. Or None."""
        if all(one.step_constants is not None or knows_slopes(one) for one in setting.members):
            return None
        return (
            f"{type(setting.scm).__name__} states no Lipschitz constants, which every bound needs: "
            "pass lipschitz=..., or search without a bound, solver=AStar(NoBound())"
        )

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        return FirstOrder(setting, deadline)


@dataclass(frozen=True)
class NoBound:
    """No bound at all: every sequence is tried (uniform-cost search, for comparison)."""

    name = "none"

    def refuses(self, setting: SequenceSetting) -> str | None:
        return None

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        return self

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        return self

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        return np.full(len(states), np.inf)


@dataclass(frozen=True)
class Tightest:
    """The least of several bounds, which is again a bound."""

    heuristics: tuple[Heuristic, ...]

    def __post_init__(self) -> None:
        given: object = self.heuristics
        if not isinstance(given, Sequence) or not given:
            raise InputError("Tightest needs bounds: e.g. Tightest((FirstOrderBound(), ...))")
        for heuristic in given:
            _check_heuristic(heuristic)

    def refuses(self, setting: SequenceSetting) -> str | None:
        refusals = (heuristic.refuses(setting) for heuristic in self.heuristics)
        return next((refusal for refusal in refusals if refusal), None)

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        return _Least([heuristic.prepare(setting, deadline) for heuristic in self.heuristics])


@dataclass(frozen=True, eq=False)
class Prepared:
    """All bounds of one problem.

    setting  what nodes know
    last     of nodes that can afford one more change, None where there is no such bound
    others   of all nodes, or of the others
    """

    setting: SequenceSetting
    last: LastChange | None
    others: UpperBound

    @property
    def name(self) -> str:
        if self.last is None:
            return self.others.name
        before = "" if isinstance(self.others, NoBound) else f", before it {self.others.name}"
        several = len(self.setting.members)
        return f"{self.last.name}{before}" + (f", over {several} members" if several > 1 else "")

    def restricted(self, k: int) -> Prepared:
        """For a smaller budget."""
        setting = replace(self.setting, k=min(k, self.setting.k))
        last = None if self.last is None else self.last.restricted(setting)
        return Prepared(setting, last, self.others.restricted(setting))


@dataclass(frozen=True)
class AStar:
    """Best-first search for the best sequence.

    heuristic  the bound
    batch      how many nodes are expanded at a time
    incumbent  whether to start from the greedy sequence, to drop what cannot beat it
    memory     how many nodes may be open before the search turns to depth first
    rollout    whether a spent budget is followed to the end at once

    With batch=1, incumbent=False, rollout=False it visits and adds nodes as textbook A* does.
    """

    heuristic: Heuristic = FirstOrderBound()
    batch: int = 256
    incumbent: bool = True
    memory: int = 2_000_000
    rollout: bool = True

    def refuses(self, problem: Problem) -> str | None:
        _check_heuristic(self.heuristic)
        whole_number(self.batch, "batch", minimum=1)
        whole_number(self.memory, "memory", minimum=1)
        if not isinstance(problem.scm, PointSCM):
            return (
                f"a {type(problem.scm).__name__} has no point abduction: A* needs a PointSCM, "
                "such as NeuralSCM, LocationScaleSCM or your own subclass"
            )
        return None

    @np.errstate(over="ignore", invalid="ignore")
    def solve(self, problem: Problem) -> Explanation:
        watch = Watch("search", problem.limits, problem.progress)
        setting = self._accepted(problem)
        start = self._start(setting, setting.observed, watch)
        bound = self._prepared(setting, start, watch)
        return self._explained(problem.k, setting, bound, start, watch)

    @np.errstate(over="ignore", invalid="ignore")
    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """Every budget in turn, each starting from the best sequence of the one before. Limits
        hold for each of them, and for preparing the bound that they share."""
        found: list[SequenceExplanation] = []
        largest = self._accepted(problem)
        watch = Watch("bound", problem.limits)
        start = self._start(largest, largest.observed, watch)
        bound = self._prepared(largest, start, watch)
        for k in range(problem.k + 1):
            watch = Watch("search", problem.limits, problem.progress)
            setting = replace(largest, k=min(k, largest.k))
            start = self._start(setting, found[-1].actions if found else setting.observed, watch)
            found.append(self._explained(k, setting, bound.restricted(k), start, watch))
        return found

    def _start(self, setting: SequenceSetting, known: IntArray, watch: Watch) -> IntArray:
        """A sequence to start from: greedy, by a few models where there are many."""
        if not self.incumbent:
            return known
        # A little time is always there: without a start there is nothing to answer with.
        deadline = max(watch.deadline, clock() + START_SECONDS)
        found = greedy_sequence(setting.narrowed(known), known, deadline=deadline)
        old, new = setting.outcomes(np.stack([known, found])).tolist()
        return found if new > old + setting.negligible(old) else known

    def _prepared(self, setting: SequenceSetting, start: IntArray, watch: Watch) -> Prepared:
        """The bounds, of several models by those that count for the sequence to start from."""
        nodes = setting.narrowed(start)
        is_ours = isinstance(self.heuristic, FirstOrderBound) and self.rollout and setting.k > 0
        if is_ours and all(layers_of(one) is not None for one in nodes.members):
            last = LastChange(nodes, watch.deadline)
            if last.finished:
                before = max(setting.k // int(setting.costs.min()) - 1, 0)
                singles = int(setting.allowed.sum()) - len(setting.allowed)
                if singles**before / math.factorial(before) <= FEW_NODES:
                    return Prepared(nodes, last, NoBound())
                return Prepared(nodes, last, self.heuristic.prepare(nodes, watch.deadline))
        return Prepared(nodes, None, self.heuristic.prepare(nodes, watch.deadline))

    def _accepted(self, problem: Problem) -> SequenceSetting:
        setting = prepare_continuous(problem)
        if refusal := self.heuristic.refuses(setting):
            raise NotApplicableError(refusal)
        return setting

    def _explained(
        self,
        k: int,
        setting: SequenceSetting,
        bound: Prepared,
        start: IntArray,
        watch: Watch,
    ) -> SequenceExplanation:
        prepared = watch.seconds
        outcome = Search(self, setting, bound, start, watch)
        stats = {
            "seconds": watch.seconds,
            "bound_seconds": prepared,
            "nodes_expanded": float(outcome.expanded),
            "nodes_added": float(outcome.added),
            "effective_branching_factor": branching_factor(outcome.added, setting.horizon),
        }
        # Compared as the search added it up: replayed, the same rewards may round differently.
        gap = outcome.bound - outcome.value
        proved = outcome.complete and gap <= setting.negligible(outcome.value)
        return setting.explanation(
            k,
            setting.simplified(outcome.sequence),
            outcome.bound,
            Status.OPTIMAL if proved else Status.LIMIT,
            bound.name,
            stats,
            outcome.history.array(),
        )


class _Least:
    def __init__(self, bounds: list[UpperBound]) -> None:
        self._bounds = bounds
        self.name = " and ".join(bound.name for bound in bounds)

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        # A bound that could not be computed says nothing about the others.
        return np.asarray(np.fmin.reduce([b.upper(t, used, states) for b in self._bounds]))

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        return _Least([bound.restricted(setting) for bound in self._bounds])


def _check_heuristic(heuristic: object) -> None:
    if isinstance(heuristic, type) or not isinstance(heuristic, Heuristic):
        raise InputError(f"the bound is {heuristic!r}: pass an object such as FirstOrderBound()")


def knows_slopes(setting: SequenceSetting) -> bool:
    """Whether the model states slopes, tried at the first state."""
    first = setting.states[0]
    region = Region(first, 0.0, np.zeros(len(first)))
    return setting.scm.slopes(region, setting.vectors[0][:1], setting.noise[0]) is not None


def branching_factor(nodes: int, horizon: int) -> float:
    """b with nodes = b + b^2 + ... + b^T (the paper's effective branching factor)."""
    if nodes <= 0:
        return 0.0
    # b^T is at most `nodes`, and smaller powers cannot overflow.
    largest = max(1.0, float(nodes) ** (1.0 / horizon) * (1.0 + 1e-9))

    def surplus(b: float) -> float:
        return sum(b**power for power in range(1, horizon + 1)) - nodes

    return float(brentq(surplus, 0.0, largest))
