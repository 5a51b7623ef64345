"""`report` on runs that the commands themselves have made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from .conftest import Run

TABLE = """\
person,t,severity,care,phone,died
{rows}
"""
SCHEMA = """\
[table]
episode = "person"
time = "t"
step = 4
unit = "h"
[columns.severity]
role = "state"
levels = [0, 1, 2]
better = "lower"
[columns.care]
role = "action"
labels = ["rest", "drug"]
[columns.died]
role = "outcome"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `out`, a run over a table that holds more than its schema names."""
    from typer.testing import CliRunner

    from counterplan.cli import app

    folder = tmp_path_factory.mktemp("report")
    rows, rng = [], np.random.default_rng(0)
    for number in range(12):
        severity = 2
        for t in range(5):
            care = ("rest", "drug")[int(rng.integers(2))]
            rows.append(f"person-{number:02d},{t},{severity},{care},0151-{number:04d},{number % 2}")
            severity = int(np.clip(severity + rng.integers(-1, 2) - (care == "drug"), 0, 2))
    (folder / "ward.csv").write_text(TABLE.format(rows="\n".join(rows)))
    (folder / "schema.toml").write_text(SCHEMA)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for command in (
            ["fit", "ward.csv", "--schema", "schema.toml", "-o", "model.safetensors"],
            ["explain", "ward.csv", "-m", "model.safetensors", "--k", "2", "-o", "out",
             "--workers", "1"],
        ):  # fmt: skip
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 0, result.output
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def test_a_page_is_written(folder: Path, run: Run) -> None:
    result = run("report", "out", "-o", "page.html", "--cases", "2")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("Wrote page.html (")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "person-03" in page
    assert "at 0 h: care rest → drug" in page
    # What the schema does not name is nowhere in the run, and so not in the report.
    assert "0151" not in page
    assert "phone" not in page


def test_as_json(folder: Path, run: Run) -> None:
    result = run("report", "out", "--cases", "1", "--json")
    told = json.loads(result.stdout)
    assert told["report"] == "report.html"
    assert told["bytes"] == Path("report.html").stat().st_size
    assert told["figures"] >= 3


def test_one_case_under_a_pseudonym(folder: Path, run: Run) -> None:
    Path("key").write_bytes(b"not to be guessed by anyone")
    options = ("--case", "person-03", "--pseudonym-key", "key")
    assert run("report", "out", "-o", "one.html", *options).exit_code == 0
    assert run("report", "out", "-o", "two.html", *options).exit_code == 0
    assert Path("one.html").read_bytes() == Path("two.html").read_bytes()
    assert "person-03" not in Path("one.html").read_text(encoding="utf-8")
    assert run("report", "out", "-o", "all.html", "--pseudonyms", "--cases", "0").exit_code == 0
    assert "person-" not in Path("all.html").read_text(encoding="utf-8")


def test_who_contributed_is_told_by_a_column_of_the_table(folder: Path, run: Run) -> None:
    table = Path("ward.csv").read_text().splitlines()
    lines = [f"{line},{('Ada', 'Bo')[n % 2]}" for n, line in enumerate(table[1:])]
    # In any order: times tell.
    Path("shifts.csv").write_text("\n".join([f"{table[0]},nurse", *reversed(lines)]))
    who = ("--actors", "shifts.csv", "--actor-column", "nurse")
    assert run("report", "out", "-o", "who.html", "--cases", "2", *who).exit_code == 0
    page = Path("who.html").read_text()
    assert page.count("Who contributed") == 2
    assert "<td>Ada</td>" in page
    assert run("report", "out", "-o", "who.html", "--pseudonyms", *who).exit_code == 0
    page = Path("who.html").read_text()
    assert "Who contributed" in page
    assert "Ada" not in page
    assert "Who contributed" not in _page(run)


def _page(run: Run) -> str:
    assert run("report", "out", "-o", "plain.html").exit_code == 0
    return Path("plain.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("out", "--actors", "ward.csv"), "ward.csv: no column 'actor'; name the one that tells"),
        (("out", "--actors", "few.csv"), "few.csv: has 0 rows of episode 'person-"),
        (("out", "--actor-column", "nurse"), "--actor-column is a column of --actors"),
        (("out", "--case", "nobody"), "out: has no episode 'nobody'; check it"),
        (("out", "--k", "9"), "out: was run for k = 2, not for 9; choose one"),
        (("out", "--pseudonym-key", "absent"), "absent: no such file"),
        (("out", "--pseudonym-key", "schema.toml.empty"), "schema.toml.empty: "),
    ],
)
def test_mistakes(folder: Path, run: Run, arguments: tuple[str, ...], says: str) -> None:
    Path("schema.toml.empty").touch()
    Path("few.csv").write_text("person,t,actor\nnobody,0,Ada\n")
    before = sorted(path for path in folder.rglob("*"))
    result = run("report", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(path for path in folder.rglob("*")) == before


def test_a_damaged_run_is_refused(folder: Path, run: Run, tmp_path: Path) -> None:
    import shutil

    out = shutil.copytree("out", tmp_path / "out")
    path = out / "trajectories" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    result = run("report", str(out), "-o", str(tmp_path / "page.html"))
    assert result.exit_code == 2
    assert "part-00000.parquet: is damaged" in result.stderr
    assert not (tmp_path / "page.html").exists()
