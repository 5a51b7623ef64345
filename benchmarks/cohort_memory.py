"""Memory of cohort runs: `python -m benchmarks.cohort_memory` in the repository's root.

`counterplan explain TABLE --model MODEL --k 2 -o OUT --workers 2` on tables of SIZES episodes, each
in a fresh process. While it runs, the peak of resident memory (VmHWM) is read for the program
itself and for each of its workers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.discrete import ONE_THREAD

RESULTS = Path(__file__).parent / "results"
SIZES = (1_000, 20_000)
STATES, ACTIONS, STEPS, BUDGET = 20, 5, 6, 2
PROGRAM = "from counterplan.cli import main; main()"
MEGABYTE = 1024


def main() -> int:
    """Measure, print and write everything."""
    os.environ.update(ONE_THREAD)
    from benchmarks.measure import machine

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, write in (("discrete", _write_discrete), ("continuous", _write_continuous)):
            for size in SIZES:
                place = Path(folder) / f"{kind}-{size}"
                place.mkdir()
                write(place, size)
                found.append({"kind": kind, "episodes": size, **_measure(place)})
    document = {"machine": machine(), "found": found}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(document, indent=1) + "\n"
    (RESULTS / "cohort_memory.json").write_text(text, encoding="utf-8")
    text = _markdown(document)
    (RESULTS / "cohort_memory.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def _measure(place: Path) -> dict[str, Any]:
    table, model, out = place / "table.csv", place / "model.safetensors", place / "out"
    arguments = ["explain", str(table), "--model", str(model), "--k", str(BUDGET), "-o", str(out)]
    started = time.perf_counter()
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments, "--workers", "2", "--json"],
        stdout=subprocess.DEVNULL,
    )
    program, workers = 0, 0
    while running.poll() is None:
        program = max(program, _peak(running.pid))
        workers = max([workers, *(_peak(child) for child in _children(running.pid))])
        time.sleep(0.05)
    if running.returncode:
        raise SystemExit(f"the run failed: {running.returncode}")
    return {
        "program MB": program / MEGABYTE,
        "worker MB": workers / MEGABYTE,
        "table MB": table.stat().st_size / MEGABYTE**2,
        "seconds": time.perf_counter() - started,
    }


def _peak(process: int) -> int:
    """Kilobytes that a process has held at the most, 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return 0 if found is None else int(found.group(1))


def _children(process: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        texts = [(one / "children").read_text(encoding="utf-8") for one in threads]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def _write_discrete(place: Path, size: int) -> None:
    """Random walks through a random process."""
    import numpy as np
    import polars as pl

    import counterplan as cp

    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    mdp = cp.TabularMDP(rows, rng.normal(size=(STATES, ACTIONS)))
    visits = np.ones((STATES, ACTIONS), dtype=np.int64)
    cp.tables.save_model(mdp.with_data(visits=visits), place / "model.safetensors")
    states = rng.integers(0, STATES, size=(size, STEPS))
    pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(size), STEPS),
            "t": np.tile(np.arange(STEPS), size),
            "state": states.ravel(),
            "action": rng.integers(0, ACTIONS, size=size * STEPS),
        }
    ).write_csv(place / "table.csv")


def _write_continuous(place: Path, size: int) -> None:
    """A level that doses pull down, in a table with a schema, and a model of it by hand."""
    import numpy as np
    import polars as pl

    import counterplan as cp

    rng = np.random.default_rng(0)
    doses = rng.integers(0, 3, size=(size, STEPS))
    level = np.empty((size, STEPS))
    level[:, 0] = rng.normal(18.0, 3.0, size)
    for t in range(STEPS - 1):
        pulled = 0.8 * level[:, t] + 0.2 * (20.0 - 5.0 * doses[:, t])
        level[:, t + 1] = pulled + rng.normal(0.0, 0.5, size)
    pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(size), STEPS),
            "t": np.tile(np.arange(STEPS), size),
            "level": level.ravel(),
            "dose": doses.ravel(),
        }
    ).write_csv(place / "table.csv")
    about = {
        "features": ["level"],
        "actions": ["dose"],
        "means": {},
        "schema": {
            "columns": {
                "level": {"role": "state", "better": "lower"},
                "dose": {"role": "action", "levels": [0.0, 1.0, 2.0]},
            }
        },
    }
    location = {"state": [[0.8]], "bias": [0.0], "action": [[-0.2]], "output": [[1.0]]}
    scale = {"state": [[0.0]], "bias": [0.0], "action": [[0.0]], "output": [[1.0]]}
    scaling = cp.scm.Scaling([15.0], [20.0], [1.0], [2.0])
    bare = cp.NeuralSCM.from_weights(
        location | {"output_bias": [0.0]}, scale | {"output_bias": [-3.0]}, [[1.0]], 0, scaling
    )
    scm = cp.NeuralSCM(bare.location, bare.scale, bare.noise_cholesky, scaling=scaling, about=about)
    cp.tables.save_model(scm, place / "model.safetensors")


def _markdown(document: dict[str, Any]) -> str:
    from benchmarks.measure import conditions

    lines = [
        "# Cohort runs: memory",
        "",
        "Written by `python -m benchmarks.cohort_memory`.",
        "",
        f"{conditions(document)}. Peaks of resident memory of `counterplan explain TABLE "
        f"--model M --k {BUDGET} -o OUT --workers 2`, libraries included; episodes of {STEPS} "
        "steps.",
        "",
        "| states | episodes | table MB | program MB | largest worker MB | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['kind']} | {row['episodes']:,} | {row['table MB']:.1f} | {row['program MB']:.0f} "
        f"| {row['worker MB']:.0f} | {row['seconds']:.0f} |"
        for row in document["found"]
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
