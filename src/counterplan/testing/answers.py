"""Checks of a solver's answers that are the same whatever the problem is about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Explanation, Status
from counterplan.counterfactual.explain import Options, explain, frontier

# Relative to the value where that is large.
TOLERANCE = 1e-9

# Checks one answer for a budget against the rules of its problem, by replaying it and by brute
# force.
CheckAnswer = Callable[[Problem, int, Explanation], None]


def check_answers(solver: Solver, problem: Problem, check: CheckAnswer) -> None:
    """Check a solver's answers for every budget up to the problem's, and its answer for that one
    alone."""
    question: Options = {
        "constraints": problem.constraints,
        "limits": problem.limits,
        "solver": solver,
        "actions": problem.actions,
        "reward": problem.reward,
    }
    found = frontier(problem.scm, problem.episode, problem.k, **question)
    _check_first(found)
    for k, explanation in enumerate(found):
        _check_certificate(found, k)
        check(problem, k, explanation)
    alone = explain(problem.scm, problem.episode, problem.k, **question)
    check(problem, problem.k, alone)
    if alone.status == found[-1].status == Status.OPTIMAL:
        assert close(alone.value, found[-1].value), (
            f"k={problem.k}: {alone.value} alone, but {found[-1].value} on the frontier"
        )


def close(one: float, other: float) -> bool:
    """Equal but for rounding, or the same infinity."""
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _check_first(found: Sequence[Explanation]) -> None:
    """A budget of 0 changes nothing."""
    first = found[0]
    assert close(first.value, first.factual_value), (
        f"k=0 gives {first.value}, but the observed outcome is {first.factual_value}"
    )


def _check_certificate(found: Sequence[Explanation], k: int) -> None:
    """No value is better than its bound, and an optimal one no worse than that of a smaller
    budget."""
    value = found[k].value
    sign = 1.0 if found[k].sense == "max" else -1.0
    above, falls = ("above", "falls") if sign > 0 else ("below", "rises")
    assert sign * value <= sign * found[k].bound + TOLERANCE, f"k={k}: value {above} its bound"
    if k > 0 and found[k].status == Status.OPTIMAL:
        assert sign * value >= sign * found[k - 1].value - TOLERANCE, (
            f"value {falls} from {found[k - 1].value} to {value} at k={k}"
        )
