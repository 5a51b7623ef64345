"""Modes resampled from records, and drive cycles as modes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplan.errors import FileError, InputError
from counterplan.planning.processes.modes import BRAKING, ResampledTraces, drive_cycle_modes

UDDS = Path(__file__).parents[4] / "shared" / "data" / "drive_cycles" / "udds.csv"


def write(tmp_path: Path, speeds: list[Any], header: str = "cycSecs,cycMps") -> Path:
    path = tmp_path / "cycle.csv"
    rows = [f"{second},{speed}" for second, speed in enumerate(speeds)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_one_mode_back_is_the_matrix_of_the_record() -> None:
    chain = ResampledTraces.from_modes([[0, 0, 1, 0, 1, 1]])
    assert chain.probabilities == pytest.approx(np.array([[1 / 3, 2 / 3], [0.5, 0.5]]))
    assert chain.start.tolist() == [0.0]
    assert chain.newest.tolist() == [0, 1]


def test_several_traces_count_together_but_not_across_their_ends() -> None:
    chain = ResampledTraces.from_modes([[0, 1], [1, 1, 0]])
    assert chain.probabilities == pytest.approx(np.array([[0.0, 1.0], [0.5, 0.5]]))


def test_longer_memory_continues_what_was_recorded() -> None:
    """0 0 1 1 for ever: with two modes remembered, the next one is certain."""
    record = [0, 0, 1, 1] * 5
    chain = ResampledTraces.from_modes([record], memory=2)
    paths = chain.sample_paths(4, 12, seed=0)[:, :, 0].astype(int)
    modes = chain.newest[paths]
    assert (modes == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0]).all()


def test_every_step_has_been_recorded() -> None:
    rng = np.random.default_rng(3)
    record = rng.integers(0, 3, 60)
    chain = ResampledTraces.from_modes([record], memory=2)
    seen = {tuple(record[i : i + 3]) for i in range(58)}
    states = chain.sample_paths(200, 10, seed=1)[:, :, 0].astype(int)
    for path in states:
        for before, after in itertools.pairwise(path):
            assert (before // 3, before % 3, after % 3) in seen


def test_unseen_modes_go_by_their_latest() -> None:
    """After 1 0, never followed by anything, the next mode is as after 0; mode 2 is never left."""
    chain = ResampledTraces.from_modes([[0, 0, 1, 0]], modes=3, memory=2)
    one_back = ResampledTraces.from_modes([[0, 0, 1, 0]], modes=3)
    after = chain.probabilities[1 * 3 + 0]
    assert after[[0, 1, 2]] == pytest.approx(one_back.probabilities[0])
    assert chain.probabilities[2 * 3 + 2, 2 * 3 + 2] == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "there are no traces"),
        (([[0]],), "trace 0 has 1 modes: it needs more than 1"),
        (([[0, 1, 0], [1, 0]], None, 2), "trace 1 has 2 modes: it needs more than 2"),
        (([[0, -1]],), "trace 0 at t=1 is -1"),
        (([[0, 1, 2]], 2), "modes must be at least 3, got 2"),
        (([list(range(20))], None, 4), "20 modes with memory 4 make 160000 states"),
        (([[0, 1]], None, 0), "memory must be at least 1"),
    ],
)
def test_bad_traces(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ResampledTraces.from_modes(*arguments)


# --- Drive cycles -----------------------------------------------------------------------------


def test_a_cycle_by_hand(tmp_path: Path) -> None:
    """Speeding up in town, cruising fast, braking to a stop, standing."""
    town, fast = np.linspace(0, 10, 11), np.full(10, 20.0)
    path = write(tmp_path, [*town, *fast, *np.linspace(18, 0, 10), *np.zeros(10)])
    assert drive_cycle_modes(path).tolist() == [1, 0, 2, 1]


def test_windows_need_not_be_whole_seconds(tmp_path: Path) -> None:
    path = write(tmp_path, list(np.linspace(0, 30, 31)))
    # At constant acceleration the mean speed of a window is that of its middle.
    modes = drive_cycle_modes(path, seconds=2.5, fast=13.75)
    middles = 2.5 * np.arange(12) + 1.25
    assert modes.tolist() == np.where(middles >= 13.75, 0, 1).tolist()


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
