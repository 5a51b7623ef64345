"""A few ratios in one short run: `python -m benchmarks.ratios [--check]`.

Each is the processor time of a plain way over ours, in turns, so that a busy machine slows both.
`--check` compares with the ratios below, which were measured once, and fails where one has fallen
to less than half: that is no noise.

    discrete    the 2021 paper's algorithm, vectorised, over `cp.frontier`: 20 x 10, T = 20, k <= 10
    continuous  trying every sequence over A* with its bounds: a model learned from 250 simulated
                sepsis patients, others asked about, 25 actions, T = 12, k = 3; sequences inside the
                data, which is the rule and leaves few of them to try
    anywhere    the same with sequences that may leave the data, one patient
    planning    an object tree in plain Python over `UCT`: bunkering, a simulation

`--planning` measures, in one run, planning alone against what others use, without a check:

    scenario tree  one HiGHS program over every history, over `policies.Cuts` to 1e-4: four
                   reservoirs, 5 months
    QuantLib       its Monte Carlo engine of American options over `longstaff_schwartz`: 100,000
                   paths, option C
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import counterplan as cp
from benchmarks.measure import timed

ROUNDS = 5
# Measured on two shared cores; `--check` asks for half of each.
KNOWN = {"discrete": 87.0, "continuous": 1.5, "anywhere": 14.5, "planning": 20.0}


def ratio(
    slow: Callable[[], Any], fast: Callable[[], Any], calls: int = 1, rounds: int = ROUNDS
) -> float:
    """The median over rounds, each of both in turn."""
    fast()
    found = []
    for _ in range(rounds):
        quick = timed(fast, calls)[1]
        found.append(timed(slow)[1] / quick)
    return statistics.median(found)


def discrete() -> float:
    from benchmarks.baselines import numpy_sampler
    from benchmarks.problems import dense_transitions, first_frontier, synthetic_problem

    mdp, episode = synthetic_problem(20, 20)
    rng, rows = np.random.default_rng(0), dense_transitions(mdp)

    def slow() -> Any:
        kernel = numpy_sampler.sample_kernel(rows, episode, 1_000, rng)
        return numpy_sampler.solve(kernel, mdp.rewards, episode, 10)

    return ratio(slow, partial(first_frontier, mdp, episode, 10), 5)


def learned(patients: int) -> tuple[cp.SmoothSCM, cp.LinearReward]:
    """A model as `cp.fit` learns it, from simulated sepsis patients, with the data it keeps."""
    from counterplan.domains import sepsis
    from counterplan.scm.support import collect_seen
    from experiments.ground_truth import _sepsis_cohort

    cohort = _sepsis_cohort(patients, 0)
    data, scaling = cp.Transitions.collect(cohort.episodes), sepsis.scaling(cohort)
    model = cp.SmoothSCM.fit(data, fixed=len(sepsis.FIXED), scaling=scaling)
    return replace(model, seen=collect_seen(data, scaling)), sepsis.reward()


def continuous(inside: bool = True, rounds: int = ROUNDS) -> float:
    from benchmarks.members import questions
    from counterplan.counterfactual import NoBound

    model, reward = learned(250)
    scm, asked = replace(model, draws=None), questions(3, 12)[: 3 if inside else 1]
    where = cp.Constraints(supported=inside)

    def every(solver: cp.AStar) -> list[float]:
        options: dict[str, Any] = {"reward": reward, "solver": solver, "constraints": where}
        return [cp.explain(scm, one, 3, actions=its, **options).value for one, its in asked]

    return ratio(partial(every, cp.AStar(NoBound())), partial(every, cp.AStar()), 1, rounds)


def planning() -> float:
    from benchmarks.scalar_models import ScalarBunkering
    from benchmarks.tree_baseline import ObjectUCT

    problem = cp.domains.Bunkering("A")
    decide = cp.UCT(10_000, leaf="uniform").begin(problem, False, 0)
    scalar = ScalarBunkering(problem, 32)
    return ratio(lambda: ObjectUCT(scalar, 0).plan(10_000), lambda: decide(problem.start), 5)


MEASURED: dict[str, Callable[[], float]] = {
    "discrete": discrete,
    "continuous": continuous,
    "anywhere": partial(continuous, False, 1),
    "planning": planning,
}


def scenario_tree() -> float:
    from benchmarks.cuts import Reservoirs, scenario_tree

    model, cuts = Reservoirs(horizon=5, inflows=3), cp.policies.Cuts(gap=1e-4)
    return ratio(lambda: scenario_tree(model).solve(), partial(cuts.solve, model))


def quantlib() -> float:
    from benchmarks.longstaff_schwartz import PATHS, longstaff_schwartz, quantlib

    option = cp.domains.AmericanOption("C")
    return ratio(lambda: quantlib(option.contract, 1), lambda: longstaff_schwartz(option, PATHS, 1))


OTHERS: dict[str, Callable[[], float]] = {
    "object tree": planning,
    "scenario tree": scenario_tree,
    "QuantLib": quantlib,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where one has fallen by half")
    parser.add_argument("--planning", action="store_true", help="against other planners, alone")
    given, fell = parser.parse_args(), False
    if given.planning:
        for name, measure in OTHERS.items():
            print(f"{name:<14}{measure():>9.1f}", flush=True)
        return 0
    for name, measure in MEASURED.items():
        found = measure()
        low = found < KNOWN[name] / 2
        fell |= low
        print(f"{name:<12}{found:>9.1f}   (known: {KNOWN[name]:.1f}){'   FELL' if low else ''}")
    return int(given.check and fell)


if __name__ == "__main__":
    raise SystemExit(main())
