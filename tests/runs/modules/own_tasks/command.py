"""A run as a program of its own, to be started, killed and started again.

python -m own_tasks.command OUT PARTS SECONDS WORKERS [CLUSTER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from counterplan.errors import CounterplanError
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.task import TaskSpec


def parts(count: int) -> Iterator[bytes]:
    """Input of `count` parts."""
    for index in range(count):
        yield f"part {index} ".encode() * 50


def main() -> None:
    """Run and print what came out."""
    out, count, seconds, workers, *cluster = sys.argv[1:]
    spec = TaskSpec("own_tasks.reversing", {}, {"suffix": b"!", "seconds": seconds.encode()})
    settings = RunSettings(workers=int(workers), cluster=cluster[0] if cluster else None)
    try:
        summary = run_cohort(spec, parts(int(count)), Path(out), settings)
    except CounterplanError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    print(json.dumps({"resumed": summary.resumed, "parts": summary.parts}))


if __name__ == "__main__":
    main()
