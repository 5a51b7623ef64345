"""Memory does not grow with the cohort."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import environment

PEAK = """
import resource, sys
from pathlib import Path
from counterplan.runs.cohort import PART_SIZE, RunSettings, run_cohort
from counterplan.runs.task import TaskSpec

def parts(episodes):
    for index in range(episodes // PART_SIZE):
        yield index.to_bytes(4, "big") * 25_000

spec = TaskSpec("own_tasks.reversing", {}, {"suffix": b"!"})
run_cohort(spec, parts(int(sys.argv[2])), Path(sys.argv[1]), RunSettings(workers=1))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures in kilobytes")
def test_twenty_times_the_episodes_take_the_same_memory(tmp_path: Path) -> None:
    """Each part is 100 kB and so is what comes out of it: 400 parts would be 40 MB of input."""
    peaks = {}
    for episodes in (1_000, 20_000):
        command = [sys.executable, "-c", PEAK, str(tmp_path / str(episodes)), str(episodes)]
        finished = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=300, check=True
        )
        peaks[episodes] = int(finished.stdout) / 1024
    assert peaks[20_000] < peaks[1_000] + 4.0, peaks
