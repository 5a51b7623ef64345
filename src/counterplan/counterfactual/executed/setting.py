"""Executed decisions along a realised path, ready to be changed.

The third kind of counterfactual: what was left to chance, the path x_t, is known and untouched by
actions, so its posterior is the path itself. The decisions a_t moved a resource d_t and earned

    value = sum_t r_t(x_t, d_t, a_t),    d_{t+1} = step_t(x_t, d_t, a_t)

An alternative replaces some a_t by other amounts; all that are not replaced stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Change, Explanation, Status
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.counterfactual.support import Support
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.evaluate import carried_out, refuse_action
from counterplan.planning.hindsight import checked_path
from counterplan.planning.model import ExogenousModel, MakesFeasible, State
from counterplan.planning.policies import Played, played

# Values and amounts that differ by this much of their size are the same but for rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocationExplanation(Explanation):
    """The alternative decisions and the levels they lead to.

    path      (T, X) what no action touched
    actions   (T, A) amounts
    observed  (T, A) those that were executed
    levels    (T + 1, D) the resource before each decision, and at the end
    problem   what was decided about: it knows words and units
    """

    path: FloatArray
    actions: FloatArray
    observed: FloatArray
    levels: FloatArray
    problem: ExogenousModel

    @property
    def states(self) -> FloatArray:
        """(T, X + D) the path and the levels before each decision, as episodes have them."""
        return np.hstack([self.path, self.levels[:-1]])

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Where the decisions differ from what was done, as tuples of amounts."""
        return tuple(
            Change(int(t), tuple(self.observed[t].tolist()), tuple(self.actions[t].tolist()))
            for t in np.flatnonzero((self.actions != self.observed).any(axis=1))
        )

    @property
    def support(self) -> Support:
        """Nothing is known: a planning problem is stated, not learned."""
        return Support((None,) * len(self.changes))


@dataclass(frozen=True, eq=False)
class AllocationSetting:
    """What is searched.

    path      (T, X) what no action touched
    state     where it begins
    done      the executed decisions (T, A), the levels they led to, and their value
    movable   (T,) steps whose decision may change
    max_move  (A,) how far an amount may be from the executed one
    k         how many may change
    """

    model: ExogenousModel
    episode: Episode
    path: FloatArray
    state: State
    done: Played
    movable: BoolArray
    max_move: FloatArray
    k: int

    @property
    def sign(self) -> float:
        """What values are multiplied with so that more is better."""
        return 1.0 if self.model.sense == "max" else -1.0

    @property
    def is_free(self) -> bool:
        """Whether everything may change in any way: plain hindsight."""
        return bool(
            self.k >= len(self.path) and self.movable.all() and np.isinf(self.max_move).all()
        )

    def negligible(self, value: float) -> float:
        """What rounding can do to a value."""
        return ROUNDING * max(self.sizes[0], abs(value), abs(self.done.value))

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """The size of what values are sums of, and of amounts: the largest on offer along what was
        executed. Rounding is measured by these, so that units do not matter."""
        total, amount = 0.0, float(np.abs(self.done.actions).max(initial=0.0))
        for s, (x, d) in enumerate(zip(self.path, self.done.levels[:-1], strict=True)):
            t, offered = self.state.t + s, self._offered[s]
            if not len(offered):
                continue
            n = len(offered)
            rewards, _ = self.model.step(t, np.tile(x, (n, 1)), np.tile(d, (n, 1)), offered.copy())
            finite = np.abs(rewards[np.isfinite(rewards)])
            total += float(finite.max(initial=0.0))
            amount = max(amount, float(np.abs(offered).max()))
        return total or abs(self.done.value) or 1.0, amount or 1.0

    def replayed(self, actions: FloatArray) -> Played:
        """Where decisions (T, A) lead, by the model's own step."""

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            return np.asarray(actions[t - self.state.t][np.newaxis])

        return played(self.model, rule, self.path, self.state)

    def without_rounding(self, actions: FloatArray) -> FloatArray:
        """The decisions, those that equal the executed ones but for rounding put right."""
        executed = self.done.actions
        moved = np.abs(actions - executed) > ROUNDING * self.sizes[1]
        return np.where(moved.any(axis=1, keepdims=True), actions, executed)

    def alternatives(
        self, s: int, resource: FloatArray, known: FloatArray | None = None
    ) -> FloatArray:
        """(m, A) what the model offers at the s-th step and may replace the executed action there;
        a `known` one counts as offered where it is possible."""
        offered = np.asarray(
            self.model.actions(State(self.state.t + s, self.path[s], resource)), np.float64
        )
        is_new = known is not None and not self._holds(offered, known)
        if known is not None and is_new and self.is_possible(s, resource, known):
            offered = np.vstack([offered, known])
        away, slack = self._away(s, offered)
        return np.asarray(offered[(away > slack).any(axis=1) & ~self.bars(s, offered)])

    def _away(self, s: int, actions: FloatArray) -> tuple[FloatArray, float]:
        """How far actions (n, A) are from the executed one, and what of it is rounding."""
        return np.abs(actions - self.done.actions[s]), ROUNDING * self.sizes[1]

    def is_possible(self, s: int, resource: FloatArray, action: FloatArray) -> bool:
        """Whether an action can be taken at the s-th step with another resource than it was."""
        state = State(self.state.t + s, self.path[s], resource)
        try:
            refuse_action(self.model, state, action)
        except InfeasibleError:
            return False
        if isinstance(self.model, MakesFeasible) or not self._was_offered[s]:
            return True
        # A model that says nothing else of what is possible says it by what it offers.
        return self._holds(np.asarray(self.model.actions(state)), action)

    @cached_property
    def _offered(self) -> list[FloatArray]:
        """By step: (m, A) what was on offer along what was executed."""
        return [
            np.asarray(self.model.actions(State(self.state.t + s, x, d)), dtype=np.float64)
            for s, (x, d) in enumerate(zip(self.path, self.done.levels[:-1], strict=True))
        ]

    @cached_property
    def _was_offered(self) -> list[bool]:
        """Of each executed action, whether it was one of those on offer."""
        return list(map(self._holds, self._offered, self.done.actions))

    def _holds(self, offered: FloatArray, action: FloatArray) -> bool:
        """Whether an action (A,) is one of those offered (m, A), but for rounding."""
        close = np.abs(offered - action) <= ROUNDING * self.sizes[1]
        return bool(np.any(np.all(close, axis=1)))

    def explanation(
        self,
        k: int,
        led: Played,
        bound: float,
        status: Status,
        method: str,
        stats: Mapping[str, float],
    ) -> AllocationExplanation:
        """An answer: decisions and where they led."""
        return AllocationExplanation(
            episode=self.episode,
            k=k,
            value=led.value,
            factual_value=self.done.value,
            bound=bound,
            status=status,
            stats=MappingProxyType(dict(stats)),
            method=method,
            sense=self.model.sense,
            path=self.path,
            actions=led.actions,
            observed=self.done.actions,
            levels=led.levels,
            problem=self.model,
        )

    def bars(self, s: int, actions: FloatArray) -> BoolArray:
        """(n,) which of the actions (n, A) the s-th step may not change to, whatever the budget."""
        away, slack = self._away(s, actions)
        is_far = (away > self.max_move + slack).any(axis=1)
        return np.asarray(is_far | ((away > slack).any(axis=1) & ~self.movable[s]))


def prepare_allocation(problem: Problem) -> AllocationSetting:
    """Check an episode of a planning problem, and carry out what was done."""
    model: ExogenousModel = problem.scm
    episode = problem.episode
    path, state = _path_of(model, episode)
    actions = episode.actions if episode.actions.ndim == 2 else episode.actions[:, None]
    done = carried_out(model, path, actions, state)
    _check_levels(episode, path.shape[1], done)
    movable, max_move = _rules(problem, done.actions)
    k = min(problem.k, int(movable.sum()))
    return AllocationSetting(model, episode, path, state, done, movable, max_move, k)


def _path_of(model: ExogenousModel, episode: Episode) -> tuple[FloatArray, State]:
    """The path in an episode's states, (T, X) or with levels (T, X + D), and where it begins."""
    states, start = episode.states, model.start
    X, D = len(start.exogenous), len(start.resource)
    T, width = states.shape
    if model.horizon < T or width not in (X, X + D) or len(episode.actions) != T:
        raise InputError(
            f"{episode.name} has {T} states of {width} numbers and {len(episode.actions)} actions: "
            f"expected up to {model.horizon} of each, states with x ({X}) or x and levels ({X + D})"
        )
    if model.horizon > T and width == X:
        raise InputError(
            f"{episode.name} has {T} of {model.horizon} steps: one that begins later needs its "
            f"levels, too: states of {X + D} numbers"
        )
    resource = start.resource if width == X else states[0, X:]
    return checked_path(
        model, states[:, :X], State(model.horizon - T, states[0, :X], np.asarray(resource))
    )


def _check_levels(episode: Episode, exogenous: int, done: Played) -> None:
    """Levels that the episode states must be those that its actions lead to."""
    stated = episode.states[:, exogenous:]
    if stated.shape[1] == 0:
        return
    off = np.abs(stated - done.levels[:-1])
    wrong = np.flatnonzero((off > 1e-6 * (1.0 + np.abs(stated))).any(axis=1))
    if wrong.size:
        t = int(wrong[0])
        raise InputError(
            f"{episode.name}: its actions lead to {done.levels[t].tolist()} at step {t}, but the "
            f"states say {stated[t].tolist()}: leave the levels out, or correct one of them"
        )


def _rules(problem: Problem, actions: FloatArray) -> tuple[BoolArray, FloatArray]:
    """(T,) steps that may change, and (A,) how far."""
    rules, movable = problem.constraints, np.ones(len(actions), dtype=np.bool_)
    by_number = "names actions by number, but a planning problem has amounts: "
    limits = rules.dose_limits(actions.shape, f"{by_number}use fixed_steps or max_move")
    rules.least(knows_data=False)
    movable[[int(step) for step in rules.fixed_steps]] = False
    return movable, limits.max(axis=0)
