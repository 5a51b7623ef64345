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
from counterplan.planning.model import ExogenousModel, Sense, State
from counterplan.planning.resource import Resource, ResourceProgram
from counterplan.testing.discrete import close
from counterplan.testing.planners import random_selling


@dataclass(frozen=True, eq=False)
class Spending:
    """A small resource program with prices drawn anew every day:

        x = (p_1, .., p_A) in {1, .., 9}^A,    r = <x, a>,    levels and bounds of the program

    Prices at the start are 5. On offer are the least and the most, of the first resource as far as
    it goes.
    """

    program: ResourceProgram
    sense: Sense = "max"

    @property
    def horizon(self) -> int:
        return self.program.horizon

    @property
    def start(self) -> State:
        return State(0, np.full(len(self.program.resources), 5.0), self.program.start)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        return generator.integers(1, 10, size=exogenous.shape).astype(np.float64)

    def actions(self, state: State) -> FloatArray:
        low, high = self.program.spendable(state.t, state.resource[None])
        totals = np.unique([low[0], high[0]])
        A = len(self.program.resources)
        if A == 1:
            return totals[:, None]
        first = np.minimum(totals, state.resource[0])
        return np.column_stack([first, totals - first])

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return (exogenous * actions).sum(axis=1), self.program.levels_after(t, resource, actions)

    def unit_rewards(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, A) to be maximised."""
        return paths if self.sense == "max" else -paths


def random_spending(seed: Seed = 0, horizon: int = 4) -> Spending:
    """A stock to sell, a tank to fill, or two stocks that share a quota: any of them."""
    rng = generator(seed)
    T, kind = horizon, int(rng.integers(3))
    if kind == 0:
        bounds = np.column_stack([np.zeros(T), rng.integers(1, 4, size=T)])
        return Spending(ResourceProgram((Resource(float(rng.integers(2, 6))),), bounds))
    if kind == 1:
        needs = rng.integers(1, 4, size=T).astype(np.float64)
        tank = Resource(0.0, 6.0, +1, -needs)
        return Spending(ResourceProgram((tank,), np.tile([0.0, 6.0], (T, 1))), "min")
    quota = np.full((T, 2), 2.0)
    return Spending(ResourceProgram((Resource(float(T)), Resource(float(T))), quota))


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
