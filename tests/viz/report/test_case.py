"""Sentences about a case say what its numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.tables.schema import Column
from counterplan.viz import Labels
from counterplan.viz.claims import ASSUMPTIONS
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.explain import likely_changes, telling_features
from counterplan.viz.report.page import environment

from ..results import discrete


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    mdp, frontier = discrete()
    best = frontier[-1]
    ranges = [cp.value_interval(mdp, best.episode, best, assume=name) for name in ASSUMPTIONS]
    better = best.probability_better().value
    likely = likely_changes(best)
    return {"explanation": best, "ranges": ranges, "probability_better": better, "likely": likely}


def said(macro: str, *given: Any) -> str:
    """What a piece of the templates says."""
    words: Any = environment().get_template("explain/words.html").module
    return " ".join(getattr(words, macro)(*given).split())


def test_likely_changes_are_all_of_them_the_likeliest_first(case: dict[str, Any]) -> None:
    probabilities = case["explanation"].change_probabilities()
    assert len(case["likely"]) == (probabilities > 0).sum()
    assert case["likely"][0][1] == probabilities.max()
    found = [probability for _, probability in case["likely"]]
    assert found == sorted(found, reverse=True)
    for (t, observed, alternative), probability in case["likely"]:
        assert observed == case["explanation"].episode.actions[t]
        assert probability == probabilities[t, alternative]
    facts = said("policy_facts", case, Quantity())
    assert f"Changes made, on average</dt><dd>{probabilities.sum():.2f}</dd>" in facts
    deviation = float(facts.split("Standard deviation</dt><dd>")[1].split("<")[0])
    sampled = case["explanation"].sample(20_000, seed=0).outcomes
    # The standard error of a deviation from 20,000 samples is below one percent.
    assert deviation == pytest.approx(np.std(sampled), rel=0.03)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"bound": 0.5, "gap": 0.0, "status": "optimal"},
            "the outcome by the model. Value 0.5, bound 0.5, gap 0. Proved",
        ),
        (
            {"bound": 2.0, "gap": 1.5, "status": "limit"},
            "the outcome by the model. Value 0.5, bound 2, gap +1.5. Stopped at a limit",
        ),
        (
            {"bound": float("inf"), "gap": 1.0, "status": "heuristic", "risk": 0.25},
            "the mean outcome over the worst 25 % of the models that the data allows. Value 0.5",
        ),
        (
            {"bound": 0.5, "gap": 0.0, "status": "optimal", "doubt": 0.2},
            "the outcome with a weight of 20 % on the worst causal model at every step. Value 0.5",
        ),
    ],
)
def test_the_search_is_told_with_what_it_optimised(row: dict[str, Any], words: str) -> None:
    told = said("certificate", {"value": 0.5, **row}, Quantity()).replace("\u00a0", " ")
    assert told.startswith(f"What was optimised: {words}")


def test_features_that_differ_by_rounding_only_are_not_drawn() -> None:
    labels = Labels(tuple(Column(name, "state") for name in ("age", "load")))
    steps = [
        {
            "state:age": 28342.1,
            "counterfactual_state:age": 28342.1 * (1.0 + 1e-15),
            "state:load": float(t),
            "counterfactual_state:load": t + 0.5,
        }
        for t in range(3)
    ]
    assert telling_features(labels, steps) == [1]
