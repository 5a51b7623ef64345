"""What is learned from: plausible ranges of columns, and episodes shuffled by their ids."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.core.episode import Episode
from counterplan.errors import InputError
from counterplan.scm.training import split
from counterplan.scm.transitions import Transitions, is_code, plausible_range

RNG = np.random.default_rng(0)
LACTATE = RNG.lognormal(0.9, 0.4, 2400).round(2)
SCORE = RNG.integers(0, 25, 400).astype(float)
FLAG = RNG.integers(0, 2, 400).astype(float)


def with_cells(values: np.ndarray, *cells: float) -> np.ndarray:
    return np.concatenate([values, cells])


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (LACTATE, (99_999_999.0,)),
        (LACTATE, (-999.0,) * 100),
        (LACTATE, (-1.0, -1.0)),
        (LACTATE, (9999.0, 1e9, -999.0, 99_999_999.0)),
        (LACTATE, (120.0,)),
        (LACTATE, (99.9, 888.0)),
        (SCORE, (999.0,)),
        (SCORE, (-99.0, 99.0)),
        (FLAG, (99.0, 99.0)),
    ],
)
def test_what_cannot_be_a_measurement_is_outside(
    values: np.ndarray, cells: tuple[float, ...]
) -> None:
    assert plausible_range(with_cells(values, *cells)) == (values.min(), values.max())


@pytest.mark.parametrize(
    "values",
    [
        np.arange(70.0, 101.0),  # 99 is a saturation like any other
        with_cells(FLAG, 2.0),
        np.array([0.0, 0.0, 5.0]),
        np.repeat([0.0, 1000.0, 1010.0, 1020.0, 1030.0, 1040.0, 1050.0, 1060.0, 1070.0], 5),
        np.full(20, 9999.0),
        RNG.integers(-5, 5, 300).astype(float),  # a scale with other negative numbers
        RNG.poisson(1.0, 300).astype(float) - 1.0,
        np.concatenate([np.linspace(36.0, 40.0, 50), np.linspace(97.0, 104.0, 20)]),
    ],
)
def test_what_can_be_is_inside(values: np.ndarray) -> None:
    assert plausible_range(values) == (values.min(), values.max())


def test_heavy_tails_lose_next_to_nothing() -> None:
    """Of 400 columns with a long right tail (the logarithm has a standard deviation of 1), at most
    one in twenty loses a value; by simulation it is one in fifty."""
    rng = np.random.default_rng(1)
    columns = [rng.lognormal(0.0, 1.0, 1000) for _ in range(400)]
    shortened = sum(plausible_range(one) != (one.min(), one.max()) for one in columns)
    assert shortened <= 20


def test_codes() -> None:
    assert all(map(is_code, (-999.0, 99.0, 9999.0, 99.9, -88.0, 777.0, 1e9, 1e5)))
    assert not any(map(is_code, (0.0, 9.0, 66.0, 100.0, 998.0, 9.9e8, 7.0, -5.0)))


def episodes(rng: np.random.Generator, count: int) -> list[Episode]:
    return [
        Episode(rng.normal(size=(5, 2)), rng.integers(0, 2, (4, 1)).astype(float), id=f"p{number}")
        for number in range(count)
    ]


def test_transitions_with_such_cells_are_left_out() -> None:
    every = episodes(np.random.default_rng(0), 20)
    states = every[3].states.copy()
    states[2, 1] = 99_999_999.0
    every[3] = Episode(states, every[3].actions, id="p3")
    data = Transitions.collect(every)
    kept = data.plausible()
    assert len(kept) == len(data) - 2  # the one that leads to the cell, the one that leaves it
    assert max(kept.before.max(), kept.after.max()) < 10.0
    assert kept.plausible() is kept


def test_too_many_such_cells_are_refused() -> None:
    every = []
    for one in episodes(np.random.default_rng(0), 20):
        states = one.states.copy()
        states[[1, 3], 1] = -999.0
        every.append(Episode(states, one.actions, id=one.id))
    with pytest.raises(InputError, match=r"80 of 80 transitions .*; empty these cells, or say low"):
        Transitions.collect(every).plausible()


def held_out(every: list[Episode]) -> set[str]:
    data = Transitions.collect(every)
    validation = split(data, 0.2, np.random.default_rng(3))[1]
    assert validation is not None
    assert data.ids is not None
    return {data.ids[one] for one in validation.episode}


def test_the_split_follows_ids_and_not_the_order_of_the_table() -> None:
    every = episodes(np.random.default_rng(0), 50)
    expected = held_out(every)
    assert len(expected) == 10
    assert held_out(every[::-1]) == expected
    # One episode fewer changes hardly anything.
    assert len(held_out(every[1:]) - expected) <= 1


def test_without_ids_of_their_own_episodes_are_shuffled_all_the_same() -> None:
    every = episodes(np.random.default_rng(0), 10)
    twice = Transitions.collect([*every, every[0]])
    assert twice.ids is None
    assert sorted(twice.shuffled(np.random.default_rng(0)).tolist()) == list(range(11))
