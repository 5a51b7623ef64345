"""Searches over smooth models and their members, beside trying everything:
`python -m benchmarks.members`.

A model of simulated sepsis patients is learned (`SmoothSCM.fit`, 16 members) and asked about fresh
patients, cut to the same length, with 25 actions at each step: once with alternatives inside the
data, which is the rule wherever a model has kept its data, and once with alternatives anywhere.
Every sequence with at most two changes is also tried, with the same compiled steps, as a batch; for
three changes that would take hours with members, and its time is that of two changes times the
number of sequences.

    ours    process seconds of one explanation, median and most
    trying  process seconds to try every sequence
    ratio   of the medians

Writes results/members.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import counterplan as cp
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.domains import sepsis
from counterplan.scm.support import collect_seen
from counterplan.scm.transitions import Transitions
from experiments.ground_truth import _sepsis_cohort

RESULTS = Path(__file__).parent / "results"
SHARE = 0.25
# How many patients are asked about where alternatives may be anywhere, which takes its time.
FEW = 5
# Sequences that are tried together.
BATCH = 20_000


def questions(count: int, horizon: int) -> list[tuple[Episode, Any]]:
    """Fresh patients, cut to one length, and their actions."""
    found = []
    for episode in _sepsis_cohort(4 * count, 99).episodes:
        if len(episode) >= horizon and len(found) < count:
            cut = Episode(episode.states[:horizon], episode.actions[: horizon - 1])
            found.append((cut, sepsis.action_set(episode)[: horizon - 1]))
    return found


def sequences(observed: NDArray[np.int64], n_actions: int, k: int) -> NDArray[np.int64]:
    """Every sequence with k changes or fewer."""
    found = [observed[None]]
    for size in range(1, k + 1):
        for steps in combinations(range(len(observed)), size):
            chosen = np.stack(np.meshgrid(*[np.arange(n_actions)] * size), axis=-1)
            plans = np.repeat(observed[None], n_actions**size, axis=0)
            plans[:, list(steps)] = chosen.reshape(-1, size)
            found.append(plans[(plans != observed).sum(axis=1) == size])
    return np.concatenate(found)


def measure(problem: Problem, try_all: bool) -> tuple[float, float]:
    """Process seconds of an explanation, and of trying everything (nan if not tried)."""
    started = time.process_time()
    found: Any = cp.AStar().solve(problem)
    ours = time.process_time() - started
    if found.status != "optimal":
        raise SystemExit(f"not proved: {found}")
    if not try_all:
        return ours, float("nan")
    started = time.process_time()
    setting = prepare_sequence(problem)
    plans, best = sequences(setting.observed, setting.n_actions, problem.k), -np.inf
    for first in range(0, len(plans), BATCH):
        batch = plans[first : first + BATCH]
        fine = setting.is_inside(batch)
        best = max(best, float(setting.outcomes(batch)[fine].max(initial=-np.inf)))
    if abs(best - found.value) > 1e-9:
        raise SystemExit(f"trying everything finds {best}, the search {found.value}")
    return ours, time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=1_000)
    parser.add_argument("--asked", type=int, default=20)
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--tried", type=int, default=3, help="patients for which all is tried")
    given = parser.parse_args()
    cohort = _sepsis_cohort(given.patients, 0)
    learned_from, scaling = Transitions.collect(cohort.episodes), sepsis.scaling(cohort)
    model = replace(
        cp.SmoothSCM.fit(learned_from, fixed=len(sepsis.FIXED), scaling=scaling),
        seen=collect_seen(learned_from, scaling),
    )
    reward, asked = sepsis.reward(), questions(given.asked + 1, given.horizon)
    lines = [
        f"{given.patients} patients to learn from, {len(model.location.bias)} units, "
        f"{given.asked} patients asked about, T = {given.horizon}, 25 actions; process seconds.",
        "",
        "| model | alternatives | k | ours, median | most | trying everything | ratio |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    models = (("posterior mean", None), ("16 members, worst quarter", SHARE))
    for (name, risk), inside in product(models, (True, False)):
        scm, where = model if risk else replace(model, draws=None), cp.Constraints(supported=inside)
        growth = tried = float("nan")
        for k in (1, 2, 3):
            seconds = [
                measure(
                    Problem(scm, episode, k, where, actions=vectors, reward=reward, risk=risk),
                    k < 3 and place <= given.tried,
                )
                for place, (episode, vectors) in enumerate(asked[: None if inside else FEW])
            ][1:]  # the first one compiles
            ours = np.array([one for one, _ in seconds])
            count = len(sequences(np.zeros(given.horizon - 1, dtype=np.int64), 25, min(k, 2)))
            if k < 3:
                tried = float(np.nanmedian([all_of_them for _, all_of_them in seconds]))
                growth = tried / count
            else:
                more = np.prod([given.horizon - 1 - i for i in range(3)]) / 6 * 24.0**3
                tried = growth * (count + more)
            estimated = " (estimated)" if k == 3 else ""
            lines.append(
                f"| {name} | {'inside the data' if inside else 'anywhere'} | {k} "
                f"| {np.median(ours):.3f} | {ours.max():.3f} "
                f"| {tried:.3g}{estimated} | {tried / np.median(ours):.3g} |"
            )
            print(lines[-1], flush=True)
    (RESULTS / "members.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
