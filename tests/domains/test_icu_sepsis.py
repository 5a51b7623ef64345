"""ICU-Sepsis as shipped: its published facts, usual care solved exactly, sampled patients."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.core.episode import Episode
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_sepsis import ABSORBING, DEATH, SURVIVAL, IcuSepsis


@pytest.fixture(scope="module")
def icu() -> IcuSepsis:
    return icu_sepsis.load()


def test_published_size(icu: IcuSepsis) -> None:
    mdp = icu.mdp
    assert (mdp.n_states, mdp.n_actions) == (716, 25)
    assert mdp.admissible is not None
    assert mdp.admissible.sum() == 2313
    assert mdp.admissible.any(axis=1).all()
    assert np.count_nonzero(mdp.initial) == 712


def test_reward_is_survival_counted_once(icu: IcuSepsis) -> None:
    rewards = icu.mdp.rewards
    assert (rewards[SURVIVAL] == 1.0).all()
    assert np.count_nonzero(rewards) == 25
    final = icu.mdp.final_rewards
    assert final is not None
    assert (final[[DEATH, SURVIVAL, ABSORBING]] == 0.0).all()


def test_inadmissible_actions_are_the_average_of_admissible_ones(icu: IcuSepsis) -> None:
    admissible = icu.mdp.admissible
    assert admissible is not None
    for state in (0, 100, 400, 712):
        allowed, barred = np.flatnonzero(admissible[state]), np.flatnonzero(~admissible[state])
        mean = np.mean([icu.mdp.row(state, a) for a in allowed], axis=0)
        for action in barred:
            np.testing.assert_allclose(icu.mdp.row(state, action), mean, atol=1e-15)


def test_usual_care_survival_is_the_fixed_point(icu: IcuSepsis) -> None:
    """Iterating usual care from nothing reaches the linear system's solution."""
    mdp = icu.mdp
    under_care = np.zeros((716, 716))
    for state, action in np.argwhere(icu.behaviour > 0):
        under_care[state] += icu.behaviour[state, action] * mdp.row(state, action)
    value = np.zeros(716)
    for _ in range(3000):
        value = under_care @ (value + (np.arange(716) == SURVIVAL))
    assert mdp.final_rewards is not None
    np.testing.assert_allclose(mdp.final_rewards, value, atol=1e-10)


def test_mortality_under_usual_care_is_the_published_one(icu: IcuSepsis) -> None:
    """The package's notes give clinicians a return (survival) of 0.78."""
    assert icu.mdp.initial is not None
    assert icu.mdp.final_rewards is not None
    assert icu.mdp.initial @ icu.mdp.final_rewards == pytest.approx(0.78, abs=0.005)
    assert (icu.mdp.final_rewards[:DEATH] > 0).all()
    assert (icu.mdp.final_rewards[:DEATH] < 1).all()


def test_sicker_states_survive_less(icu: IcuSepsis) -> None:
    assert icu.mdp.final_rewards is not None
    assert np.corrcoef(icu.sofa[:DEATH], icu.mdp.final_rewards[:DEATH])[0, 1] < -0.4


def test_episodes_are_possible_and_end_where_they_should(icu: IcuSepsis) -> None:
    admissible = icu.mdp.admissible
    assert admissible is not None
    episodes = icu.sample_episodes(300, seed=1)
    assert [episode.id for episode in episodes[:2]] == ["patient 0001", "patient 0002"]
    endings = set()
    for episode in episodes:
        icu.mdp.check_episode(episode)
        assert admissible[episode.states, episode.actions].all()
        assert (episode.states[:-1] < DEATH).all()
        last = int(episode.states[-1])
        assert last in (DEATH, SURVIVAL) or len(episode) == 20
        assert icu.died(episode) == (last == DEATH)
        endings.add(max(last, DEATH - 1))
    assert endings == {DEATH - 1, DEATH, SURVIVAL}


def test_outcome_of_a_cut_episode_estimates_survival_without_bias(icu: IcuSepsis) -> None:
    """Valuing the living at their chance under usual care makes the mean outcome exact."""
    assert icu.mdp.initial is not None
    assert icu.mdp.final_rewards is not None
    exact = icu.mdp.initial @ icu.mdp.final_rewards
    outcomes = [icu.mdp.outcome(e) for e in icu.sample_episodes(5000, seed=2, horizon=6)]
    # Five standard errors of outcomes between 0 and 1.
    assert abs(np.mean(outcomes) - exact) < 5 * np.std(outcomes) / np.sqrt(5000)


def test_outcomes_of_each_ending(icu: IcuSepsis) -> None:
    assert icu.mdp.final_rewards is not None
    assert icu.mdp.outcome(Episode([5, DEATH], [0, 0])) == 0.0
    assert icu.mdp.outcome(Episode([5, SURVIVAL], [0, 0])) == 1.0
    assert icu.mdp.outcome(Episode([5, 6], [0, 0])) == icu.mdp.final_rewards[6]
