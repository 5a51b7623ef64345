"""Runs of every kind, and the explorer serving each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from counterplan.runs.question import Question

from ..runs.models import small_scm
from ..viz.report.runs import (
    continuous_run,
    discrete_run,
    ensemble_run,
    explain_run,
    regret_run,
)
from .long_episodes import long_episodes
from .serving import Explorer, serving


@pytest.fixture(scope="package")
def continuous_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of a neural model for k = 0, 1, 2; some ids are markup."""
    return continuous_run(tmp_path_factory.mktemp("continuous"), 12).folder


@pytest.fixture(scope="package")
def discrete_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of a tabular model for k = 0, 1, 2; one has failed."""
    return discrete_run(tmp_path_factory.mktemp("discrete"), 30).folder


@pytest.fixture(scope="package")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """The explorer of a model with members."""
    with serving(ensemble_run(tmp_path_factory.mktemp("members")).folder) as explorer:
        yield explorer


@pytest.fixture(scope="package")
def voyages_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Executed plans of ships; one was not possible."""
    return regret_run(tmp_path_factory.mktemp("voyages")).folder


@pytest.fixture(scope="package")
def long_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes whose search takes longer than any test."""
    scm, question = small_scm(), Question((1,), nodes=10)
    folder = tmp_path_factory.mktemp("long")
    return explain_run(folder, scm, long_episodes(scm), question).folder


@pytest.fixture(scope="package")
def continuous(continuous_out: Path) -> Iterator[Explorer]:
    with serving(continuous_out) as explorer:
        yield explorer


@pytest.fixture(scope="package")
def discrete(discrete_out: Path) -> Iterator[Explorer]:
    with serving(discrete_out) as explorer:
        yield explorer


@pytest.fixture(scope="package")
def voyages(voyages_out: Path) -> Iterator[Explorer]:
    with serving(voyages_out) as explorer:
        yield explorer


@pytest.fixture(scope="package")
def long(long_out: Path) -> Iterator[Explorer]:
    with serving(long_out) as explorer:
        yield explorer
