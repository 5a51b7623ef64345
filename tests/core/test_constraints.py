"""Constraints as arrays: every input form, checked against masks written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan import Constraints
from counterplan.core.constraints import ResolvedConstraints
from counterplan.errors import InputError

T, S, A = 3, 2, 4


def resolve(**given: object) -> ResolvedConstraints:
    return Constraints(**given).resolve(T, S, A)  # type: ignore[arg-type]


def test_nothing_given_restricts_nothing() -> None:
    rules = resolve()
    assert rules.alternatives.shape == (T, A)
    assert rules.alternatives.all()
    assert not rules.forbidden.any()
    assert rules.costs.tolist() == [1] * A


def test_allowed_for_all_steps_alike() -> None:
    mask = [True, False, True, False]
    assert resolve(allowed=mask).alternatives.tolist() == [mask] * T


def test_allowed_step_by_step() -> None:
    mask = np.random.default_rng(0).random((T, A)) < 0.5
    assert np.array_equal(resolve(allowed=mask).alternatives, mask)


def test_allowed_as_a_mapping_leaves_other_steps_free() -> None:
    rules = resolve(allowed={0: [1], -1: (), np.int64(1): {0, 3}})
    assert rules.alternatives.tolist() == [
        [False, True, False, False],
        [True, False, False, True],
        [False, False, False, False],
    ]


def test_fixed_steps_count_from_either_end() -> None:
    assert resolve(fixed_steps=[0, -1]).alternatives.any(axis=1).tolist() == [False, True, False]
    assert not resolve(allowed={0: [1]}, fixed_steps=np.array([0])).alternatives[0].any()


@pytest.mark.parametrize(
    "forbidden",
    [
        [(0, 1), (1, 3)],
        {(0, 1), (1, 3)},
        np.array([[0, 1], [1, 3]]),
        [[False, True, False, False], [False, False, False, True]],
        np.array([[0, 1, 0, 0], [0, 0, 0, 1]], dtype=bool),
    ],
)
def test_forbidden_pairs_in_every_form(forbidden: object) -> None:
    expected = [[False, True, False, False], [False, False, False, True]]
    assert resolve(forbidden=forbidden).forbidden.tolist() == expected


@pytest.mark.parametrize("nothing", [[], (), np.zeros((0, 2), dtype=int)])
def test_an_empty_list_forbids_nothing(nothing: object) -> None:
    assert not resolve(forbidden=nothing).forbidden.any()


@pytest.mark.parametrize("costs", [[1, 2, 1, 5], np.array([1, 2, 1, 5]), {1: 2, 3: 5}])
def test_change_costs_in_every_form(costs: object) -> None:
    assert resolve(change_costs=costs).costs.tolist() == [1, 2, 1, 5]


def test_iterators_are_kept_for_a_second_use() -> None:
    constraints = Constraints(
        allowed={0: (a for a in [1])},
        forbidden=(pair for pair in [(0, 1)]),
        fixed_steps=(t for t in [2]),
        change_costs=(c for c in [1, 2, 1, 1]),  # type: ignore[arg-type]
    )
    first, second = constraints.resolve(T, S, A), constraints.resolve(T, S, A)
    assert np.array_equal(first.alternatives, second.alternatives)
    assert np.array_equal(first.forbidden, second.forbidden)
    assert np.array_equal(first.costs, second.costs)
    assert second.forbidden[0, 1]
    assert not second.alternatives[2].any()
    assert second.alternatives[0].tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fixed_steps": [3]}, "fixed_steps names step 3, but the episode's steps are 0..2"),
        ({"fixed_steps": [-4]}, "fixed_steps names step -4, but the episode's steps are 0..2"),
        ({"fixed_steps": [0.0]}, "fixed_steps holds 0.0: steps are whole numbers"),
        ({"fixed_steps": [True]}, "fixed_steps holds True: steps are whole numbers"),
        ({"fixed_steps": -1}, "fixed_steps is -1: pass a list"),
        ({"allowed": {5: [0]}}, "allowed names step 5, but the episode's steps are 0..2"),
        ({"allowed": {0: [4]}}, "allowed at step 0 names action 4, but actions are 0..3"),
        ({"allowed": {0: [-1]}}, "allowed at step 0: action must be at least 0, got -1"),
        ({"allowed": {0: 1}}, "allowed at step 0 is 1: pass a list"),
        ({"allowed": [True, False]}, "allowed must be booleans of shape (4,) or (3, 4), got bool"),
        ({"allowed": [0, 1, 1, 0]}, "allowed must be booleans of shape (4,) or (3, 4), got int64"),
        ({"allowed": [[True], [True, False]]}, "allowed is a list whose entries differ in length"),
        ({"forbidden": [(0, 4)]}, "forbidden names (state 0, action 4), but states are 0..1 and"),
        ({"forbidden": [(-1, 0)]}, "forbidden names (state -1, action 0), but states are 0..1"),
        ({"forbidden": [(0, 0.5)]}, "forbidden must be (state, action) pairs of whole numbers or"),
        ({"forbidden": [(0, 1, 2)]}, "forbidden must be (state, action) pairs of whole numbers"),
        ({"forbidden": np.ones((4, 2), dtype=bool)}, "forbidden mask has shape (4, 2), expected"),
        ({"forbidden": [(0, 1), (1,)]}, "forbidden is a list whose entries differ in length"),
        ({"forbidden": 3}, "forbidden is 3: pass a list"),
        ({"change_costs": [1, 2]}, "change_costs has 2 entries, but there are 4 actions"),
        ({"change_costs": 2}, "change_costs is 2: pass a list"),
        ({"change_costs": {4: 1}}, "change_costs names action 4, but actions are 0..3"),
        ({"change_costs": {0: 0}}, "change cost of action 0 must be at least 1, got 0"),
        ({"change_costs": [1, 1.5, 1, 1]}, "change cost of action 1 must be a whole number, got"),
        ({"change_costs": {2: 10**30}}, "change cost of action 2 must be at most"),
    ],
)
def test_refuses_what_cannot_be_meant(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(**given)
    assert str(caught.value).startswith("constraints: " + message)
    assert "\n" not in str(caught.value)
