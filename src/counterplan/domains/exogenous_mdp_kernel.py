"""An `ExogenousMDP` compiled: the functions of `planning.kernel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from counterplan.allocation.program import resource_steps
from counterplan.core.validation import FloatArray
from counterplan.domains.action_sets import most_actions
from counterplan.domains.exogenous_mdp_actions import actions
from counterplan.domains.exogenous_mdp_bounds import bounds
from counterplan.domains.exogenous_mdp_numbers import (
    BLOCK,
    BUDGETED,
    BY_ADVANTAGE,
    BY_NESTED,
    BY_POOL,
    CHOICE,
    EFFECT,
    EXTREME,
    GRID,
    HEAD,
    LEAST,
    LEVELS,
    MOST,
    OFFERED,
    ORDER_UP_TO,
    RESOURCES,
    SIGN,
    SIZE,
    SOLVER,
    STEPS,
    moved,
    rate,
)
from counterplan.exogenous.process import CompiledProcess
from counterplan.exogenous.process_kernel import process_draw, process_successors
from counterplan.planning.kernel import DRAW, STEP, SUCCESSORS, Kernel

if TYPE_CHECKING:
    from counterplan.domains.exogenous_mdp import ExogenousMDP


def kernel(model: ExogenousMDP, quantiles: int) -> Kernel:
    """The compiled model."""
    program, process = model.program, model.process
    assert isinstance(process, CompiledProcess)
    block = process.kernel_parameters(model.horizon, quantiles)
    capacities = [float(one.capacity) for one in program.resources]
    tables = [_step_table(model), program.changes, np.array(capacities), model.phi]
    body = np.concatenate([np.ravel(table) for table in tables])
    head = _head(model)
    head[BLOCK] = HEAD + len(body)
    start = model.start
    return Kernel(
        draw=draw,
        actions=actions,
        step=step,
        parameters=np.concatenate([head, body, block]),
        horizon=model.horizon,
        exogenous=start.exogenous,
        resource=start.resource,
        action_size=len(program.resources),
        most_actions=most_actions(model.action_set, program),
        successors=successors,
        most_successors=process.most_successors(quantiles),
        bounds=bounds,
    )


def _step_table(model: ExogenousMDP) -> FloatArray:
    """(T, COLUMNS)."""
    program = model.program
    table = np.hstack([program.step_bounds, program.after, program.later])
    return np.hstack([table, resource_steps(program)])


def _head(model: ExogenousMDP) -> FloatArray:
    program, chosen = model.program, model.action_set
    codes = {"extreme": EXTREME, "order-up-to": ORDER_UP_TO}
    head = np.zeros(HEAD)
    head[STEPS], head[RESOURCES] = program.horizon, len(program.resources)
    head[SIZE] = len(model.process.start)
    head[EFFECT], head[BUDGETED] = program.resources[0].effect, program.has_budget
    head[LEAST], head[MOST] = program.budget
    head[SIGN] = 1.0 if model.sense == "max" else -1.0
    head[CHOICE] = codes[chosen] if isinstance(chosen, str) else GRID
    head[LEVELS] = chosen if isinstance(chosen, int) else 0
    head[OFFERED] = most_actions(chosen, program)
    quota = (program.step_bounds[:, 0] == program.step_bounds[:, 1]).all()
    two = len(program.resources) == 2 and program.plain_stocks
    head[SOLVER] = BY_ADVANTAGE if two and quota else BY_POOL
    if len(program.resources) == 1:
        head[SOLVER] = BY_NESTED
    return head


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1}."""
    process_draw(parameters[int(parameters[BLOCK]) :], t, x, generator, out)


@njit(SUCCESSORS, cache=True)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Values and probabilities of x_{t+1}."""
    return process_successors(parameters[int(parameters[BLOCK]) :], t, x, states, probabilities)


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The reward and the next resource."""
    A = int(parameters[RESOURCES])
    reward = total = 0.0
    for i in range(A):
        reward += rate(parameters, i, x) * action[i]
        total += action[i]
        out[i] = moved(parameters, t, i, d[i], action[i])
    if parameters[BUDGETED] > 0:
        out[A] = d[A] + total
    return reward
