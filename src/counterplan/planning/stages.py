"""Models whose every step is a linear program.

With d (D,) the levels before the step, x (X,) what is known at it and y (A,) the action (flows):

    d' = keep d + effect y + inflow + inflow_x x               the next levels
    least_level <= d' <= most_level
    low <= rows y + rows_d d + rows_x x <= high                couplings, demands, ramps
    (where high - rows_x x is below `floor`, that counts in its place: a limit may depend on x)
    least <= y <= most
    (price + price_x x) . y + hold . d'                        reward, or cost in a model of costs

Convex costs in pieces, lost demand and spilling are further flows y; what is left at the end is
worth the last stage's `hold`. Along a path that is known, the steps are one linear program over all
y and d': the optimum with foresight. It is solved for many paths at once, as blocks of one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.model import Allocation, ExogenousModel, State, sign_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# What levels, rows and optima may miss by.
TOLERANCE = 1e-10
# Variables of one program: more paths are solved in turn.
VARIABLES_AT_ONCE = 20_000
# Numbers of a program: HiGHS takes 1e20 for infinite.
LARGEST = 1e15

# By field: its dimensions, and what it is where it is not given.
SHAPES: dict[str, tuple[str, float]] = {
    "keep": ("DD", 0.0),
    "effect": ("DA", 0.0),
    "inflow": ("D", 0.0),
    "inflow_x": ("DX", 0.0),
    "least_level": ("D", 0.0),
    "most_level": ("D", np.inf),
    "rows": ("mA", 0.0),
    "rows_d": ("mD", 0.0),
    "rows_x": ("mX", 0.0),
    "low": ("m", -np.inf),
    "high": ("m", np.inf),
    "floor": ("m", -np.inf),
    "least": ("A", 0.0),
    "most": ("A", np.inf),
    "price": ("A", 0.0),
    "price_x": ("AX", 0.0),
    "hold": ("D", 0.0),
}
LIMITS = ("least_level", "most_level", "low", "high", "least", "most", "floor")


@dataclass(frozen=True, eq=False)
class Stage:
    """One step, as in the equations above; `Stage.of` fills in what is not given."""

    keep: FloatArray
    effect: FloatArray
    inflow: FloatArray
    inflow_x: FloatArray
    least_level: FloatArray
    most_level: FloatArray
    rows: FloatArray
    rows_d: FloatArray
    rows_x: FloatArray
    low: FloatArray
    high: FloatArray
    floor: FloatArray
    least: FloatArray
    most: FloatArray
    price: FloatArray
    price_x: FloatArray
    hold: FloatArray

    @classmethod
    def of(cls, effect: ArrayLike, exogenous: int, **given: ArrayLike) -> Stage:
        """A stage from effect (D, A), the number X of exogenous numbers, and any other fields.

        Without them levels are kept (keep = I) and neither negative nor bounded above, flows are
        not negative, and nothing is worth or costs anything.
        """
        matrix = _numbers("effect", effect)
        unknown = sorted(set(given) - set(SHAPES))
        if unknown or matrix.ndim != 2:
            wrong = f"has no field {unknown[0]!r}" if unknown else "needs effect (D, A)"
            raise InputError(f"a stage {wrong}: it has {', '.join(SHAPES)}")
        sizes = {"D": len(matrix), "A": matrix.shape[1], "X": exogenous, "m": 0}
        for name in ("rows", "rows_d", "rows_x", "low", "high"):
            if name in given:
                sizes["m"] = len(np.atleast_1d(np.asarray(given[name])))
                break
        found: dict[str, FloatArray] = {"effect": matrix, "keep": np.eye(sizes["D"])}
        for name, (dimensions, default) in SHAPES.items():
            wanted = tuple(sizes[one] for one in dimensions)
            if name in given:
                found[name] = _numbers(name, given[name])
            elif name not in found:
                found[name] = np.full(wanted, default)
            if len(wanted) == 1 and found[name].ndim == 0:
                found[name] = np.full(wanted, float(found[name]))
            if found[name].shape != wanted:
                what = f"({', '.join(dimensions)}) = {wanted}"
                raise InputError(f"a stage's {name} must be {what}, got {found[name].shape}")
        for lower, upper in zip(LIMITS[:6:2], LIMITS[1:6:2], strict=True):
            if (found[lower] > found[upper]).any():
                i = int(np.argmax(found[lower] > found[upper]))
                raise InputError(
                    f"a stage's {lower} number {i} is {found[lower][i]:g}, more than {upper} "
                    f"{found[upper][i]:g}"
                )
        return cls(**found)

    def prices(self, exogenous: FloatArray) -> FloatArray:
        """(n, A) what a unit of each flow is worth for (n, X)."""
        return np.asarray(self.price + exogenous @ self.price_x.T)

    def after(
        self, exogenous: FloatArray, levels: FloatArray, flows: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards (n,) and next levels (n, D) for (n, X), (n, D), (n, A)."""
        drift = self.inflow + exogenous @ self.inflow_x.T
        following = levels @ self.keep.T + flows @ self.effect.T + drift
        rewards = (self.prices(exogenous) * flows).sum(axis=1) + following @ self.hold
        return rewards, np.asarray(following)

    def misses(self, exogenous: FloatArray, levels: FloatArray, flows: FloatArray) -> FloatArray:
        """(n,) by how much flows miss any bound of this step; 0 or less where they keep all."""
        _, following = self.after(exogenous, levels, flows)
        rows, shift = flows @ self.rows.T + levels @ self.rows_d.T, exogenous @ self.rows_x.T
        limits = (self.low - shift, rows, np.maximum(self.high - shift, self.floor))
        sides = [(self.least, flows, self.most), limits]
        sides.append((self.least_level, following, self.most_level))
        over = [np.maximum(low - one, one - high) for low, one, high in sides]
        return np.asarray(np.hstack(over).max(axis=1))


@runtime_checkable
class HasStages(Protocol):
    """A model that is a linear program at every step."""

    def stage(self, t: int) -> Stage:
        """The step t."""
        ...


def stages_of(model: ExogenousModel, first: int = 0) -> list[Stage]:
    """The stages from t on, checked to fit together and to the model's start."""
    if not isinstance(model, HasStages):
        raise NotApplicableError(
            f"{type(model).__name__} does not say that its steps are linear programs: give it "
            "stage(t) -> Stage (counterplan.planning.stages)"
        )
    found, start = [model.stage(t) for t in range(first, model.horizon)], model.start
    wanted = (start.resource.size, len(found[0].least) if found else 0, start.exogenous.size)
    for s, one in enumerate(found):
        sizes = (*one.effect.shape, one.price_x.shape[1])
        if sizes != wanted:
            raise InputError(
                f"the stage at t={first + s} has {sizes} levels, flows and exogenous numbers, "
                f"expected {wanted}"
            )
    return found


class Program(NamedTuple):
    """Minimise cost . z subject to low <= matrix z <= high and least <= z <= most."""

    cost: FloatArray
    matrix: csr_matrix
    low: FloatArray
    high: FloatArray
    least: FloatArray
    most: FloatArray

    def solve(self) -> FloatArray:
        """The optimal z, by HiGHS."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        limits = np.append(self.low, self.high)
        check_size("what x makes of a step", self.cost, limits[~np.isinf(limits)])
        same = self.low == self.high
        upper, lower = ~same & np.isfinite(self.high), ~same & np.isfinite(self.low)
        tolerances = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
        given: dict[str, Any] = {
            "A_ub": vstack([self.matrix[upper], -self.matrix[lower]]),
            "b_ub": np.concatenate([self.high[upper], -self.low[lower]]),
            "A_eq": self.matrix[same],
            "b_eq": self.low[same],
            "bounds": np.column_stack([self.least, self.most]),
            "options": dict.fromkeys(tolerances, TOLERANCE),
        }
        solved = linprog(self.cost, **given, method="highs")
        if solved.status == 2:
            raise InfeasibleError("no flows keep all bounds from this state on; check its levels")
        if solved.status == 3:
            raise InputError("flows without any bound earn without end: bound them by `most`")
        if solved.status != 0 or solved.x is None:
            raise NotApplicableError(f"HiGHS found no optimum: {solved.message}")
        return np.asarray(solved.x)


def path_program(
    stages: list[Stage], paths: FloatArray, levels: FloatArray, sign: float
) -> Program:
    """Of n paths (n, steps, X) from the same levels (D,): z is y_0, d_1, y_1, d_2, ... of each."""
    from scipy.sparse import block_diag, kron
    from scipy.sparse import eye as identity

    D, A = stages[0].effect.shape
    n = len(paths)
    costs, lows, highs = [], [], []
    before = np.zeros((n, D)) + levels
    for s, one in enumerate(stages):
        x = paths[:, s]
        costs += [-sign * one.prices(x), np.tile(-sign * one.hold, (n, 1))]
        drift = one.inflow + x @ one.inflow_x.T + before @ one.keep.T
        by_x, by_d = x @ one.rows_x.T, before @ one.rows_d.T
        lows += [drift, one.low - by_x - by_d]
        highs += [drift, np.maximum(one.high - by_x, one.floor) - by_d]
        before = np.zeros((n, D))
    blocks = [np.block([[-one.effect, np.eye(D)], [one.rows, np.zeros((len(one.low), D))]])
              for one in stages]  # fmt: skip
    matrix: Any = block_diag(blocks, format="lil")
    row = len(blocks[0])
    for s, one in enumerate(stages[1:], start=1):
        column = s * (A + D) - D
        matrix[row : row + D, column : column + D] = -one.keep
        matrix[row + D : row + len(blocks[s]), column : column + D] = one.rows_d
        row += len(blocks[s])
    limits = [
        np.tile(np.concatenate([np.concatenate(pair) for pair in pairs]), n)
        for pairs in (
            [(one.least, one.least_level) for one in stages],
            [(one.most, one.most_level) for one in stages],
        )
    ]
    sides = (np.hstack(part).ravel() for part in (lows, highs))
    whole: Any = kron(identity(n), matrix, format="csr")
    return Program(np.hstack(costs).ravel(), whole, *sides, *limits)


def allocate_stages(
    model: ExogenousModel, paths: FloatArray, state: State | None = None
) -> Allocation:
    """The best flows along (n, T - t, X) paths from the state's levels (default: the start's)."""
    now = model.start if state is None else state
    stages, sign = stages_of(model, now.t), sign_of(model)
    D, A = stages[0].effect.shape
    n, steps = paths.shape[:2]
    size = max(1, VARIABLES_AT_ONCE // (steps * (D + A)))
    values, actions = np.empty(n), np.empty((n, steps, A))
    for first in range(0, n, size):
        some = paths[first : first + size]
        program = path_program(stages, some, np.asarray(now.resource, dtype=np.float64), sign)
        z = program.solve()
        values[first : first + size] = -sign * (program.cost * z).reshape(len(some), -1).sum(axis=1)
        actions[first : first + size] = z.reshape(len(some), steps, A + D)[:, :, :A]
    return Allocation(values, actions, "lp: every step is a linear program")


def best_flows(
    stage: Stage, exogenous: FloatArray, levels: FloatArray, worth: FloatArray, sign: float = 1.0
) -> FloatArray:
    """(A,) the flows of one step for x (X,), d (D,) that are best now and with what a unit of each
    next level is worth (D,), beside the stage's `hold`; `sign` -1 for costs."""
    program = path_program([stage], exogenous[None, None], levels, sign)
    program.cost[len(stage.least) :] -= sign * worth
    return program.solve()[: len(stage.least)]


def closest_flows(
    stage: Stage,
    exogenous: FloatArray,
    levels: FloatArray,
    wanted: FloatArray,
    later: Sequence[Stage] = (),
) -> FloatArray:
    """(A,) the flows that keep this step's bounds and differ least from those wanted (A,), in the
    sum of absolute differences; and keep `later` steps possible if x brings nothing: is 0."""
    from scipy.sparse import csr_matrix

    path = np.zeros((1, 1 + len(later), len(exogenous)))
    path[0, 0] = exogenous
    program = path_program([stage, *later], path, levels, 1.0)
    A, size = len(wanted), len(program.cost)
    one, inside = np.eye(A, size), program.matrix.toarray()
    matrix = csr_matrix(
        np.block([[inside, np.zeros((len(inside), A))], [one, -np.eye(A)], [one, np.eye(A)]])
    )
    free = np.full(A, np.inf)
    found = Program(
        np.concatenate([np.zeros(size), np.ones(A)]),
        matrix,
        np.concatenate([program.low, -free, wanted]),
        np.concatenate([program.high, wanted, free]),
        np.concatenate([program.least, np.zeros(A)]),
        np.concatenate([program.most, free]),
    ).solve()
    return np.asarray(found[:A])


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"a stage's {name} must hold numbers, got {values!r}") from None
    if np.isnan(found).any() or (name not in LIMITS and not np.isfinite(found).all()):
        raise InputError(f"a stage's {name} must be finite numbers")
    check_size(f"a stage's {name}", found[np.isfinite(found)])
    return found


def check_size(what: str, *several: FloatArray) -> None:
    """Refuse numbers that a solver takes for infinite, or beside which others are lost."""
    for one in several:
        if not np.abs(one).max(initial=0.0) <= LARGEST:
            raise InputError(
                f"{what} is no number, or beyond {LARGEST:g}, too large to be reckoned with: use "
                "larger units, no limit where there is none, and a process that stays within them"
            )
