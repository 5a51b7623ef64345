"""Explanations of large, sparse tables: `python -m benchmarks.large_tables [STATES] [--near]` in
the repository's root.

10 actions, 10 next states a row, T = 50, every k = 0..10. Next states are drawn from all, or, with
--near, from the 200 that follow. Prints wall and processor time and the peak of memory, of building
the model too; then ICU-Sepsis with T = 200 and k = 200.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from scipy.sparse import csr_array

import counterplan as cp
from counterplan.domains import icu_sepsis

ACTIONS, NEXT, STEPS, K, NEAR = 10, 10, 50, 10, 200


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


def told(what: str, wall: float, processor: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    took = f"{time.perf_counter() - wall:.1f} s, processor {time.process_time() - processor:.1f} s"
    print(f"{what}: {took}, peak {peak:.2f} GB", flush=True)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("states", type=int, nargs="?", default=100_000)
    parser.add_argument("--near", action="store_true")
    given = parser.parse_args()
    icu, rng = icu_sepsis.load(), np.random.default_rng(0)
    long = walk(icu.mdp, int(rng.choice(icu.mdp.n_states, p=icu.mdp.initial)), 200, rng)
    cp.frontier(icu.mdp, cp.Episode(long.states[:3], long.actions[:3]), 2)  # compile
    began = time.perf_counter(), time.process_time()
    cp.explain(icu.mdp, long, 200)
    told("ICU-Sepsis, T = 200, k = 200", *began)
    matrices = [matrix(given.states, given.near, rng) for _ in range(ACTIONS)]
    rewards = rng.random((given.states, ACTIONS))
    began = time.perf_counter(), time.process_time()
    mdp = cp.TabularMDP(matrices, rewards)
    told(f"{given.states:,} states, the model", *began)
    del matrices
    episode = walk(mdp, 0, STEPS, rng)
    began = time.perf_counter(), time.process_time()
    found = cp.frontier(mdp, episode, K)[K]
    reached = len(found.process.setting.reached[-1])
    told(f"all k to {K}, {reached:,} states reached", *began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
