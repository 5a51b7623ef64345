"""Sentences about a case say what its numbers say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.result import Interval
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.case import PolicyCase
from counterplan.viz.report.page import environment

from ..results import CHANCE, discrete


@pytest.fixture(scope="module")
def case() -> PolicyCase:
    mdp, frontier = discrete()
    best = frontier[-1]
    return PolicyCase(
        best,
        best.probability_better().value,
        cp.value_interval(mdp, best.episode, best),
        cp.value_interval(mdp, best.episode, best, stability=True),
        cp.robust_explain(mdp, best.episode, 2),
    )


def said(macro: str, *given: Any) -> str:
    """What a piece of the templates says."""
    words: Any = environment().get_template("explain/words.html").module
    return " ".join(getattr(words, macro)(*given).split())


def test_likely_changes_are_all_of_them_the_likeliest_first(case: PolicyCase) -> None:
    probabilities = case.explanation.change_probabilities()
    assert len(case.likely) == (probabilities > 0).sum()
    assert case.likely[0][1] == probabilities.max()
    found = [probability for _, probability in case.likely]
    assert found == sorted(found, reverse=True)
    for (t, observed, alternative), probability in case.likely:
        assert observed == case.explanation.episode.actions[t]
        assert probability == probabilities[t, alternative]
    facts = said("policy_facts", case, Quantity())
    assert f"Changes made, on average</dt><dd>{probabilities.sum():.2f}</dd>" in facts
    deviation = float(facts.split("Standard deviation</dt><dd>")[1].split("<")[0])
    sampled = case.explanation.sample(20_000, seed=0).outcomes
    # The standard error of a deviation from 20,000 samples is below one percent.
    assert deviation == pytest.approx(np.std(sampled), rel=0.03)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"bound": 0.5, "gap": 0.0, "status": "optimal"},
            "Value 0.5, bound 0.5, gap 0, status optimal. Proved",
        ),
        (
            {"bound": 2.0, "gap": 1.5, "status": "limit"},
            "Value 0.5, bound 2, gap +1.5, status limit. Stopped at a limit",
        ),
        (
            {"bound": float("inf"), "gap": 1.0, "status": "heuristic"},
            "Value 0.5, status heuristic.",
        ),
    ],
)
def test_certificate_names_value_bound_gap_and_status(row: dict[str, Any], words: str) -> None:
    assert said("certificate", {"value": 0.5, **row}, Quantity()).startswith(words)


@pytest.mark.parametrize(
    ("interval", "guaranteed", "words"),
    [
        (Interval(0.75, 0.9), 0.75, "Even the worst case improves"),
        (Interval(0.2, 1.0), 0.3, "always better: depending on the causal model"),
        (Interval(0.0, 1.0), 0.3, "reaches at least 30.0 % in every"),
        (Interval(0.0, 1.0), 0.0, "No plan with at most 2 changes improves"),
    ],
)
def test_robustness_is_said_in_words(
    case: PolicyCase, interval: Interval, guaranteed: float, words: str
) -> None:
    """As if the explanation were worth 0.8 instead of 0, with this range."""
    assert case.robust is not None
    worth = replace(case.explanation, value=0.8, bound=0.8, factual_value=0.0)
    robust = replace(case.robust, value=guaranteed, bound=guaranteed, factual_value=0.0)
    changed = replace(case, explanation=worth, interval=interval, robust=robust)
    assert words in said("robustness", changed, CHANCE).replace("\u00a0", " ")


def test_nothing_to_improve_is_said(case: PolicyCase) -> None:
    mdp, frontier = discrete()
    unchanged = replace(
        case,
        explanation=frontier[0],
        interval=cp.value_interval(mdp, frontier[0].episode, frontier[0]),
        robust=cp.robust_explain(mdp, frontier[0].episode, 0),
    )
    assert unchanged.likely == []
    assert "No admissible change improves" in said("robustness", unchanged, Quantity())
