"""Whether numbers are whole multiples of a common step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.counterfactual.discrete.distributions import Lattice, find_lattice


@given(
    st.floats(-100, 100),
    st.floats(0.001, 100.0),
    st.lists(st.integers(0, 200), min_size=1, max_size=8),
)
def test_finds_the_lattice_that_numbers_were_made_from(
    base: float, step: float, positions: list[int]
) -> None:
    values = base + step * np.array(positions)
    found = find_lattice(values)
    assert found is not None
    rebuilt = found.base + found.step * found.index(values)
    # Differences of numbers near 100 carry a rounding error of 1e-14.
    assert rebuilt == pytest.approx(values, abs=1e-10)
    divisor = int(np.gcd.reduce(np.array(positions) - min(positions)))
    if divisor:
        assert found.step == pytest.approx(step * divisor, rel=1e-6)


def test_decimal_fractions_lie_on_a_lattice_despite_rounding() -> None:
    found = find_lattice([0.1, 0.2, 0.3, 0.1 + 0.2, 0.7])
    assert found is not None
    assert found.index(np.array([0.1, 0.2, 0.3, 0.7])).tolist() == [0, 1, 2, 6]


def test_minus_infinity_is_no_position() -> None:
    found = find_lattice([0.0, -np.inf, 2.0])
    assert found == Lattice(0.0, 2.0)
    assert found.index(np.array([2.0, -np.inf])).tolist() == [1, -1]


@pytest.mark.parametrize("values", [[1.0, np.pi, np.e], [0.0, 1.0, 1e-7]])
def test_no_small_lattice(values: list[float]) -> None:
    assert find_lattice(values) is None


def test_one_number_or_none_lies_on_any() -> None:
    assert find_lattice([5.0, 5.0]) == Lattice(5.0, 1.0)
    assert find_lattice([-np.inf]) == Lattice(0.0, 1.0)
