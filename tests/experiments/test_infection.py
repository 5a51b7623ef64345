"""The infection: replaying gives back what was, versions differ as they say."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.errors import InputError
from experiments.infection import DOSES, VERSIONS, Infection


@pytest.mark.parametrize("version", VERSIONS)
def test_replaying_the_observed_actions_gives_back_the_episode(version: str) -> None:
    process = Infection(version)
    for patient in process.simulate(5, seed=3):
        replayed = process.replay(patient, patient.episode.actions[None])
        np.testing.assert_allclose(replayed[0], patient.episode.states, rtol=0, atol=1e-12)


def one_step(version: str, dose: float, luck: float, response: float = 0.0) -> np.ndarray:
    noise = np.array([[luck, 0.0, response]])
    states = np.array([[3.0, 0.7]])
    return Infection(version).step(states, np.array([dose]), noise, np.array([2.0]))[0]


def test_the_plain_mechanism() -> None:
    load = 0.9 * 3.0 + 0.5 - 0.5 * 0.7 - 0.5 * 0.7 + (0.1 + 0.03 * 3.0) * 1.5
    immunity = 0.8 * 0.7 + 0.25 * np.tanh(1.0) - 0.3 * 0.5
    np.testing.assert_allclose(one_step("plain", 0.5, 1.5), [load, immunity], rtol=1e-12)


def test_a_hidden_virulence_raises_the_load() -> None:
    difference = one_step("hidden", 0.5, 1.5) - one_step("plain", 0.5, 1.5)
    np.testing.assert_allclose(difference, [0.5, 0.0], atol=1e-12)


def test_luck_in_the_response_shows_only_with_a_dose() -> None:
    np.testing.assert_array_equal(one_step("response", 0.0, 1.0, 2.0), one_step("plain", 0.0, 1.0))
    assert one_step("response", 1.0, 1.0, 2.0)[0] < one_step("response", 1.0, 1.0, 0.0)[0]


def test_flipped_luck_has_the_same_law_and_other_counterfactuals() -> None:
    np.testing.assert_array_equal(one_step("flipped", 0.0, 1.0), one_step("plain", 0.0, 1.0))
    np.testing.assert_array_equal(one_step("flipped", 1.0, 1.0), one_step("plain", 1.0, -1.0))


def test_doctors_treat_a_hidden_virulence() -> None:
    """The dose follows it in the hidden version only: 2,000 first days, four standard errors."""
    for version, follows in (("plain", False), ("hidden", True)):
        patients = Infection(version).simulate(2000, seed=0)
        doses = DOSES[[patient.episode.actions[0] for patient in patients], 0]
        correlation = np.corrcoef(doses, [patient.virulence for patient in patients])[0, 1]
        assert bool(correlation > 4 / np.sqrt(2000)) is follows


def test_an_unknown_version() -> None:
    with pytest.raises(InputError, match="unknown version 'severe' of the infection: use one of"):
        Infection("severe")
