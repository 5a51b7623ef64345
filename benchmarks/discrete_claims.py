"""Do claims about learned tables come true: `python -m benchmarks.discrete_claims` in the
repository's root.

Data sets are drawn anew from processes whose probabilities are known, a table is learned from each
(`scm.Pooled`, which is told what follows ends), and the first episode that ended badly is explained
over posterior draws (`explain(..., risk=1)`, k = 3, inside the data). The truth is what the same
policy is worth under the true probabilities, given the same observed episode, with the Gumbel-Max
model that the claim assumes too. *Held*: how often the
90 % interval of the improvement contains the true one, among policies that change anything.

    --process small|grid|icu|simulator   --episodes N   --sets D   --prior pooled|NUMBER

`small` is a random process of 8 states and 3 actions, another one for each data set, whose rows
scatter around a mean of their state. On the `grid` of 7 x 7 fields, other pits for each data set,
actions lead four ways, and one step in four goes anywhere near: rows of a state have little in
common. It was not looked at while the rules of claims were chosen; the others were.

Without arguments everything is measured, and results/discrete_claims.md written.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import evaluate
from counterplan.counterfactual.discrete.posterior import PosteriorDP
from counterplan.domains import icu_sepsis
from counterplan.scm import Pooled
from counterplan.scm.estimate import count_transitions, estimate_mdp
from experiments.diabetes_sepsis import ENDS, HORIZON, OVER, Program, doctors, starts

RESULTS = Path(__file__).parent / "results"
K, SLIPS, SHORT = 3, 0.3, 8
# Of the grid: its side, how often a step goes astray, pits, and steps.
SIDE, ASTRAY, PITS, STEPS = 7, 0.25, 8, 12
# Data sets that are drawn for each number of episodes, and after how many a line is printed.
SIZES, SOME = {100: 1000, 1000: 1000, 10_000: 1000}, 20


class Process(NamedTuple):
    """True probabilities, how episodes are drawn from them, which of them are asked about, and what
    is known to follow the ends."""

    mdp: cp.TabularMDP
    draw: Callable[[int, int], Sequence[cp.Episode]]
    bad: Callable[[cp.Episode], bool]
    ends: Mapping[int, int]


class Claim(NamedTuple):
    claimed: float
    low: float
    high: float
    true: float
    changed: bool


def process(name: str) -> Process:
    if name == "icu":
        icu = icu_sepsis.load()
        ends = dict.fromkeys((icu_sepsis.DEATH, icu_sepsis.SURVIVAL), icu_sepsis.ABSORBING)
        ends[icu_sepsis.ABSORBING] = icu_sepsis.ABSORBING
        return Process(icu.mdp, lambda n, seed: icu.sample_episodes(n, seed), icu.died, ends)
    if name in ANEW:
        return ANEW[name](0)
    mdp = Program("draws").mdp
    behaviour = doctors(mdp, SLIPS)
    ends = dict.fromkeys([*np.flatnonzero(ENDS).tolist(), OVER], OVER)
    draw = partial(simulated, mdp, behaviour)
    return Process(mdp, draw, lambda one: mdp.outcome(one) <= 0.0, ends)


def small(seed: int) -> Process:
    """A random process; doctors do what is best at the next step half of the time."""
    rng = np.random.default_rng([seed, 7])
    means = rng.dirichlet(np.ones(8), size=8)
    rows = np.array([rng.dirichlet(10.0 * one, size=3) for one in means])
    mdp = cp.TabularMDP(np.maximum(rows, 1e-9), np.repeat(np.arange(8.0)[:, None], 3, axis=1))
    good = np.eye(3)[(rows @ np.arange(8.0)).argmax(axis=1)]
    behaviour, mean = 0.5 * good + 0.5 / 3, float(np.mean(np.arange(8.0)))

    def draw(n: int, seed: int) -> Sequence[cp.Episode]:
        return simulated(
            mdp, behaviour, n, seed, np.random.default_rng(seed).integers(8, size=n), SHORT
        )

    return Process(mdp, draw, lambda one: mdp.outcome(one) < mean * len(one), {})


def grid(seed: int) -> Process:
    """Fields in rows, a goal in the last one, pits, and what follows an end; walkers go right or
    down, or anywhere half of the time."""
    rng, S = np.random.default_rng([seed, 11]), SIDE * SIDE + 1
    goal, over = S - 2, S - 1
    pits = rng.choice(np.arange(1, goal), size=PITS, replace=False)
    rows = np.zeros((S, 4, S))
    for field in range(S - 1):
        y, x = divmod(field, SIDE)
        ways = [(y + dy, x + dx) for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        near = [np.clip(one, 0, SIDE - 1) @ (SIDE, 1) for one in ways]
        for action in range(4):
            rows[field, action, near[action]] += 1.0 - ASTRAY
            np.add.at(rows[field, action], near, ASTRAY / 4)
    ends = [*pits.tolist(), goal]
    rows[[*ends, over]] = np.eye(S)[over]
    rewards = np.zeros((S, 4))
    rewards[pits], rewards[goal] = -1.0, 1.0
    mdp, behaviour = cp.TabularMDP(rows, rewards), np.tile([0.375, 0.375, 0.125, 0.125], (S, 1))

    def draw(n: int, seed: int) -> Sequence[cp.Episode]:
        return simulated(mdp, behaviour, n, seed, np.zeros(n, dtype=np.int64), STEPS, over)

    return Process(
        mdp, draw, lambda one: mdp.outcome(one) <= 0.0, dict.fromkeys([*ends, over], over)
    )


# Processes that are another one for each data set.
ANEW = {"small": small, "grid": grid}


def simulated(
    mdp: cp.TabularMDP,
    behaviour: Any,
    n: int,
    seed: int,
    first: Any = None,
    horizon: int = HORIZON,
    over: int = OVER,
) -> Sequence[cp.Episode]:
    """n patients, until the simulator's end or its horizon."""
    rng, sampler = np.random.default_rng(seed), icu_sepsis.TransitionSampler(mdp)
    states, actions = np.empty((2, n, horizon), dtype=np.int64)
    states[:, 0] = starts(n, rng) if first is None else first
    for t in range(horizon):
        actions[:, t] = icu_sepsis.draw_actions(behaviour, states[:, t], rng)
        if t < horizon - 1:
            states[:, t + 1] = sampler.draw(states[:, t], actions[:, t], rng)
    lengths = np.minimum((states != over).sum(axis=1) + 1, horizon)
    return [cp.Episode(s[:T], a[:T]) for s, a, T in zip(states, actions, lengths, strict=True)]


def learned(one: Process, episodes: Sequence[cp.Episode], prior: str) -> cp.TabularMDP:
    """The table with the true rewards and ends, which keeps its counts."""
    true = one.mdp
    counts = count_transitions(episodes, true.n_states, true.n_actions)
    weights = Pooled(one.ends) if prior == "pooled" else float(prior)
    model = estimate_mdp(counts, true.rewards, prior=weights, admissible=true.admissible)
    model = model.with_rewards(true.rewards, true.final_rewards)
    return model.with_data(visits=counts.visits)


def claims(one: Process, n: int, seed: int, prior: str) -> list[Claim]:
    """What is claimed about the first episode of a data set that went badly, and what is true."""
    episodes = one.draw(n, seed)
    model = learned(one, episodes, prior)
    found = []
    for episode in [e for e in episodes if one.bad(e) and len(e) > 3][:1]:
        answer = cp.explain(model, episode, K, risk=1.0, solver=PosteriorDP(bounded=False))
        setting, law = prepare(Problem(one.mdp, episode, K))
        value = evaluate(setting, law, answer.process.table)[min(K, setting.k)]
        gain = float(value) - answer.factual_value
        changed = bool(np.any(answer.outcomes != answer.factual_value))
        found.append(Claim(answer.improvement, *answer.interval, gain, changed))
    return found


def row(name: str, n: int, sets: int, every: Sequence[Claim], seconds: float) -> str:
    table = np.array(every, dtype=np.float64)
    claimed, low, high, true = table[:, :4].T
    asked = table[:, 4] > 0
    held = (low - 1e-9 <= true) & (true <= high + 1e-9)
    ratio = claimed.sum() / true.sum() if abs(true.sum()) > 1e-9 else float("nan")
    return (
        f"| {name} | {n:,} | {sets} | {len(every)} | {asked.mean():.0%} | {claimed.mean():.3f} "
        f"| {true.mean():.3f} | {ratio:.2f} | {held[asked].mean():.0%} "
        f"| {(high - low)[asked].mean():.2f} | {seconds:.0f} s |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--process", choices=[*ANEW, "icu", "simulator"])
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--sets", type=int)
    parser.add_argument("--prior", default="pooled")
    given = parser.parse_args(arguments)
    lines = [
        "# Claims about learned tables",
        "",
        "Written by `python -m benchmarks.discrete_claims`; `--sets` says how many data sets.",
        "",
        "| process | episodes | data sets | asked | changed | claimed | true | claimed / true "
        "| held (90 %) | width | processor time |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    print("\n".join(lines))
    for name in [given.process] if given.process else [*ANEW, "icu", "simulator"]:
        one = process(name)
        for n in [given.episodes] if given.episodes else SIZES:
            sets, began = given.sets or SIZES[n], time.process_time()
            every = []
            for seed in range(sets):
                every += claims(ANEW[name](seed) if name in ANEW else one, n, seed, given.prior)
                if seed % SOME == SOME - 1 and every:
                    took = time.process_time() - began
                    print(row(name, n, seed + 1, every, took), file=sys.stderr, flush=True)
            lines.append(row(name, n, sets, every, time.process_time() - began))
            print(lines[-1], flush=True)
    if not given.process:
        (RESULTS / "discrete_claims.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
