"""The public check of solvers fails what is wrong about continuous answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import SequenceExplanation
from counterplan.scm import PointSCM
from counterplan.testing import check_solver, random_sequence_problems

Change = Callable[[SequenceExplanation], SequenceExplanation]


@dataclass(frozen=True)
class Tampered:
    """The exact solver, with its answers changed on the way out."""

    change: Change
    blind: bool = False

    def refuses(self, problem: Problem) -> str | None:
        return None if isinstance(problem.scm, PointSCM) else "only continuous problems"

    def solve(self, problem: Problem) -> SequenceExplanation:
        if self.blind:  # to constraints
            problem = replace(problem, constraints=cp.Constraints())
        found = cp.AStar().solve(problem)
        assert isinstance(found, SequenceExplanation)
        return self.change(found)

    def frontier(self, problem: Problem) -> Sequence[SequenceExplanation]:
        return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]


def raise_value(
    found: SequenceExplanation,
) -> SequenceExplanation:
    return replace(found, value=found.value + 0.1 * found.k)


def raise_both(
    found: SequenceExplanation,
) -> SequenceExplanation:
    more = 0.1 * found.k
    return replace(found, value=found.value + more, bound=found.bound + more)


def move_states(
    found: SequenceExplanation,
) -> SequenceExplanation:
    return replace(found, states=found.states + 0.1 * found.k)


def never_change(
    found: SequenceExplanation,
) -> SequenceExplanation:
    """Calls keeping everything optimal."""
    value = found.factual_value
    states = found.episode.states
    return replace(found, actions=found.observed, value=value, bound=value, states=states)


def wrong_observed(
    found: SequenceExplanation,
) -> SequenceExplanation:
    return replace(found, observed=(found.observed + 1) % 2)


def test_untouched_answers_pass() -> None:
    check_solver(Tampered(lambda found: found))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (raise_value, "k=1: value above its bound"),
        (raise_both, "k=1: the sequence earns .*, not the stated"),
        (lambda found: replace(found, value=found.value - 1.0), "k=0 gives"),
        (never_change, "called optimal with .*, but brute force finds"),
        (move_states, "the stated states earn"),
        (wrong_observed, "was not observed|not where the actions differ"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_answers_fail(change: Change, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_solver(Tampered(change), random_sequence_problems(20, seed=5))


def test_broken_constraints_fail() -> None:
    with pytest.raises(AssertionError, match=r"the sequence spends|where it is not allowed"):
        check_solver(
            Tampered(lambda found: found, blind=True), random_sequence_problems(60, seed=5)
        )


def test_random_problems_are_varied_and_reproducible() -> None:
    problems, again = (random_sequence_problems(60, seed=1) for _ in range(2))
    assert [p.episode for p in problems] == [p.episode for p in again]
    assert {len(p.episode) for p in problems} == {1, 2, 3, 4, 5}
    assert {p.k for p in problems} == {0, 1, 2, 3}
    assert len({type(p.scm) for p in problems}) == 4
    rules = [p.constraints for p in problems]
    for name in ("allowed", "change_costs", "max_move"):
        assert any(getattr(one, name) is not None for one in rules)
    assert any(one.fixed_steps for one in rules)
    assert {np.ndim(p.actions) for p in problems} == {2, 3}
