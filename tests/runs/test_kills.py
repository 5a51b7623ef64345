"""Runs that are killed, at any moment and in any way, and what is left of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from .conftest import Program, children, contents, environment, is_running, wait_until

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="looks into /proc")

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
