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

A whole rollout by these very functions may be compiled into one (`compiled.play_with`); a model
states it when it makes its kernel (`Kernel.of`), and it is used while the kernel has them.

    play(parameters, t, x, d, generator, room) -> return

So are the three parts of a search:

    select(settings, spread, node, edges, generator) -> i    which edge a simulation follows
    backup(settings, node, edges)                            sets the node's VALUE (and ENTROPY)
    leaf(model, settings, t, x, d, generator) -> value       of a state seen for the first time

`node` is one row of the tree's nodes and `edges` the rows of its m actions, with the columns named
here. `spread` is the range of the returns simulated so far from this time on. `settings` holds the
numbers of all parts, in the places named here; those of a user's own part follow from OWN on.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from counterplan.core.validation import FloatArray
from counterplan.planning.compiled import (
    GENERATOR,
    MATRIX,
    VECTOR,
    Held,
    borrowed,
    jit,
    outer,
)
from counterplan.planning.model import ExogenousModel
from counterplan.planning.processes.laws import draw, functions

DRAW = types.void(VECTOR, types.int64, VECTOR, GENERATOR, VECTOR)
SUCCESSORS = types.int64(VECTOR, types.int64, VECTOR, MATRIX, VECTOR)
ACTIONS = types.int64(VECTOR, types.int64, VECTOR, VECTOR, MATRIX)
STEP = types.float64(VECTOR, types.int64, VECTOR, VECTOR, VECTOR, VECTOR)
POLICY = types.int64(VECTOR, types.int64, VECTOR, VECTOR, GENERATOR, MATRIX, types.int64)
BOUNDS = types.void(VECTOR, VECTOR, types.int64, VECTOR, VECTOR, GENERATOR, VECTOR)
_ROOM = types.Tuple([types.int64, types.boolean, MATRIX, MATRIX, MATRIX])  # type: ignore[no-untyped-call]
PLAY = types.float64(VECTOR, types.int64, VECTOR, VECTOR, GENERATOR, _ROOM)
SIGNATURES = {
    "draw": DRAW,
    "successors": SUCCESSORS,
    "actions": ACTIONS,
    "step": STEP,
    "policy": POLICY,
    "bounds": BOUNDS,
}


@jit
def no_successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Continuous support."""
    return 0


@jit
def uniform_policy(parameters, t, x, d, generator, actions, m):  # type: ignore[no-untyped-def]
    """The paper's rollout: any action, equally likely."""
    return int(generator.random() * m)


@jit
def no_bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """Nothing is known of the value."""
    out[0] = -np.inf
    out[1] = np.inf


@jit
def no_play(parameters, t, x, d, generator, room):  # type: ignore[no-untyped-def]
    """Never called: functions are called one by one."""
    return 0.0


# draw, actions, step and policy -> a rollout by them.
_fused: dict[tuple[Any, ...], Any] = {}


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
    model            what its functions call back, kept alive
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
    model: Any = None

    @classmethod
    def of(cls, model: ExogenousModel, play: Any = None, **fields: Any) -> Kernel:
        """Of a model whose x follows a shipped process, of which parameters[0] says where in the
        parameters it begins (`compiled.Layout`: 'rest'); `fields`: all else but the start."""
        start = model.start
        at = {"exogenous": start.exogenous, "resource": start.resource}
        own = functions(fields["parameters"])
        made = cls(**{**own, **at, "horizon": model.horizon, **fields})
        if play is not None and made.draw is draw:
            _fused[made.draw, made.actions, made.step, made.policy] = play
            _fused.setdefault((made.draw, made.actions, made.step, uniform_policy), play)
        return made

    @property
    def play(self) -> Any:
        """A rollout by this kernel's functions in one, if there is one."""
        return _fused.get((self.draw, self.actions, self.step, self.policy))


# Places in `settings`.
EXPLORATION = 0  # of UCB, in units of the spread
SCALE = 1  # replaces the spread where it is not 0
TEMPERATURE = 2  # alpha, in units of reward
EPSILON = 3  # of the uniform part of a Boltzmann selection
ENTROPY_WEIGHT = 4  # of DENTS, in units of reward
CLIP = 5  # the probability alpha_c that a leaf's value is clipped
BELLMAN = 6  # 1: successors count by probability, 0: by how often they were met
WIDENING = 7  # a chance node has at most WIDENING * passes ** WIDENING_POWER children
WIDENING_POWER = 8
TRUST = 9  # the weight of a rollout against the lower bound
OWN = 10
# Columns of nodes and edges that parts read and write: of both, of nodes alone (the value that the
# leaf part gave it), and of edges alone (what the backup leaves there for the selection).
VISITS, VALUE, ENTROPY, LEAF, WEIGHT = 0, 1, 2, 3, 3


# A model inside compiled code is its functions, its numbers (`finite`: whether x_{t+1} has finite
# support), and room to work in: for actions (most_actions, A), for a state and the one after it
# (2, X) and (2, D), and (2,) for what the leaf part asked of the model's bounds.
_NUMBERS = {
    "horizon": types.int64,
    "finite": types.boolean,
    **dict.fromkeys(("parameters", "tables", "room_bounds"), VECTOR),
    **dict.fromkeys(("room_actions", "room_exogenous", "room_resource"), MATRIX),
}
_FUNCTIONS = [types.FunctionType(one) for one in SIGNATURES.values()]
Model: Any = namedtuple("Model", [*SIGNATURES, *_NUMBERS])  # type: ignore[misc]
_MODEL = types.NamedTuple([*_FUNCTIONS, *_NUMBERS.values()], Model)  # type: ignore[no-untyped-call]
MODEL = Held(_MODEL)

SELECT = types.int64(VECTOR, types.float64, VECTOR, MATRIX, GENERATOR)
BACKUP = types.void(VECTOR, VECTOR, MATRIX)
LEAF_SIGNATURE = types.float64(MODEL, VECTOR, types.int64, VECTOR, VECTOR, GENERATOR)
# How leaves are valued by the loop itself, without a function of their own (`parts.leaf_value`).
OWN_LEAF, ROLLOUT, BOUNDED, CLIPPED, WEIGHED = range(5)
# The parts, and a whole rollout. What the loop has within itself need not be called: by_bounds:
# UCB, by_mean: its backup, how: the leaf. is_fused: rollouts are played by `play`, is_random: by
# any actions.
_INSIDE = {
    **dict.fromkeys(("by_bounds", "by_mean", "is_fused", "is_random"), types.boolean),
    "how": types.int64,
}
_PARTS = [types.FunctionType(one) for one in (SELECT, BACKUP, LEAF_SIGNATURE, PLAY)]
_PART_NAMES = ["select", "backup", "leaf", "play", "settings", *_INSIDE]
PartSet: Any = namedtuple("PartSet", _PART_NAMES)  # type: ignore[misc]
_PARTSET = types.NamedTuple([*_PARTS, VECTOR, *_INSIDE.values()], PartSet)  # type: ignore[no-untyped-call]


@jit
def no_leaf(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """Never called."""
    return 0.0


@structref.register
class EngineType(types.StructRef):
    """The type of what Python holds of a model and the parts of a search."""


class Engine(structref.StructRefProxy):
    """A model and the parts of a search as Python sees them: something to pass on. Handing
    functions over one by one takes as long as hundreds of simulations; an engine is made once."""


structref.define_boxing(EngineType, Engine)  # type: ignore[no-untyped-call]
ENGINE = EngineType([("model", _MODEL), ("parts", _PARTSET)])  # type: ignore[no-untyped-call]
new: Any = structref.new


@outer(ENGINE(*_FUNCTIONS, types.Tuple(list(_NUMBERS.values()))))  # type: ignore[no-untyped-call]
def with_model(draw, successors, actions, step, policy, bounds, numbers):  # type: ignore[no-untyped-def]
    """An engine without parts."""
    T, finite, flat, tables, limits, offered, x, d = numbers
    made = new(ENGINE)
    # fmt: off
    made.model = Model(draw, successors, actions, step, policy, bounds, T, finite, borrowed(flat),  # type: ignore[call-arg]
                       borrowed(tables), borrowed(limits), borrowed(offered), borrowed(x),
                       borrowed(d))
    # fmt: on
    return made


@outer(types.void(ENGINE, *_PARTS, VECTOR, types.Tuple(list(_INSIDE.values()))))  # type: ignore[no-untyped-call]
def set_parts(made, select, backup, leaf, play, settings, inside):  # type: ignore[no-untyped-def]
    """Give it parts."""
    by_bounds, by_mean, is_fused, is_random, how = inside
    # fmt: off
    made.parts = PartSet(select, backup, leaf, play, borrowed(settings), by_bounds, by_mean,  # type: ignore[call-arg]
                         is_fused, is_random, how)
    # fmt: on
