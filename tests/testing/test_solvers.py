"""The checks of models and solvers find what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import BudgetDP, PolicyExplanation, SequenceExplanation
from counterplan.scm import PointSCM
from counterplan.testing import (
    check_scm,
    check_solver,
    random_problems,
    random_sequence_problems,
    random_transitions,
)

# --- The public conformance checks pass what is right and fail what is wrong ---

MDP = cp.TabularMDP(
    random_transitions(np.random.default_rng(0), 4, 3),
    np.random.default_rng(1).random((4, 3)),
)
Row = Callable[[cp.TabularMDP, tuple[int, int, int], tuple[int, int]], np.ndarray]


@dataclass(frozen=True, eq=False)
class FromFunction:
    """A causal model whose rows come from one function."""

    mdp: cp.TabularMDP
    function: Row

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> np.ndarray:
        return self.function(self.mdp, (s_obs, a_obs, s_next_obs), (s, a))


def independent(
    mdp: cp.TabularMDP, observed: tuple[int, int, int], pair: tuple[int, int]
) -> np.ndarray:
    return np.eye(mdp.n_states)[observed[2]] if pair == observed[:2] else mdp.row(*pair)


def test_right_models_pass() -> None:
    check_scm(cp.GumbelMaxSCM(MDP))
    check_scm(FromFunction(MDP, independent), trials=20, seed=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda mdp, seen, pair: mdp.row(*pair), "the observed pair .* led to"),
        (lambda mdp, seen, pair: 0.9 * independent(mdp, seen, pair), "row sums to 0.[89]"),
        (lambda mdp, seen, pair: independent(mdp, seen, pair)[:-1], r"row has shape \(3,\)"),
        (lambda mdp, seen, pair: np.full(4, np.nan), "not probabilities"),
        (
            lambda mdp, seen, pair: np.array([1.5, -0.5, 0.0, 0.0]),
            "not probabilities",
        ),
        (
            # Halfway between the model's row and what was seen: no mechanism does that.
            lambda mdp, seen, pair: (independent(mdp, seen, pair) + np.eye(4)[seen[2]]) / 2,
            "miss the MDP's own row by",
        ),
    ],
)
def test_wrong_models_fail(wrong: Row, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_scm(FromFunction(MDP, wrong))


def test_what_is_no_model_fails() -> None:
    with pytest.raises(AssertionError, match="needs an `mdp` and a `counterfactual_row` method"):
        check_scm(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", [BudgetDP(), cp.baselines.Greedy(), cp.baselines.Random()])
def test_right_solvers_pass(solver: Any) -> None:
    check_solver(solver, seed=3)


@dataclass(frozen=True)
class Tampered:
    """The exact solver, with its answers changed on the way out."""

    change: Callable[[PolicyExplanation], PolicyExplanation]

    def refuses(self, problem: Problem) -> str | None:
        return None

    def solve(self, problem: Problem) -> PolicyExplanation:
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[PolicyExplanation]:
        found = cp.frontier(
            problem.scm, problem.episode, problem.k, constraints=problem.constraints
        )
        return [self.change(explanation) for explanation in found]


def raise_value(
    explanation: PolicyExplanation,
) -> PolicyExplanation:
    return replace(explanation, value=explanation.value + 0.1 * explanation.k)


def raise_both(
    explanation: PolicyExplanation,
) -> PolicyExplanation:
    more = 0.1 * explanation.k
    return replace(explanation, value=explanation.value + more, bound=explanation.bound + more)


def never_change(
    explanation: PolicyExplanation,
) -> PolicyExplanation:
    """Calls keeping everything optimal."""
    process = explanation.process
    actions = process.table.actions.copy()
    actions[:] = explanation.episode.actions[:, None, None, None]
    table = replace(process.table, actions=actions)
    value = explanation.factual_value
    process = replace(process, table=table)
    return replace(explanation, value=value, bound=value, process=process)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (raise_value, "k=1: value above its bound"),
        (raise_both, "k=1: the policy earns .*, not the stated"),
        (lambda explanation: replace(explanation, value=explanation.value - 1.0), "k=0 gives"),
        (never_change, "called optimal with .*, but brute force finds"),
    ],
)
def test_wrong_solvers_fail(change: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_solver(Tampered(change), random_problems(12, seed=5))


def test_a_solver_that_refuses_fails() -> None:
    @dataclass(frozen=True)
    class Refuses(Tampered):
        def refuses(self, problem: Problem) -> str | None:
            return "not today"

    with pytest.raises(AssertionError, match="refused: not today"):
        check_solver(Refuses(lambda explanation: explanation))


def test_random_problems_are_varied_and_reproducible() -> None:
    problems, again = random_problems(30, seed=1), random_problems(30, seed=1)
    assert [p.episode for p in problems] == [p.episode for p in again]
    assert {len(p.episode) for p in problems} == {1, 2, 3, 4}
    assert {p.k for p in problems} == {0, 1, 2, 3}
    assert any((p.scm.mdp.row(0, 0) == 0.0).any() for p in problems)
    for problem in problems:
        problem.scm.mdp.check_episode(problem.episode)


# --- The public check of solvers fails what is wrong about continuous answers ---

Change = Callable[[SequenceExplanation], SequenceExplanation]


@dataclass(frozen=True)
class TamperedSearch:
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


def raise_sequence_value(
    found: SequenceExplanation,
) -> SequenceExplanation:
    return replace(found, value=found.value + 0.1 * found.k)


def raise_sequence_value_and_bound(
    found: SequenceExplanation,
) -> SequenceExplanation:
    more = 0.1 * found.k
    return replace(found, value=found.value + more, bound=found.bound + more)


def move_states(
    found: SequenceExplanation,
) -> SequenceExplanation:
    return replace(found, states=found.states + 0.1 * found.k)


def never_change_a_sequence(
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
    check_solver(TamperedSearch(lambda found: found))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (raise_sequence_value, "k=1: value above its bound"),
        (raise_sequence_value_and_bound, "k=1: the sequence earns .*, not the stated"),
        (lambda found: replace(found, value=found.value - 1.0), "k=0 gives"),
        (never_change_a_sequence, "called optimal with .*, but brute force finds"),
        (move_states, "the stated states earn"),
        (wrong_observed, "was not observed|not where the actions differ"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_answers_fail(change: Change, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_solver(TamperedSearch(change), random_sequence_problems(20, seed=5))


def test_broken_constraints_fail() -> None:
    with pytest.raises(AssertionError, match=r"the sequence spends|where it is not allowed"):
        check_solver(
            TamperedSearch(lambda found: found, blind=True),
            random_sequence_problems(60, seed=5),
        )


def test_random_sequence_problems_are_varied_and_reproducible() -> None:
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
