"""Learned counterfactuals against the truth: better with data, and broken where they must break.

Sizes are small and seeds fixed; the limits leave room for other machines' rounding (measured:
`benchmarks/results/ground_truth.md`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from counterplan.scm.point import LocationScaleSCM
from experiments.ground_truth import (
    NEURAL,
    SMOOTH,
    Case,
    Learned,
    Measured,
    infection,
    learn,
    measure,
)
from experiments.infection import DOSES, Infection

pytestmark = pytest.mark.slow  # models are learned from thousands of patients


@cache
def measured(process: str, patients: int, fresh: int = 20, learner: str = SMOOTH) -> Measured:
    return measure(learn(process, patients, fresh, learner))


def test_more_patients_bring_counterfactuals_nearer_to_the_truth() -> None:
    few, many = measured("plain", 60), measured("plain", 960)
    assert many.error < 0.1 < 0.15 < few.error
    assert many.possible is not None
    # Close to the best that could have been done, and close to what was claimed.
    assert many.true > 0.9 * many.possible
    assert many.claimed < 1.15 * many.true


@pytest.mark.parametrize(("process", "least"), [("response", 0.3), ("flipped", 0.4)])
def test_no_amount_of_data_helps_where_the_assumption_fails(process: str, least: float) -> None:
    assert measured(process, 960).error > max(least, 2.0 * measured("plain", 960).error)


def test_a_hidden_cause_that_persists_is_learned_around() -> None:
    """What stays with a patient is told apart from what the dose does."""
    found = measured("hidden", 960)
    assert found.error < 0.4
    assert found.claimed < 1.3 * found.true


def test_networks_of_sepsis_claim_more_than_is_true_and_a_smooth_model_is_nearer_to_it() -> None:
    networks, smooth = measured("sepsis", 150, 4, NEURAL), measured("sepsis", 150, 4)
    assert networks.possible is None
    assert networks.claimed > networks.true
    assert smooth.error < 0.75 * networks.error
    assert smooth.true > networks.true


def true_model(version: str, patients: int = 4) -> Learned:
    """The plain mechanism itself instead of a learned one, on patients of a version."""
    model = LocationScaleSCM(
        lambda states, doses: infection_location(states, doses[:, 0]),
        lambda states, doses: np.column_stack(
            [0.1 + 0.03 * np.abs(states[:, 0]), np.full(len(states), 0.05)]
        ),
        lipschitz=(2.0, 0.05),
    )
    process = Infection(version)
    cases = [
        Case(one.episode, DOSES, lambda chosen, one=one: process.replay(one, chosen))
        for one in process.simulate(patients, 7)
    ]
    return Learned(model, cases, infection.reward(), enumerable=True)


def infection_location(states: np.ndarray, doses: np.ndarray) -> np.ndarray:
    n = len(states)
    return Infection().step(states, doses, np.zeros((n, 3)), np.zeros(n))


def test_the_true_mechanism_has_no_error() -> None:
    found = measure(true_model("plain"))
    assert found.error == pytest.approx(0.0, abs=1e-9)
    assert found.claimed == pytest.approx(found.true, abs=1e-9)
    assert found.true == pytest.approx(found.possible, abs=1e-9)


def test_even_the_true_law_has_an_error_where_luck_is_flipped() -> None:
    found = measure(true_model("flipped"))
    assert found.error > 0.3
    assert found.possible is not None
    assert found.true < found.possible - 0.1
