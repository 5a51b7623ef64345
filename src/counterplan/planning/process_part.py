"""The exogenous part of a kernel whose x follows one of the shipped processes.

`parameters[0]` says where the numbers of the process begin (`process_kernel`); they come last, and
the model's own numbers in between.
"""

from __future__ import annotations

from numba import njit

from counterplan.exogenous.process import GBM_CODE, MODES_CODE
from counterplan.exogenous.process_kernel import (
    mode_draw,
    one_price_draw,
    process_draw,
    process_successors,
)
from counterplan.planning.kernel import DRAW, SUCCESSORS

PROCESS = 0


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1} given x_t; the commonest processes without a slice, which would cost as much."""
    at = int(parameters[PROCESS])
    if parameters[at] == GBM_CODE and parameters[at + 2] == 1.0:
        one_price_draw(parameters, at, t, x, generator, out)
    elif parameters[at] == MODES_CODE:
        mode_draw(parameters, at, x, generator, out)
    else:
        process_draw(parameters[at:], t, x, generator, out)


@njit(SUCCESSORS, cache=True)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """All values of x_{t+1} and their probabilities; 0 where there are infinitely many."""
    block = parameters[int(parameters[PROCESS]) :]
    return process_successors(block, t, x, states, probabilities)
