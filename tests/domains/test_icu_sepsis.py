"""ICU-Sepsis as shipped: its published facts, usual care solved exactly, sampled patients."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from types import ModuleType

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


# --- The small encoding, against the package's own arrays (skipped without them) ---

REPOSITORY = Path(__file__).parents[2]
ORIGINAL = REPOSITORY.parent / "shared" / "data" / "icu_sepsis" / "dynamics.npz"
SHIPPED = files("counterplan.domains") / "data" / "icu_sepsis.npz"

needs_original = pytest.mark.skipif(
    not ORIGINAL.exists(), reason="the original ICU-Sepsis arrays are not here"
)


def encoder() -> ModuleType:
    path = REPOSITORY / "tools" / "encode_icu_sepsis.py"
    spec = importlib.util.spec_from_file_location("encode_icu_sepsis", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shipped_file_is_small_and_licensed() -> None:
    assert len(SHIPPED.read_bytes()) < 200_000
    licence = (files("counterplan.domains") / "data" / "LICENSE.icu-sepsis").read_text()
    assert "MIT License" in licence
    assert "Kartik Choudhary" in licence


@needs_original
def test_model_equals_the_original(icu: IcuSepsis) -> None:
    with np.load(ORIGINAL, allow_pickle=False) as original:
        transitions = original["tx_mat"]
        initial, sofa = original["d_0"], original["sofa_scores"]
        expert = original["expert_policy"]
    rows = np.stack([[icu.mdp.row(s, a) for a in range(25)] for s in range(716)])
    assert ((rows > 0) == (transitions > 0)).all()
    # The original's rows sum to 1 only within 2.2e-15, the model's are normalised.
    normalised = transitions / transitions.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(rows, normalised, rtol=0, atol=1e-15)
    np.testing.assert_allclose(icu.mdp.initial, initial, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(icu.sofa, sofa)
    restricted = np.where(icu.mdp.admissible, expert, 0.0)[:713]
    restricted /= restricted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(icu.behaviour[:713], restricted, rtol=0, atol=1e-15)


@needs_original
def test_the_tool_makes_the_shipped_file() -> None:
    made = encoder().encode(ORIGINAL)
    with SHIPPED.open("rb") as file, np.load(file, allow_pickle=False) as shipped:
        assert set(made) == set(shipped.files)
        for name, array in made.items():
            assert array.dtype == shipped[name].dtype
            np.testing.assert_array_equal(array, shipped[name])


def test_counts_are_the_smallest_that_fit() -> None:
    as_counts = encoder().as_counts
    np.testing.assert_array_equal(as_counts(np.array([0.25, 0.0, 0.75]), "row"), [1, 0, 3])
    np.testing.assert_array_equal(as_counts(np.zeros(3), "row"), [0, 0, 0])


def test_frequencies_that_are_no_counts_are_refused() -> None:
    golden = (np.sqrt(5) - 1) / 2
    with pytest.raises(SystemExit, match="row 7: not relative frequencies"):
        encoder().as_counts(np.array([golden, 1 - golden]), "row 7")
