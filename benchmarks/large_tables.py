"""Explanations of large, sparse tables: `python -m benchmarks.large_tables [--million]` in the
repository's root; `python -m benchmarks.large_tables STATES [--near]` for one of them.

10 actions, 10 next states a row, T = 50, every k = 0..10. Next states are drawn from all, or, with
--near, from the 200 that follow. Measured are wall and processor time and the peak of memory, each
table in a process of its own, after the code was compiled; and ICU-Sepsis with T = 200 and k = 200.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import counterplan as cp
from benchmarks.measure import conditions, machine
from counterplan.domains import icu_sepsis

RESULTS = Path(__file__).parent / "results"
ACTIONS, NEXT, STEPS, K, NEAR = 10, 10, 50, 10, 200
LONG = 200
TABLES = (["0"], ["100000", "--near"], ["100000"])
LARGEST = ["1000000"]


def matrix(states: int, near: bool, rng: np.random.Generator) -> csr_array:
    """(S, S) random rows."""
    chosen = np.sort(rng.integers(0, NEAR if near else states, size=(states, NEXT)), axis=1)
    if near:
        chosen = (np.arange(states)[:, None] + chosen) % states
    weights = rng.random((states, NEXT)) + 1e-3
    starts = np.arange(states + 1) * NEXT
    found = csr_array((weights.ravel(), chosen.ravel(), starts), shape=(states, states))
    found.sum_duplicates()
    found.data /= np.repeat(found.sum(axis=1), np.diff(found.indptr))
    return found


def walk(mdp: cp.TabularMDP, first: int, steps: int, rng: np.random.Generator) -> cp.Episode:
    """An episode of random admissible actions that does not come to an end."""
    states, actions = [first], []
    for _ in range(steps):
        here = states[-1]
        may = np.arange(mdp.n_actions)
        if mdp.admissible is not None:
            may = np.flatnonzero(mdp.admissible[here])
        actions.append(int(rng.choice(may)))
        after, chances = mdp.rows.slice(int(mdp.row_of[here, actions[-1]]))
        going = (after < icu_sepsis.DEATH) | (mdp.n_states > icu_sepsis.ABSORBING + 1)
        states.append(int(rng.choice(after[going], p=chances[going] / chances[going].sum())))
    return cp.Episode(states[:-1], actions)


def measure(states: int, near: bool) -> list[dict[str, Any]]:
    """One table: building the model, and solving it; of no states: ICU-Sepsis."""
    rng, found = np.random.default_rng(0), []

    def timed(what: str, call: Any) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        result = call()
        taken = time.perf_counter() - wall, time.process_time() - processor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        found.append({"what": what, "wall": taken[0], "processor": taken[1], "peak": peak})
        print(f"{what}: {taken[0]:.1f} s, processor {taken[1]:.1f} s, {peak:.2f} GB", flush=True)
        return result

    if not states:
        mdp = icu_sepsis.load().mdp
        episode = walk(mdp, int(rng.choice(mdp.n_states, p=mdp.initial)), LONG, rng)
        cp.frontier(mdp, cp.Episode(episode.states[:3], episode.actions[:3]), 2)
        timed(f"ICU-Sepsis, T = {LONG}, k = {LONG}", lambda: cp.explain(mdp, episode, LONG))
        return found
    small = cp.TabularMDP([matrix(2000, near, rng) for _ in range(2)], rng.random((2000, 2)))
    cp.frontier(small, walk(small, 0, 600, rng), 2)  # too many states for one call: compile both
    matrices = [matrix(states, near, rng) for _ in range(ACTIONS)]
    rewards = rng.random((states, ACTIONS))
    kind = f"{states:,} states, next ones {'near' if near else 'anywhere'}"
    mdp = timed(f"{kind}: the model", partial(cp.TabularMDP, matrices, rewards))
    del matrices
    episode = walk(mdp, 0, STEPS, rng)
    solved = timed(f"{kind}: all k to {K}", lambda: cp.frontier(mdp, episode, K)[K])
    found[-1]["reached"] = len(solved.process.setting.reached[-1])
    return found


def main() -> int:
    """Measure one table and print it as JSON; or all of them, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("states", type=int, nargs="?")
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--million", action="store_true")
    given = parser.parse_args()
    if given.states is not None:
        print(json.dumps(measure(given.states, given.near)))
        return 0
    load, found = [os.getloadavg()[0]], []
    for table in (*TABLES, LARGEST) if given.million else TABLES:
        command = [sys.executable, "-m", "benchmarks.large_tables", *table]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        print(ended.stdout, flush=True)
        found += json.loads(ended.stdout.splitlines()[-1])
        load.append(os.getloadavg()[0])
    text = _markdown({"machine": machine(), "load": load}, found)
    (RESULTS / "large_tables.md").write_text(text, encoding="utf-8")
    return 0


def _markdown(document: dict[str, Any], found: list[dict[str, Any]]) -> str:
    lines = [
        "# Large, sparse tables",
        "",
        "Written by `python -m benchmarks.large_tables`.",
        "",
        f"{conditions(document)}: above the number of cores, times by the wall clock include "
        "waiting for others. Solving uses two threads, whose processor time is added up.",
        "",
        f"{ACTIONS} actions, {NEXT} next states a row, T = {STEPS}. The peak of memory is that of "
        "the process since its start.",
        "",
        "| measured | states reached | wall s | processor s | peak GB |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in found:
        reached = f"{row['reached']:,}" if "reached" in row else ""
        lines.append(
            f"| {row['what']} | {reached} | {row['wall']:.1f} | {row['processor']:.1f} | "
            f"{row['peak']:.2f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
