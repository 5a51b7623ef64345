"""Single arguments."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.core.validation import generator, whole_number
from counterplan.errors import CounterplanError, InputError


@pytest.mark.parametrize("value", [0, 3, np.int32(3), np.uint8(3)])
def test_whole_numbers_pass_as_ints(value: object) -> None:
    result = whole_number(value, "n")
    assert type(result) is int
    assert result == value


@pytest.mark.parametrize("value", [1.5, 3.0, True, np.True_, float("nan"), "3", None, [3]])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="n must be a whole number, got"):
        whole_number(value, "n")


def test_range() -> None:
    with pytest.raises(InputError, match="n must be at least 1, got 0"):
        whole_number(0, "n", minimum=1)
    with pytest.raises(InputError, match="n must be at most 5, got 6"):
        whole_number(6, "n", maximum=5)


def test_a_seed_is_a_number_or_a_generator() -> None:
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    assert generator(5).random() == np.random.default_rng(5).random()
    for bad in (-1, 0.5, None):
        with pytest.raises(InputError, match="seed must be"):
            generator(bad)  # type: ignore[arg-type]


def test_errors_are_value_errors() -> None:
    assert issubclass(InputError, CounterplanError)
    assert issubclass(CounterplanError, ValueError)
