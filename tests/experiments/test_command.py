"""`python -m experiments`: its options, what it prints, its mistakes and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import registry
from experiments.__main__ import main
from experiments.expected import EXPECTED

ROOT = Path(__file__).parents[2]
QUESTIONS = ",".join(f"phq{number}" for number in range(1, 10))
SESSIONS = f"patient,topic,{QUESTIONS}\n" + "".join(
    f"ann,{topic}{',1' * 9}\n" for topic in ("STR", *["BIO"] * 9, "END")
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder but for a table of something else and one of sessions."""
    monkeypatch.chdir(tmp_path)
    Path("ward.csv").write_text("episode_id,t\nann,0\n")
    Path("s.csv").write_text(SESSIONS.replace("BIO", "XYZ", 1))
    Path("discrete-fig3.csv").write_text(SESSIONS)


def test_options_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Any, ...]] = []

    def reproduce(names: list[str], out: Path, options: registry.Options) -> list[Path]:
        asked.append((names, out, options))
        return [out / "figure.png"]

    monkeypatch.setattr(registry, "reproduce", reproduce)
    options = "--quick --sampled --seed 4 --data t.csv -o here --json"
    assert main(["discrete-fig1", "discrete-fig2", *options.split()]) == 0
    expected = registry.Options(quick=True, sampled=True, seed=4, data=Path("t.csv"))
    assert asked == [(["discrete-fig1", "discrete-fig2"], Path("here"), expected)]
    assert json.loads(capsys.readouterr().out) == {"files": [str(Path("here") / "figure.png")]}
    assert main([]) == main(["--all"]) == 0
    assert capsys.readouterr().out == 2 * f"{Path('figures') / 'figure.png'}\n"
    assert asked[1] == asked[2] == ([], Path("figures"), registry.Options())


def test_numbers_are_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["discrete-fig1", "--quick", "--check", "-o", "here"]
    assert main(arguments) == 0
    assert capsys.readouterr().err == "all numbers are within their expected ranges\n"
    (moved,) = [one for one in EXPECTED["discrete-fig1"] if one.what == "mean observed outcome"]
    monkeypatch.setitem(EXPECTED, "discrete-fig1", (replace(moved, low=0.0, high=1.0),))
    assert main([*arguments, "--json"]) == 1
    printed = capsys.readouterr()
    message = "discrete-fig1: mean observed outcome is 245.6, expected 0 to 1"
    assert json.loads(printed.out)["unexpected"] == [message]
    assert printed.err == f"{message}\n"


def test_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    titles = {name: figure.title for name, figure in registry.FIGURES.items()}
    assert main(["--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == titles
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(titles)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("fig99", "unknown figure 'fig99': choose from discrete-fig1"),
        ("discrete-fig1 --all", "name figures or give --all, not both"),
        ("--list discrete-fig1", "--list shows all figures: leave discrete-fig1 out"),
        ("discrete-fig1 --quick --check --seed 1", "--check is for seed 0 without"),
        ("continuous-fig3 --sampled", "sampled: no figure asked for rests on"),
        ("sdmdp-fig13 --sampled", "sampled: no figure asked for rests on"),
        ("discrete-fig1 -o ward.csv", "ward.csv: cannot be used as a folder"),
        ("discrete-fig1 --data ward.csv", "data: no figure asked for reads therapy sessions"),
        ("discrete-fig3 --data no.csv", "no.csv: no such file; check the path"),
        ("discrete-fig3 --data ward.csv", "ward.csv: none of the columns patient, topic"),
        ("discrete-fig3 --data s.csv", "s.csv, row 3, column 'topic': 'XYZ' is not a topic"),
        ("discrete-fig3 --data discrete-fig3.csv -o .", "discrete-fig3.csv: is read by this"),
    ],
)
def test_mistakes(arguments: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {says}")
    assert printed.out == ""


def test_what_is_stopped_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "_write", stop)
    assert main(["discrete-fig1", "--quick"]) == 130
    assert capsys.readouterr().err == "stopped; the same command continues\n"


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("3", "3")])
def test_run_times_do_not_count_idle_threads(given: str | None, threads: str) -> None:
    """The linear algebra is limited to one thread, which works before numpy is loaded."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    code = "import os, experiments.__main__; print(os.environ['OPENBLAS_NUM_THREADS'])"
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | ({} if given is None else {"OPENBLAS_NUM_THREADS": given}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.split() == [threads]
