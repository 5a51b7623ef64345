"""Bunkering as a multi-stage stochastic program on a scenario tree (E.1), through HiGHS.

A node n of the tree is a history of prices, with price P_n, probability beta_n and time t(n). All
scenarios that share a history share its node and so its decision: that is non-anticipativity.

    min   sum_n beta_n [ P_n (X_n2 - X_n1) + B Y_n ]                                  (E.1a)
    s.t.  X_m1 = X_n2 - l_t(n)                 for every child m of n                   (E.1b)
          0 <= X_n2 - X_n1 <= M Y_n            a purchase is paid for                   (E.1c, E.1e)
          l_t(n) <= X_n2 <= M                  the tank, and enough for the next leg   (E.1f, E.1g)
          X_root1 = level on arrival                                                  (E.1h)

X_n1 and X_n2 are the levels before and after buying; X_n1 follows from the parent's X_2 and is put
in. Without a fixed cost B there is no Y and it is a linear program. Delays cost nothing here (no
speed is chosen), so tau is left out. The prices of a node's children are the means of equally
likely strata, so the tree's expected prices are exact; its value is that of the tree, not of the
continuous prices (more branches come closer, from above).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.domains.bunkering import Bunkering
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import ExogenousModel, State, checked_state
from counterplan.planning.policies import each_state
from counterplan.planning.processes.base import FiniteProcess, HasQuantiles

if TYPE_CHECKING:
    from counterplan.planning.policies import Rule

MOST_NODES = 100_000


class PriceTree(NamedTuple):
    """Histories of prices, parents before children.

    parent       (N,) -1 for the root
    time         (N,)
    price        (N,)
    probability  (N,) of the history
    """

    parent: IntArray
    time: IntArray
    price: FloatArray
    probability: FloatArray


@dataclass(frozen=True)
class ProgramResult:
    """What the solver found.

    amount     to buy now
    value      expected cost on the tree
    bound      no decisions on this tree cost less
    purchases  (N,) at every node
    tree       the scenarios
    """

    amount: float
    value: float
    bound: float
    purchases: FloatArray
    tree: PriceTree

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        return abs(self.value - self.bound) / max(abs(self.value), 1e-12)


@dataclass(frozen=True)
class ScenarioTree:
    """The first purchase of the scenario-tree program E.1 of bunkering, solved anew in every state.

    branches  prices that may follow at each port, one number or one per port to come; where the
              process is finite, its own
    seconds   limit for the solver, per state
    """

    branches: int | Sequence[int] = 3
    seconds: float = 60.0

    name: ClassVar[str] = "scenario tree"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule for bunkering."""
        if not isinstance(model, Bunkering):
            raise NotApplicableError(
                f"the scenario-tree program E.1 is of Bunkering, not of {type(model).__name__}; "
                "policies.Resolve and policies.LeastSquares are for other models"
            )

        def first(state: State) -> FloatArray:
            return np.array([self.solve(model, state).amount])

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            wanted = each_state(t, exogenous, resource, first)
            # The solver keeps the tank's bounds to about 1e-7.
            return model.feasible(t, exogenous, resource, wanted)

        return rule

    def solve(self, problem: Bunkering, state: State | None = None) -> ProgramResult:
        """The program from a state on (default: the start)."""
        at = checked_state(problem, state)
        tree = scenario_tree(problem, self.branches, at)
        return solve_program(problem, tree, float(at.resource[0]), self.seconds)


def scenario_tree(
    problem: Bunkering, branches: int | Sequence[int] = 3, state: State | None = None
) -> PriceTree:
    """All histories from a state on (default: the start)."""
    state = problem.start if state is None else state
    later = problem.horizon - state.t - 1
    counts = [branches] * later if isinstance(branches, int) else list(branches)
    if len(counts) < later:
        raise InputError(f"branches has {len(counts)} numbers, but {later} ports follow")
    root = PriceTree(*(np.array([one]) for one in (-1, state.t, state.exogenous[0], 1.0)))
    levels, nodes = [root], 1
    for step in range(later):
        t, last = state.t + step, levels[-1]
        count = whole_number(counts[step], f"branches at t={t + 1}", minimum=1)
        values, chances = zip(
            *(_following(problem, t, one, count) for one in last.price), strict=True
        )
        sizes = [len(one) for one in values]
        above = np.repeat(np.arange(nodes - len(last.price), nodes), sizes)
        odds = np.repeat(last.probability, sizes) * np.concatenate(chances)
        levels.append(PriceTree(above, np.full_like(above, t + 1), np.concatenate(values), odds))
        nodes += len(above)
        if nodes > MOST_NODES:
            raise InputError(
                f"the tree has more than {MOST_NODES:,} histories by t={t + 1}: use fewer branches"
            )
    return PriceTree(*map(np.concatenate, zip(*levels, strict=True)))


def _following(
    problem: Bunkering, t: int, price: float, count: int
) -> tuple[FloatArray, FloatArray]:
    """Prices of the next port and their probabilities."""
    process, x = problem.process, np.array([price])
    if isinstance(process, FiniteProcess):
        values, chances = process.successors(t, x)
    elif isinstance(process, HasQuantiles):
        values, chances = process.quantiles(t, x, count)
    else:
        raise NotApplicableError(
            f"{type(process).__name__} has neither finitely many prices nor quantiles, so there "
            "is no scenario tree; geometric Brownian motion and bootstrapped prices have"
        )
    return values[:, 0], chances


def solve_program(
    problem: Bunkering, tree: PriceTree, level: float = 0.0, seconds: float = 60.0
) -> ProgramResult:
    """The program on a given tree, from a level on arrival at its root (default: empty)."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, hstack

    N, fixed = len(tree.price), problem.fixed_cost > 0
    leg, parent = np.asarray(problem.legs)[tree.time], tree.parent[1:]
    # Purchases are `bought` @ X_2 + `offset`: what is in the tank is the parent's X_2 less its leg.
    arrive = csr_array((np.ones(N - 1), (np.arange(1, N), parent)), shape=(N, N))
    bought = csr_array(eye_array(N) - arrive)
    offset = np.concatenate([[-level], leg[parent]])
    paid = tree.probability * tree.price
    cost, low, high = np.asarray(bought.T @ paid), leg, np.full(N, problem.capacity)
    constraints = [LinearConstraint(bought, -offset, np.inf)]
    if fixed:
        limited = hstack([bought, -problem.capacity * eye_array(N)])
        constraints = [
            LinearConstraint(hstack([bought, csr_array((N, N))]), -offset, np.inf),
            LinearConstraint(limited, -np.inf, -offset),
        ]
        cost = np.append(cost, tree.probability * problem.fixed_cost)
        low, high = np.append(low, np.zeros(N)), np.append(high, np.ones(N))
    found: Any = milp(
        cost,
        integrality=np.repeat([0, 1], N)[: len(cost)],
        bounds=Bounds(low, high),
        constraints=constraints,
        options={"time_limit": seconds, "mip_rel_gap": 1e-9},
    )
    if found.x is None:
        raise NotApplicableError(
            f"the solver found no plan within {seconds:g} s: use fewer branches or more seconds"
        )
    constant = paid @ offset
    purchases = np.maximum(bought @ found.x[:N] + offset, 0.0)
    bound = found.mip_dual_bound
    if bound is None:  # a linear program: solved, or nothing is known
        bound = found.fun if found.success else -math.inf
    values = float(found.fun + constant), float(bound + constant)
    return ProgramResult(float(purchases[0]), *values, purchases, tree)
