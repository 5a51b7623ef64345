"""A policy that looks good and is not: `python -m benchmarks.hidden_diabetes` in the repository's
root.

The setting of Oberst & Sontag (2019). Doctors know everything about simulated sepsis patients
(`experiments.diabetes_sepsis`); the table that a policy is learned from shows neither who is
diabetic nor the glucose. The policy is the optimum of a table learned from 1,000 patients, where
pairs without data lead to death. Its true value is exact: the policy played on the whole MDP.
Beside it stand what `cp.policy_value` says from the same patients, and its range under hidden
causes of a factor Gamma: of the table as it is, in which what was not seen cannot happen, and of a
table with a learned prior (`scm.Pooled`), in which it can; and over 90 % credible sets of that.
Writes results/hidden_diabetes.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import counterplan as cp
from benchmarks.discrete_claims import simulated
from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm import Pooled
from counterplan.scm.estimate import count_transitions, estimate_mdp
from experiments.diabetes_sepsis import (
    ENDS,
    HORIZON,
    N_STATES,
    OVER,
    SHAPE,
    Program,
    doctors,
    starts,
)

RESULTS = Path(__file__).parent / "results"
PATIENTS, SETS, SLIPS, DISCOUNT = 1000, 3, 0.14, 0.99
GAMMAS, LEVEL = (1.5, 2.0, 3.0, 5.0, 8.0), 0.9
# What is seen of a state: heart rate, pressure, oxygen, treatments; and the two ends, and after.
SEEN = 3 * 3 * 2 * 8
DEATH, DISCHARGE, AFTER = SEEN, SEEN + 1, SEEN + 2


def shown() -> IntArray:
    """(N_STATES,) what the table shows of each state."""
    digits = np.unravel_index(np.arange(OVER), SHAPE)
    parts = (digits[1], digits[2], digits[3], digits[5], digits[6], digits[7])
    result = np.append(np.ravel_multi_index(parts, (3, 3, 2, 2, 2, 2)), AFTER)
    return np.where(ENDS < 0, DEATH, np.where(ENDS > 0, DISCHARGE, result))


def table(episodes: Sequence[cp.Episode]) -> cp.TabularMDP:
    """Relative frequencies; pairs without data lead to death."""
    counts = count_transitions(episodes, AFTER + 1, 8)
    rows = counts.transitions.astype(np.float64)
    rows[(rows.sum(axis=2) == 0)[:, :, None] & (np.arange(AFTER + 1) == DEATH)] = 1.0
    rows[DEATH:] = 0.0
    rows[DEATH:, :, AFTER] = 1.0
    rewards = np.zeros((AFTER + 1, 8))
    rewards[DEATH], rewards[DISCHARGE] = -1.0, 1.0
    return cp.TabularMDP(rows / rows.sum(axis=2, keepdims=True), rewards)


def optimum(mdp: cp.TabularMDP) -> IntArray:
    """(S,) the best policy by value iteration."""
    indptr, indices, probabilities = mdp.rows.arrays
    values = np.zeros(mdp.n_states)
    for _ in range(500):
        ahead = np.add.reduceat(probabilities * values[indices], indptr[:-1])
        scores = mdp.rewards + DISCOUNT * ahead[mdp.row_of]
        values = scores.max(axis=1)
    return np.asarray(scores.argmax(axis=1))


def true_value(mdp: cp.TabularMDP, policy: IntArray, first: IntArray) -> float:
    """The mean outcome of a policy of all states from these, exact."""
    indptr, indices, probabilities = mdp.rows.arrays
    values: FloatArray = ENDS.astype(np.float64)
    for _ in range(HORIZON - 1):
        ahead = np.add.reduceat(probabilities * values[indices], indptr[:-1])
        values = ENDS + ahead[mdp.row_of[np.arange(N_STATES), policy]]
    return float(values[first].mean())


def careful(episodes: Sequence[cp.Episode], mdp: cp.TabularMDP) -> cp.TabularMDP:
    """The table with a learned prior; what follows the ends is known."""
    counts = count_transitions(episodes, AFTER + 1, 8)
    ends = dict.fromkeys((DEATH, DISCHARGE, AFTER), AFTER)
    return estimate_mdp(counts, mdp.rewards, prior=Pooled(ends))


def measure(mdp: cp.TabularMDP, behaviour: FloatArray, seed: int) -> list[str]:
    view = shown()
    whole = simulated(mdp, behaviour, PATIENTS, seed)
    episodes = [cp.Episode(view[one.states], one.actions) for one in whole]
    model = table(episodes)
    policy = optimum(model)
    true = true_value(mdp, policy[view], starts(20_000, 1))
    found = cp.policy_value(model, episodes, policy)
    weighed, own = found.importance, found.value
    prior = careful(episodes, model)
    unsure = cp.policy_value(prior, episodes, policy)
    sets = cp.policy_value(prior, episodes, policy, rows=cp.RowSets.credible(prior, LEVEL))
    plain = [found.population(gamma) for gamma in GAMMAS]
    wide = [unsure.population(gamma) for gamma in GAMMAS]
    covers = [g for g, r in zip(GAMMAS, wide, strict=True) if r.low <= true <= r.high]
    ranges = (*plain, *wide, sets.population(1.0))
    return [
        f"{seed}",
        f"{found.observed.mean():.3f}",
        f"{true:.3f}",
        f"{weighed.value:.3f} ({weighed.interval.low:.2f} to {weighed.interval.high:.2f})",
        f"{own.value:.3f} ({own.interval.low:.2f} to {own.interval.high:.2f})",
        f"{found.model:.3f}",
        f"{unsure.model:.3f}",
        *(f"{one.low:.2f} to {one.high:.2f}" for one in ranges),
        f"{min(covers, default='-')}",
        f"{found.tipping_gamma:.2f} / {unsure.tipping_gamma:.2f}",
        f"{found.better:.0%} / {found.worse:.0%}",
    ]


def five_policies(mdp: cp.TabularMDP, behaviour: FloatArray) -> float:
    """Seconds for five policies on the patients of one table, compiled before."""
    view = shown()
    whole = simulated(mdp, behaviour, PATIENTS, 0)
    episodes = [cp.Episode(view[one.states], one.actions) for one in whole]
    model = table(episodes)
    policies = [optimum(model), *(np.full(model.n_states, a) for a in (0, 3, 7))]
    every = [*policies, np.full(model.row_of.shape, 1 / 8)]
    cp.policy_value(model, episodes[:2], policies[0])
    began = time.process_time()
    for one in every:
        cp.policy_value(model, episodes, one)
    return time.process_time() - began


def main() -> int:
    """Measure, print and write."""
    mdp = Program("draws").mdp
    behaviour = doctors(mdp, SLIPS)
    names = ["data set", "observed", "true", "importance sampling", "counterfactual", "model"]
    names += ["with prior"]
    names += [f"Gamma {g:g}" for g in GAMMAS] + [f"with prior, {g:g}" for g in GAMMAS]
    names += ["credible", "covers from", "tipping Gamma", "better / worse off"]
    lines = ["# A policy learned without knowing who is diabetic", ""]
    lines += ["Written by `python -m benchmarks.hidden_diabetes`.", ""]
    lines += [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for seed in range(SETS):
        lines.append(f"| {' | '.join(measure(mdp, behaviour, seed))} |")
        print(lines[-1], flush=True)
    seconds = five_policies(mdp, behaviour)
    lines += ["", f"Five policies on {PATIENTS:,} patients: {seconds:.1f} s of processor time."]
    print(lines[-1])
    (RESULTS / "hidden_diabetes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
