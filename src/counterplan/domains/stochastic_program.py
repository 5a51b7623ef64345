"""Bunkering as a multi-stage stochastic program on a scenario tree (E.1), through HiGHS.

A node n of the tree is a history of prices, with price P_n, probability beta_n and time t(n). All
scenarios that share a history share its node and so its decision: that is non-anticipativity.

    min   sum_n beta_n [ P_n (X_n2 - X_n1) + B Y_n ]                                  (E.1a)
    s.t.  X_m1 = X_n2 - l_t(n)                 for every child m of n                   (E.1b)
          0 <= X_n2 - X_n1 <= M Y_n            a purchase is paid for                   (E.1c, E.1e)
          l_t(n) <= X_n2 <= M,  X_n1 >= 0      the tank, and enough for the next leg   (E.1f, E.1g)
          X_root1 = level on arrival                                                  (E.1h)

X_n1 and X_n2 are the levels before and after buying. Without a fixed cost B there is no Y and it is
a linear program. Delays cost nothing here (no speed is chosen), so tau is left out. The prices of a
node's children are the means of equally likely strata, so the tree's expected prices are exact; its
value is that of the tree, not of the continuous prices (more branches come closer, from above).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.domains.bunkering import Bunkering
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import ExogenousModel, State, checked_state
from counterplan.planning.policies import each_state
from counterplan.planning.processes.base import FiniteProcess, HasQuantiles

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    gap        (value - bound) / value
    purchases  (N,) at every node
    tree       the scenarios
    """

    amount: float
    value: float
    bound: float
    gap: float
    purchases: FloatArray
    tree: PriceTree


@dataclass(frozen=True)
class ScenarioTree:
    """The first purchase of the scenario-tree program E.1 of bunkering, solved anew in every state.

    branches  prices that may follow at each port, one number or one per port to come; where the
              process is finite, its own
    seconds   limit for the solver, per state
    """

    branches: int | Sequence[int] = 3
    seconds: float = 60.0

    @property
    def name(self) -> str:
        return "scenario tree"

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
    parents, times = [np.array([-1])], [np.array([state.t])]
    prices, chances = [np.array([state.exogenous[0]])], [np.ones(1)]
    first, nodes = 0, 1
    for step in range(later):
        t = state.t + step
        count = whole_number(counts[step], f"branches at t={t + 1}", minimum=1)
        children = [_following(problem, t, price, count) for price in prices[-1]]
        sizes = [len(values) for values, _ in children]
        above = np.repeat(np.arange(first, nodes), sizes)
        parents.append(above)
        times.append(np.full(len(above), t + 1))
        prices.append(np.concatenate([values for values, _ in children]))
        conditional = np.concatenate([chance for _, chance in children])
        chances.append(np.repeat(chances[-1], sizes) * conditional)
        first, nodes = nodes, nodes + len(above)
        if nodes > MOST_NODES:
            raise InputError(
                f"the tree has more than {MOST_NODES:,} histories by t={t + 1}: use fewer branches"
            )
    return PriceTree(*(np.concatenate(part) for part in (parents, times, prices, chances)))


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

    if problem.action_set != "order-up-to":
        raise NotApplicableError(
            f"the program buys any amount, not only those of action_set={problem.action_set!r}; "
            "use action_set='order-up-to'"
        )
    N, fixed = len(tree.price), problem.fixed_cost > 0
    leg = np.asarray(problem.legs)[tree.time]
    paid = tree.probability * tree.price
    columns = 3 if fixed else 2
    cost = np.concatenate([-paid, paid, tree.probability * problem.fixed_cost])
    lows = np.concatenate([np.zeros(N), leg, np.zeros(N)])
    highs = np.repeat([problem.capacity, problem.capacity, 1.0], N)
    lows[0] = highs[0] = level
    matrix, low, high = _constraints(tree, leg, problem.capacity, fixed)
    found: Any = milp(
        cost[: columns * N],
        integrality=np.repeat([0, 0, 1], N)[: columns * N],
        bounds=Bounds(lows[: columns * N], highs[: columns * N]),
        constraints=LinearConstraint(matrix, low, high),
        options={"time_limit": seconds, "mip_rel_gap": 1e-9},
    )
    if found.x is None:
        raise NotApplicableError(
            f"the solver found no plan within {seconds:g} s: use fewer branches or more seconds"
        )
    purchases = np.maximum(found.x[N : 2 * N] - found.x[:N], 0.0)
    value = float(found.fun)
    bound = found.mip_dual_bound
    if bound is None:  # a linear program: solved, or nothing is known
        bound = value if found.success else -math.inf
    gap = abs(value - bound) / max(abs(value), 1e-12)
    return ProgramResult(float(purchases[0]), value, float(bound), gap, purchases, tree)


def _constraints(
    tree: PriceTree, leg: FloatArray, capacity: float, fixed: bool
) -> tuple[csr_array, FloatArray, FloatArray]:
    """Rows for E.1b, one per child, and for E.1c, one per node; columns X_1, X_2 and Y."""
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    N = len(tree.price)
    child = np.arange(1, N)
    ones, rows = np.ones(N - 1), np.arange(N - 1)
    arrive = csr_array((ones, (rows, child)), shape=(N - 1, N))
    depart = csr_array((ones, (rows, tree.parent[1:])), shape=(N - 1, N))
    each = eye_array(N, format="csr")
    blocks = [[arrive, -depart], [-each, each]]
    low = np.concatenate([-leg[tree.parent[1:]], np.zeros(N)])
    high = np.concatenate([-leg[tree.parent[1:]], np.full(N, np.inf)])
    if fixed:
        none = csr_array((N - 1, N))
        blocks = [[arrive, -depart, none], [-each, each, csr_array((N, N))]]
        blocks.append([each, -each, capacity * each])
        low, high = np.append(low, np.zeros(N)), np.append(high, np.full(N, np.inf))
    return vstack([hstack(row) for row in blocks], format="csr"), low, high
