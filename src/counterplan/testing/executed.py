"""Checks of decisions along executed plans, and small random plans to try them on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.counterfactual.executed.setting import AllocationExplanation, prepare_allocation
from counterplan.counterfactual.oracle import best_allocation
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.planning.model import ExogenousModel, Sense, State
from counterplan.planning.processes import GBM
from counterplan.planning.resource import Resource
from counterplan.testing.discrete import close
from counterplan.testing.planning import played


def check_allocation(problem: Problem, k: int, explanation: Explanation) -> None:
    """Check one answer against the rules of its problem, by replaying it and by brute force."""
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
    """Small executed plans: a stock, a tank or two stocks that share a quota, and every third with
    actions in whole units."""
    rng = generator(seed)
    problems = []
    for i in range(count):
        T = int(rng.integers(1, 5))
        model = _Units(T, "max" if rng.random() < 0.5 else "min") if i % 3 == 2 else _sale(rng, T)

        # Mixtures of what is on offer where amounts are divisible.
        def choose(offered: FloatArray, whole: bool = i % 3 == 2) -> FloatArray:
            is_offered = whole or rng.random() < 0.5
            mixed = [int(rng.integers(len(offered)))] if is_offered else [0, -1]
            return np.asarray(offered[mixed].mean(axis=0))

        done = played(model, rng, choose=choose)
        rules = Constraints(
            fixed_steps=[int(rng.integers(T))] if rng.random() < 0.3 else [],
            max_move=float(rng.integers(1, 4)) if rng.random() < 0.3 else None,
        )
        path, actions = [one.state.exogenous for one in done], [one.action for one in done]
        episode = Episode(np.array(path), np.array(actions))
        problems.append(Problem(model, episode, int(rng.integers(0, 4)), rules))
    return problems


def _sale(rng: np.random.Generator, T: int) -> ExogenousModel:
    prices = GBM(rng.uniform(2.0, 8.0, size=2), 0.0, 0.5, dt=1.0, kind="correlated")
    kind = int(rng.integers(3))
    if kind == 2:
        stocks = (Resource(float(T)), Resource(float(T)))
        return ExogenousMDP(prices, np.eye(2), stocks, [(2.0, 2.0)] * T)
    if kind == 1:
        needs = rng.integers(1, 4, size=T)
        tank = Resource(0.0, 6.0, +1, -needs.astype(np.float64))
        return ExogenousMDP(prices, [[1.0, 0.0]], tank, [(0.0, 6.0)] * T, sense="min")
    bounds = np.column_stack([np.zeros(T), rng.integers(1, 4, size=T)])
    stock = Resource(float(rng.integers(2, 6)))
    return ExogenousMDP(prices, [[1.0, 0.0]], stock, bounds)


@dataclass(frozen=True)
class _Units:
    """Up to two of three units are sold (or bought) a day, at a price drawn anew: x = (price,),
    d = (left,), a = (units,), r = x a."""

    horizon: int
    sense: Sense = "max"

    @property
    def start(self) -> State:
        return State(0, np.array([5.0]), np.array([3.0]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        return generator.integers(1, 10, size=exogenous.shape).astype(np.float64)

    def actions(self, state: State) -> FloatArray:
        return np.arange(min(2.0, state.resource[0]) + 1.0)[:, None]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return (exogenous * actions)[:, 0], resource - actions
