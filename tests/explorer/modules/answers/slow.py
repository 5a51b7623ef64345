"""A task for the explorer's workers that does what it is told: wait, fail, or die."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from counterplan.errors import InputError
from counterplan.runs.task import PartResult, TaskSpec


class Told:
    def solve(self, part: bytes) -> PartResult:
        question = json.loads(part)
        what = question["do"]
        if what == "wait":
            # Asleep it notices nothing: such a worker has to be ended.
            time.sleep(question["for"])
        elif what == "listen":
            notes = Path(question["notes"])
            for nodes in range(10_000):
                beside = notes.with_suffix(".new")
                beside.write_text(json.dumps({"nodes": nodes, "value": 1.0, "bound": 2.0}))
                beside.replace(notes)
                if notes.with_suffix(".stop").exists():
                    raise InputError("cancelled")
                time.sleep(0.01)
        elif what == "fail":
            raise InputError("this cannot\nbe answered")
        elif what == "break":
            raise ZeroDivisionError("a fault")
        elif what == "die":
            os._exit(3)
        return PartResult({"answer": json.dumps([question["name"], os.getpid()]).encode()}, {})


def open_task(spec: TaskSpec) -> Told:
    return Told()
