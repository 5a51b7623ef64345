"""A task that tells where it is done."""

from __future__ import annotations

import os

from counterplan.runs.task import PartResult, TaskSpec


class Surroundings:
    """Looks at its process."""

    def solve(self, part: bytes) -> PartResult:
        """The environment, the number of the process, and its threads for linear algebra."""
        import numpy as np

        before = _threads()
        np.ones((500, 500)) @ np.ones((500, 500))
        environment = "\n".join(f"{name}={value}" for name, value in os.environ.items())
        tables = {
            "environment": environment.encode(),
            "process": str(os.getpid()).encode(),
            "threads": str(_threads() - before + 1).encode(),
        }
        return PartResult(tables, {})


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def open_task(spec: TaskSpec) -> Surroundings:
    """The task."""
    return Surroundings()
