"""Resources and their bounds: what is refused, and where the message says it fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from counterplan.errors import CounterplanError, InfeasibleError, InputError
from counterplan.planning.resource import Resource, ResourceProgram

LEGS = [-12, -25, -30, -19, -9, -21, -17]


def program(*resources: Resource, bounds: Any, budget: Any = (0.0, math.inf)) -> ResourceProgram:
    return ResourceProgram(tuple(resources), bounds, budget)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Resource(-1), InputError, "start level must be at least 0, got -1"),
        (lambda: Resource(1, 0), InputError, "capacity must be greater than 0, got 0"),
        (lambda: Resource(1, "a"), InputError, "capacity must be a number, got 'a'"),
        (lambda: Resource(1, math.nan), InputError, "capacity must be finite, got nan"),
        (lambda: Resource("b"), InputError, "start level must be a number, got 'b'"),
        (lambda: Resource(9, 5), InputError, "start level 9 exceeds the capacity 5"),
        (lambda: Resource(1, 5, 2), InputError, r"effect must be -1 \(consumes\) or \+1 \(adds\)"),
        (lambda: Resource(1, 5, 1, math.nan), InputError, "change number 0 is nan"),
        (lambda: program(bounds=[(0, 1)]), InputError, "there is no resource"),
        (lambda: program(Resource(1), bounds=[0, 1]), InputError, r"step bounds must be \(T, 2\)"),
        (lambda: program(Resource(1), bounds=[]), InputError, r"step bounds must be \(T, 2\)"),
        (lambda: program(Resource(1), bounds=[(0, "x")]), InputError, "step bounds must be"),
        (
            lambda: program(Resource(9), bounds=[(0, 1), (3, 2)]),
            InfeasibleError,
            "step t=1 is bounded by 3 and 2: the least must be at least 0 and not exceed",
        ),
        (
            lambda: program(Resource(9), bounds=[(-1, 1)]),
            InfeasibleError,
            "step t=0 is bounded by -1 and 1",
        ),
        (
            lambda: program(Resource(9), bounds=[(0, 1)], budget=(3, 2)),
            InfeasibleError,
            "the budget is 3 to 2",
        ),
        (
            lambda: program(Resource(9), bounds=[(0, 1)], budget=5),
            InputError,
            "budget must be two numbers",
        ),
        (
            lambda: program(Resource(9), bounds=[(0, 1)], budget=("a", "b")),
            InputError,
            r"budget must be two numbers, least and most in total, got \('a', 'b'\)",
        ),
        (
            lambda: program(Resource(9, change=[1, 2, 3]), bounds=[(0, 1)]),
            InputError,
            "change must have 1 numbers, got 3",
        ),
        # Capacity too small for a leg.
        (
            lambda: program(Resource(0, 28, +1, LEGS), bounds=[(0, 50)] * 7),
            InfeasibleError,
            "step t=2 takes 30, but the capacity is 28: enlarge the capacity",
        ),
        (
            lambda: program(Resource(0, 5, -1, 6), bounds=[(0, 5)]),
            InfeasibleError,
            "step t=0 adds 6, but the capacity is 5: .* set spill=True",
        ),
        # Infeasible bounds, and at which step.
        (
            lambda: program(Resource(0, 50, +1, LEGS), bounds=[(0, 20)] * 7),
            InfeasibleError,
            "infeasible at step t=2: 7 is missing whatever was done before; widen the step bounds",
        ),
        (
            lambda: program(Resource(10), bounds=[(3, 4)] * 5),
            InfeasibleError,
            "infeasible at step t=3: 2 is missing whatever was done before",
        ),
        (
            lambda: program(Resource(4, 5, -1, 3), bounds=[(0, 1)] * 3),
            InfeasibleError,
            "infeasible at step t=0: 1 is too much whatever was done before",
        ),
        (
            lambda: program(Resource(10), bounds=[(2, 4)] * 4, budget=(0, 5)),
            InfeasibleError,
            "infeasible at step t=2: 6 must be spent by then, the budget allows 5; raise",
        ),
        (
            lambda: program(Resource(10), bounds=[(0, 1)] * 7, budget=(8, 9)),
            InfeasibleError,
            "infeasible at step t=6: at most 7 can be spent by then, the budget requires 8",
        ),
        (
            lambda: program(Resource(6), bounds=[(0, 4)] * 4, budget=(8, 9)),
            InfeasibleError,
            "at most 6 can be spent by then, the budget requires 8",
        ),
        (
            lambda: program(Resource(0, effect=+1), bounds=[(0, 3), (0, math.inf)]),
            InputError,
            "step t=1 may add without limit: give it an upper bound, or the resource a capacity",
        ),
        # What could spill never does: nothing flows in.
        (
            lambda: program(
                Resource(1, 6, spill=True),
                Resource(6, 11, spill=True),
                bounds=[(0, 5)] * 4,
                budget=(10, 17),
            ),
            InfeasibleError,
            "infeasible at step t=3: at most 7 can be spent by then, the budget requires 10",
        ),
        (
            lambda: program(
                Resource(2, 6, spill=True), Resource(3, spill=True), bounds=[(2, 5)] * 3
            ),
            InfeasibleError,
            "infeasible at step t=2: 1 is missing whatever was done before",
        ),
        # Combinations that have no closed form.
        (
            lambda: program(Resource(3, 9, -1, 1, True), bounds=[(0, 3)] * 3, budget=(2, 9)),
            InputError,
            "a budget that must be reached does not go with a resource that spills over",
        ),
        (
            lambda: program(Resource(3, 9, +1, 1, True), bounds=[(0, 3)] * 3, budget=(0, 9)),
            InputError,
            "a budget does not go with a resource that is added to and spills over",
        ),
        (
            lambda: program(Resource(3), Resource(3, effect=+1), bounds=[(0, 3)]),
            InputError,
            r"several resources must all be consumed \(effect=-1\)",
        ),
        (
            lambda: program(Resource(3), Resource(3, change=1), bounds=[(0, 3)]),
            InputError,
            r"must spill over \(spill=True\)",
        ),
        (
            lambda: program(Resource(3), Resource(3, 5, change=1, spill=True), bounds=[(1, 3)]),
            InputError,
            r"need not be used \(all lower bounds 0\)",
        ),
    ],
)
def test_one_clear_line(make: Any, kind: type[CounterplanError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_what_may_be_spent_counts_all_later_bounds() -> None:
    """Eq. 2.19-2.21: 9 left of the budget and 4 later steps that must spend 1 each."""
    plan = program(Resource(20), bounds=[(1, 8)] * 5, budget=(9, 9))
    low, high = plan.spendable(0, plan.start[None])
    assert (low[0], high[0]) == (1, 5)
    # The last step must spend what is left of it.
    low, high = plan.spendable(4, np.array([[14.0, 6.0], [18.0, 2.0]]))
    assert low.tolist() == [3, 7]
    assert high.tolist() == [3, 7]


def test_an_endless_step_leaves_the_later_ones_bounded() -> None:
    plan = program(Resource(20), bounds=[(0, math.inf), (0, 2)], budget=(5, 9))
    assert plan.later.tolist() == [[0, 2], [0, 0]]
    low, high = plan.spendable(0, plan.start[None])
    assert (low[0], high[0]) == (3, 9)


def test_levels_spill_and_totals_count() -> None:
    plan = program(Resource(4, 5, -1, 3, True), bounds=[(0, 4)] * 2, budget=(0, 6))
    after = plan.levels_after(0, np.array([[4.0, 0.0], [4.0, 1.0]]), np.array([[0.0], [4.0]]))
    assert after.tolist() == [[5, 0], [3, 5]]


def test_bounds_that_meet_but_for_rounding() -> None:
    plan = program(Resource(0.3), bounds=[(0.1, 0.1)] * 3)
    resource = plan.start[None]
    for t in range(3):
        low, high = plan.spendable(t, resource)
        assert low[0] <= high[0]
        resource = plan.levels_after(t, resource, high[:, None])
    assert resource[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_what_exceeds_a_budget_by_rounding_leaves_nothing_to_spend() -> None:
    plan = program(Resource(5), bounds=[(0, 2)] * 3, budget=(0, 0.3))
    spent = 0.1 + 0.2  # above 0.3
    low, high = plan.spendable(2, np.array([[5 - spent, spent], [4.0, 1.0]]))
    assert (low[0], high[0]) == (0.0, 0.0)
    assert low[1] > high[1]  # this is more than rounding
