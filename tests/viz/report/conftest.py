"""One run of each kind, and its report."""

from __future__ import annotations

import pytest

from counterplan.runs.run import Run

from .runs import continuous_run, discrete_run, ensemble_run, regret_run


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Discrete states."""
    return discrete_run(tmp_path_factory.mktemp("policies"))


@pytest.fixture(scope="session")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """States that are vectors."""
    return continuous_run(tmp_path_factory.mktemp("sequences"))


@pytest.fixture(scope="session")
def members(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """States that are vectors, by a model with members."""
    return ensemble_run(tmp_path_factory.mktemp("members"))


@pytest.fixture(scope="session")
def voyages(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Executed plans."""
    return regret_run(tmp_path_factory.mktemp("voyages"))
