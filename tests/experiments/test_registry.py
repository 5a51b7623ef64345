"""Asking for figures: names, folders, files, progress, mistakes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from counterplan.errors import FileError, InputError
from counterplan.viz.style import new_axes
from experiments import registry
from experiments.figure import Drawn, Figure, Options, Track, in_parallel
from experiments.registry import FIGURES, reproduce
from experiments.simulated_sessions import write_sessions

QUICK = Options(quick=True)


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two figures that take no time; the list tells which were run."""
    ran: list[str] = []

    def figure(name: str, reads_data: bool) -> Figure:
        def run(options: Options, track: Track) -> Drawn:
            ran.append(name)
            doubled = in_parallel(lambda i: 2 * i, range(3), track, "numbers")
            return Drawn(new_axes(2, 1)[0], pl.DataFrame({"doubled": doubled}))

        return Figure(name, f"title of {name}", run, reads_data)

    figures = {"one": figure("one", False), "two": figure("two", True)}
    monkeypatch.setattr(registry, "FIGURES", figures)
    return ran


def test_every_figure_of_the_papers_is_known() -> None:
    discrete = [f"discrete-fig{n}" for n in range(1, 7)]
    continuous = [f"continuous-fig{n}" for n in (2, 3, 5, 6)]
    sdmdp = [f"sdmdp-fig{n}" for n in (3, 4, *range(6, 16))]
    assert list(FIGURES) == [*discrete, *continuous, *sdmdp]


def test_writes_a_picture_and_a_table_for_each_name(stubs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    written = reproduce(["two", "one", "two"], out, QUICK)
    assert stubs == ["two", "one"]
    assert written == [out / name for name in ("two.png", "two.csv", "one.png", "one.csv")]
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in written)
    assert (out / "one.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert (out / "one.csv").read_text() == "doubled\n0\n2\n4\n"
    stubs.clear()
    reproduce([], tmp_path, QUICK)
    assert stubs == ["one", "two"], "no name means all"


def test_progress_is_for_terminals_and_goes_to_standard_error(
    stubs: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reproduce(["one"], tmp_path, QUICK)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # taken for a terminal
    monkeypatch.delenv("NO_COLOR", raising=False)
    reproduce(["one"], tmp_path, QUICK)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "one, numbers" in captured.err
    assert "100%" in captured.err


def test_a_table_that_no_figure_reads(stubs: list[str], tmp_path: Path) -> None:
    write_sessions(tmp_path / "sessions.csv", patients=5)
    options = Options(data=tmp_path / "sessions.csv")
    with pytest.raises(InputError, match=r"no figure asked for reads .*; name two"):
        reproduce(["one"], tmp_path, options)
    reproduce(["one", "two"], tmp_path, options)


def test_target_that_cannot_be_written_is_noticed_before_the_work(
    stubs: list[str], tmp_path: Path
) -> None:
    (tmp_path / "two.csv").mkdir()
    with pytest.raises(FileError, match=r"two\.csv: cannot be written: it is a folder"):
        reproduce(["one", "two"], tmp_path, QUICK)
    assert stubs == []


def test_sampled_solvers_have_noise_of_their_own() -> None:
    sampled = Options(sampled=True, seed=3)
    assert sampled.solver(0).samples == 1000
    assert sampled.solver(0) == sampled.solver(0)
    assert len({sampled.solver(number).seed for number in range(50)}) == 50
    assert sampled.solver(0) != Options(sampled=True, seed=4).solver(0)
    assert Options().solver(0).samples is None
    assert (Options().kernel, sampled.kernel) == ("exact", "sampled d=1000")
