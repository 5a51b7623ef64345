"""Whatever step the writer of a folder dies before, the next one ends with the same bytes.

Where test_kills hits random moments, this goes through all of them: each change of the disk in turn
is the last one that happens.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import environment

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
