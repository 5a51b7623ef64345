"""What a planner would do at a step of a scenario, and what the optimum lies between there."""

from __future__ import annotations

import json
from typing import Any

from counterplan.explorer.plain import plain
from counterplan.explorer.plans import PlanDesk
from counterplan.explorer.walks import state_at
from counterplan.io.plan_answer import bounds_at, plan_record
from counterplan.planning.plan import plan
from counterplan.planning.planners import PLANNERS

ADVICE = "advice"


def advise(desk: PlanDesk, question: dict[str, Any]) -> bytes:
    """The answer to a question (`models.AdviseQuestion`) as JSON (`models.Advice`)."""
    problem, seed = desk.problem, desk.folder.run.manifest.seed
    state = state_at(desk, question["id"], question["t"], question["player"])
    planner = PLANNERS[question["planner"]](question["simulations"])
    found = plan(problem, state, planner, seed=seed)
    bounds = bounds_at(problem, state, seed)
    record = plan_record(problem, state, found, bounds)
    between = record["bounds"]
    advice = {
        "t": question["t"],
        "words": record["words"],
        "state": record["state"]["words"],
        "action": record["action"],
        "value": record["value"],
        "se": record["se"],
        **{name: between[name] for name in ("lower", "lower_se", "upper", "upper_se")},
        "exact": record["exact"],
        "choices": [
            {name: one[name] for name in ("words", "value", "se", "simulations")}
            for one in record["choices"]
        ],
        "planner": planner.name,
        "simulations": question["simulations"],
    }
    return json.dumps(plain(advice)).encode()
