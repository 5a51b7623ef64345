"""ICU-Sepsis, T = 20, every budget 0..10, one core: seconds and memory.

Times are taken over EPISODES sampled patients of 20 states, REPEATS times each. Memory is
measured in processes of their own (see `peak_memory`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import counterplan as cp
from benchmarks.measure import Finding, Spread, timed, timing
from benchmarks.problems import (
    BUDGET,
    all_actions,
    first_frontier,
    long_stays,
    unshared_rows,
)
from counterplan.domains import icu_sepsis

EPISODES = 5
REPEATS = 3
MEGABYTE = 2**20


def measure_sepsis() -> list[Finding]:
    icu = icu_sepsis.load()
    episodes = long_stays(icu, EPISODES)
    every_action = all_actions(icu.mdp)
    own_rows = unshared_rows(icu.mdp)
    return [
        _seconds(
            f"frontier, admissible actions ({_pairs(icu.mdp):,} pairs)",
            episodes,
            partial(_frontier, icu.mdp),
            target=0.3,
        ),
        _seconds(
            f"frontier, all 25 actions ({len(every_action.rows):,} distinct rows)",
            episodes,
            partial(_frontier, every_action),
            target=2.0,
        ),
        _seconds(
            f"frontier, all 25 actions, no two alike ({len(own_rows.rows):,} rows)",
            episodes,
            partial(_frontier, own_rows),
        ),
        *_causal_doubt(icu.mdp, episodes),
        *_memory(),
    ]


def _pairs(mdp: cp.TabularMDP) -> int:
    assert mdp.admissible is not None
    return int(mdp.admissible.sum())


def _frontier(mdp: cp.TabularMDP, episode: cp.Episode) -> object:
    return first_frontier(mdp, episode, BUDGET)


def _causal_doubt(mdp: cp.TabularMDP, episodes: list[cp.Episode]) -> list[Finding]:
    """What the interval over causal models and the robust explanation cost, K = 10."""
    explained = {episode: cp.explain(mdp, episode, k=BUDGET) for episode in episodes}
    findings = []
    for stability, where in ((False, ""), (True, ", with stability")):
        findings.append(
            _seconds(
                f"value_interval, admissible actions{where}",
                episodes,
                lambda e, stability=stability: cp.value_interval(
                    mdp, e, explained[e], stability=stability
                ),
            )
        )
        findings.append(
            _seconds(
                f"robust_explain, admissible actions{where}",
                episodes,
                lambda e, stability=stability: cp.robust_explain(
                    mdp, e, k=BUDGET, assume="stable" if stability else "none"
                ),
            )
        )
    return findings


def _seconds(
    what: str,
    episodes: list[cp.Episode],
    call: Callable[[cp.Episode], object],
    target: float | None = None,
) -> Finding:
    call(episodes[0])  # compiled code is loaded on first use
    pairs = [timed(partial(call, episode)) for _ in range(REPEATS) for episode in episodes]
    taken = timing(pairs)
    return Finding(what, taken.wall, "s", taken.cpu, target)


def _memory() -> list[Finding]:
    """Peak above the loaded model: with the compiler's libraries, without, and arrays alone."""
    findings = []
    for actions, label in (("admissible", "admissible actions"), ("all", "all 25 actions")):
        for mode, what, target in (
            ("cold", "peak memory above the model, numba included", 300.0),
            ("warm", "peak memory above the model, numba loaded before", 300.0),
            ("traced", "peak of the arrays that Python sees (tracemalloc)", None),
        ):
            peak = _peak(actions, mode)
            if peak is not None:
                spread = Spread((peak / MEGABYTE,))
                findings.append(Finding(f"{what}, {label}", spread, "MB", target=target))
    return findings


def _peak(actions: str, mode: str) -> float | None:
    command = [sys.executable, "-m", "benchmarks.peak_memory", actions, mode]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    peak: float | None = json.loads(finished.stdout)
    return peak
