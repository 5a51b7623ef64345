"""Conformance checks for causal models, solvers, planners and planning problems: the project's own
and yours.

Each raises an AssertionError that says what is wrong, and returns None if nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.problem import Problem, Solver
from counterplan.core.validation import Seed
from counterplan.counterfactual.discrete.laws import DiscreteSCM
from counterplan.errors import InputError
from counterplan.planning.model import ExogenousModel
from counterplan.scm.point import PointSCM
from counterplan.testing.continuous import (
    check_point_scm,
    check_sequence_solver,
    random_sequence_problems,
)
from counterplan.testing.discrete import (
    check_discrete_scm,
    check_discrete_solver,
    random_episode,
    random_problems,
    random_transitions,
)
from counterplan.testing.executed import check_allocation_solver, random_allocation_problems
from counterplan.testing.planners import check_planner
from counterplan.testing.planning import check_model

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
    """Check a causal model at random places: of a tabular MDP (see `testing.discrete`) or of
    continuous states (see `testing.point`).

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
    """Check a solver, by default on small random problems of the kinds that it accepts: see
    `testing.discrete`, `testing.sequences` and `testing.allocations` for what is asked of it."""
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
        if isinstance(problem.scm, PointSCM):
            check_sequence_solver(solver, problem)
        elif isinstance(problem.scm, ExogenousModel):
            check_allocation_solver(solver, problem)
        else:
            check_discrete_solver(solver, problem)
