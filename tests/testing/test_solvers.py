"""The checks of models and solvers find what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import SequenceExplanation
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


Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Tampered:
    """The exact solver, with its answers changed on the way out."""

    change: Change = field(default=lambda found: found)
    blind: bool = False  # to constraints

    def refuses(self, problem: Problem) -> str | None:
        return None

    def solve(self, problem: Problem) -> Any:
        asked = {"actions": problem.actions, "reward": problem.reward}
        rules = cp.Constraints() if self.blind else problem.constraints
        found = cp.explain(problem.scm, problem.episode, problem.k, constraints=rules, **asked)
        return self.change(found)

    def frontier(self, problem: Problem) -> Sequence[Any]:
        return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]


def moved(found: Any, by: float) -> Any:
    return replace(found, value=found.value + by, bound=found.bound + by)


def better_than_true(found: Any) -> Any:
    return moved(found, 0.1 * found.k)


def worse_than_observed(found: Any) -> Any:
    return moved(found, -1.0)


def never_change(found: Any) -> Any:
    """Calls keeping everything optimal."""
    value = found.factual_value
    if isinstance(found, SequenceExplanation):
        kept = {"actions": found.observed, "states": found.episode.states}
        return replace(found, value=value, bound=value, **kept)
    actions = found.process.table.actions.copy()
    actions[:] = found.episode.actions[:, None, None, None]
    process = replace(found.process, table=replace(found.process.table, actions=actions))
    return replace(found, value=value, bound=value, process=process)


def move_states(found: Any) -> Any:
    return replace(found, states=found.states + 0.1 * found.k)


def wrong_observed(found: Any) -> Any:
    return replace(found, observed=(found.observed + 1) % 2)


DISCRETE, SEQUENCES = random_problems(12, seed=5), random_sequence_problems(20, seed=5)


@pytest.mark.parametrize(
    ("problems", "change", "message"),
    [
        (DISCRETE, better_than_true, "k=1: the policy earns .*, not the stated"),
        (DISCRETE, worse_than_observed, "k=0 gives"),
        (DISCRETE, never_change, "called optimal with .*, but brute force finds"),
        (SEQUENCES, better_than_true, "k=1: the sequence earns .*, not the stated"),
        (SEQUENCES, worse_than_observed, "k=0 gives"),
        (SEQUENCES, never_change, "called optimal with .*, but brute force finds"),
        (SEQUENCES, move_states, "the stated states earn"),
        (SEQUENCES, wrong_observed, "was not observed|not where the actions differ"),
    ],
)
def test_wrong_answers_fail(problems: list[Problem], change: Change, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_solver(Tampered(change), problems)


def test_untouched_answers_pass() -> None:
    check_solver(Tampered(), [*DISCRETE, *SEQUENCES])


def test_broken_constraints_fail() -> None:
    with pytest.raises(AssertionError, match=r"the sequence spends|where it is not allowed"):
        check_solver(Tampered(blind=True), random_sequence_problems(60, seed=5))


def test_a_solver_that_refuses_fails() -> None:
    class Refuses(Tampered):
        def refuses(self, problem: Problem) -> str | None:
            return "not today"

    with pytest.raises(AssertionError, match="refused: not today"):
        check_solver(Refuses())


def test_random_problems_are_varied_and_reproducible() -> None:
    problems, again = random_problems(30, seed=1), random_problems(30, seed=1)
    assert [p.episode for p in problems] == [p.episode for p in again]
    assert {len(p.episode) for p in problems} == {1, 2, 3, 4}
    assert {p.k for p in problems} == {0, 1, 2, 3}
    assert any((p.scm.mdp.row(0, 0) == 0.0).any() for p in problems)
    for problem in problems:
        problem.scm.mdp.check_episode(problem.episode)


def test_random_sequence_problems_are_varied_and_reproducible() -> None:
    problems, again = (random_sequence_problems(60, seed=1) for _ in range(2))
    assert [p.episode for p in problems] == [p.episode for p in again]
    assert {len(p.episode) for p in problems} == {1, 2, 3, 4, 5}
    assert {p.k for p in problems} == {0, 1, 2, 3}
    assert len({type(p.scm) for p in problems}) == 5
    rules = [p.constraints for p in problems]
    for name in ("allowed", "change_costs", "max_move"):
        assert any(getattr(one, name) is not None for one in rules)
    assert any(one.fixed_steps for one in rules)
    assert {np.ndim(p.actions) for p in problems} == {2, 3}
