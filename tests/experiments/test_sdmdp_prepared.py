"""Bounds that are prepared once must not change a decision."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import generator
from counterplan.domains.options import AmericanOption
from counterplan.planning.evaluate import evaluate
from counterplan.planning.search.planners import BOUND_SAMPLES, UCT
from experiments.sdmdp_prepared import Prepared


def test_prepared_bounds_lead_to_the_same_decisions() -> None:
    problem = AmericanOption("C")
    _, own = generator(5).spawn(2)  # nature's chance and the planner's own
    prepared = Prepared.prepare(problem, BOUND_SAMPLES, own.spawn(2)[0])
    search = UCT(simulations=50)
    first = evaluate(problem, search, 10, clip=True, seed=5)
    second = evaluate(prepared, search, 10, clip=True, seed=5)
    assert second.futures == first.futures
    np.testing.assert_array_equal(second.actions, first.actions)
    assert evaluate(problem, search, 10, clip=False, seed=5).outcomes.sum() != first.outcomes.sum()
