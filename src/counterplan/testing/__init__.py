"""Conformance checks for causal models, solvers, planners and planning problems: the project's own
and yours.

Each raises an AssertionError that says what is wrong, and returns None if nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Status
from counterplan.core.validation import Seed
from counterplan.counterfactual.discrete.laws import DiscreteSCM
from counterplan.counterfactual.explain import Options, explain, frontier
from counterplan.errors import InputError
from counterplan.planning.model import ExogenousModel
from counterplan.scm.point import PointSCM
from counterplan.testing.continuous import (
    check_point_scm,
    check_sequence,
    random_sequence_problems,
)
from counterplan.testing.discrete import (
    TOLERANCE,
    check_discrete_scm,
    check_policy,
    close,
    random_episode,
    random_problems,
    random_transitions,
)
from counterplan.testing.executed import check_allocation, random_allocation_problems
from counterplan.testing.planning import check_model, check_planner

__all__ = [
    "check_model",
    "check_planner",
    "check_scm",
    "check_solver",
    "random_allocation_problems",
    "random_episode",
    "random_problems",
    "random_sequence_problems",
    "random_transitions",
]


def check_scm(
    scm: DiscreteSCM | PointSCM,
    *,
    episodes: Iterable[Episode] | None = None,
    actions: ArrayLike | None = None,
    trials: int = 50,
    seed: Seed = 0,
) -> None:
    """Check a causal model at random places: of a tabular MDP (see `check_discrete_scm`) or of
    continuous states (see `check_point_scm`).

    episodes  observed episodes of a continuous model, whose transitions it must reproduce
    actions   the vectors that their action indices stand for
    """
    if not isinstance(scm, PointSCM):
        check_discrete_scm(scm, trials, seed)
        return
    listed = listed_episodes(episodes) if episodes is not None else []
    if not listed:
        raise InputError("a continuous model is checked on transitions: pass episodes=[...]")
    check_point_scm(scm, listed, actions, trials, seed)


def check_solver(
    solver: Solver, problems: Iterable[Problem] | None = None, *, seed: Seed = 0
) -> None:
    """Check a solver, by default on small random problems of the kinds that it accepts:

    * a budget of 0 gives back the observed outcome, and value never falls as k grows;
    * what is called optimal equals brute force;
    * following the answer with the model's own step gives what it states;
    * budget and constraints are respected;
    * a single answer is worth what the frontier says.
    """
    if problems is None:
        offered = [
            *random_problems(8, seed),
            *random_sequence_problems(12, seed),
            *random_allocation_problems(9, seed),
        ]
        problems = [problem for problem in offered if solver.refuses(problem) is None]
        assert problems, f"refused: {solver.refuses(offered[0])}"
    for problem in problems:
        assert solver.refuses(problem) is None, f"refused: {solver.refuses(problem)}"
        _check_answers(solver, problem)


def _check_answers(solver: Solver, problem: Problem) -> None:
    """Check the answers for every budget up to the problem's, and the one for that alone."""
    check = check_policy
    if isinstance(problem.scm, PointSCM):
        check = check_sequence
    elif isinstance(problem.scm, ExogenousModel):
        check = check_allocation
    question: Options = {
        "constraints": problem.constraints,
        "limits": problem.limits,
        "solver": solver,
        "actions": problem.actions,
        "reward": problem.reward,
    }
    found = frontier(problem.scm, problem.episode, problem.k, **question)
    assert close(found[0].value, found[0].factual_value), (
        f"k=0 gives {found[0].value}, but the observed outcome is {found[0].factual_value}"
    )
    sign = 1.0 if found[0].sense == "max" else -1.0
    for k, explanation in enumerate(found):
        check(problem, k, explanation)
        if k > 0 and explanation.status == Status.OPTIMAL:
            assert sign * explanation.value >= sign * found[k - 1].value - TOLERANCE, (
                f"value {'falls' if sign > 0 else 'rises'} from {found[k - 1].value} to "
                f"{explanation.value} at k={k}"
            )
    alone = explain(problem.scm, problem.episode, problem.k, **question)
    check(problem, problem.k, alone)
    if alone.status == found[-1].status == Status.OPTIMAL:
        assert close(alone.value, found[-1].value), (
            f"k={problem.k}: {alone.value} alone, but {found[-1].value} on the frontier"
        )
