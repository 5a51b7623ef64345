"""From a problem to what the search runs on: its compiled model, and its bounds where wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.errors import NumbaError

from counterplan.core.validation import Seed
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.model import Compiled, ExogenousModel, HasBoundTables
from counterplan.planning import kernel as contract
from counterplan.planning.checked import checked_problem, is_number
from counterplan.planning.interpreted import interpret
from counterplan.planning.kernel import Kernel, no_bounds

if TYPE_CHECKING:
    from counterplan.planning.planners import Clip

# Futures that a model's bounds are prepared from.
BOUND_SAMPLES = 4000

_SIGNATURES = {
    "draw": contract.DRAW,
    "successors": contract.SUCCESSORS,
    "actions": contract.ACTIONS,
    "step": contract.STEP,
    "policy": contract.POLICY,
    "bounds": contract.BOUNDS,
}


def kernel_of(problem: ExogenousModel, quantiles: int) -> Kernel:
    """The model's compiled functions, or its methods called from compiled code."""
    checked_problem(problem)
    if isinstance(problem, Compiled):
        try:
            kernel = problem.compiled(quantiles=quantiles)
        except NotApplicableError:
            return interpret(problem)
        return checked(kernel)
    return interpret(problem)


def checked(kernel: Kernel) -> Kernel:
    """A kernel whose functions can be called and whose numbers are where the search finds them."""
    for name, signature in _SIGNATURES.items():
        function: Any = getattr(kernel, name)
        try:
            function.get_compile_result(signature)
        except (AttributeError, NumbaError, TypeError, RuntimeError):
            raise InputError(
                f"the kernel's {name} is not a function compiled with the search's signature: "
                f"decorate it with @numba.njit(counterplan.planning.kernel.{name.upper()})"
            ) from None
    for name in ("parameters", "exogenous", "resource", "tables"):
        numbers = getattr(kernel, name)
        if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype != np.float64:
            raise InputError(f"the kernel's {name} must be a one-dimensional array of float64")
    if kernel.horizon < 1 or kernel.most_actions < 1 or kernel.action_size < 1:
        raise InputError("the kernel's horizon, most_actions and action_size must be at least 1")
    return replace(
        kernel,
        parameters=np.ascontiguousarray(kernel.parameters),
        exogenous=np.ascontiguousarray(kernel.exogenous),
        resource=np.ascontiguousarray(kernel.resource),
        tables=np.ascontiguousarray(kernel.tables),
    )


def kernel_with_bounds(
    problem: ExogenousModel, kernel: Kernel, clip: Clip, needed: bool, seed: Seed
) -> tuple[Kernel, float]:
    """The kernel with its tables of bounds, and the probability that a leaf value is clipped.

    needed  the leaf part cannot do without bounds
    """
    if clip is not None and not (is_number(clip) and 0.0 <= clip <= 1.0):
        raise InputError(f"clip must be True, False or a probability from 0 to 1, got {clip!r}")
    if not needed and clip is not None and float(clip) == 0.0:
        return kernel, 0.0
    wanted = 1.0 if clip is None else float(clip)
    try:
        if kernel.bounds is no_bounds:
            raise NotApplicableError(
                f"{type(problem).__name__} has no bounds on its value to clip to: give the model "
                "bounds(state) -> (lower, upper), or its kernel `bounds`, or plan with clip=False"
            )
        if isinstance(problem, HasBoundTables) and kernel.tables.size == 0:
            kernel = replace(kernel, tables=problem.bound_tables(BOUND_SAMPLES, seed))
    except NotApplicableError:
        if needed or clip is not None:
            raise
        return kernel, 0.0
    return kernel, wanted
