"""What the hybrid vehicle should have used, along paths of mileage and braking.

realised, braking somewhere   dynamic program along the path (hybrid_exact)
realised, no braking          comparative advantage: with the quota min(Delta_a, what is left)
                              fixed at every step, rank steps by f_gas - f_electric
expected, braking a chance    the linear program of expected amounts: at step t, with probability
                              p_t of braking, at most (1 - p_t) Delta_a units are used at the
                              mileage of driving modes, and p_t |Delta_d| units are gained
"""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.hybrid_tables import Road
from counterplan.exogenous.model import Allocation

# A probability this small is rounding.
SMALLEST = 1e-9


def allocate(road: Road, beliefs: FloatArray, tanks: FloatArray) -> Allocation:
    """The best use of tanks (2,) along n paths of distributions of the mode, (n, T, S)."""
    braking = np.asarray(beliefs @ road.brakes)
    driving = np.maximum(1.0 - braking, SMALLEST)[:, :, None]
    rates = (beliefs * ~road.brakes) @ road.mileage / driving
    uncertain = ((braking > SMALLEST) & (braking < 1.0 - SMALLEST)).any(axis=1)
    calm = ~uncertain & (braking <= SMALLEST).all(axis=1)
    rest = ~uncertain & ~calm
    values, actions = np.empty(len(rates)), np.empty(rates.shape)
    methods = []
    if calm.any():
        values[calm], actions[calm] = _without_braking(road, rates[calm], tanks)
        methods.append("comparative advantage where nothing brakes: quotas and stocks are fixed")
    if rest.any():
        values[rest], actions[rest] = _along_path(road, rates[rest], braking[rest], tanks)
        methods.append("dynamic program along the path: what braking adds depends on what was used")
    for i in np.flatnonzero(uncertain):
        values[i], actions[i] = _expected(road, rates[i], braking[i], tanks)
    if uncertain.any():
        methods.append("linear program of expected amounts: a plug-in value")
    return Allocation(values, actions, "; ".join(methods))


def _without_braking(
    road: Road, rates: FloatArray, tanks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    from counterplan.allocation.comparative_advantage import allocate_advantage

    total = float(tanks.sum())
    before = road.quota * np.arange(rates.shape[1])
    quotas = np.clip(total - before, 0.0, road.quota)
    stocks = float(tanks[0]), float(tanks[1])
    return allocate_advantage(rates[:, :, 0], rates[:, :, 1], quotas, stocks)


def _along_path(
    road: Road, rates: FloatArray, braking: FloatArray, tanks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    from counterplan.domains.hybrid_exact import path_hindsight

    start = np.rint(tanks).astype(np.int64)
    values, actions = path_hindsight(road, np.ascontiguousarray(rates), braking > 0.5, start)
    return values, actions


def _expected(
    road: Road, rates: FloatArray, braking: FloatArray, tanks: FloatArray
) -> tuple[float, FloatArray]:
    """Value and actions (T, 2) of one expected path; rates are those of driving modes alone."""
    from counterplan.allocation.linear_program import allocate_transport
    from counterplan.exogenous.resource import Resource, ResourceProgram

    if road.capacity == 0:
        return 0.0, np.zeros_like(rates)
    capacity = float(road.capacity)
    gas = Resource(float(tanks[0]), capacity, spill=True)
    battery = Resource(float(tanks[1]), capacity, change=road.recharge * braking, spill=True)
    most = road.quota * (1.0 - braking)
    program = ResourceProgram((gas, battery), np.column_stack([np.zeros_like(most), most]))
    found = allocate_transport(rates[None], program)
    return float(found.values[0]), found.actions[0]
