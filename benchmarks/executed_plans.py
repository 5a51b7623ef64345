"""What explaining an executed plan costs, and how far a tree search gets in counterfactual worlds.

    python -m benchmarks.executed_plans        about a minute on one core

Voyages carry out the plan for expected prices, configuration A, legs drawn between 5 and 30, five
futures each. Times are processor time; what is compiled once is compiled before.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import counterplan as cp
from counterplan.domains.interacting import interacting_episode
from counterplan.planning.policies import played
from experiments.tree_search import TreeSearch

RESULTS = Path(__file__).parent / "results" / "executed_plans.md"
FUTURES = 5
PATIENTS = 10


def voyage(legs: Sequence[float], seed: int) -> tuple[Any, cp.Episode]:
    """A ship, and the plan for expected prices carried out."""
    ship = cp.domains.Bunkering(config="A", legs=legs)
    path = ship.sample_path(seed)
    rule = cp.policies.OpenLoop().prepare(ship)
    return ship, cp.Episode(path, played(ship, rule, path, ship.start).actions)


def timed(*question: Any, **options: Any) -> tuple[float, Any]:
    """Seconds of the processor, and the explanation."""
    began = time.process_time()
    found = cp.explain(*question, **options)
    return time.process_time() - began, found


def costs() -> Iterator[str]:
    """A row for each length and budget."""
    yield "| legs | k | median s | largest s | linear programs, most | proved |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for T in (10, 20, 40):
        legs = np.random.default_rng(T).uniform(5.0, 30.0, size=T).round(1)
        for k in (2, 3, 5):
            runs = [timed(*voyage(legs, seed), k) for seed in range(FUTURES)]
            seconds = [run[0] for run in runs]
            nodes = max(run[1].stats["nodes_expanded"] for run in runs)
            proved = sum(run[1].status == "optimal" for run in runs)
            yield (
                f"| {T} | {k} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | "
                f"{nodes:.0f} | {proved} of {FUTURES} |"
            )


def searched() -> Iterator[str]:
    """How much of the best improvement a tree search finds, by kind of problem."""
    yield "| problem | k | simulations | share of the best improvement | optimum found | s each |"
    yield "|---|---:|---:|---:|---:|---:|"
    cases = [interacting_episode(seed=seed, horizon=12) for seed in range(PATIENTS)]
    drugs = [
        ((case.scm, case.episode), {"actions": case.actions, "reward": case.reward})
        for case in cases
    ]
    icu = cp.domains.icu_sepsis.load()
    died = [one for one in icu.sample_episodes(400, seed=0) if _is_long_death(icu.mdp, one)]
    patients = [((icu.mdp, patient), {}) for patient in died[:PATIENTS]]
    ships = [(voyage((12.0, 25.0, 30.0, 19.0, 9.0, 21.0, 17.0), seed), {}) for seed in range(5)]
    for name, questions, budgets in (
        ("two drugs, T = 12", drugs, (2, 3, 4)),
        ("ICU-Sepsis, deaths after 8 steps or more", patients, (1, 2, 3)),
        ("voyage of 7 legs", ships, (2, 4, 7)),
    ):
        for k in budgets:
            for simulations in (100, 1000):
                solver = TreeSearch(cp.UCT(simulations))
                yield _share(f"{name} | {k} | {simulations}", questions, k, solver)


def _is_long_death(mdp: cp.TabularMDP, patient: cp.Episode) -> bool:
    return len(patient) >= 8 and mdp.outcome(patient) == 0.0


def _share(title: str, questions: Sequence[Any], k: int, solver: Any) -> str:
    shares, seconds = [], []
    for question, options in questions:
        best = cp.explain(*question, k, **options)
        taken, found = timed(*question, k, solver=solver, **options)
        seconds.append(taken)
        shares.append(found.improvement / best.improvement if best.improvement else 1.0)
    reached = sum(share > 1.0 - 1e-9 for share in shares)
    return (
        f"| {title} | {np.mean(shares):.0%} | {reached} of {len(shares)} | {np.mean(seconds):.2f} |"
    )


def main() -> None:
    """Print both tables, and keep them."""
    cp.explain(*voyage((12.0, 25.0), 0), 1)  # loads what is compiled
    cp.explain(*voyage((12.0, 25.0), 0), 1, solver=TreeSearch(cp.UCT(10)))
    lines = ["# Executed plans explained", "", *costs(), ""]
    lines += ["# A tree search in counterfactual worlds", "", *searched(), ""]
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
