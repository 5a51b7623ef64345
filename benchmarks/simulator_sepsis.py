"""True counterfactuals of a program that nobody chose to be Gumbel-Max: `python -m
benchmarks.simulator_sepsis` in the repository's root.

The diabetes-sepsis simulator (`experiments.diabetes_sepsis`) draws random numbers, in two versions
that have the same MDP. Patients who were not discharged are explained (k = 3), and for each the
program itself says what the plan would truly have brought: the mean over all random numbers that
explain what was observed, exact. That is what an interval over causal models is about. The replay
of the very numbers that were drawn is one draw from it, -1, 0 or 1: it is reported as a mean over
patients, which must agree.

    known       plans and intervals from the true probabilities
    n patients  from probabilities learned by counting (true support, one pseudo-count a row), with
                intervals for the rows as they are, and over credible sets of them

Writes results/simulator_sepsis.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import counterplan as cp
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.scm.estimate import count_transitions, estimate_mdp
from experiments.diabetes_sepsis import ENDS, N_ACTIONS, N_STATES, Patient, Program, doctors, starts

RESULTS = Path(__file__).parent / "results"
K, SLIPS = 3, 0.3
PROGRAMS = {name: Program(name) for name in ("draws", "vitals")}
ASSUMED = ("none", "stable", "monotone")
PLANS = {"doubt 0": 0.0, "doubt 0.2": 0.2, "doubt 0.5": 0.5, "maximin": None}


class Asked(NamedTuple):
    """One plan for one patient: by the model, and by the program."""

    expected: float
    guaranteed: float
    observed: float
    true: dict[str, float]
    replayed: float
    intervals: dict[str, tuple[float, float]]


def learned(true: cp.TabularMDP, patients: int) -> cp.TabularMDP:
    """Counted from simulated patients; only what was seen is advised."""
    cohort = PROGRAMS["draws"].simulate(doctors(true, SLIPS), starts(patients, 1), 1)
    counts = count_transitions([one.episode for one in cohort], N_STATES, N_ACTIONS)
    prior = np.zeros((N_STATES, N_ACTIONS, N_STATES))
    for s in range(N_STATES):
        for a in range(N_ACTIONS):
            allowed, _ = true.rows.slice(true.row_of[s, a])
            prior[s, a, allowed] = 1.0 / len(allowed)
    return estimate_mdp(counts, ENDS[:, None], prior=prior, admissible=counts.observed)


def ask(mdp: cp.TabularMDP, patient: Patient, doubt: float | None, sets: object) -> Asked:
    """A plan, what the model says of it, and what the program does."""
    episode = patient.episode
    plan = (
        cp.robust_explain(mdp, episode, K)
        if doubt is None
        else cp.explain(mdp, episode, K, doubt=doubt)
    )
    intervals = {"none": _interval(mdp, plan, "none", None)}
    if doubt == 0.0:
        for assume in ASSUMED:
            intervals[assume] = _interval(mdp, plan, assume, None)
            if sets is not None:
                intervals[f"{assume}, rows"] = _interval(mdp, plan, assume, sets)
    return Asked(
        plan.outcome_mean,
        intervals["none"][0],
        float(ENDS[episode.states].sum()),
        {name: one.expected(episode, plan.policy) for name, one in PROGRAMS.items()},
        PROGRAMS["draws"].replay(patient, plan.policy),
        intervals,
    )


def _interval(
    mdp: cp.TabularMDP, plan: PolicyExplanation, assume: str, sets: object
) -> tuple[float, float]:
    found = cp.value_interval(mdp, plan.episode, plan, assume=assume, rows=sets)  # type: ignore[arg-type]
    return found.low, found.high


def holds(asked: Sequence[Asked], version: str, kind: str) -> float:
    """How often the interval contains what is true."""
    inside = [
        one.intervals[kind][0] - 1e-9 <= one.true[version] <= one.intervals[kind][1] + 1e-9
        for one in asked
    ]
    return float(np.mean(inside))


def _plan_row(source: str, name: str, asked: Sequence[Asked]) -> str:
    true = {v: np.array([one.true[v] for one in asked]) for v in PROGRAMS}
    done = np.array([one.observed for one in asked])
    expected = np.array([one.expected for one in asked])
    replayed = np.array([one.replayed for one in asked])
    off = [np.abs(expected - true[v]).mean() for v in PROGRAMS]
    worse = [np.mean(true[v] < done - 1e-9) for v in PROGRAMS]
    return (
        f"| {source} | {name} | {expected.mean():.3f} | "
        f"{np.mean([one.guaranteed for one in asked]):.3f} | "
        f"{' | '.join(f'{true[v].mean():.3f}' for v in PROGRAMS)} | "
        f"{replayed.mean():.3f} ± {replayed.std(ddof=1) / np.sqrt(len(asked)):.3f} | "
        f"{' and '.join(f'{one:.3f}' for one in off)} | "
        f"{' and '.join(f'{100 * one:.0f} %' for one in worse)} |"
    )


def _interval_row(source: str, kind: str, asked: Sequence[Asked]) -> str:
    shares = " | ".join(f"{100 * holds(asked, v, kind):.0f} %" for v in PROGRAMS)
    widths = [one.intervals[kind][1] - one.intervals[kind][0] for one in asked]
    assume, _, rows = kind.partition(", ")
    over = "over credible sets" if rows else "as they are"
    return f"| {source} | {assume} | {over} | {shares} | {np.mean(widths):.2f} |"


def _possible(patients: Sequence[Patient], asked: Sequence[Asked]) -> list[str]:
    """What the best plan by the program itself brings, beside the plan by Gumbel-Max."""
    lines = []
    for name, program in PROGRAMS.items():
        best = [program.best(one.episode, K) for one in patients]
        lines.append(
            f"* {name}: {np.mean([one.observed for one in asked]):.3f} was observed, "
            f"{np.mean(best):.3f} possible, {np.mean([one.true[name] for one in asked]):.3f} by "
            "the Gumbel-Max plan."
        )
        print(lines[-1], flush=True)
    return lines


def _gain(name: str, asked: Sequence[Asked], base: Sequence[Asked]) -> str:
    """What a plan truly brings beyond the one without doubt, patient by patient."""
    more = np.array(
        [one.true["draws"] - two.true["draws"] for one, two in zip(asked, base, strict=True)]
    )
    error = more.std(ddof=1) / np.sqrt(len(more))
    return f"* draws: {name} brings {more.mean():.3f} ± {error:.3f} more than doubt 0."


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10_000])
    given = parser.parse_args()
    started, true = time.process_time(), PROGRAMS["draws"].mdp
    drawn = PROGRAMS["draws"].simulate(doctors(true, SLIPS), starts(4 * given.patients, 2), 2)
    asked_about = [one for one in drawn if ENDS[one.episode.states].sum() <= 0][: given.patients]
    plans, intervals, possible = [], [], []
    base: list[Asked] = []
    for size in [None, *given.sizes]:
        mdp = true if size is None else learned(true, size)
        sets = None if size is None else cp.RowSets.credible(mdp, 0.95)
        source = "known" if size is None else f"{size:,} patients"
        for name, doubt in PLANS.items():
            asked = [ask(mdp, one, doubt, sets) for one in asked_about]
            plans.append(_plan_row(source, name, asked))
            print(plans[-1], flush=True)
            if doubt == 0.0:
                kinds = list(asked[0].intervals)
                intervals += [_interval_row(source, kind, asked) for kind in kinds]
                print("\n".join(intervals[-len(kinds) :]), flush=True)
            if doubt and size is None:
                possible.append(_gain(name, asked, base))
            if doubt == 0.0:
                base = asked
            if doubt == 0.0 and size is None:
                possible = _possible(asked_about, asked)
        seconds = time.process_time() - started
        _write(len(asked_about), seconds, plans, intervals, possible)
    return 0


def _write(
    n: int, seconds: float, plans: list[str], intervals: list[str], possible: list[str]
) -> None:
    lines = [
        "# True counterfactuals of the diabetes-sepsis simulator",
        "",
        f"Written by `python -m benchmarks.simulator_sepsis` in {seconds:.0f} s of processor time: "
        f"{n} patients who were not discharged (death -1, still there after 20 steps 0, discharge "
        f"1), at most {K} changes. Draws and vitals: the program's own counterfactuals, means over "
        "all random numbers that explain what was observed, with a number for every line that "
        "draws or one for every vital. Off: how far Gumbel-Max is from them, mean of the absolute "
        "differences. Worse: the share of patients whose plan is truly worse than what was done.",
        "",
        "| probabilities | plan | expected | guaranteed | true, draws | true, vitals | "
        "replayed (draws) | off | worse |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *plans,
        "",
        "How often intervals of the plan without doubt contain what is true, and their mean width:",
        "",
        "| probabilities | causal models | rows | draws | vitals | width |",
        "| --- | --- | --- | ---: | ---: | ---: |",
        *intervals,
        "",
        *possible,
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "simulator_sepsis.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
