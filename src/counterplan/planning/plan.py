"""Ask a planner for one decision: what to do now."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from counterplan.core.validation import Seed
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.planning.checked import checked_problem, checked_state
from counterplan.planning.decision import Plan
from counterplan.planning.planners import UCT, Clip, Planner


@runtime_checkable
class Follows(Protocol):
    """What a tree search can do besides: value its decision by following its choices."""

    def followed(self, decision: Plan, state: State) -> Plan: ...


def plan(
    problem: ExogenousModel,
    state: State | None = None,
    planner: Planner | None = None,
    clip: Clip = None,
    seed: Seed = 0,
) -> Plan:
    """Decide at a state (default: the problem's start).

    planner  default: UCT with 1,000 simulations
    clip     leaf values are kept within the model's bounds: True, False, or with which probability
             (the paper's alpha_c); None: if the model has bounds
    """
    chosen = planner if planner is not None else UCT()
    if not isinstance(chosen, Planner):
        raise InputError(
            f"{type(chosen).__name__} is not a planner such as UCT(simulations=1000): "
            "a policy is played by evaluate"
        )
    place = checked_state(checked_problem(problem), state)
    decide: object = chosen.begin(problem, clip, seed)
    assert callable(decide)
    decision = decide(place)
    if not isinstance(decision, Plan):
        raise InputError(
            f"{chosen.name} returns {type(decision).__name__}, not a Plan: ask it directly, "
            "planner.begin(problem)(state), or play it with evaluate"
        )
    return decide.followed(decision, place) if isinstance(decide, Follows) else decision
