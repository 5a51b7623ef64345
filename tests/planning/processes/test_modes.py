"""Modes, observed, hidden and recorded: the chain, the belief filter, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplan.errors import FileError, InputError
from counterplan.planning.processes.modes import (
    BRAKING,
    HiddenModes,
    MarkovModes,
    ResampledTraces,
    drive_cycle_modes,
)

from .test_processes import EMISSIONS, MATRIX, MILEAGES, assert_same_mean

P, E = np.array(MATRIX), np.array(EMISSIONS)


def test_numbers_and_indicators_are_the_same_chain() -> None:
    numbers, indicators = MarkovModes(MATRIX, 1), MarkovModes(MATRIX, 1, indicators=True)
    a, b = (chain.sample_paths(50, 6, seed=3) for chain in (numbers, indicators))
    assert (np.argmax(b, axis=2) == a[:, :, 0]).all()
    assert indicators.mean_path(4) == pytest.approx(
        np.array([np.eye(3)[1] @ np.linalg.matrix_power(P, s) for s in range(4)])
    )


def test_a_mode_that_cannot_follow_is_no_successor() -> None:
    values, chances = MarkovModes([[0.0, 1.0], [0.5, 0.5]]).successors(0, np.array([0.0]))
    assert (values.tolist(), chances.tolist()) == ([[1.0]], [1.0])
    rounded = MarkovModes([[0.3333333, 0.3333333, 0.3333333], [0, 1, 0], [0, 0, 1]])
    assert rounded.probabilities.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-15)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], "mode matrix row 1 sums to 0.9: each row must sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "mode matrix row 0, column 0 is 1.5: a probability lies"),
        ([[0.5, 0.5], [np.nan, 1.0]], "row 1, column 0 is nan"),
        ([[0.5, 0.5]], "mode matrix must have 1 columns, got shape"),
        ([], "mode matrix must be a table of rows"),
        ([[1.0], [0.5, 0.5]], "rows of numbers of the same length"),
    ],
)
def test_bad_matrices(matrix: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        MarkovModes(matrix)
    with pytest.raises(InputError, match=words):
        HiddenModes(matrix, MILEAGES, EMISSIONS)


def test_beliefs_follow_bayes_rule() -> None:
    """Eq. F.4 by enumerating all mode sequences."""
    process = HiddenModes(MATRIX, MILEAGES, EMISSIONS, [0.2, 0.5, 0.3])
    observed = [0, 2, 1]
    joint = np.zeros(3)
    for modes in np.ndindex(3, 3, 3, 3):
        chance = [0.2, 0.5, 0.3][modes[0]]
        for t, o in enumerate(observed):
            chance *= P[modes[t], modes[t + 1]] * E[modes[t + 1], o]
        joint[modes[-1]] += chance
    x, likelihood = process.start, 1.0
    # At first nothing has been observed.
    assert process.beliefs(x).tolist() == [0.2, 0.5, 0.3]
    assert x[:2] == pytest.approx(np.array([0.2, 0.5, 0.3]) @ E @ np.array(MILEAGES))
    for t, o in enumerate(observed):
        values, chances = process.successors(t, x)
        x = values[o]
        likelihood *= chances[o]
        assert x[:2].tolist() == [float(number) for number in MILEAGES[o]]
    assert process.beliefs(x) == pytest.approx(joint / joint.sum(), rel=1e-12)
    assert likelihood == pytest.approx(joint.sum(), rel=1e-12)


def test_observations_and_beliefs_have_the_law_of_the_hidden_chain() -> None:
    """Against simulating the modes themselves; and beliefs are calibrated: averaged over what is
    observed, they are the distribution of the mode."""
    process = HiddenModes(MATRIX, MILEAGES, EMISSIONS, 0)
    paths = process.sample_paths(20_000, 4, seed=5)
    chain = MarkovModes(MATRIX, 0, indicators=True)
    assert_same_mean(process.beliefs(paths), chain.mean_path(4))
    rng = np.random.default_rng(6)
    modes = MarkovModes(MATRIX, 0).sample_paths(20_000, 4, rng)[:, 1:, 0].astype(int)
    emitted = (np.cumsum(E, axis=1)[modes] <= rng.random((*modes.shape, 1))).sum(axis=2)
    mileages = np.array(MILEAGES, dtype=float)[emitted]
    error = np.hypot(*(a.std(axis=0) / 20_000**0.5 for a in (mileages, paths[:, 1:, :2])))
    assert (np.abs(mileages.mean(axis=0) - paths[:, 1:, :2].mean(axis=0)) <= 5 * error).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: HiddenModes(MATRIX, MILEAGES, EMISSIONS[:2]), "has 2 rows, but there are 3 modes"),
        (lambda: HiddenModes(MATRIX, MILEAGES[:2], EMISSIONS), "must have 2 columns"),
        (lambda: HiddenModes(MATRIX, MILEAGES, [[0.5, 0.1, 0.1]] * 3), "row 0 sums to 0.7"),
        (lambda: HiddenModes(MATRIX, MILEAGES, EMISSIONS, [0.5, 0.2, 0.2]), "belief row 0 sums to"),
        (lambda: HiddenModes(MATRIX, MILEAGES, EMISSIONS, 3), "initial mode must be at most 2"),
        (lambda: MarkovModes(MATRIX, 3), "initial mode must be at most 2, got 3"),
        (lambda: HiddenModes(MATRIX, [[1, np.inf]] * 3, EMISSIONS), "values must be a table of"),
    ],
)
def test_bad_hidden_modes(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


UDDS = Path(__file__).parents[4] / "shared" / "data" / "drive_cycles" / "udds.csv"


def write(tmp_path: Path, speeds: list[Any], header: str = "cycSecs,cycMps") -> Path:
    path = tmp_path / "cycle.csv"
    rows = [f"{second},{speed}" for second, speed in enumerate(speeds)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_one_mode_back_is_the_matrix_of_the_record() -> None:
    """Several traces count together, but not across their ends; what is never left is kept."""
    chain = ResampledTraces.from_modes([[0, 0, 1, 0, 1, 1]])
    assert chain.probabilities == pytest.approx(np.array([[1 / 3, 2 / 3], [0.5, 0.5]]))
    assert chain.start.tolist() == [0.0]
    several = ResampledTraces.from_modes([[0, 1], [1, 1, 0]], modes=3)
    expected = [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    assert several.probabilities == pytest.approx(np.array(expected))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "there are no traces"),
        (([[0]],), "trace 0 has 1 modes: it needs more than 1"),
        (([[0, -1]],), "trace 0 at t=1 is -1"),
        (([[0, 1, 2]], 2), "modes must be at least 3, got 2"),
    ],
)
def test_bad_traces(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ResampledTraces.from_modes(*arguments)


def test_a_cycle_by_hand(tmp_path: Path) -> None:
    """Speeding up in town, cruising fast, braking to a stop, standing."""
    town, fast = np.linspace(0, 10, 11), np.full(10, 20.0)
    path = write(tmp_path, [*town, *fast, *np.linspace(18, 0, 10), *np.zeros(10)])
    assert drive_cycle_modes(path).tolist() == [1, 0, 2, 1]


def test_windows_need_not_be_whole_seconds(tmp_path: Path) -> None:
    path = write(tmp_path, list(np.linspace(0, 30, 31)))
    # At constant acceleration the mean speed of a window is that of its middle.
    modes = drive_cycle_modes(path, seconds=2.5)
    middles = 2.5 * np.arange(12) + 1.25
    assert modes.tolist() == np.where(middles >= 13.4, 0, 1).tolist()


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ([0, 1, "fast"], "row 4, column 'cycMps': 'fast' is not a number"),
        ([0, -1, 2], "row 3, column 'cycMps': '-1' is negative; give the speed in m/s"),
        ([0, 1, 2], "lasts 2 s, less than two windows of 10 s"),
    ],
)
def test_bad_cycles(tmp_path: Path, speeds: list[Any], words: str) -> None:
    with pytest.raises(FileError, match=words):
        drive_cycle_modes(write(tmp_path, speeds))


def test_bad_times_and_settings(tmp_path: Path) -> None:
    path = tmp_path / "cycle.csv"
    path.write_text("time,speed\n0,1\n2,1\n1,1\n")
    with pytest.raises(FileError, match="row 4, column 'time': '1' is not later than the row"):
        drive_cycle_modes(path, ("time", "speed"))
    with pytest.raises(InputError, match="columns must name a time and a speed column"):
        drive_cycle_modes(path, ["time"])
    with pytest.raises(InputError, match="seconds must be greater than 0"):
        drive_cycle_modes(path, ("time", "speed"), seconds=0)


@pytest.mark.skipif(not UDDS.exists(), reason="the drive cycle is not at hand")
def test_a_city_cycle() -> None:
    """UDDS is 1,369 s of mostly slow traffic, with 136 whole windows of 10 s."""
    modes = drive_cycle_modes(UDDS)
    assert len(modes) == 136
    shares = np.bincount(modes, minlength=3) / len(modes)
    assert shares[1] > 0.5
    assert 0.1 < shares[BRAKING] < 0.4
    assert ResampledTraces.from_modes([modes]).probabilities.shape == (3, 3)
