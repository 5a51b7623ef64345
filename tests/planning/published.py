"""The data of two examples of SDDP.jl, stated as stages: its published values are the oracle."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.planning.stages import Stage

from .staged import Staged

INF = np.inf


def hydro_valley(inflows: bool, prices: bool, sense: str = "max") -> Staged:
    """Two reservoirs in a chain, three stages; x is the price and both inflows.

    Flows: outflow and spill of each, inflow of each, and shares of three operating points each.
    """
    sign = 1.0 if sense == "max" else -1.0
    effect = np.zeros((2, 12))
    effect[:, 0:2] = effect[:, 2:4] = [[-1.0, 0.0], [1.0, -1.0]]
    effect[:, 4:6] = np.eye(2)
    rows, rows_x = np.zeros((6, 12)), np.zeros((6, 3))
    price_x = np.zeros((12, 3))
    for r in range(2):
        points = slice(6 + 3 * r, 9 + 3 * r)
        rows[r, r], rows[r, points] = 1.0, [-50.0, -60.0, -70.0]  # outflow by operating points
        rows[2 + r, points] = 1.0
        rows[4 + r, 4 + r], rows_x[4 + r, 1 + r] = 1.0, -1.0  # no more inflow than it rains
        price_x[points, 0] = sign * np.array([55.0, 65.0, 70.0])
    price = np.zeros(12)
    price[2:4] = -sign * 1000.0
    stage = Stage.of(
        effect,
        3,
        most_level=200.0,
        rows=rows,
        rows_x=rows_x,
        low=[0.0, 0.0, -INF, -INF, -INF, -INF],
        high=[0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
        most=[INF] * 6 + [1.0] * 6,
        price=price,
        price_x=price_x,
    )
    rain = [(0.0, 0.0), (20.0, 0.0), (50.0, 20.0)] if inflows else [(0.0, 0.0)]
    levels = [[1.0], [2.0, 1.0], [3.0, 4.0]] if prices else [[1.0], [2.0], [3.0]]
    chains = [[[0.6, 0.4]], [[0.6, 0.4], [0.3, 0.7]]] if prices else [[[1.0]], [[1.0]]]
    values = [np.array([[1.0, 0.0, 0.0]])]
    values += [np.array([(p, *fall) for p in step for fall in rain]) for step in levels[1:]]
    n = len(rain)
    first, second = (np.kron(chain, np.full((1, n), 1.0 / n)) for chain in chains)
    chances = [first, np.repeat(second, n, axis=0)]
    return Staged([stage] * 3, values, chances, np.array([200.0, 200.0]), sense)


def farm() -> Staged:
    """McCardle's farm: a planting stage, then three under dry, normal or wet weather (x, one of
    three ones). Levels are acres and bales of three cuttings.

    Flows: acres given up; acres grown in each weather; bales bought, sold, eaten, added and taken
    away at a penalty, and held, of each cutting.
    """
    yields = np.array([[30.0, 75.0, 37.5], [15.0, 37.5, 18.25], [7.5, 18.75, 9.325]])
    days, demand = [60.0, 60.0, 245.0], [210.0, 210.0, 858.0]
    feed = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    A, grown = 22, slice(1, 4)
    bought, sold, eaten, added, taken, held = (slice(4 + 3 * i, 7 + 3 * i) for i in range(6))
    most_level = np.array([60.0, INF, INF, INF])

    def planting() -> Stage:
        effect = np.zeros((4, A))
        effect[0, 0] = -1.0
        return Stage.of(effect, 3, most_level=most_level, most=[INF] + [0.0] * 21)

    def season(k: int) -> Stage:
        effect = np.zeros((4, A))
        effect[0, 0] = -1.0
        for flow, sign in ((bought, 1.0), (eaten, -1.0), (sold, -1.0), (added, 1.0), (taken, -1.0)):
            effect[1:, flow] = sign * np.eye(3)
        effect[1 + k, grown] = yields[k]
        rows, rows_d, rows_x = np.zeros((13, A)), np.zeros((13, 4)), np.zeros((13, 3))
        low, high = np.full(13, -INF), np.full(13, INF)
        rows[0, grown], rows_d[0, 0], low[0], high[0] = 1.0, -1.0, 0.0, 0.0  # all acres grow
        rows[1:4, grown], rows_x[1:4], high[1:4] = np.eye(3), -60.0 * np.eye(3), 0.0
        rows[4, eaten], low[4] = 1.0, demand[k]
        rows[5], rows_d[5, 1:], high[5] = effect[1:].sum(axis=0), 1.0, 3000.0  # room in the barn
        rows[6:9, sold], rows_d[6:9, 1:], high[6:9] = np.eye(3), -np.eye(3), 0.0
        rows[9, sold], high[9] = 1.0, 3000.0
        rows[10:, held], rows_d[10:, 1:] = np.eye(3), -np.eye(3)
        low[10:] = high[10:] = 0.0
        price = np.zeros(A)
        price[grown], price[bought], price[eaten] = 50.0, [5.0, 6.0, 7.0], feed[:, k]
        price[sold], price[held] = [-4.5, -5.5, -6.5], 0.05 * days[k]
        price[added] = price[taken] = 1000.0
        limits = {"rows": rows, "rows_d": rows_d, "rows_x": rows_x, "low": low, "high": high}
        return Stage.of(effect, 3, most_level=most_level, price=price, **limits)

    weather: FloatArray = np.array([[0.14, 0.69, 0.17]])
    values = [np.zeros((1, 3)), np.eye(3), np.eye(3), np.eye(3)]
    chances = [weather, np.repeat(weather, 3, axis=0), np.repeat(weather, 3, axis=0)]
    levels = np.array([60.0, 0.0, 0.0, 0.0])
    return Staged([planting(), *map(season, range(3))], values, chances, levels, "min")
