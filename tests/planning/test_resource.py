"""Resources and their bounds: what is refused and where, and what may be spent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.resource import Resource, ResourceProgram

from .programs import best_by_enumeration, programs

LEGS = [-12, -25, -30, -19, -9, -21, -17]


def program(*resources: Resource, bounds: Any, budget: Any = (0.0, math.inf)) -> ResourceProgram:
    return ResourceProgram(tuple(resources), bounds, budget)


def stock(bounds: Any, budget: Any = (0.0, math.inf), start: float = 9) -> ResourceProgram:
    return program(Resource(start), bounds=bounds, budget=budget)


def one(*terms: Any, bounds: Any = (0, 3), T: int = 3, **options: Any) -> ResourceProgram:
    return program(Resource(*terms), bounds=[bounds] * T, **options)


def two(*terms: Any, bounds: Any = (0, 3), T: int = 1, **options: Any) -> ResourceProgram:
    return program(*(Resource(**one) for one in terms), bounds=[bounds] * T, **options)


PLAIN, SPILLING = {"start": 3}, {"spill": True}
WRONG: list[tuple[Any, str]] = [
    (lambda: Resource(-1), "start level must be at least 0, got -1"),
    (lambda: Resource(1, 0), "capacity must be greater than 0, got 0"),
    (lambda: Resource(1, "a"), "capacity must be a number, got 'a'"),  # type: ignore[arg-type]
    (lambda: Resource(1, math.nan), "capacity must be finite, got nan"),
    (lambda: Resource("b"), "start level must be a number, got 'b'"),  # type: ignore[arg-type]
    (lambda: Resource(9, 5), "start level 9 exceeds the capacity 5"),
    (lambda: Resource(1, 5, 2), r"effect must be -1 \(consumes\) or \+1 \(adds\)"),
    (lambda: Resource(1, 5, 1, math.nan), "change number 0 is nan"),
    (lambda: program(bounds=[(0, 1)]), "there is no resource"),
    (lambda: stock([0, 1]), r"step bounds must be \(T, 2\)"),
    (lambda: stock([]), r"step bounds must be \(T, 2\)"),
    (lambda: stock([(0, "x")]), "step bounds must be"),
    (lambda: stock([(0, 1)], 5), "budget must be two numbers"),
    (lambda: stock([(0, 1)], ("a", "b")), r"least and most in total, got \('a', 'b'\)"),
    (lambda: one(9, 9, -1, [1, 2, 3], T=1), "change must have 1 numbers, got 3"),
    (lambda: one(0, math.inf, 1, bounds=(0, math.inf)), "step t=0 may add without limit: give it"),
    # Combinations that have no closed form.
    (lambda: one(3, 9, -1, 1, True, budget=(2, 9)), "a budget that must be reached does not go"),
    (lambda: one(3, 9, +1, 1, True, budget=(0, 9)), "is added to and spills over"),
    (lambda: two(PLAIN, PLAIN | {"effect": 1}), r"must all be consumed \(effect=-1\)"),
    (lambda: two(PLAIN, PLAIN | {"change": 1}), r"must spill over \(spill=True\)"),
    (
        lambda: two(PLAIN, PLAIN | SPILLING | {"capacity": 5, "change": 1}, bounds=(1, 3)),
        r"need not be used \(all lower bounds 0\)",
    ),
]
IMPOSSIBLE: list[tuple[Any, str]] = [
    (lambda: stock([(0, 1), (3, 2)]), "step t=1 is bounded by 3 and 2: the least must be at"),
    (lambda: stock([(-1, 1)]), "step t=0 is bounded by -1 and 1"),
    (lambda: stock([(0, 1)], (3, 2)), "the budget is 3 to 2"),
    (lambda: one(0, 28, +1, LEGS, T=7), "step t=2 takes 30, but the capacity is 28: enlarge the"),
    (lambda: one(0, 5, -1, 6), "step t=0 adds 6, but the capacity is 5: .* set spill=True"),
    (lambda: one(0, 50, +1, LEGS, bounds=(0, 20), T=7), "t=2: 7 is missing whatever was done b"),
    (lambda: stock([(3, 4)] * 5, start=10), "infeasible at step t=3: 2 is missing whatever"),
    (lambda: one(4, 5, -1, 3, bounds=(0, 1)), "infeasible at step t=0: 1 is too much whatever"),
    (lambda: stock([(2, 4)] * 4, (0, 5), 10), "t=2: 6 must be spent by then, the budget allows 5"),
    (lambda: stock([(0, 1)] * 7, (8, 9), 10), "t=6: at most 7 can be spent by then, the budget"),
    (lambda: stock([(0, 4)] * 4, (8, 9), 6), "at most 6 can be spent by then, the budget req"),
    # What could spill never does: nothing flows in.
    (
        lambda: two(
            {"start": 1, "capacity": 6, **SPILLING},
            {"start": 6, "capacity": 11, **SPILLING},
            bounds=(0, 5),
            T=4,
            budget=(10, 17),
        ),
        "t=3: at most 7 can be spent by then, the budget requires 10",
    ),
    (
        lambda: two({"start": 2, **SPILLING}, PLAIN | SPILLING, bounds=(2, 5), T=3),
        "infeasible at step t=2: 1 is missing whatever was done before",
    ),
]


@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [(InputError, *row) for row in WRONG] + [(InfeasibleError, *row) for row in IMPOSSIBLE],
)
def test_one_clear_line(kind: type[Exception], make: Any, words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@given(programs())
def test_what_may_be_spent_is_what_can_be_continued(
    drawn: ResourceProgram | InfeasibleError,
) -> None:
    """Every total within the bounds of the first action, and none outside."""
    if isinstance(drawn, InfeasibleError):
        return
    A = len(drawn.resources)
    none = np.zeros((drawn.horizon, A))
    possible = {
        sum(action)
        for action in np.ndindex(*(5,) * A)
        if best_by_enumeration(drawn, none, action) > -np.inf
    }
    low, high = (float(bound[0]) for bound in drawn.spendable(0, drawn.start[None]))
    assert possible == {total for total in range(5) if low <= total <= high}
    assert possible


@given(st.data())
def test_refused_programs_have_no_allocation(data: st.DataObject) -> None:
    """The refusal of a single resource is right: brute force finds nothing either."""
    T = data.draw(st.integers(1, 4))
    lows = [data.draw(st.integers(0, 2)) for _ in range(T)]
    bounds = np.array([(low, low + data.draw(st.integers(0, 2))) for low in lows], dtype=float)
    change = [data.draw(st.integers(-3, 3)) for _ in range(T)]
    effect = data.draw(st.sampled_from([-1, 1]))
    resource = Resource(data.draw(st.integers(0, 4)), 4.0, effect, change)
    budget = data.draw(st.sampled_from([(0.0, np.inf), (0.0, 2.0), (4.0, 6.0)]))
    try:
        program(resource, bounds=bounds, budget=budget)
    except InfeasibleError:
        unchecked = object.__new__(ResourceProgram)
        unchecked.__dict__.update(resources=(resource,), step_bounds=bounds, budget=budget)
        assert best_by_enumeration(unchecked, np.zeros((T, 1))) == -np.inf


def test_what_may_be_spent_counts_all_later_bounds() -> None:
    """Eq. 2.19-2.21: 9 left of the budget and 4 later steps that must spend 1 each."""
    plan = stock([(1, 8)] * 5, (9, 9), 20)
    assert [bound.tolist() for bound in plan.spendable(0, plan.start[None])] == [[1], [5]]
    # The last step must spend what is left of it.
    low, high = plan.spendable(4, np.array([[14.0, 6.0], [18.0, 2.0]]))
    assert low.tolist() == high.tolist() == [3, 7]
    # An endless step leaves the later ones bounded.
    plan = stock([(0, math.inf), (0, 2)], (5, 9), 20)
    assert plan.later.tolist() == [[0, 2], [0, 0]]
    assert [bound.tolist() for bound in plan.spendable(0, plan.start[None])] == [[3], [9]]


def test_levels_spill_and_totals_count() -> None:
    plan = one(4, 5, -1, 3, True, bounds=(0, 4), T=2, budget=(0, 6))
    after = plan.levels_after(0, np.array([[4.0, 0.0], [4.0, 1.0]]), np.array([[0.0], [4.0]]))
    assert after.tolist() == [[5, 0], [3, 5]]


def test_bounds_that_meet_but_for_rounding() -> None:
    plan = stock([(0.1, 0.1)] * 3, start=0.3)
    resource = plan.start[None]
    for t in range(3):
        low, high = plan.spendable(t, resource)
        assert low[0] <= high[0]
        resource = plan.levels_after(t, resource, high[:, None])
    assert resource[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_what_exceeds_a_budget_by_rounding_leaves_nothing_to_spend() -> None:
    plan = stock([(0, 2)] * 3, (0, 0.3), 5)
    spent = 0.1 + 0.2  # above 0.3
    low, high = plan.spendable(2, np.array([[5 - spent, spent], [4.0, 1.0]]))
    assert (low[0], high[0]) == (0.0, 0.0)
    assert low[1] > high[1]  # this is more than rounding
