"""A few ratios in one short run: `python -m benchmarks.ratios [--check]`.

Each is the processor time of a plain way over ours, in turns, so that a busy machine slows both.
`--check` compares with the ratios below, which were measured once, and fails where one has fallen
to less than half: that is no noise.

    discrete    the 2021 paper's algorithm, vectorised, over `cp.frontier`: 20 x 10, T = 20, k <= 10
    continuous  trying every sequence over A* with its bound: a network, T = 12, k = 3; with weights
                so small that the bound bites (with larger ones, tried first, it was 1.3 to 2.5), so
                it guards against a fall and does not say how fast searches are
    planning    an object tree in plain Python over `UCT`: bunkering, a simulation
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import counterplan as cp
from benchmarks.measure import timed

ROUNDS = 5
# Measured on two shared cores; `--check` asks for half of each.
KNOWN = {"discrete": 87.0, "continuous": 250.0, "planning": 20.0}


def ratio(slow: Callable[[], Any], fast: Callable[[], Any], calls: int = 1) -> float:
    """The median over rounds, each of both in turn."""
    fast()
    found = []
    for _ in range(ROUNDS):
        quick = timed(fast, calls)[1]
        found.append(timed(slow)[1] / quick)
    return statistics.median(found)


def discrete() -> float:
    from benchmarks.baselines import numpy_sampler
    from benchmarks.problems import dense_transitions, synthetic_problem

    mdp, episode = synthetic_problem(20, 20)
    rng, rows = np.random.default_rng(0), dense_transitions(mdp)

    def slow() -> Any:
        kernel = numpy_sampler.sample_kernel(rows, episode, 1_000, rng)
        return numpy_sampler.solve(kernel, mdp.rewards, episode, 10)

    return ratio(slow, partial(cp.frontier, cp.GumbelMaxSCM(mdp), episode, k_max=10), 5)


def continuous() -> float:
    from counterplan.counterfactual.continuous.astar import NoBound

    rng = np.random.default_rng(0)

    def network(size: float) -> dict[str, Any]:
        return {
            "state": 0.4 * rng.normal(size=(32, 3)), "bias": rng.normal(size=32),
            "action": rng.normal(size=(32, 1)), "output": size * rng.normal(size=(3, 32)),
            "output_bias": np.zeros(3), "multiplier": 1.0,
        }  # fmt: skip

    scm = cp.NeuralSCM.from_weights(network(0.05), network(0.005), np.eye(3))
    doses = np.linspace(0.0, 1.0, 25)[:, None]
    states, taken = [rng.normal(size=3)], rng.integers(0, 25, 11)
    for one in taken:
        noise = rng.normal(0.0, 0.1, (1, 3))
        states.append(scm.step(states[-1][None], doses[[one]], noise)[0])
    episode = cp.Episode(states=np.array(states), actions=taken)
    asked: dict[str, Any] = {"actions": doses, "reward": cp.LinearReward([1.0, 0.0, 0.0])}
    fast = partial(cp.explain, scm, episode, k=3, **asked)
    return ratio(partial(fast, solver=cp.AStar(NoBound())), fast)


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
    "planning": planning,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where one has fallen by half")
    check, fell = parser.parse_args().check, False
    for name, measure in MEASURED.items():
        found = measure()
        low = found < KNOWN[name] / 2
        fell |= low
        print(f"{name:<12}{found:>9.1f}   (known: {KNOWN[name]:.1f}){'   FELL' if low else ''}")
    return int(check and fell)


if __name__ == "__main__":
    raise SystemExit(main())
