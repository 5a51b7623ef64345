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
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterplan.allocation.hindsight import IsResourceProgram
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InfeasibleError, InputError
from counterplan.exogenous.model import ExogenousModel, MakesFeasible, Sense, State
from counterplan.planning.checked import checked_problem
from counterplan.planning.estimate import Estimate, estimate
from counterplan.planning.planners import Clip, Planner
from counterplan.planning.playing import futures
from counterplan.planning.policy import Policy, Rule

Progress = Callable[[int, int], None]
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
    progress: Progress | None = None,
) -> Evaluation:
    """Play a planner or a policy on `episodes` futures; the same seed gives the same futures.

    No one earns by what cannot be done: the shipped models refuse such actions in `step`, in every
    episode. A model of your own may do the same (then give it `feasible`, the closest possible
    actions); of one without `feasible` the first episode is looked at: actions must lie within the
    least and the most of those that `actions` offers.

    clip      as in `plan`; only planners heed it
    progress  called with (decisions made, decisions in all)
    """
    n = whole_number(episodes, "episodes", minimum=1)
    nature, own = generator(seed).spawn(2)
    paths = futures(checked_problem(problem), n, nature)
    if isinstance(planner, Planner):
        rule = _deciding(planner, problem, clip, own, progress, n)
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


def _deciding(
    planner: Planner,
    problem: ExogenousModel,
    clip: Clip,
    own: np.random.Generator,
    progress: Progress | None,
    episodes: int,
) -> Rule:
    """A planner as a rule: asked episode by episode."""
    decide = planner.begin(problem, clip, own)
    total = episodes * problem.horizon

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        chosen = []
        for i in range(len(exogenous)):
            state = State(t, exogenous[i].copy(), resource[i].copy())
            chosen.append(np.array(decide(state).action, dtype=np.float64))
            if progress is not None:
                progress(t * episodes + i + 1, total)
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
