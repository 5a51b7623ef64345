"""What executed decisions lost: against hindsight, against a policy without foresight, on average.

For one realised path, with regret counted so that more is worse (s = 1 for rewards, -1 for costs):

    regret_hindsight = s (hindsight - executed) >= 0     what perfect foresight would have brought
    regret_policy    = s (without_foresight - executed)  what the best policy without foresight
                                                         would have brought on this path; negative
                                                         where the decisions were luckier
    expected_regret  = sum_t V*_t - Q*_t >= 0            what the decisions lost in expectation when
                                                         they were made: no luck in it (benchmark)

Hindsight is an exact allocation; nobody could have had it. The expected regret is what to
judge decisions by. It holds decisions to have been made without foresight and the model's law to
be true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from counterplan.allocation.hindsight import Certificate, Hindsight, hindsight
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.model import ExogenousModel, Sense, State
from counterplan.planning.checked import checked_problem
from counterplan.planning.journey import Journey, carried_out, checked_path, played
from counterplan.planning.policy import Policy
from counterplan.planning.without_foresight import Benchmark, benchmark

# Values that differ by this much of their size are the same but for rounding.
ROUNDING = 1e-9
# Losses below this share of the value are rounding too.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class Regret:
    """Executed decisions compared, on the path they were made on. Values are in the problem's own
    sense: costs where it minimises; regrets are always counted so that more is worse.

    sense              'max': rewards, 'min': costs
    executed           what the executed decisions earn (or pay)
    hindsight          the best possible on this path
    without_foresight  what the policy without foresight earns (or pays) on this path
    policy             whose that is: 'optimal' where the optimum can be computed
    expected_losses    (steps,) what each decision lost in expectation; None where the optimum
                       cannot be computed
    actions            (steps, A) as executed
    levels             (steps + 1, D) the resource before each of them, and at the end
    hindsight_actions  (steps, A)
    policy_actions     (steps, A) of the policy on its own way
    advised            (steps, A) what the policy would have done where the executed decisions led
    method             how hindsight was found
    certificate        what the hindsight value can be checked against
    """

    sense: Sense
    executed: float
    hindsight: float
    without_foresight: float
    policy: str
    expected_losses: FloatArray | None
    actions: FloatArray
    levels: FloatArray
    hindsight_actions: FloatArray
    policy_actions: FloatArray
    advised: FloatArray
    method: str
    certificate: Certificate

    @property
    def regret_hindsight(self) -> float:
        """What was lost against perfect foresight; not negative."""
        return max(0.0, self._worse(self.hindsight))

    @property
    def regret_policy(self) -> float:
        """What was lost against the policy on this path; negative where luck outdid it."""
        return self._worse(self.without_foresight)

    @property
    def expected_regret(self) -> float | None:
        """What the decisions lost in expectation, all together; None where that is not known."""
        return None if self.expected_losses is None else float(self.expected_losses.sum())

    def _worse(self, reference: float) -> float:
        sign = 1.0 if self.sense == "max" else -1.0
        return sign * (reference - self.executed) + 0.0  # no minus in front of a zero


def regret(
    problem: ExogenousModel,
    path: ArrayLike,
    actions: ArrayLike,
    policy: Policy | None = None,
    state: State | None = None,
    seed: Seed = 0,
) -> Regret:
    """Compare decisions (steps, A) that were executed along a realised path (steps, X).

    policy  without foresight, to compare with (default: the optimum, or the best one known)
    state   where the path begins: its t and resource (default: the problem's start)
    seed    of a policy that is fitted by simulation
    """
    exogenous, at = checked_path(checked_problem(problem), path, state)
    done = carried_out(problem, exogenous, actions, at)
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(
            f"{type(policy).__name__} is not a policy such as policies.Resolve(): "
            "a planner is played by evaluate"
        )
    return compared(problem, exogenous, done, benchmark(problem, at, policy, seed), at)


def compared(
    problem: ExogenousModel, path: FloatArray, done: Journey, against: Benchmark, state: State
) -> Regret:
    """The same for decisions that have been checked and a benchmark that has been prepared."""
    known = proved_hindsight(problem, path, state)
    follows = played(problem, against.rule, path, state)
    found = Regret(
        sense=problem.sense,
        executed=done.value,
        hindsight=known.value,
        without_foresight=follows.value,
        policy=against.name,
        expected_losses=expected_losses(path, done, against, state),
        actions=done.actions,
        levels=done.levels,
        hindsight_actions=known.actions,
        policy_actions=follows.actions,
        advised=advice(path, done, against, state),
        method=known.method,
        certificate=known.certificate,
    )
    check_regret(problem, found.executed, found.hindsight)
    return found


def proved_hindsight(problem: ExogenousModel, path: FloatArray, state: State) -> Hindsight:
    """The optimum of a path, its value being what its actions come to when they are replayed."""
    known = hindsight(problem, path, state=state)
    replayed = known.certificate.replayed
    if abs(replayed - known.value) > ROUNDING * (1.0 + abs(replayed)):
        raise NotApplicableError(
            f"{type(problem).__name__}'s hindsight is said to be {known.value:g}, but its actions "
            f"come to {replayed:g}: testing.check_model says what is wrong with the model"
        )
    return replace(known, value=replayed)


def expected_losses(
    path: FloatArray, done: Journey, against: Benchmark, state: State
) -> FloatArray | None:
    """(steps,) of each decision, not negative; None where the optimum is not known."""
    if against.loss is None:
        return None
    steps = zip(path, done.levels[:-1], done.actions, strict=True)
    losses = [against.loss(state.t + s, *step) for s, step in enumerate(steps)]
    # The best action's own loss is a difference of equal sums, zero but for rounding.
    smallest = NEGLIGIBLE * (1.0 + abs(done.value))
    return np.where(np.array(losses) > smallest, losses, 0.0)


def advice(path: FloatArray, done: Journey, against: Benchmark, state: State) -> FloatArray:
    """(steps, A) what the benchmark would have done in the states that decisions led to."""
    steps = zip(path, done.levels[:-1], strict=True)
    return np.array(
        [
            against.rule(state.t + s, x[None].copy(), d[None].copy())[0]
            for s, (x, d) in enumerate(steps)
        ]
    )


def check_regret(problem: ExogenousModel, value: float, best: float) -> None:
    """Raise where decisions do better than hindsight allows: it was found among other actions."""
    better = value - best if problem.sense == "max" else best - value
    if better > ROUNDING * (1.0 + abs(best)):
        raise NotApplicableError(
            f"the decisions come to {value:g}, better than {type(problem).__name__}'s hindsight of "
            f"{best:g}: they are not among the actions that it offers"
        )
