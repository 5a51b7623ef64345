"""Checks of solvers of continuous problems."""

from __future__ import annotations

import numpy as np

from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Explanation, Status
from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.counterfactual.sequence_oracle import SequenceWorld
from counterplan.testing.answers import check_answers, close


def check_sequence_solver(solver: Solver, problem: Problem) -> None:
    """Check a solver on one continuous problem.

    * a budget of 0 gives back the observed outcome, and value never falls as k grows;
    * no value exceeds its bound, and what is called optimal equals brute force;
    * replaying the actions with the model's own step gives the stated states and value;
    * budget and constraints are respected;
    * a single answer is worth what the frontier says.
    """
    check_answers(solver, problem, check_sequence)


def check_sequence(problem: Problem, k: int, explanation: Explanation) -> None:
    """Check one answer against the rules of its problem, by replaying it and by brute force."""
    assert isinstance(explanation, SequenceExplanation), "a continuous solver must give a sequence"
    assert problem.reward is not None
    world = SequenceWorld(
        problem.scm, problem.episode, problem.actions, problem.reward, problem.constraints
    )
    value = world.value_of(explanation.actions)
    assert close(value, explanation.value), (
        f"k={k}: the sequence earns {value}, not the stated {explanation.value}"
    )
    stated = float(problem.reward(explanation.states).sum())
    assert close(value, stated), f"k={k}: the stated states earn {stated}, not {value}"
    _check_rules(world, k, explanation)
    if explanation.status == Status.OPTIMAL:
        best = world.best_from(0, world.states[0], k)
        assert close(best.value, explanation.value), (
            f"k={k}: called optimal with {explanation.value}, but brute force finds {best}"
        )


def _check_rules(world: SequenceWorld, k: int, explanation: SequenceExplanation) -> None:
    spent = sum(world.price(t, int(action)) for t, action in enumerate(explanation.actions))
    assert spent <= k, f"the sequence spends {spent} > {k}"
    for t, observed, alternative in explanation.changes:
        assert observed == world.observed[t], f"t={t}: {observed} was not observed"
        assert world.rules.alternatives[t, alternative], (
            f"the sequence takes action {alternative} at t={t}, where it is not allowed"
        )
    changed = np.flatnonzero(np.array(world.observed) != explanation.actions)
    assert changed.tolist() == [change.t for change in explanation.changes], (
        "the changes are not where the actions differ from the observed ones"
    )
