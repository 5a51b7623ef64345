"""An SD-MDP with finite support is a tabular MDP: the discrete dynamic program finds its V*.

An episode that tells nothing turns the counterfactual law into the prior: an extra action "wait"
that surely leads to limbo, taken at every step. Every causal model then gives each pair its own row
(the rows average to it, and there is one outcome to average over), so the best policy with a change
at every step is the best policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from quantecon.markov import DiscreteDP
from quantecon.markov.ddp import backward_induction

import counterplan as cp
from counterplan.planning.model import State
from tests.domains.planning_support import discretised
from tests.planning.expectimax import expectimax
from tests.planning.selling import random_selling

TOLERANCE = 1e-9
WAIT, LIMBO = 0, 0


@dataclass(frozen=True, eq=False)
class Table:
    """States 1.. are the (t, x, d) that can be reached, the first is the start, 0 is limbo; action
    0 waits, action i + 1 is the i-th on offer."""

    transitions: np.ndarray
    rewards: np.ndarray
    offered: np.ndarray
    horizon: int


def tabulate(problem: cp.ExogenousMDP) -> Table:
    """Every state listed, breadth first; rewards to be maximised."""
    sign = 1.0 if problem.sense == "max" else -1.0
    numbers: dict[tuple[int, bytes, bytes], int] = {}
    states: list[State] = []

    def number(state: State) -> int:
        rounded = [(np.round(part, 9) + 0.0).tobytes() for part in state[1:]]
        key = (state.t, rounded[0], rounded[1])
        if key not in numbers:
            numbers[key] = len(states) + 1
            states.append(state)
        return numbers[key]

    number(problem.start)
    found: list[tuple[int, int, float, list[tuple[int, float]]]] = []
    for state in states:  # grows as it goes
        for i, action in enumerate(problem.actions(state)):
            reward, after = problem.step(
                state.t, state.exogenous[None], state.resource[None], action[None]
            )
            row = [(LIMBO, 1.0)]
            if state.t + 1 < problem.horizon:
                values, chances = problem.successors(state.t, state.exogenous)  # type: ignore[attr-defined]
                row = [
                    (number(State(state.t + 1, x, after[0])), float(p))
                    for x, p in zip(values, chances, strict=True)
                ]
            found.append((number(state), i + 1, sign * float(reward[0]), row))
    S, A = len(states) + 1, max(action for _, action, _, _ in found) + 1
    transitions, rewards = np.zeros((S, A, S)), np.full((S, A), -1e6)
    offered = np.zeros((S, A), dtype=np.bool_)
    transitions[:, :, LIMBO], rewards[:, WAIT] = 1.0, -1e6
    rewards[LIMBO] = 0.0
    offered[:, WAIT] = True
    for state, action, reward, row in found:
        transitions[state, action] = 0.0
        for after, chance in row:
            transitions[state, action, after] += chance
        rewards[state, action], offered[state, action] = reward, True
    return Table(transitions, rewards, offered, problem.horizon)


def lattice_sale(seed: int, sense: str = "max") -> cp.ExogenousMDP:
    """A stock sold at prices on a binomial lattice, in two sizes a day."""
    rng = np.random.default_rng(seed)
    prices = cp.processes.BinomialLattice(float(rng.uniform(5, 15)), 0.05, 0.4, 0.5)
    least = 1.0 if sense == "min" else 0.0
    bounds = [(least, float(rng.integers(2, 4)))] * 4
    return cp.ExogenousMDP(
        prices,
        [[1.0]],
        cp.Resource(8.0),
        bounds,
        sense=sense,
        action_set=3,  # type: ignore[arg-type]
    )


PROBLEMS = [
    *(lattice_sale(seed, sense) for seed in range(3) for sense in ("max", "min")),
    *(random_selling(seed, sense) for seed in range(2) for sense in ("max", "min")),
    discretised(cp.domains.Bunkering(legs=(12.0, 25.0, 19.0)), 3),
    cp.domains.HybridVehicle("A", capacity="tight"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: f"{type(one).__name__}-{one.sense}")
def test_every_dynamic_program_finds_the_same_value(problem: cp.ExogenousMDP) -> None:
    table = tabulate(problem)
    sign = 1.0 if problem.sense == "max" else -1.0
    mdp = cp.TabularMDP(table.transitions, table.rewards, admissible=table.offered)
    T = table.horizon
    waited = cp.Episode([1, *[LIMBO] * (T - 1)], [WAIT] * T)
    explained = cp.explain(mdp, waited, k=T)
    # QuantEcon's own finite horizon; what is not on offer never pays.
    rewards = np.where(table.offered, table.rewards, -np.inf)
    other, _ = backward_induction(DiscreteDP(rewards, table.transitions, 1.0 - 1e-16), T)
    exact = cp.exact_value(problem)
    assert explained.status == "optimal"
    assert sign * explained.value == pytest.approx(exact, rel=TOLERANCE)
    assert sign * other[0, 1] == pytest.approx(exact, rel=TOLERANCE)


def test_enumeration_agrees_too() -> None:
    problem = lattice_sale(0)
    assert expectimax(problem).value == pytest.approx(cp.exact_value(problem), rel=TOLERANCE)  # type: ignore[arg-type]
