"""Limits and results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from counterplan import Episode, Limits
from counterplan.core.result import Certified, Change, Interval
from counterplan.counterfactual import Explanation, Status
from counterplan.errors import CertificateError, InputError

# --- Limits: what may be asked for ---


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


# --- What every explanation derives from its value, bound and observed outcome ---


@dataclass(frozen=True, eq=False, kw_only=True)
class Plain(Explanation):
    @property
    def changes(self) -> tuple[Change, ...]:
        return ()


def explanation(value: float, factual: float, bound: float | None = None) -> Plain:
    return Plain(
        episode=Episode([0], [0]),
        k=1,
        value=value,
        factual_value=factual,
        bound=value if bound is None else bound,
        status=Status.OPTIMAL if bound in (None, value) else Status.LIMIT,
    )


INF = math.inf


@pytest.mark.parametrize(
    ("value", "factual", "improvement", "relative"),
    [
        (6.0, 4.0, 2.0, 0.5),
        (-2.0, -4.0, 2.0, 0.5),
        (4.0, 4.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (1.0, 0.0, 1.0, INF),
        (-1.0, 0.0, -1.0, -INF),
        (1.0, -INF, INF, INF),
        (-INF, 1.0, -INF, -INF),
        (-INF, -INF, 0.0, 0.0),
    ],
)
def test_improvement_is_never_nan(
    value: float, factual: float, improvement: float, relative: float
) -> None:
    found = explanation(value, factual)
    assert found.improvement == improvement
    assert found.relative_improvement == relative


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [(1.0, 1.0, 0.0), (1.0, 1.5, 0.5), (-INF, -INF, 0.0), (-INF, 1.0, INF), (1.0, INF, INF)],
)
def test_gap(value: float, bound: float, gap: float) -> None:
    assert explanation(value, 0.0, bound).gap == gap


@pytest.mark.parametrize(
    ("value", "bound", "status"),
    [
        (math.nan, 1.0, Status.LIMIT),
        (1.0, math.nan, Status.LIMIT),
        (1.0, 0.5, Status.LIMIT),
        (1.0, 1.5, Status.OPTIMAL),
        (1.0, INF, Status.OPTIMAL),
        (-INF, 1.0, Status.OPTIMAL),
    ],
)
def test_no_answer_whose_proof_does_not_hold(value: float, bound: float, status: Status) -> None:
    with pytest.raises(CertificateError):
        replace(explanation(1.0, 0.0), value=value, bound=bound, status=status)


def test_intervals_have_a_width_even_where_both_ends_are_infinite() -> None:
    assert Interval(1.0, 3.0).width == 2.0
    assert Interval(-INF, -INF).width == 0.0
    assert Interval(-INF, 0.0).width == INF


def test_certified_numbers_act_as_numbers() -> None:
    assert float(Certified(0.5, 0.4, 0.6)) == 0.5


def test_status_is_a_word_with_advice() -> None:
    assert Status.OPTIMAL == "optimal"
    assert [str(status) for status in Status] == ["optimal", "limit", "heuristic"]
    assert len({status.advice for status in Status}) == 3
    for way in ("raise the limits", "ask for a smaller gap"):
        assert way in Status.LIMIT.advice
