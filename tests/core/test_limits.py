"""Limits: what may be asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from counterplan import Limits
from counterplan.errors import InputError


def test_no_limit_by_default() -> None:
    assert Limits() == Limits(seconds=math.inf, nodes=None, gap=0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seconds": 0}, "limits: seconds must be positive, got 0"),
        ({"seconds": -1.5}, "limits: seconds must be positive, got -1.5"),
        ({"seconds": math.nan}, "limits: seconds must be positive, got nan"),
        ({"seconds": "5"}, "limits: seconds must be a number, got '5'"),
        ({"gap": None}, "limits: gap must be a number, got None"),
        ({"nodes": 0}, "limits: nodes must be at least 1, got 0"),
        ({"nodes": 10.0}, "limits: nodes must be a whole number, got 10.0: pass an int"),
        ({"gap": -0.1}, "limits: gap must be 0 or more, got -0.1"),
        ({"gap": math.nan}, "limits: gap must be 0 or more, got nan"),
    ],
)
def test_refuses_limits_that_stop_nothing_or_everything(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        Limits(**given)
    assert str(caught.value) == message
