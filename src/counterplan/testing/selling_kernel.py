"""`selling`, compiled.

`parameters`: T, M, stock, daily, least; prices (M,), negative where they are paid; matrix (M, M).
"""

from __future__ import annotations

from numba import njit

from counterplan.planning.kernel import ACTIONS, DRAW, STEP, SUCCESSORS

T_, M_, STOCK, DAILY, LEAST = range(5)
PRICES = 5


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """The next price's number."""
    M = int(parameters[M_])
    row = PRICES + M + int(x[0]) * M
    u, cumulative, i = generator.random(), parameters[row], 0
    while i < M - 1 and u >= cumulative:
        i += 1
        cumulative += parameters[row + i]
    out[0] = i


@njit(SUCCESSORS, cache=True)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """All prices."""
    M = int(parameters[M_])
    for i in range(M):
        states[i, 0] = i
        probabilities[i] = parameters[PRICES + M + int(x[0]) * M + i]
    return M


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """From the fewest units that can still be made up for to the most."""
    later = parameters[DAILY] * (parameters[T_] - 1.0 - t)
    fewest = max(0.0, d[0] - (parameters[STOCK] - parameters[LEAST]) - later)
    m = int(min(parameters[DAILY], d[0]) - fewest) + 1
    for i in range(m):
        out[i, 0] = fewest + i
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Units at today's price."""
    out[0] = d[0] - action[0]
    return parameters[PRICES + int(x[0])] * action[0]
