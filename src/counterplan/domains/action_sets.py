"""Which of the feasible actions a planner may choose from.

'extreme'      the least and the most that may be spent (Lemma 2.1); with several resources for
               each of them, taken first from one resource and then from the others in turn
n              a grid of n totals; with two resources the least and the most total, each divided
               in n ways
'order-up-to'  for a stock that is added to: the least, up to each level that just reaches a
               later step, and full. These contain the optimum where the extremes do not
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.model import State
from counterplan.exogenous.resource import ResourceProgram

ActionSet: TypeAlias = Literal["extreme", "order-up-to"] | int | Callable[[State], ArrayLike]
# Actions closer than this are the same.
SAME = 1e-12


def check_action_set(action_set: ActionSet, program: ResourceProgram) -> None:
    """Raise if these actions make no sense for these resources."""
    A = len(program.resources)
    if callable(action_set) or action_set == "extreme":
        return
    if action_set == "order-up-to":
        if A > 1 or program.resources[0].effect < 0:
            raise InputError(
                "action_set 'order-up-to' is for one resource that is added to (effect=+1); use "
                "'extreme' or a number of levels"
            )
    elif isinstance(action_set, str):
        raise InputError(
            f"action_set {action_set!r} is not 'extreme', 'order-up-to', a number of levels or a "
            "function"
        )
    else:
        whole_number(action_set, "action_set (levels of the grid)", minimum=2)
        if A > 2:
            raise InputError(f"a grid divides between two resources, not {A}; use 'extreme'")


def most_actions(action_set: ActionSet, program: ResourceProgram) -> int:
    """No state offers more."""
    A = len(program.resources)
    if action_set == "extreme":
        return 2 * A
    if action_set == "order-up-to":
        return program.horizon + 2
    assert isinstance(action_set, int)
    return action_set * A


def action_rows(
    action_set: ActionSet, program: ResourceProgram, state: State, room: tuple[float, float]
) -> FloatArray:
    """(m, A) the actions of a set, each once, given the room for their totals."""
    low, high = room
    A = len(program.resources)
    levels = state.resource[:A]
    if A == 1:
        if action_set == "extreme":
            totals = np.array([low, high])
        elif action_set == "order-up-to":
            reach = np.cumsum(-program.changes[state.t :, 0]) - levels[0]
            totals = np.array([low, *np.clip(reach, low, high), high])
        else:
            assert isinstance(action_set, int)
            totals = np.linspace(low, high, action_set)
        return _distinct(totals[:, None])
    rows: list[FloatArray] = []
    for total in (low, high):
        if action_set == "extreme":
            rows += [_first_from(i, total, levels) for i in range(A)]
        else:
            assert isinstance(action_set, int)
            most, least = _first_from(0, total, levels), _first_from(1, total, levels)
            weights = np.linspace(0.0, 1.0, action_set)[:, None]
            rows += list(most + weights * (least - most))
    return _distinct(np.array(rows))


def _first_from(first: int, total: float, levels: FloatArray) -> FloatArray:
    """(A,) a total taken from one resource, then from the others in turn."""
    action = np.zeros(len(levels))
    order = [first, *(i for i in range(len(levels)) if i != first)]
    for i in order:
        action[i] = min(max(total, 0.0), levels[i])
        total -= action[i]
    return action


def _distinct(rows: FloatArray) -> FloatArray:
    """The rows in their order, each once."""
    kept: list[FloatArray] = []
    for row in rows:
        if not any((np.abs(row - one) <= SAME * (1.0 + np.abs(one))).all() for one in kept):
            kept.append(row)
    return np.array(kept)
