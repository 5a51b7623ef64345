"""The program as users start it: exit codes, streams, signals, and how fast it answers."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from counterplan.domains import sepsis
from counterplan.errors import CertificateError

from .conftest import Run

PROGRAM = "from counterplan.cli import main; main()"
NOTHING = "nothing was written"
CONTINUES = "the same command continues"
EXPLAIN = ("explain", "ward.csv", "--model", "model.json")


def start(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The installed entry point in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        **{"capture_output": True, "text": True, "timeout": 120, "check": False, **options},  # type: ignore[call-overload]
    )


def test_entry_point_is_installed() -> None:
    script = Path(sys.executable).with_name("counterplan")
    finished = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("counterplan ")


def test_json_on_stdout_and_nothing_on_stderr(ward: Path) -> None:
    finished = start(*EXPLAIN, "--json")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert len(json.loads(finished.stdout)["explanations"]) == 3


def test_same_arguments_same_bytes(ward: Path) -> None:
    for name in ("one", "two"):
        assert start("fit", "ward.csv", "-o", f"{name}.safetensors").returncode == 0
        assert start(*EXPLAIN, "-o", f"{name}.csv", "--robust").returncode == 0
    for suffix in ("safetensors", "csv"):
        assert Path(f"one.{suffix}").read_bytes() == Path(f"two.{suffix}").read_bytes()


def test_labels_beyond_the_terminal(ward: Path) -> None:
    model = json.loads(Path("model.json").read_text()) | {"action_labels": ["øve", "gå"]}
    Path("model.json").write_text(json.dumps(model))
    finished = start(*EXPLAIN, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert finished.returncode == 0
    assert r"\xf8ve -> g\xe5" in finished.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
@pytest.mark.parametrize("arguments", [("--help",), (*EXPLAIN, "--json")])
def test_full_disk_behind_stdout(ward: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        finished = start(*arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert finished.returncode == 2
    assert finished.stderr == "error: No space left on device\n"


def test_reader_that_stops_reading(ward: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    finished = start(*EXPLAIN, capture_output=False, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (finished.returncode, finished.stderr) == (1, "")


def test_full_disk_under_a_file(ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    before = sorted(ward.iterdir())
    result = run("fit", "ward.csv", "-o", "m.safetensors")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: m.safetensors: cannot be written: No space left")
    assert len(result.stderr.splitlines()) == 1
    assert sorted(ward.iterdir()) == before


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "stopped; nothing was written\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "f"),
            2,
            "error: f: Permission denied; check the path\n",
        ),
        (
            MemoryError("2 TB"),
            2,
            "error: not enough memory: 2 TB; use a smaller model, or fewer epi",
        ),
        (
            CertificateError("value and bound disagree"),
            1,
            "error: value and bound disagree; a fault of counterplan: no answer\n",
        ),
    ],
)
def test_what_may_happen_anywhere(
    ward: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    code: int,
    says: str,
) -> None:
    def fail(_: Path) -> None:
        raise problem

    monkeypatch.setattr("counterplan.runs.explain.model_bytes", fail)
    result = run(*EXPLAIN)
    assert result.exit_code == code
    assert result.stderr.startswith(says)
    assert len(result.stderr.splitlines()) == 1


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "command", "says"),
    [
        ("tables.fit.fit_model", "fit ward.csv -o m.safetensors", NOTHING),
        (
            "cli.fit._print_tabular",
            "fit ward.csv -o m.safetensors",
            "m.safetensors was written before",
        ),
        ("runs.run.open_run", "report out", NOTHING),
        ("domains.problems.ProblemChoice.make", "plan bunkering", NOTHING),
        ("runs.explain.model_bytes", "explain ward.csv -m model.json -o new", NOTHING),
        ("runs.explain.model_bytes", "explain ward.csv -m model.json -o old", CONTINUES),
    ],
)
def test_stopped(
    ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch, where: str, command: str, says: str
) -> None:
    Path("old").mkdir()
    monkeypatch.setattr(f"counterplan.{where}", stop)
    result = run(*command.split())
    assert result.exit_code == 130
    assert result.stderr == f"stopped; {says}\n"
    assert result.stdout == ""


def test_a_run_that_is_stopped_is_told_once(
    ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterplan.runs.store.Store.write_part", stop)
    result = run(*EXPLAIN, "-o", "out", "--workers", "1")
    assert result.exit_code == 130
    assert result.stderr == "out: stopped; run the same command again to continue\n"


def test_bugs_are_not_hidden(ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("counterplan.runs.explain.model_bytes", fail)
    with pytest.raises(ZeroDivisionError):
        run(*EXPLAIN)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_interrupt_of_a_running_program(ward: Path) -> None:
    """A real signal, at the moment when the model is read."""
    code = (
        "import os, signal\n"
        "from counterplan.core import files as contents\n"
        "def interrupted(*arguments):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    signal.pause()\n"
        "contents.read_bytes = interrupted\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code + PROGRAM, *EXPLAIN], capture_output=True, timeout=120
    )
    assert (finished.returncode, finished.stdout) == (130, b"")
    assert finished.stderr.decode() == "stopped; nothing was written\n"


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_interrupt_of_training(tmp_path: Path) -> None:
    """While jax compiles, after which Python's own end used to crash."""
    sepsis.write_cohort(tmp_path / "stays.csv", patients=60, seed=0)
    code = (
        "import os, signal, threading, time\n"
        "from counterplan.scm import neural_training\n"
        "usual, ended = neural_training.epoch, threading.Event()\n"
        "def interrupt():\n"
        "    while not ended.wait(0.5):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "def interrupted(*arguments):\n"
        "    threading.Thread(target=interrupt, daemon=True).start()\n"
        "    try:\n"
        "        usual(*arguments)\n"
        "        time.sleep(100)\n"  # a machine may compile faster than that
        "    except KeyboardInterrupt:\n"
        "        ended.set()\n"
        "        raise\n"
        "neural_training.epoch = interrupted\n"
    )
    command = (code + PROGRAM, "fit", "stays.csv", "-o", "model.safetensors", "--hidden", "200")
    finished = subprocess.run(
        [sys.executable, "-c", *command], capture_output=True, timeout=120, cwd=tmp_path
    )
    assert (finished.returncode, finished.stdout) == (130, b"")
    # An interrupt that falls into jax's own collection of garbage is dropped there, with a word.
    *dropped, last = finished.stderr.decode().splitlines()
    assert last == "stopped; nothing was written"
    assert not dropped or "_xla_gc_callback" in dropped[0]
    assert [path.name for path in tmp_path.iterdir()] == ["stays.csv"]


def test_as_a_module() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "counterplan", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.startswith("counterplan ")


def test_what_is_done_is_told_where_it_is_asked_for(ward: Path, run: Run) -> None:
    """A line for each event on stderr; nothing, and the same results, without --log."""
    (ward / "odd.csv").write_text('episode_id,t,state,action\n"a\nb\x1b[31m",0,1,1\n')
    asked = ("explain", "ward.csv", "-m", "model.json", "--k", "1", "--json")
    quiet = run(*asked)
    debug = run(*asked, "--log", "debug")
    assert debug.stdout == quiet.stdout
    told = [line for line in debug.stderr.splitlines() if line not in quiet.stderr.splitlines()]
    assert all(re.match(r"[\d-]+ [\d:,]+ [A-Z]+ counterplan[.\w]*: \S", line) for line in told)
    for what in ("opened ward.csv: 5 columns", "read model.json: ", "solved bob, k = 1: optimal"):
        assert any(what in line for line in told), what
    assert "solved bob" not in run(*asked, "--log", "info").stderr
    assert run(*asked, "--log", "error").stderr == quiet.stderr
    odd = run("explain", "odd.csv", "-m", "model.json", "--k", "1", "--log", "debug").stderr
    assert r"solved a\nb\x1b[31m, k = 1" in odd
    done = run(*asked, "-o", "out", "--workers", "1", "--log", "info").stderr
    assert "out: 1 of 1 parts to do" in done
    assert "solved part 00000 of out" in done
    assert "wrote " in run("report", "out", "--log", "info").stderr
    assert "is not one of" in run(*asked, "--log", "loud").stderr
    assert logging.getLogger("counterplan").level == logging.NOTSET
