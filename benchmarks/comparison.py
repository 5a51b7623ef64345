"""Against two ways to sample: n = 20, m = 10, T = 20, every budget 0..10, d = 1,000.

A round times all three on one episode of its own, one after the other, so that a ratio compares
neighbours in time. The loop draws LOOP_SAMPLES of its 1,000 samples at every step; that part's
time is scaled up, its dynamic program is timed in full.

The three must solve the same problem, which is checked in the same run:

1. both baselines' dynamic programs, given the exact kernel, give counterplan's values to 1e-9;
2. under sampled kernels, the optimal policy is worth what counterplan says, and the share of pairs
   (t, s, a) that end where the episode did is the exact one. Both are unbiased estimates (the
   policy is fixed in advance, samples of different steps are independent), so their means over
   SEEDS kernels must lie within 5 standard errors.

The optimum over a sampled kernel is another matter: it picks what the noise favours. How far it is
off on average is reported, not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import counterplan as cp
from benchmarks.baselines import numpy_sampler, python_loop
from benchmarks.measure import Finding, Timing, ratio, timed, timing
from benchmarks.problems import ALPHA, BUDGET, HORIZON, dense_transitions, first_frontier
from experiments import synthetic

SAMPLES = 1000
LOOP_SAMPLES = 20
ROUNDS = 7
SOLVER_CALLS = 20
SEEDS = 20


@dataclass(frozen=True)
class Agreement:
    """How far the baselines are from counterplan, in the worst of the estimates.

    same_kernel      largest difference of values, all on the exact kernel
    standard_errors  largest distance of a sampled mean from the exact one, in standard errors
    optimum_error    mean error of the optimum over d = 1,000 samples, k = 10
    optimum_noise    standard error of that mean
    """

    same_kernel: float
    standard_errors: float
    optimum_error: float
    optimum_noise: float

    @property
    def holds(self) -> bool:
        return self.same_kernel <= 1e-9 and self.standard_errors <= 5.0


def compare() -> tuple[list[Finding], Agreement]:
    process = synthetic.synthetic_process(ALPHA, seed=0, horizon=HORIZON)
    episodes = process.sample_episodes(ROUNDS, seed=1)
    transitions = dense_transitions(process.mdp)
    exact, loop, vectorised = _rounds(process.mdp, transitions, episodes)
    findings = [Finding("counterplan, exact", exact.wall, "s", exact.cpu)]
    for name, slow, target in (
        ("vectorised NumPy sampler, d = 1,000", vectorised, 20.0),
        ("Python loop, d = 1,000 (timed on 2 %, scaled)", loop, 1000.0),
    ):
        wall, cpu = ratio(slow, exact)
        findings.append(Finding(name, slow.wall, "s", slow.cpu))
        findings.append(Finding(f"counterplan against the {name}", wall, "x", cpu, target))
    return findings, check_agreement(process.mdp, transitions, episodes[0])


def _rounds(
    mdp: cp.TabularMDP, transitions: Any, episodes: tuple[cp.Episode, ...]
) -> tuple[Timing, Timing, Timing]:
    """Timings of counterplan, the loop (scaled) and the vectorised sampler."""
    exact, loop, vectorised = [], [], []
    for seed, episode in enumerate(episodes):
        rng = np.random.default_rng(seed)
        solve_exactly = partial(first_frontier, mdp, episode, BUDGET)
        solve_exactly()
        exact.append(timed(solve_exactly, SOLVER_CALLS))
        draw = partial(numpy_sampler.sample_kernel, transitions, episode, SAMPLES, rng)
        vectorised.append(
            timed(lambda draw=draw, e=episode: numpy_sampler.solve(draw(), mdp.rewards, e, BUDGET))
        )
        loop.append(_loop_seconds(mdp, transitions, episode, rng))
    return timing(exact), timing(loop), timing(vectorised)


def _loop_seconds(
    mdp: cp.TabularMDP, transitions: Any, episode: cp.Episode, rng: np.random.Generator
) -> tuple[float, float]:
    kernels: list[Any] = []
    sampling = timed(
        lambda: kernels.append(python_loop.sample_kernel(transitions, episode, LOOP_SAMPLES, rng))
    )
    solving = timed(lambda: python_loop.solve(kernels[0], mdp.rewards, episode, BUDGET))
    scale = SAMPLES / LOOP_SAMPLES
    return sampling[0] * scale + solving[0], sampling[1] * scale + solving[1]


def check_agreement(mdp: cp.TabularMDP, transitions: Any, episode: cp.Episode) -> Agreement:
    values = np.array(cp.frontier(mdp, episode, k_max=BUDGET).values)
    exact_kernel = _exact_kernel(mdp, episode)
    solved, policy = numpy_sampler.solve(exact_kernel, mdp.rewards, episode, BUDGET)
    looped, _ = python_loop.solve(exact_kernel, mdp.rewards, episode, BUDGET)
    same_kernel = max(np.abs(solved - values).max(), np.abs(looped - values).max())

    optima: list[Any] = []

    def vectorised(rng: np.random.Generator) -> Any:
        kernel = numpy_sampler.sample_kernel(transitions, episode, SAMPLES, rng)
        optima.append(numpy_sampler.solve(kernel, mdp.rewards, episode, BUDGET)[0])
        return kernel

    def looped_kernel(rng: np.random.Generator) -> Any:
        return python_loop.sample_kernel(transitions, episode, LOOP_SAMPLES, rng)

    expected = _estimates(exact_kernel, mdp.rewards, episode, policy)

    def distance(sample: Callable[[np.random.Generator], Any]) -> float:
        kernels = (sample(np.random.default_rng([1, seed])) for seed in range(SEEDS))
        drawn = [_estimates(kernel, mdp.rewards, episode, policy) for kernel in kernels]
        return _standard_errors(np.array(drawn), expected)

    standard_errors = max(distance(vectorised), distance(looped_kernel))
    errors = np.array(optima)[:, -1] - values[-1]
    noise = errors.std(ddof=1) / np.sqrt(SEEDS)
    return Agreement(float(same_kernel), standard_errors, float(errors.mean()), float(noise))


def _estimates(kernel: Any, rewards: Any, episode: cp.Episode, policy: Any) -> Any:
    """(k + 2,) a policy's worth for every budget, and the share of pairs that end as observed."""
    worth = numpy_sampler.evaluate(kernel, rewards, episode, policy)
    steps = np.arange(len(episode) - 1)
    return np.append(worth, kernel[steps, :, :, episode.states[1:]].mean())


def _standard_errors(drawn: Any, expected: Any) -> float:
    """Largest distance over the estimates; the floor is for k = 0, where only rounding varies."""
    errors = np.maximum(drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn)), 1e-10)
    return float(np.max(np.abs(drawn.mean(axis=0) - expected) / errors))


def _exact_kernel(mdp: cp.TabularMDP, episode: cp.Episode) -> Any:
    scm = cp.GumbelMaxSCM(mdp)
    steps = zip(episode.states[:-1], episode.actions[:-1], episode.states[1:], strict=True)
    return np.array(
        [
            [
                [scm.counterfactual_row(*observed, s, a) for a in range(mdp.n_actions)]
                for s in range(mdp.n_states)
            ]
            for observed in steps
        ]
    )
