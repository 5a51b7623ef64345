"""The sepsis study's actions, reward and scaling, and an explanation end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains import sepsis
from counterplan.domains.sepsis_table import SOFA
from counterplan.errors import InputError


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> sepsis.SepsisCohort:
    path = tmp_path_factory.mktemp("sepsis") / "cohort.csv"
    sepsis.write_cohort(path, patients=60, seed=3)
    return sepsis.read_cohort(path, sepsis.EDGES)


def test_action_set_replays_ventilation(cohort: sepsis.SepsisCohort) -> None:
    for episode in cohort.episodes:
        vectors = sepsis.action_set(episode)
        assert vectors.shape == (len(episode) - 1, 25, 3)
        np.testing.assert_array_equal(vectors[0, :, 0], np.repeat(np.arange(5), 5))
        np.testing.assert_array_equal(vectors[0, :, 1], np.tile(np.arange(5), 5))
        observed = (5 * episode.actions[:, 0] + episode.actions[:, 1]).astype(int)
        taken = vectors[np.arange(len(observed)), observed]
        np.testing.assert_array_equal(taken, episode.actions)
        assert (vectors[:, :, 2] == episode.actions[:, None, 2]).all()


def test_action_set_of_another_kind_of_episode() -> None:
    episode = cp.Episode(states=np.zeros((3, 12)), actions=[0, 1])
    with pytest.raises(InputError, match=r"actions have shape \(2,\), expected \(T-1, 3\)"):
        sepsis.action_set(episode)


def test_reward_is_minus_sofa(cohort: sepsis.SepsisCohort) -> None:
    states = cohort.episodes[0].states
    np.testing.assert_array_equal(sepsis.reward()(states), -states[:, SOFA])


def test_scaling_is_the_papers(cohort: sepsis.SepsisCohort) -> None:
    scaling = sepsis.scaling(cohort)
    states = np.concatenate([episode.states for episode in cohort.episodes])
    encoded = scaling.encode_states(states)
    assert set(encoded[:, :2].ravel()) == {-0.5, 0.5}
    np.testing.assert_allclose(encoded[:, 2:].min(axis=0), -0.5)
    np.testing.assert_allclose(encoded[:, 2:].max(axis=0), 0.5)
    np.testing.assert_allclose(scaling.decode_states(encoded), states)
    levels = np.array([[0, 4, 0], [1, 2, 1], [3, 0, 1]])
    expected = [[-0.5, 0.5, -0.5], [-0.25, 0.0, 0.5], [0.25, -0.5, 0.5]]
    np.testing.assert_allclose(scaling.encode_actions(levels), expected)


def test_scaling_needs_two_values_of_each_feature(cohort: sepsis.SepsisCohort) -> None:
    lonely = replace(cohort, recorded=cohort.recorded[:1])
    with pytest.raises(InputError, match=r"scaling: age is .* at least two different values"):
        sepsis.scaling(lonely)


def test_one_gender_only_is_no_problem(cohort: sepsis.SepsisCohort) -> None:
    women = tuple(one for one in cohort.recorded if one.episode.states[0, 0] == 1)
    scaling = sepsis.scaling(replace(cohort, recorded=women))
    np.testing.assert_array_equal(scaling.state_offset[:2], [0.5, 0.5])


def test_explanations_against_the_true_process(cohort: sepsis.SepsisCohort) -> None:
    """Alternatives matter: a few changes in hindsight lower SOFA, for some patients by a lot."""
    scm = sepsis.SimulatedSepsis()
    gains = []
    for episode in cohort.episodes[:20]:
        greedy = cp.explain(
            scm,
            episode,
            k=3,
            actions=sepsis.action_set(episode),
            reward=sepsis.reward(),
            solver=cp.baselines.Greedy(),
        )
        np.testing.assert_allclose(greedy.factual_value, -episode.states[:, SOFA].sum())
        gains.append((greedy.value - greedy.factual_value) / -greedy.factual_value)
    assert 0.02 < np.median(gains) < 0.2
    assert max(gains) > 1.5 * np.median(gains)


def test_treatments_interact(cohort: sepsis.SepsisCohort) -> None:
    """Vasopressors raise pressure more with fluids, and cut urine without them."""
    scm = sepsis.SimulatedSepsis()
    pressure, urine = (sepsis.FEATURES.index(name) for name in ("MeanBP", "output_4hourly"))
    states = np.stack([episode.states[0] for episode in cohort.episodes])

    def after(vasopressor: float, fluids: float) -> np.ndarray:
        actions = np.tile([vasopressor, fluids, 0.0], (len(states), 1))
        return scm.step(states, actions, np.zeros((len(states), 9)))

    none, alone, filled, both = after(0, 0), after(4, 0), after(0, 4), after(4, 4)
    assert (alone[:, pressure] > none[:, pressure]).all()
    extra = both[:, pressure] - filled[:, pressure]
    assert (extra > 1.5 * (alone[:, pressure] - none[:, pressure])).all()
    assert (alone[:, urine] < none[:, urine]).all()
    assert (both[:, urine] > none[:, urine]).all()


def test_written_tables_need_a_folder(tmp_path: Path) -> None:
    with pytest.raises(cp.errors.FileError, match="the folder does not exist"):
        sepsis.write_cohort(tmp_path / "absent" / "cohort.csv", patients=2)
