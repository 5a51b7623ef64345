"""A task that turns its part round, slowly if asked to, and fails where the part says so."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

from counterplan.errors import InputError
from counterplan.runs.task import PartResult, TaskSpec


class Reversing:
    """What it does to a part depends on how the part begins."""

    def __init__(self, spec: TaskSpec) -> None:
        self.suffix = spec.files["suffix"]
        self.seconds = float(spec.files.get("seconds", b"0"))
        self.notes = Path(spec.description.get("notes", os.devnull))
        if spec.description.get("forgiving"):
            self.failed = self._failed

    def solve(self, part: bytes) -> PartResult:
        """The part backwards."""
        time.sleep(self.seconds)
        first = part.split(maxsplit=1)[0]
        if first == b"once" and not (note := self.notes / part.decode()).exists():
            note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if first == b"deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        if first == b"parricide":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        if first == b"huge":
            raise MemoryError
        if first == b"full" and not (self.notes / "room").exists():
            raise OSError(28, "No space left on device")
        if first == b"wrong":
            raise InputError("this part is wrong; put it right")
        if first == b"bug":
            raise ZeroDivisionError("a bug of the task")
        if first == b"chatty":
            print("what a library prints must not get into the answer", flush=True)
        if first == b"nameless":
            return PartResult({"../results": part}, {})
        if first == b"nan":
            return PartResult({"results": part}, {"improvement": math.nan})
        tables = {"results": part[::-1] + self.suffix, "trajectories": part * 2}
        return PartResult(tables, {"episodes": 2.0, "failed": 0.0, "improvement": len(part) / 7})

    def _failed(self, part: bytes, reason: str) -> PartResult:
        if part.endswith(b"beyond words"):
            os._exit(1)
        return PartResult({"results": reason.encode()}, {"episodes": 2.0, "failed": 2.0})


def open_task(spec: TaskSpec) -> Reversing:
    """The task."""
    if spec.description.get("refuse"):
        raise InputError("the model does not fit; fit another")
    if spec.description.get("never"):
        os._exit(9)
    return Reversing(spec)
