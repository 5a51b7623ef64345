"""What is gained where patients differ in something that no column tells: `python -m
benchmarks.effects` in the repository's root.

Models are learned from simulated cohorts, and asked what random plans with two changes would have
brought fresh patients, whom the simulators replay with their own luck and their own parameters.

    error   of the improvement, relative to its size, summed over all plans
    held    how often intervals of 90 % hold the truth
    width   of the intervals, on average
    stays   the share of the unexplained that stays with the patient, of the outcome's feature

*alike* is the same model without `effects`, whose weights nevertheless were learned with them;
*none* was learned as if there were none. Writes results/effects.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import counterplan as cp
from counterplan.core.validation import FloatArray, IntArray
from experiments import infection, tumour

RESULTS = Path(__file__).parent / "results"
COHORTS = {"plain": (480,), "hidden": (120, 480, 1920), "tumour": (250, 1000)}
FRESH, PLANS, SHORTEST = 100, 3, 6


@dataclass(frozen=True, eq=False)
class Cohort:
    """Episodes, the vectors of their actions, and how to replay each (n, T-1) -> (n,)."""

    episodes: list[cp.Episode]
    replays: list[Callable[[IntArray], FloatArray]]
    actions: FloatArray
    fixed: int
    weights: FloatArray
    feature: int


def infected(version: str, patients: int, seed: int) -> Cohort:
    """A cohort of `experiments.infection`."""
    process, weights = infection.Infection(version), np.asarray(infection.reward().weights)
    found = process.simulate(patients, seed)
    replays = [_worth(process, one, weights) for one in found]
    episodes = [one.episode for one in found]
    return Cohort(episodes, replays, infection.DOSES, 0, weights, 0)


def _worth(
    process: infection.Infection, patient: infection.Patient, weights: FloatArray
) -> Callable[[IntArray], FloatArray]:
    return lambda plans: np.asarray((process.replay(patient, plans) @ weights).sum(axis=1))


def grown(patients: int, seed: int) -> Cohort:
    """A cohort of `experiments.tumour`: stage and type, then diameter and drug."""
    found = [one for one in tumour.simulate(patients, seed) if len(one.diameters) > SHORTEST]
    stages = list(tumour.STAGES)
    episodes = []
    for i, one in enumerate(found):
        T = len(one.diameters)
        kind = np.tile([stages.index(one.stage), one.type == 1, one.type == 3], (T, 1))
        states = np.column_stack([kind, one.diameters, one.drug]).astype(float)
        episodes.append(cp.Episode(states, one.actions, id=str(i)))
    replays = [_shrunk(one) for one in found]
    weights = np.array([0.0, 0.0, 0.0, -1.0, 0.0])
    return Cohort(episodes, replays, np.array(tumour.ACTIONS, float), 3, weights, 0)


def _shrunk(patient: tumour.Patient) -> Callable[[IntArray], FloatArray]:
    return lambda plans: np.asarray(-tumour.replay(patient, plans)[0].sum(axis=1))


def cohort(process: str, patients: int, seed: int) -> Cohort:
    """By the name of a process."""
    return grown(patients, seed) if process == "tumour" else infected(process, patients, seed)


def measured(model: cp.SmoothSCM, fresh: Cohort) -> dict[str, float]:
    """Error, coverage and width for random plans."""
    rng, rows = np.random.default_rng(0), []
    reward = cp.LinearReward(fresh.weights)
    for episode, replay in zip(fresh.episodes, fresh.replays, strict=True):
        observed = np.asarray(episode.actions)[: len(episode) - 1]
        for _ in range(PLANS):
            plan = observed.copy()
            steps = rng.choice(len(plan), 2, replace=False)
            plan[steps] = rng.integers(0, len(fresh.actions), 2)
            changes = {int(t): int(plan[t]) for t in steps if plan[t] != observed[t]}
            if changes:
                worth = replay(np.stack([observed, plan]))
                told: Any = cp.replay(model, episode, changes, actions=fresh.actions, reward=reward)
                rows.append((worth[1] - worth[0], told.improvement, *told.interval))
    true, said, low, high = np.array(rows).T
    return {
        "error": float(np.abs(said - true).sum() / np.abs(true).sum()),
        "held": float(np.mean((low <= true) & (true <= high))),
        "width": float((high - low).mean()),
    }


def main() -> int:
    """Measure, print and write."""
    lines = [
        "# What stays with a patient",
        "",
        f"Written by `python -m benchmarks.effects`: {FRESH} fresh patients, {PLANS} random plans "
        "each.",
        "",
        "| process | patients | stays | error: none | alike | with effects | held: none | alike | "
        "with effects | width |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for process, sizes in COHORTS.items():
        fresh = cohort(process, FRESH, 99)
        for patients in sizes:
            data = cohort(process, patients, 0)
            known = cp.Transitions.collect(data.episodes, data.actions)
            model = cp.SmoothSCM.fit(known, fixed=data.fixed, seed=0)
            with patch("counterplan.scm.smooth_training.find_effects", return_value=None):
                none = cp.SmoothSCM.fit(known, fixed=data.fixed, seed=0)
            found = [measured(one, fresh) for one in (none, replace(model, effects=None), model)]
            shares = model.about["training"].get("effects", [{}])[data.feature]
            lines.append(
                f"| {process} | {patients:,} | {min(sum(shares.values()), 1.0):.0%} | "
                + " | ".join(f"{one['error']:.2f}" for one in found)
                + " | "
                + " | ".join(f"{one['held']:.0%}" for one in found)
                + f" | {found[-1]['width']:.2f} |"
            )
            print(lines[-1], flush=True)
    (RESULTS / "effects.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
