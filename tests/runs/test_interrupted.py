"""Runs that are killed, at any moment and in any way, or for which there is no room on the disk."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from .conftest import Program, children, contents, environment, is_running, run_parts, wait_until

LOOKS = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="looks into /proc")

PARTS, SECONDS, WORKERS = 40, 0.03, 2
KILLS = 20


class Undisturbed(NamedTuple):
    """What a run leaves that nobody disturbs, and how long it takes."""

    contents: dict[str, bytes]
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    out = tmp_path_factory.mktemp("runs") / "out"
    command = [sys.executable, "-m", "own_tasks.command", out, str(PARTS), str(SECONDS), "2"]
    started = time.monotonic()
    subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=120)
    return Undisturbed(contents(out), time.monotonic() - started)


@LOOKS
@pytest.mark.slow  # is started and killed again and again
def test_killed_at_random_moments(
    tmp_path: Path, program: Program, undisturbed: Undisturbed
) -> None:
    """Every run is resumed until it is complete; then another begins, until all kills are spent."""
    moments = random.Random(5)
    kills = runs = stages = 0
    while kills < KILLS:
        out = tmp_path / str(runs)
        runs += 1
        while True:
            process = program(out, PARTS, SECONDS, WORKERS)
            try:
                process.wait(
                    timeout=moments.random() * undisturbed.seconds if kills < KILLS else 120
                )
            except subprocess.TimeoutExpired:
                workers = children(process)
                process.kill()
                process.communicate()
                kills += 1
                stages |= 1 << len(list(out.glob("done/*.json")))
                wait_until(lambda workers=workers: not any(map(is_running, workers)))
            else:
                assert process.returncode == 0, process.stderr
                break
        assert contents(out) == undisturbed.contents
    # They did not all hit the same moment.
    assert stages.bit_count() >= 3


@LOOKS
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_stopped(
    tmp_path: Path,
    program: Program,
    undisturbed: Undisturbed,
    number: signal.Signals,
    code: int,
) -> None:
    out = tmp_path / "out"
    process = program(out, PARTS, SECONDS, WORKERS)
    wait_until(lambda: len(list(out.glob("done/*.json"))) >= 3)
    workers = children(process)
    assert len(workers) == WORKERS
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == code
    assert (stdout, stderr.splitlines()[0]) == (
        "",
        f"{out}: stopped; run the same command again to continue",
    )
    assert not any(map(is_running, workers))
    assert not [name for name in contents(out) if Path(name).name.startswith(".")]
    again = program(out, PARTS, SECONDS, WORKERS)
    assert again.wait(timeout=60) == 0
    assert contents(out) == undisturbed.contents


def test_stopped_while_the_input_is_read(tmp_path: Path) -> None:
    """Then there is nothing to continue, and nothing is left."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from counterplan.runs.cohort import RunSettings, run_cohort\n"
        "from counterplan.runs.task import TaskSpec\n"
        "def parts():\n"
        "    yield b'one'\n"
        "    print('reading', flush=True)\n"
        "    time.sleep(60)\n"
        "run_cohort(TaskSpec('own_tasks.reversing', {}, {}), parts(), Path('out'), RunSettings())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@LOOKS
def test_workers_killed_from_outside(
    tmp_path: Path, program: Program, undisturbed: Undisturbed
) -> None:
    out = tmp_path / "out"
    process = program(out, PARTS, SECONDS, WORKERS)
    for count in (2, 10):
        wait_until(lambda count=count: len(list(out.glob("done/*.json"))) >= count)
        os.kill(min(children(process)), signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert stdout == f'{{"resumed": 0, "parts": {PARTS}}}\n'
    assert contents(out) == undisturbed.contents


# Forks a writer for every step; runs in a process of its own since forking is unsafe with threads.
SWEEP = """
import json, os, shutil, sys
from pathlib import Path
from counterplan.runs.store import Manifest, open_store, task_record
from counterplan.runs.task import PartResult, TaskSpec

STEPS = ["mkdir", "fsync", "replace", "rename", "unlink", "rmdir"]
os.fsync = lambda handle: None  # a process that dies takes no written data with it

def write(out, damage):
    spec = TaskSpec("a.task", {}, {"model.json": b"weights"})
    asked = Manifest(task_record(spec), {}, {}, 0, 50, True)
    with open_store(out, asked, spec.files) as store:
        survey = store.begin(iter([b"one", b"two"]))
        for index in survey.pending:
            part = store.read_part(index)
            store.write_part(index, PartResult({"results": part * 2, "paths": part}, {"n": 1.0}))
        store.complete()
    if damage == "files":
        (out / "episodes" / "part-00001.parquet").unlink()
        (out / "results" / "part-00000.parquet").unlink()
        (out / "files" / "model.json").unlink()
    if damage == "folder":
        shutil.rmtree(out / "episodes")
        shutil.rmtree(out / "files")

def dying(step):
    counted = 0
    def wrap(function):
        def call(*arguments, **named):
            nonlocal counted
            counted += 1
            if counted == step:
                os._exit(9)
            return function(*arguments, **named)
        return call
    for name in STEPS:
        setattr(os, name, wrap(getattr(os, name)))

def in_child(action):
    number = os.fork()
    if number == 0:
        action()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

def contents(out):
    return {str(path.relative_to(out)): path.read_bytes().hex()
            for path in sorted(out.rglob("*")) if path.is_file()}

root = Path(sys.argv[1])
write(root / "whole", "")
expected = contents(root / "whole")
report = {"files": len(expected), "other": [], "deaths": []}
for damage in ("", "files", "folder"):
    step = 0
    while True:
        step += 1
        out = root / f"{damage}-{step}"
        if damage:
            write(out, damage)
        def die():
            dying(step)
            write(out, "")
        code = in_child(die)
        if code == 0:
            break
        assert code == 9, code
        write(out, "")
        if contents(out) != expected:
            report["other"].append([damage, step])
    report["deaths"].append(step - 1)
print(json.dumps(report))
"""


@pytest.mark.slow  # is killed at each of its steps
@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="forks")
def test_every_step_may_be_the_last(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", SWEEP, str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["files"] == 12
    # From nothing, and mending a folder from which things were taken.
    assert len(report["deaths"]) == 3
    assert min(report["deaths"]) > 10, report
    assert report["other"] == []


def mounted(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for some 60 small files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounted(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]):
        pytest.skip("a small file system cannot be mounted: it takes root and the right to mount")
    yield disk
    assert mounted(["umount", str(disk)])


def refused(program: Program, out: Path, parts: int) -> str:
    """The line that a run ends with."""
    process = program(out, parts, 0, 2)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 2, stderr
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert not [name for name in contents(out) if Path(name).name.startswith(".")]
    return str(stderr)


def test_full_and_recovered(small_disk: Path, tmp_path: Path, program: Program) -> None:
    out = small_disk / "out"
    for _ in range(2):
        line = refused(program, out, 20)
        assert line.startswith(f"error: {out}")
        assert "cannot be written: No space left on device" in line
        assert line.endswith("make room; run the same command again to continue\n")
    done = len(list(out.glob("done/*.json")))
    assert 3 < done < 20
    assert mounted(["mount", "-o", "remount,size=4m", str(small_disk)])
    process = program(out, 20, 0, 2)
    stdout, _ = process.communicate(timeout=60)
    assert stdout == f'{{"resumed": {done}, "parts": 20}}\n'
    assert program(tmp_path / "roomy", 20, 0, 2).wait(timeout=60) == 0
    assert contents(out) == contents(tmp_path / "roomy")


def test_full_while_the_input_is_read(small_disk: Path, program: Program) -> None:
    refused(program, small_disk / "out", 200)
    assert list(small_disk.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_file_that_is_larger_than_allowed(tmp_path: Path) -> None:
    """As a quota does: the input fits, what comes out of it does not."""
    parts = [b"small", b"x" * 5000]
    out = tmp_path / "out"
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))\n"
        "from pathlib import Path\n"
        "from counterplan.runs.cohort import RunSettings, run_cohort\n"
        "from counterplan.runs.task import TaskSpec\n"
        "spec = TaskSpec('own_tasks.reversing', {}, {'suffix': b'!'})\n"
        "parts = [b'small', b'x' * 5000]\n"
        "run_cohort(spec, parts, Path(sys.argv[1]), RunSettings(workers=1))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        # Whatever measures coverage could not write its own file either.
        env={name: value for name, value in environment().items() if "COVERAGE" not in name},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    line = finished.stderr.splitlines()[-1]
    assert "trajectories/part-00001.parquet: cannot be written: File too large" in line
    assert len(list(out.glob("done/*.json"))) == 1
    run_parts(out, parts)
    run_parts(tmp_path / "other", parts)
    assert contents(out) == contents(tmp_path / "other")
