"""Models fitted to files of episodes: the numbers, the rewards, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplan.errors import FileError, InputError
from counterplan.tables.fit import FitSettings, fit_model

HEADER = "episode_id,t,state,action,reward\n"
# Two states, two actions; (1, 1) never occurs.
TABLE = HEADER + "a,0,0,0,1\na,1,1,0,5\na,2,0,1,2\nb,0,0,0,1\nb,1,0,1,2\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_posterior_mean_by_hand(table: Path) -> None:
    fitted = fit_model(table, FitSettings(prior=0.5))
    mdp, counts = fitted.model, fitted.counts
    # (0, 0) was followed once by 1 and once by 0; (1, 0) once by 0; (0, 1) only ended episodes.
    np.testing.assert_allclose(mdp.row(0, 0), [1.5 / 3, 1.5 / 3])
    np.testing.assert_allclose(mdp.row(1, 0), [1.5 / 2, 0.5 / 2])
    np.testing.assert_allclose(mdp.row(0, 1), [0.5, 0.5])
    assert mdp.rewards.tolist() == [[1.0, 2.0], [5.0, -np.inf]]
    assert mdp.initial is not None
    assert mdp.initial.tolist() == [1.0, 0.0]
    assert counts.visits.tolist() == [[2, 2], [1, 0]]


def test_neighbour_prior(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER + "a,0,0,0,0\na,1,2,0,0\n")
    mdp = fit_model(path, FitSettings(prior=None)).model
    np.testing.assert_allclose(mdp.row(0, 0), np.array([1, 1, 1.01]) / 3.01)
    np.testing.assert_allclose(mdp.row(1, 0), [1 / 3, 1 / 3, 1 / 3])


def test_unobserved_pairs_may_earn_the_mean_of_their_state(table: Path) -> None:
    mdp = fit_model(table, FitSettings(bar_unobserved=False)).model
    assert mdp.rewards.tolist() == [[1.0, 2.0], [5.0, 5.0]]


def test_labels_set_the_size(table: Path) -> None:
    settings = FitSettings(state_labels=["ill", "well", "cured"], action_labels=["rest", "walk"])
    mdp = fit_model(table, settings).model
    assert mdp.rewards.shape == (3, 2)
    assert mdp.state_labels == ("ill", "well", "cured")
    assert (mdp.rewards[2] == -np.inf).all()


def test_different_rewards_of_a_pair_are_refused_or_averaged(table: Path) -> None:
    table.write_text(TABLE + "c,0,1,0,8\nc,1,1,0,5\n")
    with pytest.raises(FileError) as caught:
        fit_model(table, FitSettings())
    assert str(caught.value).startswith(
        f"{table}, row 7: state 1, action 0 earned 8, but 5 in row 3; a reward must"
    )
    mdp = fit_model(table, FitSettings(mean_rewards=True)).model
    assert mdp.rewards.tolist() == [[1.0, 2.0], [6.0, -np.inf]]


def test_different_rewards_in_json(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(
        '[{"states": [0, 1], "actions": [0, 0], "rewards": [1, 2]},'
        ' {"states": [1, 0], "actions": [0, 0], "rewards": [2, 3]}]'
    )
    with pytest.raises(
        FileError, match=r"episodes\[1\], t=1: state 0, action 0 earned 3, but 1 in"
    ):
        fit_model(path, FitSettings())


def test_without_rewards(table: Path) -> None:
    table.write_text("episode_id,t,state,action\na,0,0,0\n")
    with pytest.raises(FileError, match="has no rewards, which a model needs; add a column 'rew"):
        fit_model(table, FitSettings())


def test_states_that_never_occur_have_no_mean_reward(table: Path) -> None:
    table.write_text(HEADER + "a,0,0,0,1\na,1,2,0,1\n")
    with pytest.raises(FileError, match="state 1 never occurs, so nothing is known about its"):
        fit_model(table, FitSettings(bar_unobserved=False))


def test_too_large_for_memory(table: Path) -> None:
    table.write_text(HEADER + "a,0,2000000000,0,1\n")
    with pytest.raises(FileError, match="2000000001 states and 1 actions make a model too large"):
        fit_model(table, FitSettings())


def test_no_prior_and_no_data(table: Path) -> None:
    with pytest.raises(InputError, match="no transition from state 0 under action 1 was observed"):
        fit_model(table, FitSettings(prior=0.0))
