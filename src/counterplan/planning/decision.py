"""What a planner decides: the action, what it is worth, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, IntArray


class PlanStatus(StrEnum):
    """What stands behind a decision; `advice` says what to do about it."""

    SEARCHED = "searched"
    FORCED = "forced"
    OVER = "over"

    @property
    def advice(self) -> str:
        return {
            PlanStatus.SEARCHED: "Estimated by simulation: compare the values of the actions with "
            "their standard errors; more simulations separate closer ones.",
            PlanStatus.FORCED: "There is only one action: nothing to decide.",
            PlanStatus.OVER: "The horizon is reached: there is no decision left, and no value.",
        }[self]


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """A decision at a state. Values are in the problem's own sense: costs where it minimises.

    action           (A,) what to do
    index            its row in `actions` (-1 where nothing is left to decide)
    value            of the state: what the action, then the search's choices, then fresh rollouts
                     bring, so below the optimum but for chance; within `bounds` where the planner
                     clips. MENTS: its soft value, above the optimum
    se               standard error of the value, from the rollouts; the successors in the tree are
                     taken as given
    actions          (m, A) all that could be done
    values           (m,) of each action, by which it is chosen; nan where it was never tried. Means
                     over all that was tried further down, so they lag behind the optimum
    values_se        (m,) standard error of each; inf where it was tried less than twice
    visits           (m,) simulations that began with it
    bounds           what the model knows of the value beforehand, if anything
    status           'searched', 'forced' or 'over'
    stats            simulations, seconds, simulations_per_second, nodes, depth, transpositions, ...
    planner          whose decision it is
    """

    action: FloatArray
    index: int
    value: float
    se: float
    actions: FloatArray
    values: FloatArray
    values_se: FloatArray
    visits: IntArray
    bounds: Interval | None
    status: PlanStatus
    stats: Mapping[str, float]
    planner: str
