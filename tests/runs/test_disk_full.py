"""A disk that is full in the middle of a run, and one that has room again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Program, contents, environment, run_parts


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
