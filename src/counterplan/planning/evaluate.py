"""Planners and policies played honestly, on the same futures.

Futures are sampled once from the seed, before anything is decided, and the planner's own chance is
another stream: what it draws in its tree is never what happens. The same seed gives everyone the
same futures, so two evaluations are compared future by future (common random numbers):

    difference = mean_i (own_i - other_i),    se = sd_i(own_i - other_i) / sqrt(n)
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.shown import Drawn
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InfeasibleError, InputError, StoppedError
from counterplan.planning.hindsight import IsResourceProgram, step_rows
from counterplan.planning.model import (
    Estimate,
    ExogenousModel,
    MakesFeasible,
    Sense,
    State,
    checked_problem,
    estimate,
    offered,
)
from counterplan.planning.policies import Played, Policy, Rule, futures, play, played
from counterplan.planning.risk import MEAN, Risk, RiskLike
from counterplan.planning.search.planners import Clip, Decide, Plan, Planner, begun

# What actions and amounts may miss what is possible by: rounding.
ROUNDING = 1e-9


class Comparison(NamedTuple):
    """The first evaluation minus the second, in the problem's own sense.

    p_value  of no difference: paired t test, two-sided
    """

    difference: float
    se: float
    p_value: float
    episodes: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation(Drawn):
    """What was earned (or paid, where the problem minimises) on sampled futures.

    name      who played
    outcomes  (n,) total over each future
    actions   (n, T, A) what was done
    seconds   spent on deciding
    futures   a fingerprint of the futures: only evaluations on the same ones are paired
    stopped   whether fewer futures were played than asked for
    risk      what of the outcomes counts beside their mean: see `worst`
    nested    what a planner averse to risk expects at the start, counted step by step (nested);
              None where nothing was planned that way
    problem   what was decided about, if it is told
    """

    name: str
    sense: Sense
    outcomes: FloatArray
    actions: FloatArray
    seconds: float
    futures: str
    stopped: bool = False
    risk: Risk = MEAN
    nested: float | None = None
    problem: ExogenousModel | None = None

    def _facts(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "mean": self.mean, "se": self.se}
        if not self.risk.is_mean:
            found |= {"risk": str(self.risk), "worst": self.worst.mean}
        return {**found, "episodes": len(self.outcomes)}

    @property
    def worst(self) -> Estimate:
        """The mean over the worst share of the total outcomes (or its mix with the mean: as `risk`
        says), and its standard error. Not the nested value: that counts the worst of every step."""
        return self.risk.estimate(self.outcomes, self.sense)

    @property
    def mean(self) -> float:
        return float(np.mean(self.outcomes))

    @property
    def se(self) -> float:
        """Of the mean."""
        return estimate(self.outcomes).se

    def compare(self, other: Evaluation) -> Comparison:
        """The paired difference to another evaluation on the same futures."""
        from scipy.stats import t as student

        if self.futures != other.futures:
            raise InputError(
                f"{self.name} and {other.name} were played on different futures: "
                "evaluate both with the same problem, episodes and seed"
            )
        differences = self.outcomes - other.outcomes
        found = estimate(differences)
        n = len(differences)
        if found.se > 0.0:
            p_value = float(2.0 * student.sf(abs(found.mean) / found.se, n - 1))
        else:
            p_value = 1.0 if found.mean == 0.0 else 0.0
        return Comparison(found.mean, found.se, p_value, n)


def evaluate(
    problem: ExogenousModel,
    planner: Planner | Policy,
    episodes: int = 200,
    *,
    clip: Clip = None,
    seed: Seed = 0,
    progress: ProgressCallback | None = None,
    risk: RiskLike = 1.0,
) -> Evaluation:
    """Play a planner or a policy on `episodes` futures; the same seed gives the same futures.

    No one earns by what cannot be done: the shipped models refuse such actions in `step`. A model
    of your own may do the same (then give it `feasible`, the closest possible actions); of one
    without `feasible`, actions must lie within the least and the most of those that `actions`
    offers (a policy's are looked at in the first episode).

    clip      as in `plan`; only planners heed it
    progress  called with the decisions that a planner has made; False stops, and the result holds
              the futures that were over by then (StoppedError before the first)
    risk      as in `plan`: what a planner plans for (a policy has options of its own), and what
              `worst` of the result is about
    """
    measure, nested = Risk.of(risk), None
    n = whole_number(episodes, "episodes", minimum=1)
    nature, own = generator(seed).spawn(2)
    paths = futures(checked_problem(problem), n, nature)
    if not isinstance(planner, Planner | Policy):
        raise InputError(
            f"{type(planner).__name__} is neither a planner such as UCT() nor a policy such as "
            "policies.Greedy()"
        )
    if isinstance(planner, Planner):
        decide = begun(planner, problem, clip, own, measure)
        if not measure.is_mean:
            first = decide(problem.start)
            known = isinstance(first, Plan) and np.isfinite(first.values[first.index])
            nested = first.value if isinstance(first, Plan) and known else None
        began = time.perf_counter()
        parts = _play_each(problem, decide, paths, planner.name, progress)
    else:
        rule = _checked(problem, planner.prepare(problem, own), planner.name)
        began = time.perf_counter()
        parts = [play(problem, rule, paths)]
    outcomes = np.concatenate([one.totals for one in parts])
    done = paths[: len(outcomes)]
    return Evaluation(
        name=planner.name,
        sense=problem.sense,
        outcomes=outcomes,
        actions=np.concatenate([one.actions for one in parts]),
        seconds=time.perf_counter() - began,
        futures=hashlib.sha256(done.tobytes()).hexdigest()[:16],
        stopped=len(done) < n,
        risk=measure,
        nested=nested,
        problem=problem,
    )


def _play_each(
    problem: ExogenousModel,
    decide: Decide,
    paths: FloatArray,
    name: str,
    progress: ProgressCallback | None,
) -> list[Played]:
    """A planner along one future after the other, until all are over or it is stopped."""
    watch, done, total = Watch("decisions", progress=progress), 0, paths.shape[0] * paths.shape[1]

    def decided(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        nonlocal done
        action = np.array(decide(State(t, exogenous[0], resource[0])).action, dtype=np.float64)
        done += 1
        if watch.must_stop(done, total=total) and done < total:
            raise StoppedError(f"stopped after {done:,} of {total:,} decisions: no future is over")
        return action[np.newaxis]

    rule, parts = _checked(problem, decided, name), list[Played]()
    try:
        for i in range(len(paths)):
            parts.append(play(problem, rule, paths[i : i + 1]))
    except StoppedError:
        if not parts:
            raise
    return parts


def _checked(problem: ExogenousModel, rule: Rule, name: str) -> Rule:
    """The rule, refused where it gives no actions, or such as the problem does not offer."""
    size = offered(problem, problem.start).shape[1]
    checks_itself = isinstance(problem, MakesFeasible | IsResourceProgram)

    def checked(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        actions = np.asarray(rule(t, exogenous, resource), dtype=np.float64)
        if actions.shape != (len(exogenous), size) or not np.all(np.isfinite(actions)):
            raise InputError(
                f"{name} at t={t} must give finite actions of shape ({len(exogenous)}, {size}), "
                f"got shape {actions.shape}"
            )
        if not checks_itself:
            _check_offered(problem, State(t, exogenous[0], resource[0]), actions[0], name)
        return actions

    return checked


def _check_offered(problem: ExogenousModel, state: State, action: FloatArray, name: str) -> None:
    """Raise if an action lies outside the least and the most of those offered."""
    several = offered(problem, state)
    least, most = several.min(axis=0), several.max(axis=0)
    slack = ROUNDING * (1.0 + np.abs(action))
    if ((action < least - slack) | (action > most + slack)).any():
        raise InfeasibleError(
            f"{name} chose {action.tolist()} at t={state.t} with resource "
            f"{state.resource.tolist()}, where {type(problem).__name__} offers {least.tolist()} to "
            f"{most.tolist()}: offer it in `actions`, or give the model `feasible` if it checks "
            "actions itself"
        )


def carried_out(
    problem: ExogenousModel, path: FloatArray, actions: ArrayLike, state: State
) -> Played:
    """Given decisions (steps, A), checked one by one: the first impossible one is named."""
    size = offered(problem, state).shape[1]
    what = ", a row for each step of the path"
    wanted = step_rows(actions, "actions", (len(path), size), what)

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        action = wanted[t - state.t]
        refuse_action(problem, State(t, exogenous[0], resource[0]), action)
        return np.asarray(action[np.newaxis])

    return played(problem, rule, path, state)


def refuse_action(problem: ExogenousModel, state: State, action: FloatArray) -> None:
    """Raise where an action is not possible."""
    if not np.isfinite(action).all():
        raise InputError(f"the action at t={state.t} is {action.tolist()}: must be finite")
    one = state.exogenous[np.newaxis], state.resource[np.newaxis], action[np.newaxis]
    problem.step(state.t, *(part.copy() for part in one))
    if isinstance(problem, MakesFeasible):
        closest = problem.feasible(state.t, *one)[0]
        if np.abs(closest - action).max() > ROUNDING * (1.0 + np.abs(action).max()):
            raise InfeasibleError(
                f"{action.tolist()} at t={state.t} with {state.resource.tolist()} is not possible; "
                f"{closest.tolist()} is, and closest to it"
            )
