"""Sentences say what the numbers say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import counterplan as cp
from counterplan.core.result import Interval
from counterplan.core.validation import counted
from counterplan.viz.case import Case, Evidence, likely_changes
from counterplan.viz.labels import Quantity, share
from counterplan.viz.report.case import certificate_in_words, robustness_in_words

CHANCE = Quantity("survival probability", percent=True)
PLAIN = Quantity()


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "0 %"), (0.004, "< 1 %"), (0.25, "25 %"), (0.998, "> 99 %"), (1.0, "100 %")],
)
def test_share_never_claims_never_or_always(probability: float, text: str) -> None:
    assert share(probability) == text


def test_quantity_writes_percent_and_plain_numbers() -> None:
    assert CHANCE.write(0.8378) == "83.8 %"
    assert CHANCE.write(-0.0) == "0.0 %"
    assert CHANCE.write_gain(0.8378) == "+83.8 points"
    assert CHANCE.write_gain(-0.1) == "-10.0 points"
    assert CHANCE.write_range(0.0, 1.0) == "0.0 to 100.0 %"
    assert PLAIN.write(12.34567) == "12.35"
    assert PLAIN.write(float("-inf")) == "-inf"
    assert PLAIN.write_range(1.0, 2.5) == "1 to 2.5"


def test_counted() -> None:
    assert counted(1, "change") == "1 change"
    assert counted(0, "change") == "0 changes"
    assert counted(1200, "patient") == "1,200 patients"


def test_likely_changes_are_all_of_them_the_likeliest_first(case: Case) -> None:
    probabilities = case.explanation.change_probabilities()
    found = likely_changes(case.explanation)
    assert len(found) == (probabilities > 0).sum()
    assert found[0].probability == probabilities.max()
    assert [one.probability for one in found] == sorted(
        (one.probability for one in found), reverse=True
    )
    for (t, observed, alternative), probability in found:
        assert observed == case.explanation.episode.actions[t]
        assert probability == probabilities[t, alternative]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"bound": 0.5, "gap": 0.0, "status": "optimal"},
            "bound 0.5, gap 0, status optimal. Proved",
        ),
        (
            {"bound": 2.0, "gap": 1.5, "status": "limit"},
            "gap +1.5, status limit. Stopped at a limit",
        ),
        (
            {"bound": float("inf"), "gap": 1.0, "status": "heuristic"},
            "Value 0.5, status heuristic.",
        ),
    ],
)
def test_certificate_names_value_bound_gap_and_status(row: dict[str, Any], words: str) -> None:
    text = certificate_in_words({"value": 0.5, **row}, PLAIN)
    assert text.startswith("Value 0.5, ")
    assert words in text


def with_values(case: Case, interval: Interval, guaranteed: float) -> Case:
    """The case as if its explanation were worth 0.8 instead of 0, with this range."""
    frontier = [
        replace(explanation, value=0.8, bound=0.8, factual_value=0.0)
        for explanation in case.frontier
    ]
    robust = replace(case.robust, value=guaranteed, bound=guaranteed, factual_value=0.0)
    return replace(case, frontier=frontier, interval=interval, robust=robust)


@pytest.mark.parametrize(
    ("interval", "guaranteed", "footing", "words"),
    [
        (Interval(0.75, 0.9), 0.75, Evidence.NARROW, "Even the worst case improves"),
        (Interval(0.2, 1.0), 0.3, Evidence.EVERY_MODEL, "worth 20.0 to 100.0 %"),
        (Interval(0.0, 1.0), 0.3, Evidence.OTHER_POLICY, "reaches at least 30.0 % in every"),
        (Interval(0.0, 1.0), 0.0, Evidence.ASSUMPTION, "No plan with at most 2 changes improves"),
    ],
)
def test_robustness_is_said_in_words(
    case: Case, interval: Interval, guaranteed: float, footing: Evidence, words: str
) -> None:
    changed = with_values(case, interval, guaranteed)
    assert changed.footing is footing
    assert words in robustness_in_words(changed, CHANCE)


def test_nothing_to_improve_is_said(mdp: cp.TabularMDP, case: Case) -> None:
    episode = case.explanation.episode
    frontier = cp.frontier(mdp, episode, k_max=0)
    unchanged = replace(
        case,
        frontier=frontier,
        interval=cp.value_interval(mdp, episode, frontier[-1]),
        robust=cp.robust_explain(mdp, episode, 0),
    )
    assert unchanged.footing is Evidence.NONE
    assert likely_changes(unchanged.explanation) == ()
    assert robustness_in_words(unchanged, PLAIN).startswith("No admissible change improves")
