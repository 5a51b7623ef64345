"""The exact solver of continuous problems: best-first search over sequences of actions.

A node is a state reached at step t with l units of the budget spent. Its promise is

    f = (rewards earned before t) + U(s, l, t),        never more than its parent's

where U is any admissible bound (Eq. 10 of the 2023 paper with an upper bound for the value). The
search expands the most promising nodes, many of one step at a time: all children of a batch are one
call to the model. A child whose promise does not beat the best sequence known is dropped; one whose
budget is spent is followed to the end at once. Those that can afford a last change wait until there
are many, and are followed together, with each change whose own promise (`last_change`) is enough.
Of many models (`setting`) nodes know those whose weighted outcome bounds what is optimised, and
sequences that end well are judged by all. Children that leave the data are not opened where
alternatives have to stay inside it, and a sequence counts once all of it does: whether a state is
near is asked when its node is expanded or ends a better sequence, so that a bound on all sequences
bounds these. When nothing open or waiting promises more than the best sequence known, that sequence
is optimal; stopped earlier, the largest of these promises certifies how much better the optimum can
be. A bound that is not a finite number promises everything: where
numbers overflow nothing is dropped. What is better by rounding only is not better: ties keep what
was done.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from counterplan.core.limits import Watch, clock
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import BoolArray, FloatArray, IntArray, whole_number
from counterplan.counterfactual.continuous.claims import SequenceExplanation
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.last_change import LastChange, layers_of
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.setting import (
    SequenceSetting,
    greedy_sequence,
    prepare_sequence,
)
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.point import PointSCM, Region

# Nodes of one step, n of them, as records:
#     states   (B, D)
#     used     budget spent
#     earned   rewards of the states and actions before
#     promise  the most that any sequence through the node can earn
#     actions  (T-1,) those on the way, and from there on what was done; in few bytes
Nodes: TypeAlias = NDArray[np.void]
# Sequences that are judged, ends that are followed and nodes that are ended at a time.
JUDGED, FOLLOWED, ENDED = 32, 256, 2_048
# With so few nodes before the last change, bounds on them cost more than they save.
FEW_NODES = 100_000
# Of what a start gains, promises beyond this are of little use.
STEEP = 2.0
# With so few sequences bounds cost more than trying them (of single changes: with five times as
# many); inside the data, where bounds save less, with twice as many. Their number there is an
# estimate: bounds are made once there are so many times more.
FEW_SEQUENCES, MISJUDGED = 4_000, 4
# With less time than this there may be none left for bounds then.
TRIED_SECONDS = 2.0
# Changes that are tried for the sequence to start from once all have been.
TRIED_AGAIN = 24
# For the sequence to start from, whatever the limit.
START_SECONDS = 0.3
# Moments of a search that are told.
LONGEST = 4096


def root(setting: SequenceSetting) -> Nodes:
    """The first state, nothing changed."""
    kind = [
        ("states", np.float64, setting.states.shape[1:]),
        ("used", np.int64),
        ("earned", np.float64),
        ("promise", np.float64),
        ("actions", np.min_scalar_type(setting.n_actions), setting.observed.shape),
    ]
    node = np.zeros(1, np.dtype(kind, align=True))
    node["states"], node["promise"], node["actions"] = setting.states[0], math.inf, setting.observed
    return node


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
        return max((float(run["promise"][0]) for run in self._runs), default=-math.inf)

    def push(self, nodes: Nodes) -> None:
        if len(nodes) == 0:
            return
        self._runs.append(_best_first(nodes))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(_best_first(np.concatenate([before, last])))

    def pop(self, count: int, above: float) -> tuple[Nodes, float]:
        """Up to `count` of the most promising nodes; those not above the threshold are dropped,
        and the largest promise among these is told."""
        parts, rests, dropped = [], [], -math.inf
        enough = [int(np.count_nonzero(run["promise"] > above)) for run in self._runs]
        heads = [run["promise"][: min(n, count)] for run, n in zip(self._runs, enough, strict=True)]
        owner = np.repeat(np.arange(len(heads)), [len(head) for head in heads])
        # Stable, so that what is taken of a run is its beginning, also among equals.
        order = np.argsort(-np.concatenate(heads), kind="stable")[:count]
        used = np.bincount(owner[order], minlength=len(heads))
        for run, first, last in zip(self._runs, used, enough, strict=True):
            parts.append(run[:first])
            if last > first:
                rest = run[first:last]
                # Copied where a few would keep a much larger array alive.
                held = rest if rest.base is None else rest.base
                rests.append(rest.copy() if len(held) > 2 * len(rest) else rest)
            dropped = max(dropped, float(run["promise"][last:][:1].max(initial=-math.inf)))
        self._runs = rests
        return np.concatenate(parts), dropped


def _best_first(nodes: Nodes) -> Nodes:
    return nodes[np.argsort(-nodes["promise"], kind="stable")]


def thinned(moments: FloatArray, longest: int = LONGEST) -> FloatArray:
    """(m, 3) of all moments of a search (n, 3), nodes expanded, value and bound, about as many as
    are told, evenly spread: the first and the last, and every one at which something better was
    found. What is known later about the same nodes counts."""
    moments = moments[np.append(np.diff(moments[:, 0]) > 0.0, True)]
    kept = np.append(False, np.diff(moments[:, 1]) > 0.0)
    kept[np.linspace(0, len(moments) - 1, min(longest, len(moments))).astype(np.int64)] = True
    return np.asarray(moments[kept])


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
    name      of the bound
    prepared  seconds before it began
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
        most: float = math.inf,
    ) -> None:
        """It stops after `most` nodes, besides what the watch says."""
        self._solver, self._judge, self._watch, self._nodes = solver, setting, watch, most
        self.name, self.prepared = bound.name, watch.seconds
        self._setting, self._upper, self._last = bound.setting, bound.others.upper, bound.last
        self.sequence, self.value = start, float(setting.outcomes(start[None])[0])
        self.bound, self.complete, self.expanded, self.added = math.inf, False, 0, 0
        self._moments = array("d")
        self._pools = [Pool() for _ in range(setting.horizon)]
        # Nodes of some step that are to be ended, together.
        self._waiting: list[tuple[int, Nodes]] = []
        # Nodes that may be open; states of several models are as many times as wide.
        self._most = solver.memory // self._setting.states.shape[1]
        # The largest promise that was dropped: never more than the wanted gap above the value.
        self._dropped = -math.inf
        self._run()

    def _run(self) -> None:
        """Search until the watch says stop."""
        setting, watch = self._setting, self._watch
        if setting.horizon > 1:
            self._keep(0, root(setting))
        while True:
            t, promise = self._most_promising()
            ends = (float(some["promise"].max()) for _, some in self._waiting)
            self.bound = max(self.value, promise, self._dropped, *ends)
            self._moments.extend((self.expanded, self.value, self.bound))
            self.complete = promise <= self._enough
            if (
                self.complete
                or self.has_too_many
                or watch.must_stop(self.expanded, self.value, self.bound)
            ):
                if not self._waiting:
                    return
                self._end()
                continue
            count = watch.remaining(self._solver.batch, self.expanded)
            nodes, dropped = self._pools[t].pop(count, self._enough)
            self._dropped = max(self._dropped, dropped)
            self.expanded += len(nodes)
            if len(nodes):
                self._expand(t, nodes)

    @property
    def has_too_many(self) -> bool:
        """Whether it stopped since there are more nodes than it was made for."""
        return not self.complete and self.expanded > self._nodes

    @property
    def history(self) -> FloatArray:
        """(m, 3) nodes expanded, value and bound as the search went on."""
        return thinned(np.array(self._moments).reshape(-1, 3))

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
        """Open all children within the budget."""
        setting, states = self._setting, nodes["states"]
        earned = nodes["earned"] + setting.reward(states)
        parent, action = np.nonzero(setting.may_take(t, states, nodes["used"]))
        children = nodes[parent]
        children["states"] = setting.follow(t, states[parent], action)
        children["used"] += setting.costs_at(t)[action]
        children["earned"] = earned[parent] + setting.bonus[t, action]
        children["actions"][:, t] = action
        if not self._solver.rollout:
            self.added += len(children)
        if t + 1 < setting.horizon - 1:
            self._keep(t + 1, children)
        else:
            ended = children["earned"] + setting.last(children["states"])
            self._finish(t + 1, children, ended)

    def _keep(self, t: int, nodes: Nodes) -> None:
        """Open nodes that promise enough; follow those whose budget is spent to their end. This is
        the one place where bounds on nodes enter the search (those on last changes: `_end`): where
        none of whatever kind could be computed, the promise is that of the parent."""
        setting, rollout = self._setting, self._solver.rollout
        promise = nodes["earned"] + self._upper(t, nodes["used"], nodes["states"])
        promise = np.where(np.isfinite(promise), promise, math.inf)
        if math.isfinite(most := float(setting.most_ahead[t])):
            promise = np.minimum(promise, nodes["earned"] + setting.reward(nodes["states"]) + most)
        nodes["promise"] = promise = np.minimum(promise, nodes["promise"])
        worth = promise > self._enough
        more = int(setting.costs.min()) * (1 if self._last is None else 2)
        spent = (nodes["used"] + more > setting.k) & rollout
        final = worth & spent
        if final.any():
            leaves = nodes[final]
            while len(leaves):
                room = ENDED - sum(len(some) for _, some in self._waiting)
                self._waiting.append((t, leaves[:room]))
                if self._last is None or len(leaves) >= room:
                    self._end()
                leaves = leaves[room:]
            worth &= promise > self._enough
        missed = promise[~worth & ~final]
        self._dropped = max(self._dropped, float(missed.max(initial=-math.inf)))
        stay = worth & ~spent
        if rollout:
            self.added += int(np.count_nonzero(stay))
        self._pools[t].push(nodes[stay])

    def _end(self) -> None:
        """Follow the nodes that wait, which can afford one more change at most, to their ends."""
        setting, horizon = self._setting, self._setting.horizon
        steps = np.repeat(*np.array([(t, len(some)) for t, some in self._waiting]).T)
        nodes = np.concatenate([some for _, some in self._waiting])
        self._waiting.clear()
        # (n, T, B, D) from the step of a node on
        path = np.empty((len(nodes), horizon, *nodes["states"].shape[1:]))
        for t in np.unique(steps).tolist():
            rows, here = np.flatnonzero(steps == t), nodes[steps == t]
            taken = here["actions"][:, t:].astype(np.int64)
            path[rows, t:] = setting.path(t, here["states"], taken)
            self._finish(t, here, here["earned"] + setting.earned(path[rows, t:], taken, t))
        if self._last is None or (nodes["used"] + setting.costs.min() > setting.k).all():
            return
        earned, stays, ends, owners = nodes["earned"], np.ones(len(nodes), np.bool_), [], []
        # How far ends are below this is not computed: so little that the gap to it is allowed.
        gap, deadline = self._watch.gap * (1.0 - 1e-12), self._watch.deadline
        least = self.value + max(gap, self._judge.negligible(self.value) / 2)
        for u in range(steps.min(), horizon - 1):
            if clock() > deadline:  # of what is left of them nothing is known
                self._open(steps, nodes)
                return
            rows, observed = np.flatnonzero(stays & (steps <= u)), setting.observed[u]
            states = path[rows, u]
            may = setting.may_take(u, states, nodes["used"][rows])
            stays[rows], may[:, observed] = may[:, observed], False
            promise = self._last.upper(u, states, least - earned[rows], may, deadline)
            promise = np.minimum(promise + earned[rows, None], nodes["promise"][rows, None])
            promise[np.isnan(promise)] = math.inf  # what cannot be bounded is not dropped
            row, action = np.nonzero(may & (promise > least))
            owner = rows[row]
            changed = nodes[owner]
            changed["states"], changed["earned"] = states[row], earned[owner]
            changed["promise"], changed["actions"][:, u] = promise[row, action], action
            ends.append(changed)
            owners.append(np.stack([np.full(len(owner), u), owner]))
            if (may & (promise <= least)).any():
                self._dropped = max(self._dropped, least)
            earned[rows] += setting.reward(states) + setting.bonus[u, observed]
        self._follow(steps, nodes, np.concatenate(ends), *np.concatenate(owners, axis=1))

    def _open(self, steps: IntArray, nodes: Nodes) -> None:
        """Leave nodes (n,) of some steps open."""
        for t in np.unique(steps).tolist():
            self._pools[t].push(nodes[steps == t])

    def _follow(
        self, before: IntArray, nodes: Nodes, ends: Nodes, steps: IntArray, owners: IntArray
    ) -> None:
        """Follow ends, each a node, one of those (n,) of some steps before, with a last change at
        its own step, the most promising first; if there is no time for all, nodes stay open."""
        order = np.argsort(-ends["promise"], kind="stable")
        for first in range(0, len(order), FOLLOWED):
            batch = order[first : first + FOLLOWED]
            most = float(ends["promise"][batch[0]])
            if most <= self._enough:
                self._dropped = max(self._dropped, most)
                return
            if self._watch.must_stop(self.expanded, self.value, self.bound):
                left = np.unique(owners[order[first:]])
                self._open(before[left], nodes[left])
                return
            values = np.empty(len(batch))
            for u in np.unique(steps[batch]):
                here = ends[batch[steps[batch] == u]]
                taken = here["actions"][:, u:].astype(np.int64)
                ended = here["earned"] + self._setting.ends(u, here["states"], taken)
                values[steps[batch] == u] = ended
            self._finish(steps[batch], ends[batch], values)

    def _finish(self, steps: IntArray | int, nodes: Nodes, values: FloatArray) -> None:
        """Keep the best of the sequences of nodes (n,) of some steps that do from there on what was
        done, inside the data."""
        judge, order = self._judge, np.argsort(-values, kind="stable")
        start, size = 0, 1 if judge.share is None else JUDGED  # mostly the first one is inside
        while True:
            least = self.value + judge.negligible(self.value)
            rows = order[start : start + size]
            rows = rows[values[rows] > least]
            if not rows.size:
                return
            if start and clock() > self._watch.deadline:  # whether they stay inside was not asked
                self._dropped = max(self._dropped, float(values[rows[0]]))
                return
            start, size = start + size, min(4 * size, JUDGED)
            rows = rows[self._stays(np.broadcast_to(steps, len(nodes))[rows], nodes[rows])]
            ended = nodes["actions"][rows].astype(np.int64)
            judged = values[rows] if judge.share is None else judge.outcomes(ended)
            judged = np.where(judged > least, judged, -math.inf)
            if (best := judge.best_inside(ended, judged)) is not None:
                self.value, self.sequence = float(judged[best]), ended[best]

    def _stays(self, steps: IntArray, nodes: Nodes) -> BoolArray:
        """(n,) whether the sequences of nodes (n,) of some steps stay near the data from there on;
        of what was before, that was asked."""
        near = np.ones(len(nodes), dtype=np.bool_)
        for t in np.unique(steps) if self._setting.is_bound else ():
            here = nodes[steps == t]
            taken = here["actions"][:, t:].astype(np.int64)
            near[steps == t] = self._setting.stays_near(t, here["states"], taken)
        return near


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
        name = type(setting.members[0].scm).__name__
        return (
            f"{name} states no Lipschitz constants, which every bound needs: pass "
            "lipschitz=..., or search without a bound, solver=AStar(NoBound())"
        )

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        return FirstOrder(setting, deadline)


@dataclass(frozen=True)
class NoBound:
    """No bound at all: every sequence is tried (uniform-cost search, for comparison)."""

    name: str = "none"

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
        last = None if self.last is None else LastChange(setting)
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
        found = self._tried(setting, setting.observed, watch)
        if found is None or found.has_too_many:
            start, bound = self._begun(setting, watch)
            found = Search(self, setting, bound, start, watch)
        return self._explained(problem.k, setting, found, watch)

    @np.errstate(over="ignore", invalid="ignore")
    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """Every budget in turn, each starting from the best sequence of the one before. Limits
        hold for each of them, and for preparing the bound that they share."""
        found: list[SequenceExplanation] = []
        largest, bound = self._accepted(problem), None
        for k in range(problem.k + 1):
            watch = Watch("search", problem.limits, problem.progress)
            setting = replace(largest, k=min(k, largest.k))
            known = found[-1].actions if found else setting.observed
            search = self._tried(setting, known, watch)
            if search is None or search.has_too_many:
                if bound is None:
                    bound = self._begun(largest, Watch("bound", problem.limits))[1]
                    watch = Watch("search", problem.limits, problem.progress)
                start = self._start(setting, known, watch)
                search = Search(self, setting, bound.restricted(k), start, watch)
            found.append(self._explained(k, setting, search, watch))
        return found

    def _tried(self, setting: SequenceSetting, known: IntArray, watch: Watch) -> Search | None:
        """A search without any bound, where that is cheaper."""
        if not (isinstance(self.heuristic, FirstOrderBound) and self.rollout and self.incumbent):
            return None
        most, limits = setting.k // int(setting.costs.min()), setting.problem.limits
        nodes = math.inf if limits.nodes is None else limits.nodes
        singles = int(setting.allowed.sum()) - len(setting.allowed)
        # Unless a limit may stop it.
        few = FEW_SEQUENCES * (5 if most == 1 and limits.seconds == math.inf else 1)
        count, limit = _sequences(singles, most), math.inf
        if count > few and setting.is_bound and limits.seconds >= TRIED_SECONDS:
            count = _sequences(setting.single_changes, most)
            few = 2 * FEW_SEQUENCES
            limit = min(MISJUDGED * count + setting.horizon, nodes - 1)
        # What stops before all is tried would have no bound to show.
        if count > few or count > nodes:
            return None
        everything = NoBound("no bound: every sequence is tried")
        bound = Prepared(setting.narrowed(setting.observed), None, everything)
        return Search(self, setting, bound, known, watch, limit)

    def _begun(self, setting: SequenceSetting, watch: Watch) -> tuple[IntArray, Prepared]:
        """A sequence to start from and the bounds."""
        is_ours = isinstance(self.heuristic, FirstOrderBound) and self.rollout and self.incumbent
        if is_ours and setting.share is None:
            bound = self._prepared(setting, setting.observed, watch)
            gains = bound.others.gains() if isinstance(bound.others, FirstOrder) else None
            start = self._start(setting, setting.observed, watch, gains)
            return start, self._if_steep(setting, bound, start, watch)
        start = self._start(setting, setting.observed, watch)
        return start, self._prepared(setting, start, watch)

    def _start(
        self,
        setting: SequenceSetting,
        known: IntArray,
        watch: Watch,
        gains: FloatArray | None = None,
    ) -> IntArray:
        """A sequence to start from: greedy, by a few models where there are many, with the changes
        that are thought to gain most, if that is known (T-1, N)."""
        if not self.incumbent:
            return known
        # A little time is always there: without a start there is nothing to answer with.
        deadline = max(watch.deadline, clock() + START_SECONDS)
        narrowed = setting.narrowed(known)
        found = greedy_sequence(
            narrowed, known, deadline=deadline, few=max(TRIED_AGAIN, 2 * setting.k), gains=gains
        )
        old, new = setting.outcomes(np.stack([known, found])).tolist()
        return found if new > old + setting.negligible(old) else known

    def _prepared(self, setting: SequenceSetting, start: IntArray, watch: Watch) -> Prepared:
        """The bounds, of several models by those that count for the sequence to start from."""
        nodes = setting.narrowed(start)
        is_ours = isinstance(self.heuristic, FirstOrderBound) and self.rollout and setting.k > 0
        found = [layers_of(one) for one in nodes.members] if is_ours else [None]
        if all(layers is not None and not layers.is_tanh for layers in found):
            if _few_before(setting):
                return Prepared(nodes, LastChange(nodes), NoBound())
            return Prepared(nodes, LastChange(nodes), self.heuristic.prepare(nodes, watch.deadline))
        return Prepared(nodes, None, self.heuristic.prepare(nodes, watch.deadline))

    def _if_steep(
        self, setting: SequenceSetting, bound: Prepared, start: IntArray, watch: Watch
    ) -> Prepared:
        """The bounds, with one on the last change where the first promise is more than twice what
        the start gains: slopes of unconstrained networks say little over many steps."""
        nodes = bound.setting
        if bound.last is not None or any(layers_of(one) is None for one in nodes.members):
            return bound
        promise = float(bound.others.upper(0, np.zeros(1, np.int64), nodes.states[:1])[0])
        before, after = setting.outcomes(np.stack([setting.observed, start])).tolist()
        if promise - before <= STEEP * (after - before) + setting.negligible(before):
            return bound
        return Prepared(
            nodes, LastChange(nodes), NoBound() if _few_before(setting) else bound.others
        )

    def _accepted(self, problem: Problem) -> SequenceSetting:
        setting = prepare_sequence(problem)
        if refusal := self.heuristic.refuses(setting):
            raise NotApplicableError(refusal)
        return setting

    def _explained(
        self, k: int, setting: SequenceSetting, found: Search, watch: Watch
    ) -> SequenceExplanation:
        stats = {
            "seconds": watch.seconds,
            "bound_seconds": found.prepared,
            "nodes_expanded": float(found.expanded),
            "nodes_added": float(found.added),
            "effective_branching_factor": branching_factor(found.added, setting.horizon),
        }
        # Compared as the search added it up: replayed, the same rewards may round differently.
        gap = found.bound - found.value
        proved = found.complete and gap <= setting.negligible(found.value)
        return setting.explanation(
            k,
            setting.simplified(found.sequence),
            found.bound,
            Status.OPTIMAL if proved else Status.LIMIT,
            found.name,
            stats,
            found.history,
        )


def _sequences(singles: int, most: int) -> float:
    """About how many sequences there are with at most so many of the single changes."""
    return math.fsum(singles**j / math.factorial(j) for j in range(min(most, 8) + 1))


class _Least:
    def __init__(self, bounds: list[UpperBound]) -> None:
        self._bounds = bounds
        self.name = " and ".join(bound.name for bound in bounds)

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        # A bound that could not be computed says nothing about the others.
        return np.asarray(np.fmin.reduce([b.upper(t, used, states) for b in self._bounds]))

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        return _Least([bound.restricted(setting) for bound in self._bounds])


def _few_before(setting: SequenceSetting) -> bool:
    """Whether bounds on the nodes before the last change cost more than they save."""
    before = max(setting.k // int(setting.costs.min()) - 1, 0)
    singles = int(setting.allowed.sum()) - len(setting.allowed)
    return bool(singles**before / math.factorial(before) <= FEW_NODES)


def _check_heuristic(heuristic: object) -> None:
    if isinstance(heuristic, type) or not isinstance(heuristic, Heuristic):
        raise InputError(f"the bound is {heuristic!r}: pass an object such as FirstOrderBound()")


def knows_slopes(one: Member) -> bool:
    """Whether the model states slopes, tried at the first state."""
    region = Region(one.states[0], 0.0, np.zeros(one.states.shape[1]))
    return one.scm.slopes(region, one.vectors[0][:1], one.noise[0]) is not None


def branching_factor(nodes: int, horizon: int) -> float:
    """b with nodes = b + b^2 + ... + b^T (the paper's effective branching factor)."""
    if nodes <= 0:
        return 0.0
    # Newton from above, where b^T is at most `nodes` and nothing overflows: the sum is convex and
    # grows, so no step passes the root. To load scipy's solvers takes longer than most searches.
    b: float = max(1.0, float(nodes) ** (1.0 / horizon) * (1.0 + 1e-9))
    while True:
        powers = b ** np.arange(horizon)
        step = float((b * powers.sum() - nodes) / (np.arange(1, horizon + 1) @ powers))
        if step <= 1e-12 * b:
            return b - step
        b -= step
