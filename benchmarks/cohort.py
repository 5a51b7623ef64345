"""Throughput of cohort runs: `python -m benchmarks.cohort [ROUNDS]` in the repository's root;
`python -m benchmarks.cohort worker` prints what a worker spends on episodes, without its start, and
a digest of all that it makes of them.

Every episode is explained for k = 3. A round times, on the same episodes and one after the other,

    loop         a plain Python loop over `cp.explain` in this process, answers thrown away
    1 worker     a run into a folder: reading parts, solving, support, tables, checksums, disk
    2 workers    the same with two processes

with one thread of linear algebra each. Speed is given as a ratio to the loop of the same round. The
loop has its code loaded; a run starts its own processes, whose start (imports, compiled code) is
part of its time by the wall clock and is given apart, as the time of a run of one part.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.discrete import ONE_THREAD

RESULTS = Path(__file__).parent / "results"
WORKER = sys.argv[1:] == ["worker"]
ROUNDS = int(sys.argv[1]) if sys.argv[1:] and not WORKER else 3
ICU_EPISODES, SMALL_EPISODES, SEPSIS_EPISODES = 400, 1000, 300


def main() -> int:
    """Measure, print and write everything."""
    os.environ.update(ONE_THREAD)
    from benchmarks.cohort_problems import (
        Cohort,
        ensemble_cohort,
        icu_cohort,
        sepsis_cohort,
        small_cohort,
    )
    from benchmarks.measure import machine

    if WORKER:
        sizes = ICU_EPISODES // 2, SMALL_EPISODES // 2, SEPSIS_EPISODES // 3, SEPSIS_EPISODES // 30
        kinds = icu_cohort, small_cohort, sepsis_cohort, ensemble_cohort
        for make, size in zip(kinds, sizes, strict=True):
            print(_worker(make(size)), flush=True)
        return 0
    load = [os.getloadavg()[0]]
    found = []
    cohorts: list[Cohort] = [
        icu_cohort(ICU_EPISODES),
        small_cohort(SMALL_EPISODES),
        sepsis_cohort(SEPSIS_EPISODES),
    ]
    for cohort in cohorts:
        found += _measure(cohort)
        load.append(os.getloadavg()[0])
    document = {"machine": machine(), "load": load, "rounds": ROUNDS, "found": found}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cohort.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = _markdown(document)
    (RESULTS / "cohort.md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if all(row["same"] for row in found) else 1


def _worker(cohort: Any) -> str:
    """The least processor time of a worker's parts over rounds, here, and what became of them."""
    from counterplan.runs.task import open_task

    task, parts, taken = open_task(cohort.spec()), list(cohort.parts()), []
    task.solve(parts[0])
    for _ in range(ROUNDS):
        begun = time.process_time()
        made = [task.solve(part).tables for part in parts]
        taken.append(1000 * (time.process_time() - begun) / len(cohort.recorded))
    every = b"".join(tables[name] for tables in made for name in sorted(tables))
    return f"{cohort.name}: {min(taken):.2f} ms, sha256 {hashlib.sha256(every).hexdigest()[:16]}"


def _measure(cohort: Any) -> list[dict[str, Any]]:
    """One row for each way, medians over rounds."""
    ways = {"loop": None, "1 worker": 1, "2 workers": 2}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    start: list[float] = []
    values: dict[str, list[float]] = {}
    _loop(cohort, 3)
    for _ in range(ROUNDS):
        start.append(_run(cohort, 1, first=True)[0])
        for name, workers in ways.items():
            seconds, processor, answers = (
                _loop(cohort, None) if workers is None else _run(cohort, workers)
            )
            taken[name].append((seconds, processor))
            values[name] = answers
    rows = []
    for name, pairs in taken.items():
        speed = [len(cohort.recorded) / wall for wall, _ in pairs]
        ratios = [loop / wall for (loop, _), (wall, _) in zip(taken["loop"], pairs, strict=True)]
        rows.append(
            {
                "cohort": cohort.name,
                "way": name,
                "episodes": len(cohort.recorded),
                "per second": _median(speed),
                "range": [min(speed), max(speed)],
                "as fast as the loop": _median(ratios),
                "processor ms": 1000 * _median([cpu for _, cpu in pairs]) / len(cohort.recorded),
                "start s": None if name == "loop" else _median(start),
                "same": values[name] == values["loop"],
            }
        )
    return rows


def _loop(cohort: Any, count: int | None) -> tuple[float, float, list[float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    values = [cohort.explain(one.episode).value for one in cohort.recorded[:count]]
    return time.perf_counter() - wall, time.process_time() - cpu, values


def _run(cohort: Any, workers: int, first: bool = False) -> tuple[float, float, list[float]]:
    """Seconds of a whole run, those of all processors, and its values."""
    from counterplan.runs.cohort import RunSettings, run_cohort
    from counterplan.runs.run import open_run

    spec, parts = cohort.spec(), list(cohort.parts())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        wall, cpu = time.perf_counter(), _processor()
        run_cohort(spec, parts[:1] if first else parts, out, RunSettings(workers=workers))
        seconds, processor = time.perf_counter() - wall, _processor() - cpu
        values = open_run(out).scan("results").select("value").collect()["value"].to_list()
    return seconds, processor, values


def _processor() -> float:
    """Processor seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _markdown(document: dict[str, Any]) -> str:
    from benchmarks.measure import conditions

    lines = [
        "# Cohort runs: throughput",
        "",
        "Written by `python -m benchmarks.cohort`.",
        "",
        f"{conditions(document)}: above the number of cores, times by the wall clock include "
        "waiting for others, and two workers cannot be twice as fast as one.",
        "",
        f"k = 3, exact, of discrete states with doubt 0.2; medians of {document['rounds']} rounds. "
        "A run computes more than the loop: the likeliest counterfactual course, probabilities of "
        "changes, support in the data, texts, trajectories, Parquet files with checksums. Its "
        "start (interpreter, imports, compiled code, model, and one part of 50 episodes) is part "
        "of its time.",
        "",
        "| cohort | way | episodes | per second | range | times as fast as the loop | "
        "processor ms per episode | one part s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in document["found"]:
        low, high = row["range"]
        start = "" if row["start s"] is None else f"{row['start s']:.1f}"
        lines.append(
            f"| {row['cohort']} | {row['way']} | {row['episodes']:,} | {row['per second']:.1f} | "
            f"{low:.1f} – {high:.1f} | {row['as fast as the loop']:.2f} | "
            f"{row['processor ms']:.1f} | {start} |"
        )
    same = all(row["same"] for row in document["found"])
    verdict = "Values are the same to the last digit in all ways." if same else "VALUES DIFFER."
    return "\n".join([*lines, "", verdict, ""])


if __name__ == "__main__":
    sys.exit(main())
