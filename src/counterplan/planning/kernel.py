"""A model as compiled functions: what the search loop calls, once per simulated step.

Functions are compiled with the signatures below and passed as values, so one search, compiled once
and cached on disk, serves every model. All rewards and bounds here are to be maximised (a model
that counts costs negates them). `parameters` is the model's own flat array of numbers.

    draw(parameters, t, x, generator, out_x)                 x_{t+1} given x_t
    successors(parameters, t, x, out_states, out_probabilities) -> M
                                                             finite support; 0: there is none
    actions(parameters, t, x, d, out_actions) -> m           at least one
    step(parameters, t, x, d, action, out_d) -> reward
    policy(parameters, t, x, d, generator, actions, m) -> i  which of the m actions a rollout takes
    bounds(parameters, tables, t, x, d, generator, out)      out = (lower, upper) of the value from
                                                             (t, x, d) on; +-inf where unknown
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
from numba import types

from counterplan.core.validation import FloatArray

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
GENERATOR = nb.typeof(np.random.default_rng(0))  # type: ignore[no-untyped-call]

DRAW = types.void(VECTOR, types.int64, VECTOR, GENERATOR, VECTOR)
SUCCESSORS = types.int64(VECTOR, types.int64, VECTOR, MATRIX, VECTOR)
ACTIONS = types.int64(VECTOR, types.int64, VECTOR, VECTOR, MATRIX)
STEP = types.float64(VECTOR, types.int64, VECTOR, VECTOR, VECTOR, VECTOR)
POLICY = types.int64(VECTOR, types.int64, VECTOR, VECTOR, GENERATOR, MATRIX, types.int64)
BOUNDS = types.void(VECTOR, VECTOR, types.int64, VECTOR, VECTOR, GENERATOR, VECTOR)


@nb.njit(SUCCESSORS, cache=True)
def no_successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Continuous support."""
    return 0


@nb.njit(POLICY, cache=True)
def uniform_policy(parameters, t, x, d, generator, actions, m):  # type: ignore[no-untyped-def]
    """The paper's rollout: any action, equally likely."""
    return int(generator.random() * m)


@nb.njit(BOUNDS, cache=True)
def no_bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """Nothing is known of the value."""
    out[0] = -np.inf
    out[1] = np.inf


@dataclass(frozen=True)
class Kernel:
    """A compiled model.

    parameters       the model's numbers, flat
    horizon          T decisions
    exogenous        (X,) at the start
    resource         (D,) at the start
    action_size      A
    most_actions     no state offers more
    most_successors  no x_t has more (0: continuous)
    """

    draw: Any
    actions: Any
    step: Any
    parameters: FloatArray
    horizon: int
    exogenous: FloatArray
    resource: FloatArray
    action_size: int
    most_actions: int
    successors: Any = no_successors
    most_successors: int = 0
    policy: Any = uniform_policy
    bounds: Any = no_bounds
    tables: FloatArray = field(default_factory=lambda: np.empty(0))
