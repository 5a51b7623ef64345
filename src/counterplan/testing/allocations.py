"""Checks of solvers of executed plans."""

from __future__ import annotations

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.counterfactual.allocation_explanation import AllocationExplanation
from counterplan.counterfactual.allocation_oracle import best_allocation
from counterplan.counterfactual.allocation_setting import prepare_allocation
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.testing.answers import check_answers, close
from counterplan.testing.selling import random_selling
from counterplan.testing.spending import random_spending


def check_allocation_solver(solver: Solver, problem: Problem) -> None:
    """Check a solver on one executed plan.

    * a budget of 0 gives back the executed total, and no larger budget is worse;
    * no value is better than its bound, and what is called optimal equals brute force;
    * replaying the decisions with the model's own step gives the stated levels and value;
    * budget and constraints are respected;
    * a single answer is worth what the frontier says.
    """
    check_answers(solver, problem, _check_allocation)


def _check_allocation(problem: Problem, k: int, explanation: Explanation) -> None:
    assert isinstance(explanation, AllocationExplanation), "an executed plan needs amounts"
    setting = prepare_allocation(problem)
    led = setting.replayed(explanation.actions)
    assert close(led.value, explanation.value), (
        f"k={k}: the decisions come to {led.value}, not the stated {explanation.value}"
    )
    assert np.allclose(led.levels, explanation.levels), f"k={k}: the levels are not those replayed"
    assert np.array_equal(explanation.observed, setting.done.actions), (
        f"k={k}: what it calls observed was not executed"
    )
    moved = explanation.actions - setting.done.actions
    changed = np.flatnonzero(moved.any(axis=1))
    assert changed.tolist() == [change.t for change in explanation.changes], (
        "the changes are not where the decisions differ from the executed ones"
    )
    assert len(changed) <= k, f"{len(changed)} decisions change, but k={k}"
    assert setting.movable[changed].all(), "a fixed step changes"
    assert (np.abs(moved) <= setting.max_move + 1e-9).all(), "an amount moves further than max_move"
    if explanation.status == Status.OPTIMAL:
        best = best_allocation(
            problem.scm, setting.path, setting.done.actions, k, problem.constraints
        )
        assert close(best.value, explanation.value), (
            f"k={k}: called optimal with {explanation.value}, but brute force finds {best.value}"
        )


def random_allocation_problems(count: int, seed: Seed = 0) -> list[Problem]:
    """Small executed plans: stocks, tanks, two resources, and actions in whole units."""
    rng = generator(seed)
    problems = []
    for i in range(count):
        T = int(rng.integers(1, 5))
        model: ExogenousModel = random_spending(rng, T)
        if i % 3 == 2:
            model = random_selling(rng, "max" if rng.random() < 0.5 else "min", T)
        path, actions = _executed(model, rng)
        rules = Constraints(
            fixed_steps=[int(rng.integers(T))] if rng.random() < 0.3 else [],
            max_move=float(rng.integers(1, 4)) if rng.random() < 0.3 else None,
        )
        episode = Episode(path, actions)
        problems.append(Problem(model, episode, int(rng.integers(0, 4)), rules))
    return problems


def _executed(model: ExogenousModel, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """A path and what random decisions did along it: mixtures of what is on offer where amounts
    are divisible."""
    state, path, actions = model.start, [], []
    for t in range(model.horizon):
        offered = np.asarray(model.actions(state), dtype=np.float64)
        action = offered[rng.integers(len(offered))]
        if hasattr(model, "program") and rng.random() < 0.5:
            action = (offered[0] + offered[-1]) / 2
        _, after = model.step(t, state.exogenous[None], state.resource[None], action[None])
        path.append(state.exogenous)
        actions.append(action)
        following = model.draw(t, state.exogenous[None], rng)
        state = State(t + 1, np.asarray(following[0]), np.asarray(after[0]))
    return np.array(path), np.array(actions)
