"""Runs that others made, or that change under whoever reads them: links, rows without end, and
bytes changed inside of tables whose checksums were made to fit."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from counterplan.errors import CounterplanError, FileError
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.question import Question
from counterplan.runs.run import CaseQuery, Run, open_run
from counterplan.viz.report import write_report

from .models import discrete_episodes, part_of, small_mdp, spec_of

TABLES = ("episodes", "results", "trajectories")
FUZZED = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    mdp = small_mdp()
    episodes = discrete_episodes(mdp, 8)
    parts = [part_of(episodes[:4]), part_of(episodes[4:])]
    run_cohort(spec_of(folder, mdp, Question((1, 2))), parts, folder / "out", RunSettings({}))
    return folder / "out"


@pytest.fixture
def out(tmp_path: Path, made: Path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def seal(out: Path) -> None:
    """Make all checksums fit what is there."""
    for path in (out / "done").glob("*.json"):
        receipt = json.loads(path.read_text())
        for table in receipt["sha256"]:
            content = (out / table / f"part-{path.stem}.parquet").read_bytes()
            receipt["sha256"][table] = digest(content)
        path.write_text(json.dumps(receipt))
    parts = sorted((out / "episodes").glob("*.parquet"))
    lines = "".join(f"{digest(path.read_bytes())}  {path.name}\n" for path in parts)
    (out / "episodes" / "SHA256SUMS").write_text(lines)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["inputs_sha256"] = digest(lines.encode())
    (out / "manifest.json").write_text(json.dumps(manifest))


def read_all(run: Run) -> None:
    """Whatever commands and the explorer read."""
    run.cases(CaseQuery(limit=3))
    name = run.results().select("episode_id").head(1).collect().item()
    run.rows_of("trajectories", [name])
    run.item("trajectories", name).collect()
    run.episode(name)


def as_link(path: Path) -> None:
    elsewhere = path.parents[2] / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_another(path: Path) -> None:
    """A table of something else, of the same size and time."""
    about, size = path.stat(), path.stat().st_size
    path.write_bytes(path.with_name("part-00001.parquet").read_bytes()[:size].ljust(size, b"\0"))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("swap", "says"),
    [(as_link, "is a link"), (as_pipe, "is a pipe"), (as_another, "is damaged")],
)
def test_what_is_swapped_after_the_start_is_not_read(
    out: Path, table: str, swap: Callable[[Path], None], says: str
) -> None:
    run = open_run(out)
    read_all(run)
    swap(run.table(table, 0))
    with pytest.raises(FileError, match=says):
        read_all(run)


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("table", TABLES)
def test_nor_through_a_folder_that_has_become_a_link(out: Path, table: str) -> None:
    run = open_run(out)
    as_link(out / table / "")
    with pytest.raises(FileError, match="is a link"):
        read_all(run)


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_counted_before_they_are_read(out: Path, tmp_path: Path, table: str) -> None:
    path = out / table / "part-00000.parquet"
    row = pl.read_parquet(path).head(1).select(pl.col("episode_id", "^t|k|state|action$"))
    row.select(pl.all().repeat_by(3_000_000).explode()).write_parquet(path)
    assert path.stat().st_size < 100_000
    seal(out)
    with pytest.raises(FileError, match=r"3,000,000 rows in .* bytes, as no part of a run"):
        read_all(open_run(out))
    if table != "episodes":
        with pytest.raises(FileError, match="3,000,000 rows"):
            write_report(open_run(out), tmp_path / "report.html")


def test_no_bytes_inside_of_a_sealed_table_do_more_than_be_refused(
    made: Path, tmp_path: Path
) -> None:
    rng, refused, read = random.Random(0), 0, 0
    for count in range(FUZZED):
        out = shutil.copytree(made, tmp_path / str(count))
        path = out / rng.choice(TABLES) / "part-00000.parquet"
        content = bytearray(path.read_bytes())
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            # The description at the end, or anywhere.
            at = rng.randrange(rng.choice([4, footer]), len(content) - 8)
            content[at] = rng.choice([0, 127, 128, 255, content[at] ^ 1 << rng.randrange(8)])
        path.write_bytes(content)
        seal(out)
        try:
            read_all(open_run(out))
        except CounterplanError as problem:
            refused += "\n" not in str(problem)
        else:
            read += 1
        shutil.rmtree(out)
    assert refused + read == FUZZED
    assert refused > FUZZED / 2
