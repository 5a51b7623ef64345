"""Sentences say what the numbers say."""

from __future__ import annotations

from dataclasses import replace

import pytest

import counterplan as cp
from counterplan.core.result import Change, Interval
from counterplan.viz.case import Case, Footing, ranked
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.words import (
    certificate_in_words,
    change_in_words,
    counted,
    main_changes_in_words,
    robustness_in_words,
)

CHANCE = Quantity("survival probability", percent=True)
PLAIN = Quantity()


def test_change_in_words() -> None:
    names = {0: "fluids 2, vasopressor 0", 1: "fluids 1, vasopressor 2"}
    words = change_in_words(Change(3, 0, 1), names.__getitem__)
    assert words == "step 3: fluids 2, vasopressor 0 -> fluids 1, vasopressor 2"


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


def test_main_changes_are_the_steps_changed_most(case: Case, mdp: cp.TabularMDP) -> None:
    probabilities = case.explanation.change_probabilities()
    often = probabilities.sum(axis=1)
    main = case.main_changes
    assert 0 < len(main) <= case.explanation.k
    assert [one.change.t for one in main] == sorted(one.change.t for one in main)
    others = set(range(len(often))) - {one.change.t for one in main}
    assert min(often[one.change.t] for one in main) >= max(often[t] for t in others) - 1e-12 or (
        max(often[t] for t in others) < 0.1
    )
    for one in main:
        assert one.probability == probabilities[one.change.t].max()
        assert one.change.alternative == probabilities[one.change.t].argmax()
    assert main_changes_in_words(case, mdp.action_name)[0].startswith(f"step {main[0].change.t}: ")


def test_certificate_names_value_bound_gap_and_status(case: Case) -> None:
    words = certificate_in_words(case.explanation, PLAIN)
    value = PLAIN.write(case.explanation.value)
    assert f"Value {value}, upper bound {value}, gap 0, status optimal." in words
    stopped = replace(case.explanation, bound=case.explanation.value + 1.5, status=cp.Status.LIMIT)
    assert "gap +1.5, status limit. Stopped at a limit" in certificate_in_words(stopped, PLAIN)


def with_values(case: Case, interval: Interval, guaranteed: float) -> Case:
    """The case as if its explanation were worth 0.8 instead of 0, with this range."""
    frontier = [
        replace(explanation, value=0.8, bound=0.8, factual_value=0.0)
        for explanation in case.frontier
    ]
    robust = replace(case.robust, value=guaranteed, bound=guaranteed, factual_value=0.0)
    changed = replace(case, interval=interval, robust=robust)
    object.__setattr__(changed, "frontier", frontier)
    return changed


@pytest.mark.parametrize(
    ("interval", "guaranteed", "footing", "words"),
    [
        (Interval(0.75, 0.9), 0.75, Footing.NARROW, "Even the worst case improves"),
        (Interval(0.2, 1.0), 0.3, Footing.EVERY_MODEL, "worth 20.0 to 100.0 %"),
        (Interval(0.0, 1.0), 0.3, Footing.OTHER_POLICY, "reaches at least 30.0 % in every"),
        (Interval(0.0, 1.0), 0.0, Footing.ASSUMPTION, "No plan with at most 2 changes improves"),
    ],
)
def test_robustness_is_said_in_words(
    case: Case, interval: Interval, guaranteed: float, footing: Footing, words: str
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
    assert unchanged.footing is Footing.NONE
    assert unchanged.main_changes == ()
    assert robustness_in_words(unchanged, PLAIN).startswith("No admissible change improves")


def test_ranking_is_by_improvement_then_by_guarantee(case: Case) -> None:
    weak = with_values(case, Interval(0.0, 1.0), 0.1)
    firm = with_values(case, Interval(0.0, 1.0), 0.4)
    none = with_values(case, Interval(0.0, 0.0), 0.0)
    object.__setattr__(none, "frontier", [replace(weak.explanation, value=0.0)])
    assert ranked([none, weak, firm]) == (firm, weak, none)
