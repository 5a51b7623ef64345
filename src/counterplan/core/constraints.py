"""What an alternative may not do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.validation import LARGEST_BUDGET, BoolArray, whole_number
from counterplan.errors import InputError

# How often an action must have been taken in such a state, if nobody says.
LEAST = 3
DOSES = (
    "names listed actions, and doses are not listed: use low and high of Doses, by step where they "
    "differ, or max_move and fixed_steps"
)

Allowed: TypeAlias = ArrayLike | Mapping[int, Iterable[int | str]]
Forbidden: TypeAlias = ArrayLike | Iterable[tuple[int | str, int | str]]
ChangeCosts: TypeAlias = Sequence[int] | NDArray[np.integer] | Mapping[Any, int]


class Numbering(Protocol):
    """A model that knows its states and actions by name."""

    def state_number(self, state: str | int) -> int: ...
    def action_number(self, action: str | int) -> int: ...


@dataclass(frozen=True, eq=False)
class Constraints:
    """What users forbid; everything is optional. Where a discrete model has names for its states
    and actions, these may stand for the numbers.

    allowed       alternatives that may replace the observed action: (A,) or (T, A) booleans, or a
                  mapping from step to actions (steps it leaves out are unrestricted). Keeping the
                  observed action is always allowed.
    forbidden     (state, action) pairs, or an (S, A) mask: never taken in the counterfactual, not
                  even by keeping the observed action
    fixed_steps   steps whose action may not change; -1 is the last
    change_costs  budget units that a change *to* an action takes (whole numbers from 1): an
                  (A,) vector, or a mapping from action to cost
    max_move      how far an alternative dose may be from the observed one of the same step: one
                  number, or one for each component of the action vectors (continuous problems)
    supported     keeps alternatives inside the data that a model was learned from: how often an
                  action must have been taken in such a state to be a change (True: LEAST times);
                  None: so where the model has kept its data; False: anywhere. The rule in full is
                  in `counterfactual.support`
    """

    allowed: Allowed | None = None
    forbidden: Forbidden | None = None
    fixed_steps: Iterable[int] = ()
    change_costs: ChangeCosts | None = None
    max_move: float | Sequence[float] | None = None
    supported: int | bool | None = None

    def __post_init__(self) -> None:
        """Keep what iterators hold: constraints are resolved more than once."""
        keep = object.__setattr__
        keep(self, "fixed_steps", _listed(self.fixed_steps, "fixed_steps"))
        if isinstance(self.allowed, Mapping):
            listed = {t: _listed(a, f"allowed at step {t}") for t, a in self.allowed.items()}
            keep(self, "allowed", listed)
        if self.forbidden is not None and not isinstance(self.forbidden, np.ndarray):
            keep(self, "forbidden", _listed(self.forbidden, "forbidden"))
        if self.change_costs is not None and not isinstance(self.change_costs, Mapping):
            keep(self, "change_costs", _listed(self.change_costs, "change_costs"))

    def least(self, knows_data: bool) -> int:
        """How often an action must have been taken to be a change; 0 where there is no such rule.

        knows_data  whether the model has kept data that tells
        """
        if self.supported is None or isinstance(self.supported, bool):
            wanted = LEAST if self.supported or (self.supported is None and knows_data) else 0
        else:
            wanted = whole_number(self.supported, "constraints: supported", minimum=1)
        if wanted and not knows_data:
            raise InputError(
                "constraints: supported is about data that a model was learned from, but this one "
                "has kept none: learn it anew and keep it, or leave supported out"
            )
        return wanted

    def by_number(self, model: Numbering) -> Constraints:
        """The same with numbers instead of names."""

        def action(given: Any) -> Any:
            return model.action_number(given) if isinstance(given, str) else given

        def pair(given: Any) -> Any:
            if not isinstance(given, list | tuple) or len(given) != 2:
                return given
            state = model.state_number(given[0]) if isinstance(given[0], str) else given[0]
            return state, action(given[1])

        allowed, forbidden, costs = self.allowed, self.forbidden, self.change_costs
        if isinstance(allowed, Mapping):
            allowed = {t: [*map(action, chosen)] for t, chosen in allowed.items()}
        if isinstance(forbidden, tuple):
            forbidden = [*map(pair, forbidden)]
        if isinstance(costs, Mapping):
            costs = {action(given): cost for given, cost in costs.items()}
        return replace(self, allowed=allowed, forbidden=forbidden, change_costs=costs)

    def resolve(self, horizon: int, n_states: int, n_actions: int) -> ResolvedConstraints:
        """Check everything against an episode's length and a model's size, as plain arrays."""
        if self.max_move is not None:
            raise InputError("constraints: max_move is about doses: discrete actions have none")
        return ResolvedConstraints(
            alternatives=self._alternatives(horizon, n_actions),
            forbidden=_forbidden_mask(self.forbidden, n_states, n_actions),
            costs=_cost_vector(self.change_costs, n_actions),
        )

    def resolve_sequence(
        self, vectors: NDArray[np.float64], observed: NDArray[np.int64]
    ) -> ResolvedConstraints:
        """As plain arrays for T-1 decisions among action vectors (T-1, N, d)."""
        if self.forbidden is not None:
            raise InputError(
                "constraints: forbidden names discrete (state, action) pairs: with continuous "
                "states use allowed or max_move"
            )
        decisions, n_actions, width = vectors.shape
        steps = np.arange(decisions)
        alternatives = self._alternatives(decisions, n_actions)
        if self.max_move is not None:
            move = np.abs(vectors - vectors[steps, observed][:, None, :])
            alternatives &= (move <= self._largest_move(width) + _rounding(vectors)).all(axis=2)
        alternatives[steps, observed] = True
        nothing = np.zeros((0, n_actions), dtype=np.bool_)
        costs = _cost_vector(self.change_costs, n_actions)
        return ResolvedConstraints(alternatives, nothing, costs)

    def dose_limits(self, shape: tuple[int, ...], wrong: str = DOSES) -> NDArray[np.float64]:
        """(T-1, d) by how much each amount may change; `wrong` says why none is named by number."""
        for name in ("allowed", "forbidden", "change_costs"):
            if getattr(self, name) is not None:
                raise InputError(f"constraints: {name} {wrong}")
        limit = np.full(shape, np.inf) if self.max_move is None else np.empty(shape)
        if self.max_move is not None:
            limit[:] = self._largest_move(shape[1])
        for step in self.fixed_steps:
            limit[_step(step, shape[0], "fixed_steps")] = 0.0
        return limit

    def _largest_move(self, width: int) -> NDArray[np.float64]:
        try:
            limit = np.asarray(self.max_move, dtype=np.float64)
        except (TypeError, ValueError):
            limit = np.full(1, np.nan)
        if limit.shape not in ((), (width,)) or not (limit >= 0.0).all():
            raise InputError(
                f"constraints: max_move is {self.max_move!r}: give one number from 0 up, or "
                f"{width} of them"
            )
        return limit

    def _alternatives(self, horizon: int, n_actions: int) -> BoolArray:
        alternatives = _allowed_mask(self.allowed, horizon, n_actions)
        for step in self.fixed_steps:
            alternatives[_step(step, horizon, "fixed_steps")] = False
        return alternatives


def policy_rule(least: int = LEAST) -> str:
    """The rule for discrete states in words."""
    return (
        f"a change only to what was done at least {least} times in the same state; what is not "
        "changed is kept, whatever state chance leads to"
    )


@dataclass(frozen=True, eq=False)
class ResolvedConstraints:
    """Constraints as arrays.

    alternatives  (T, A) whether an action may replace the observed one at a step
    forbidden     (S, A) pairs that may never occur
    costs         (A,) budget units of a change to each action
    """

    alternatives: BoolArray
    forbidden: BoolArray
    costs: NDArray[np.int64]


def _rounding(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d,) how far two doses that are meant to be as far apart as `max_move` may exceed it."""
    if 0 in vectors.shape:
        return np.zeros(vectors.shape[2])
    spread, largest = np.ptp(vectors, axis=(0, 1)), np.abs(vectors).max(axis=(0, 1))
    return np.asarray(1e-9 * spread + 1e-14 * largest)


def _listed(values: Any, where: str) -> tuple[Any, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise InputError(f"constraints: {where} is {values!r}: pass a list") from None


def _array(values: Any, where: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"constraints: {where} is a list whose entries differ in length") from None


def _step(value: object, horizon: int, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"constraints: {where} holds {value!r}: steps are whole numbers")
    if not -horizon <= value < horizon:
        raise InputError(
            f"constraints: {where} names step {value}, but the episode's steps are "
            f"0..{horizon - 1} (or -1 for the last)"
        )
    return int(value) % horizon


def _action(value: object, n_actions: int, where: str) -> int:
    action = whole_number(value, f"constraints: {where}: action")
    if action >= n_actions:
        raise InputError(
            f"constraints: {where} names action {action}, but actions are 0..{n_actions - 1}"
        )
    return action


def _allowed_mask(allowed: Allowed | None, horizon: int, n_actions: int) -> BoolArray:
    mask = np.ones((horizon, n_actions), dtype=np.bool_)
    if isinstance(allowed, Mapping):
        for step, actions in allowed.items():
            t = _step(step, horizon, "allowed")
            mask[t] = False
            mask[t, [_action(a, n_actions, f"allowed at step {t}") for a in actions]] = True
    elif allowed is not None:
        given = _array(allowed, "allowed")
        if given.dtype != np.bool_ or given.shape not in ((n_actions,), mask.shape):
            raise InputError(
                f"constraints: allowed must be booleans of shape ({n_actions},) or {mask.shape}, "
                f"got {given.dtype} of shape {given.shape}; or pass a mapping from step to actions"
            )
        mask[:] = given
    return mask


def _forbidden_mask(forbidden: Forbidden | None, n_states: int, n_actions: int) -> BoolArray:
    mask = np.zeros((n_states, n_actions), dtype=np.bool_)
    given = _array(() if forbidden is None else forbidden, "forbidden")
    if given.size == 0:
        return mask
    if given.dtype == np.bool_:
        if given.shape != mask.shape:
            raise InputError(
                f"constraints: forbidden mask has shape {given.shape}, expected {mask.shape}"
            )
        return given.copy()
    if given.ndim != 2 or given.shape[1] != 2 or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            "constraints: forbidden must be (state, action) pairs of whole numbers or an "
            f"{mask.shape} boolean mask"
        )
    outside = ((given < 0) | (given >= mask.shape)).any(axis=1)
    if outside.any():
        state, action = given[outside.argmax()]
        raise InputError(
            f"constraints: forbidden names (state {state}, action {action}), but states are "
            f"0..{n_states - 1} and actions 0..{n_actions - 1}"
        )
    mask[tuple(given.T)] = True
    return mask


def _cost_vector(costs: ChangeCosts | None, n_actions: int) -> NDArray[np.int64]:
    vector = np.ones(n_actions, dtype=np.int64)
    if costs is not None and not isinstance(costs, Mapping):
        if len(costs) != n_actions:
            raise InputError(
                f"constraints: change_costs has {len(costs)} entries, but there are {n_actions} "
                "actions"
            )
        costs = dict(enumerate(costs))
    for key, cost in (costs or {}).items():
        action = _action(key, n_actions, "change_costs")
        where = f"constraints: change cost of action {action}"
        vector[action] = whole_number(cost, where, minimum=1, maximum=LARGEST_BUDGET)
    return vector
