"""How far the paper's sampled kernel is off, on the same realizations: `python -m
benchmarks.sampling_bias` (about three minutes on one core).

Synthetic: the mean of (sampled - exact) relative improvement in percentage points, with the
authors' noise vectors (the same at every step) and with fresh ones. Therapy: for how many
simulated patients the policy found with the sampled kernel really earns minus infinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import counterplan as cp
from counterplan.counterfactual import BudgetDP
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.dynamic_program import evaluate
from counterplan.counterfactual.discrete.laws import law_of
from experiments import therapy
from experiments.discrete_synthetic import ALPHA, draw_realizations, outcomes, relative_difference
from experiments.figure import Options
from experiments.therapy_sessions import load_sessions

RESULTS = Path(__file__).parent / "results" / "sampling_bias.md"
SHOWN = (1, 5, 10)
SAMPLES = 1000


def main() -> None:
    """Print both comparisons, and keep them."""
    lines = ["# How far the sampled kernel is off", ""]
    lines += ["Written by `python -m benchmarks.sampling_bias`; ± is a 95 % interval.", ""]
    for line in comparisons():
        print(line, flush=True)
        lines.append(f"- {line}")
    RESULTS.write_text("\n".join([*lines, ""]), encoding="utf-8")


def comparisons() -> Iterator[str]:
    """One line for each comparison."""
    realizations = draw_realizations(ALPHA, Options())
    exact = _improvements([outcomes(one, Options()) for one in realizations])
    shared = _improvements([outcomes(one, Options(sampled=True)) for one in realizations])
    fresh = _improvements(
        [_fresh(one.process.mdp, one.episode, i) for i, one in enumerate(realizations)]
    )
    for name, sampled in (("the authors' noise", shared), ("fresh noise at every step", fresh)):
        differences = sampled - exact
        error = 1.96 * differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
        shown = ", ".join(f"k={k}: {differences[:, k].mean():+.3f} ± {error[k]:.3f}" for k in SHOWN)
        yield (f"{len(differences)} realizations, {name}: {shown} percentage points")
    episodes = load_sessions(Options()).episodes
    mdp = therapy.estimate(episodes)
    for k in (1, 3):
        lost = sum(_true_value(mdp, episode, k, i) == -np.inf for i, episode in enumerate(episodes))
        yield (f"therapy, k={k}: the sampled policy earns -inf for {lost} of {len(episodes)}")


def _improvements(values: list[np.ndarray]) -> np.ndarray:
    return relative_difference(np.array(values))


def _fresh(mdp: cp.TabularMDP, episode: cp.Episode, number: int) -> np.ndarray:
    solver = BudgetDP(samples=SAMPLES, seed=number)
    return np.array(cp.frontier(mdp, episode, 10, solver=solver).values)


def _true_value(mdp: cp.TabularMDP, episode: cp.Episode, k: int, number: int) -> float:
    """What the policy found with the sampled kernel earns under the exact one."""
    found: PolicyExplanation = cp.explain(
        mdp,
        episode,
        k,
        constraints=therapy.constraints(episode),
        solver=BudgetDP(samples=SAMPLES, seed=number),
    )
    exact = law_of(cp.GumbelMaxSCM(mdp), episode)
    return float(evaluate(found.process.setting, exact, found.process.table)[-1])


if __name__ == "__main__":
    main()
