"""Brute force over executed plans, for small planning problems.

Where the model is a resource program without spilling: every choice of at most k steps, for each
the linear program in which all others keep what they spent, written down step by step. Elsewhere:
every sequence of the actions that the model offers. Costs grow exponentially.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.allocation.hindsight import IsResourceProgram
from counterplan.core.constraints import Constraints
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.allocation_setting import stated_program
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.exogenous.model import ExogenousModel, MakesFeasible, State


class BestAllocation(NamedTuple):
    """The best total, a cost where the problem counts costs, and the decisions (T, A) behind it."""

    value: float
    actions: FloatArray


@dataclass(frozen=True, eq=False)
class _Executed:
    """A path (T, X), the decisions along it (T, A), and what may change about them."""

    problem: ExogenousModel
    path: FloatArray
    actions: FloatArray
    constraints: Constraints

    def may_change(self, t: int) -> bool:
        fixed = {int(step) % len(self.path) for step in self.constraints.fixed_steps}
        return t not in fixed

    @property
    def reach(self) -> FloatArray:
        """(A,) how far an amount may move."""
        limit = self.constraints.max_move
        return np.broadcast_to(np.inf if limit is None else limit, self.actions.shape[1:])

    def may_keep(self, here: State) -> bool:
        """Whether what was executed can be kept, as far as offers tell: not if it was on offer
        then, and is not with another resource. What else is impossible, the step refuses."""
        if isinstance(self.problem, MakesFeasible) or not self._offers[here.t]:
            return True
        return _is_offered(self.problem, here, self.actions[here.t])

    @cached_property
    def _offers(self) -> list[bool]:
        """Whether each executed action was on offer when it was taken."""
        found, state = [], self.problem.start
        for t, (x, action) in enumerate(zip(self.path, self.actions, strict=True)):
            state = State(t, x, state.resource)
            found.append(_is_offered(self.problem, state, action))
            _, after = self.problem.step(t, x[None], state.resource[None], action[None])
            state = State(t + 1, x, np.asarray(after[0]))
        return found


def _is_offered(problem: ExogenousModel, state: State, action: FloatArray) -> bool:
    return any(np.allclose(one, action, 1e-9, 1e-9) for one in problem.actions(state))


def best_allocation(
    problem: ExogenousModel,
    path: ArrayLike,
    actions: ArrayLike,
    k: int,
    constraints: Constraints | None = None,
) -> BestAllocation:
    """The best decisions along a path (T, X) from the start, of which at most k differ from those
    that were executed, (T, A)."""
    exogenous, executed = np.asarray(path, np.float64), np.asarray(actions, np.float64)
    done = _Executed(problem, exogenous, executed, constraints or Constraints())
    stated = stated_program(problem)
    if stated is not None:
        return _best_steps(done, stated, k)
    sign = 1.0 if problem.sense == "max" else -1.0
    found = _best_from(done, problem.start, k)
    return BestAllocation(sign * found[0], np.array(found[1]))


def _best_steps(done: _Executed, stated: IsResourceProgram, k: int) -> BestAllocation:
    if any(one.spill for one in stated.program.resources):
        raise NotApplicableError("with spilling, what may be spent is no polytope: nothing to try")
    rewards = stated.unit_rewards(0, done.path[None])[0]
    movable = [t for t in range(len(done.path)) if done.may_change(t)]
    best, decisions = -math.inf, done.actions
    for count in range(min(k, len(movable)) + 1):
        for steps in itertools.combinations(movable, count):
            found = _with_others_kept(done, stated, rewards, steps)
            if found is not None and (rewards * found).sum() > best:
                best, decisions = float((rewards * found).sum()), found
    return BestAllocation(best if done.problem.sense == "max" else -best, decisions)


def _with_others_kept(
    done: _Executed, stated: IsResourceProgram, rewards: FloatArray, steps: tuple[int, ...]
) -> FloatArray | None:
    """(T, A) the best decisions that differ at these steps alone; None where none is possible."""
    from scipy.optimize import linprog

    program = stated.program
    T, A = rewards.shape
    rows: list[FloatArray] = []
    limits: list[float] = []

    def between(low: float, row: FloatArray, high: float) -> None:
        for sign, limit in ((1.0, high), (-1.0, -low)):
            if math.isfinite(limit):
                rows.append(sign * row.ravel())
                limits.append(limit + 1e-12)

    spent = np.zeros((T, A))
    for t in range(T):
        step = np.zeros((T, A))
        step[t] = 1.0
        spent[t] = 1.0
        between(program.step_bounds[t, 0], step, program.step_bounds[t, 1])
        for i, one in enumerate(program.resources):
            moved = np.zeros((T, A))
            moved[: t + 1, i] = one.effect
            for flown in (program.changes[:t, i].sum(), program.changes[: t + 1, i].sum()):
                there = one.start + flown
                between(-there, moved, one.capacity - there)
    between(program.budget[0], spent, program.budget[1])
    low, high = done.actions.copy(), done.actions.copy()
    for t in steps:
        low[t], high[t] = np.maximum(low[t] - done.reach, 0.0), high[t] + done.reach
    bounds = list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
    unit = float(np.abs(rewards).max()) or 1.0
    solved = linprog(
        -rewards.ravel() / unit,
        np.array(rows),
        np.array(limits),
        bounds=bounds,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return solved.x.reshape(T, A) if solved.status == 0 and solved.x is not None else None


def _best_from(done: _Executed, state: State, left: int) -> tuple[float, list[FloatArray]]:
    """The most that the rest can bring, to be maximised, and the decisions; -inf if nothing can."""
    problem, t = done.problem, state.t
    if t == len(done.path):
        return 0.0, []
    sign = 1.0 if problem.sense == "max" else -1.0
    here = State(t, done.path[t], state.resource)
    kept = done.actions[t]
    options = [(kept, 0)] if done.may_keep(here) else []
    if left > 0 and done.may_change(t):
        offered = np.asarray(problem.actions(here), dtype=np.float64)
        near = (np.abs(offered - kept) <= done.reach + 1e-9).all(axis=1)
        options += [(action, 1) for action in offered[near]]
    best: tuple[float, list[FloatArray]] = (-math.inf, [])
    for action, cost in options:
        try:
            reward, after = problem.step(t, here.exogenous[None], here.resource[None], action[None])
        except InfeasibleError:
            continue
        following = State(t + 1, here.exogenous, np.asarray(after[0]))
        rest, decisions = _best_from(done, following, left - cost)
        total = sign * float(reward[0]) + rest
        if total > best[0]:
            best = total, [action, *decisions]
    return best
