"""A figure of the 2025 paper that is stopped: it goes on with what it has, and ends the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments import registry, sdmdp_compare, sdmdp_study
from experiments.sdmdp_study import Sizes, Study

pytestmark = pytest.mark.slow  # a figure with all planners, several times
SMALL = Sizes(configs=("C",), episodes=0.01, simulations=0.3, samples=100, prepared=50)
NAME = "sdmdp-fig6"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdmdp_study, "QUICK", SMALL)


def reproduce(out: Path, seed: int = 0) -> bytes:
    registry.reproduce([NAME], out, registry.Options(quick=True, seed=seed))
    assert sorted(path.suffix for path in out.iterdir()) == [".csv", ".png"]
    return (out / f"{NAME}.csv").read_bytes()


def timings(parts: Path) -> str:
    """What a file of parts says of settings and speeds, without any results."""
    lines = parts.read_text().splitlines()
    return "\n".join([lines[0], *(line for line in lines[1:] if '[\\"speed\\"' in line)]) + "\n"


def test_a_stopped_figure_ends_like_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, done = sdmdp_compare.play, []

    def stopped(study: Study, cell: Any) -> dict[str, Any]:
        if len(done) == 9:
            raise KeyboardInterrupt
        done.append(cell)
        return play(study, cell)

    stop, whole = tmp_path / "stopped", tmp_path / "whole"
    with monkeypatch.context() as patch:
        patch.setattr(sdmdp_compare, "play", stopped)
        with pytest.raises(KeyboardInterrupt):
            reproduce(stop)
    parts = stop / f"{NAME}.parts.jsonl"
    # The speeds that were measured are part of what is kept.
    whole.mkdir()
    (whole / parts.name).write_text(timings(parts))
    with parts.open("a") as file:
        file.write('["[\\"pla')  # what a killed process leaves

    again: list[Any] = []

    def counted(study: Study, cell: Any) -> dict[str, Any]:
        again.append(cell)
        return play(study, cell)

    monkeypatch.setattr(sdmdp_compare, "play", counted)
    resumed = reproduce(stop)
    assert again
    assert not set(again) & set(done)
    again.clear()
    assert reproduce(whole) == resumed
    assert set(done) < set(again)


def test_seeds_are_other_futures(tmp_path: Path) -> None:
    first, second = (
        pl.read_csv(reproduce(tmp_path / str(seed), seed), infer_schema_length=None)
        for seed in (0, 1)
    )
    assert first["v_star_low"].to_list() == second["v_star_low"].to_list()  # no chance in it
    assert (first["mean"] != second["mean"]).all()
