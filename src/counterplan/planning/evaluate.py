"""Planners and policies played honestly, on the same futures.

Futures are sampled once from the seed, before anything is decided, and the planner's own chance is
another stream: what it draws in its tree is never what happens. The same seed gives everyone the
same futures, so two evaluations are compared future by future (common random numbers):

    difference = mean_i (own_i - other_i),    se = sd_i(own_i - other_i) / sqrt(n)

A control variate C whose expectation is known takes out what the outcomes share with it:
own_i - beta (C_i - E[C]), beta by least squares.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.problem import ProgressCallback, Watch
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.errors import InfeasibleError, InputError, NotApplicableError, StoppedError
from counterplan.planning.bounds import DRAWS, FIT_PATHS, penalty
from counterplan.planning.hindsight import IsResourceProgram
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.model import (
    Estimate,
    ExogenousModel,
    MakesFeasible,
    Sense,
    State,
    checked_problem,
    estimate,
)
from counterplan.planning.policies import Policy, Rule, futures
from counterplan.planning.resource import ResourceProgram
from counterplan.planning.search.planners import Clip, Decide, Planner

# What actions may miss the offered ones by.
ROUNDING = 1e-9


class Control(NamedTuple):
    """A control variate on the same futures.

    outcomes     (n,), e.g. of the optimal policy, or the hindsight values
    expectation  their mean over all futures, e.g. exact_value
    se           of that expectation, where it is itself estimated
    """

    outcomes: FloatArray
    expectation: float
    se: float = 0.0


class Comparison(NamedTuple):
    """The first evaluation minus the second, in the problem's own sense.

    p_value  of no difference: paired t test, two-sided
    """

    difference: float
    se: float
    p_value: float
    episodes: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """What was earned (or paid, where the problem minimises) on sampled futures.

    name      who played
    outcomes  (n,) total over each future
    actions   (n, T, A) what was done
    seconds   spent on deciding
    futures   a fingerprint of the futures: only evaluations on the same ones are paired
    """

    name: str
    sense: Sense
    outcomes: FloatArray
    actions: FloatArray
    seconds: float
    futures: str

    @property
    def mean(self) -> float:
        return float(np.mean(self.outcomes))

    @property
    def se(self) -> float:
        """Of the mean."""
        return estimate(self.outcomes).se

    def controlled(self, control: Control) -> Estimate:
        """The mean with a control variate, and its smaller standard error."""
        return _controlled(self.outcomes, control)

    def compare(self, other: Evaluation, control: Control | None = None) -> Comparison:
        """The paired difference to another evaluation on the same futures."""
        from scipy.stats import t as student

        if self.futures != other.futures:
            raise InputError(
                f"{self.name} and {other.name} were played on different futures: "
                "evaluate both with the same problem, episodes and seed"
            )
        differences = self.outcomes - other.outcomes
        found = estimate(differences) if control is None else _controlled(differences, control)
        n = len(differences)
        if found.se > 0.0:
            p_value = float(2.0 * student.sf(abs(found.mean) / found.se, n - 1))
        else:
            p_value = 1.0 if found.mean == 0.0 else 0.0
        return Comparison(found.mean, found.se, p_value, n)


def _controlled(values: FloatArray, control: Control) -> Estimate:
    n = len(values)
    if control.outcomes.shape != (n,):
        raise InputError(
            f"the control has outcomes of shape {control.outcomes.shape} for {n} episodes: "
            "it must come from the same futures"
        )
    if n < 3:
        raise InputError(f"{n} episodes are too few for a control variate: use at least 3")
    away = control.outcomes - control.expectation
    centred = away - away.mean()
    square = float(centred @ centred)
    beta = float(centred @ values) / square if square > 0.0 else 0.0
    left = values - beta * away
    residual = float(np.sum((left - left.mean()) ** 2)) / (n - 2)
    return Estimate(float(left.mean()), float(np.sqrt(residual / n + (beta * control.se) ** 2)))


def evaluate(
    problem: ExogenousModel,
    planner: Planner | Policy,
    episodes: int = 200,
    clip: Clip = None,
    seed: Seed = 0,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Play a planner or a policy on `episodes` futures; the same seed gives the same futures.

    No one earns by what cannot be done: the shipped models refuse such actions in `step`, in every
    episode. A model of your own may do the same (then give it `feasible`, the closest possible
    actions); of one without `feasible` the first episode is looked at: actions must lie within the
    least and the most of those that `actions` offers.

    clip      as in `plan`; only planners heed it
    progress  called with the decisions made; False stops, and raises StoppedError: all futures are
              played side by side, so that none is over before all are
    """
    n = whole_number(episodes, "episodes", minimum=1)
    nature, own = generator(seed).spawn(2)
    paths = futures(checked_problem(problem), n, nature)
    if isinstance(planner, Planner):
        watch = Watch("decisions", progress=progress)
        rule = _deciding(planner.begin(problem, clip, own), watch, n, problem.horizon)
    elif isinstance(planner, Policy):
        rule = planner.prepare(problem, own)
    else:
        raise InputError(
            f"{type(planner).__name__} is neither a planner such as UCT() nor a policy such as "
            "policies.Greedy()"
        )
    began = time.perf_counter()
    outcomes, actions = _play(problem, rule, paths, planner.name)
    return Evaluation(
        name=planner.name,
        sense=problem.sense,
        outcomes=outcomes,
        actions=actions,
        seconds=time.perf_counter() - began,
        futures=hashlib.sha256(paths.tobytes()).hexdigest()[:16],
    )


def _deciding(decide: Decide, watch: Watch, episodes: int, horizon: int) -> Rule:
    """A planner as a rule: asked episode by episode."""

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        chosen = []
        for i in range(len(exogenous)):
            state = State(t, exogenous[i].copy(), resource[i].copy())
            chosen.append(np.array(decide(state).action, dtype=np.float64))
            done, total = t * episodes + i + 1, episodes * horizon
            if watch.must_stop(done, total=total) and done < total:
                raise StoppedError(f"stopped after {done:,} of {total:,} decisions: no result")
        return np.array(chosen)

    return rule


def _play(
    problem: ExogenousModel, rule: Rule, paths: FloatArray, name: str
) -> tuple[FloatArray, FloatArray]:
    """Totals (n,) and actions (n, T, A) along paths (n, T, X); the rule sees x_t, never beyond."""
    n, T = paths.shape[:2]
    start = problem.start
    size = problem.actions(start).shape[1]
    resource = np.tile(np.asarray(start.resource, dtype=np.float64), (n, 1))
    outcomes, done = np.zeros(n), np.empty((n, T, size))
    checks_itself = isinstance(problem, MakesFeasible | IsResourceProgram)
    for t in range(T):
        exogenous = np.ascontiguousarray(paths[:, t])
        actions = np.asarray(rule(t, exogenous.copy(), resource.copy()), dtype=np.float64)
        if actions.shape != (n, size) or not np.all(np.isfinite(actions)):
            raise InputError(
                f"{name} at t={t} must give finite actions of shape ({n}, {size}), "
                f"got shape {actions.shape}"
            )
        if not checks_itself:
            _check_offered(problem, State(t, exogenous[0], resource[0]), actions[0], name)
        rewards, resource = problem.step(t, exogenous, resource, actions)
        outcomes += rewards
        done[:, t] = actions
    return outcomes, done


def _check_offered(problem: ExogenousModel, state: State, action: FloatArray, name: str) -> None:
    """Raise if an action lies outside the least and the most of those offered."""
    offered = np.asarray(problem.actions(state), dtype=np.float64)
    least, most = offered.min(axis=0), offered.max(axis=0)
    slack = ROUNDING * (1.0 + np.abs(action))
    if ((action < least - slack) | (action > most + slack)).any():
        raise InfeasibleError(
            f"{name} chose {action.tolist()} at t={state.t} with resource "
            f"{state.resource.tolist()}, where {type(problem).__name__} offers {least.tolist()} to "
            f"{most.tolist()}: offer it in `actions`, or give the model `feasible` if it checks "
            "actions itself"
        )


# ----------------------------------------------------------------------------------------------
# What was done along one realised path, and what came of it.
#
#     d_{t+1} = step_t(x_t, d_t, a_t),    value = sum_t r_t
#
# Whoever decides is asked with x_t and d_t, never with what came later.

# What bounds may be missed by, in units of the amount: rounding.
JOURNEY_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Journey:
    """Decisions and where they led.

    value    what they earned (or cost) in all
    actions  (steps, A)
    levels   (steps + 1, D) the resource before each of them, and at the end
    rewards  (steps,) what each of them earned
    states   (steps) where each of them was made
    """

    value: float
    actions: FloatArray
    levels: FloatArray
    rewards: FloatArray
    states: Sequence[State]


def carried_out(
    problem: ExogenousModel, path: FloatArray, actions: ArrayLike, state: State
) -> Journey:
    """Given decisions (steps, A), checked one by one: the first impossible one is named."""
    size = problem.actions(state).shape[1]
    try:
        wanted = np.array(actions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the actions must hold numbers, a row for each step") from None
    if wanted.ndim == 1 and size == 1:
        wanted = wanted[:, np.newaxis]
    if wanted.shape != (len(path), size):
        raise InputError(
            f"the actions must be {(len(path), size)}, a row for each step of the path, "
            f"got {wanted.shape}"
        )

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        action = wanted[t - state.t]
        refuse_action(problem, State(t, exogenous[0], resource[0]), action)
        return np.asarray(action[np.newaxis])

    return played(problem, rule, path, state)


def played(problem: ExogenousModel, rule: Rule, path: FloatArray, state: State) -> Journey:
    """What a rule does along a path that begins in a state."""
    resource = np.array(state.resource, dtype=np.float64)[np.newaxis]
    levels, actions, rewards, states, total = [resource[0]], [], [], [], 0.0
    for s in range(len(path)):
        now = path[s : s + 1]
        action = np.asarray(rule(state.t + s, now.copy(), resource.copy()), dtype=np.float64)
        states.append(State(state.t + s, path[s], resource[0]))
        reward, resource = problem.step(state.t + s, now, resource, action)
        rewards.append(float(reward[0]))
        total += rewards[-1]
        actions.append(action[0])
        levels.append(resource[0])
    return Journey(total, np.array(actions), np.array(levels), np.array(rewards), states)


def refuse_action(problem: ExogenousModel, state: State, action: FloatArray) -> None:
    """Raise where an action is not possible."""
    if not np.isfinite(action).all():
        raise InputError(f"the action at t={state.t} is {action.tolist()}: must be finite")
    if isinstance(problem, IsResourceProgram):
        _check_program(problem.program, state, action)
    one = state.exogenous[np.newaxis], state.resource[np.newaxis], action[np.newaxis]
    problem.step(state.t, *one)
    if isinstance(problem, MakesFeasible):
        closest = problem.feasible(state.t, *one)[0]
        if np.abs(closest - action).max() > JOURNEY_ROUNDING * (1.0 + np.abs(action).max()):
            raise InfeasibleError(
                f"{action.tolist()} at t={state.t} with {state.resource.tolist()} is not possible; "
                f"{closest.tolist()} is, and closest to it"
            )


def _check_program(program: ResourceProgram, state: State, action: FloatArray) -> None:
    room = program.room(state.t, state.resource[np.newaxis])
    low, high, total = float(room.low[0]), float(room.high[0]), float(action.sum())
    slack = JOURNEY_ROUNDING * (1.0 + abs(total))
    levels = state.resource[: len(action)]
    is_taken = program.plain_stocks or len(action) > 1
    is_short = is_taken and (action > levels + slack).any()
    if (action < 0.0).any() or not low - slack <= total <= high + slack or is_short:
        raise InfeasibleError(
            f"{action.tolist()} at t={state.t} with {levels.tolist()}: between {low:g} and "
            f"{high:g} may be spent in all, nothing negative and no more than there is"
        )


# ----------------------------------------------------------------------------------------------
# Results without luck: a control variate that knows the problem.
#
# What a policy earns on a path is its value plus luck. With penalties z (`information_relaxation`),
#
#     sum_t r_t - z_t        has the same mean as   sum_t r_t        and hardly any variance
#
# where V is close to V*: with V* itself the optimal policy earns exactly V* on every path, and any
# other V* minus what its decisions cost. Two players on the same paths are then told apart by a
# fraction of the futures that plain paired differences need. The penalties depend on the paths and
# the seed only, so they are the same for both.

# A level this far from the grid is not on it.
OFF_GRID = 1e-6


@runtime_checkable
class KnowsLuck(Protocol):
    """A model with better penalties of its own."""

    def without_luck(self, paths: FloatArray, actions: FloatArray) -> FloatArray:
        """(n,) results of actions (n, T, A) along paths (n, T, X), penalised."""
        ...


def without_luck(
    problem: ExogenousModel, paths: FloatArray, actions: FloatArray, seed: Seed = 0
) -> FloatArray:
    """(n,) what actions (n, T, A) earned along paths (n, T, X) from the start, without luck.

    The actions must have been chosen without foresight, from those the problem offers.
    """
    if len(paths) != len(actions) or paths.shape[1] != actions.shape[1]:
        raise InputError(
            f"paths {paths.shape} and actions {actions.shape} must agree in episodes and steps"
        )
    if isinstance(problem, KnowsLuck):
        return problem.without_luck(paths, actions)
    rng = generator(seed)
    fit = LeastSquares(FIT_PATHS).fit(problem, rng)
    sign = 1.0 if problem.sense == "max" else -1.0
    resources = np.tile(problem.start.resource, (len(paths), 1))
    totals = np.zeros(len(paths))
    for t in range(paths.shape[1]):
        now = np.ascontiguousarray(paths[:, t])
        rewards, resources = problem.step(t, now, resources, actions[:, t])
        levels = _places(fit.grids[t + 1], resources, t)
        paid = penalty(fit, t, paths, DRAWS, rng)[np.arange(len(paths)), levels]
        totals += rewards - sign * paid
    return totals


def _places(grid: FloatArray, resources: FloatArray, t: int) -> IntArray:
    """(n,) the rows of the grid (H, D) that resources (n, D) are."""
    distinct, which = np.unique(resources.round(9), axis=0, return_inverse=True)
    distances = np.abs(distinct[:, np.newaxis] - grid).sum(axis=2)
    if distances.min(axis=1).max() > OFF_GRID:
        off = distinct[int(distances.min(axis=1).argmax())]
        raise NotApplicableError(
            f"the level {off.tolist()} after t={t} cannot be reached by the problem's own actions: "
            "compare plain outcomes instead"
        )
    return np.asarray(distances.argmin(axis=1)[which.ravel()])
