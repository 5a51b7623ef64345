"""Simulated therapy sessions: a cohort like the paper's, with a finding to rediscover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplan.scm.estimate import count_transitions
from experiments import therapy
from experiments.simulated_sessions import (
    write_sessions,
)

BHA, CRT = therapy.TOPICS.index("BHA"), therapy.TOPICS.index("CRT")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> therapy.TherapyCohort:
    path = tmp_path_factory.mktemp("therapy") / "sessions.csv"
    write_sessions(path)
    return therapy.read_sessions(path)


def test_simulated_cohort_has_the_size_of_the_papers(cohort: therapy.TherapyCohort) -> None:
    assert cohort.summary() == "73 patients kept, 4 dropped (4 with fewer than 10 sessions)"
    lengths = [len(episode) for episode in cohort.episodes]
    assert min(lengths) >= 10
    assert max(lengths) == 20


def test_simulated_episodes_have_a_finite_outcome(cohort: therapy.TherapyCohort) -> None:
    mdp = therapy.estimate(cohort)
    for episode in cohort.episodes:
        mdp.check_episode(episode)
        assert len(episode) <= mdp.outcome(episode) <= 5 * len(episode)


def test_simulated_patients_improve_on_average(cohort: therapy.TherapyCohort) -> None:
    change = [episode.states[-1] - episode.states[0] for episode in cohort.episodes]
    # Measured about -0.6 bands; no change would be 0.
    assert np.mean(change) < -0.5


def test_simulation_holds_a_finding_to_rediscover(tmp_path: Path) -> None:
    """In severe phases activation helps more than restructuring; in mild ones it is reversed."""
    path = tmp_path / "sessions.csv"
    write_sessions(path, patients=2000, seed=1)
    cohort = therapy.read_sessions(path)
    counts = count_transitions(cohort.episodes, 5, 11)
    assert counts.transitions[[1, 3, 4]][:, [BHA, CRT]].sum(axis=2).min() > 30
    mdp = therapy.estimate(cohort)

    def expected_severity(state: int, topic: int) -> float:
        return float(mdp.row(state, topic) @ np.arange(5))

    assert expected_severity(3, BHA) < expected_severity(3, CRT)
    assert expected_severity(4, BHA) < expected_severity(4, CRT)
    assert expected_severity(1, CRT) < expected_severity(1, BHA)
