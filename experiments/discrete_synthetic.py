"""Figures 1 and 2 of the 2021 paper (section 5): synthetic decision processes.

n = 20 states, m = 10 actions, T = 20 steps; 10 instances with 50 realizations each. The relative
difference of a realization tau is (o_bar(tau) - o(tau)) / o(tau), where o is the observed outcome
and o_bar the expected outcome of the optimal counterfactual policy with at most k changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.explain import Frontier, frontier
from counterplan.viz import style
from experiments.figure import PAPER_SEED, Drawn, Options, Track, in_parallel
from experiments.panels import (
    ORDERED,
    canvas,
    draw_curves,
    draw_histogram,
    histogram_edges,
    set_title,
)
from experiments.published import PublishedSampling, published_episode, published_process
from experiments.statistics import Average, average, count_unique
from experiments.synthetic import SyntheticProcess, synthetic_process

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Drawing

ALPHA = 0.4
ALPHAS = (0.1, 0.4, 0.7, 1.0)
BUDGET = 10
SHOWN_BUDGETS = (2, 5, 10)
INSTANCES, PER_INSTANCE = 10, 50
QUICK_INSTANCES, QUICK_PER_INSTANCE = 2, 5
UNIQUE_SAMPLES = 100
# What the three panels of figure 2 show.
OUTCOME = "average counterfactual outcome"
DIFFERENCE = "relative difference (%)"
UNIQUE = "unique explanations"


@dataclass(frozen=True)
class Realization:
    """One observed episode; `number` counts through all instances."""

    process: SyntheticProcess
    episode: Episode
    instance: int
    number: int


def draw_realizations(alpha: float, options: Options) -> list[Realization]:
    """The paper's own realizations for its seed, independent new ones for any other."""
    instances = QUICK_INSTANCES if options.quick else INSTANCES
    per_instance = QUICK_PER_INSTANCE if options.quick else PER_INSTANCE
    drawn: list[Realization] = []
    for instance in range(1, instances + 1):
        if options.seed == PAPER_SEED:
            process = published_process(alpha, instance)
            episodes = [published_episode(process, number) for number in range(per_instance)]
        else:
            rng = options.generator(instance)
            process = synthetic_process(alpha, rng)
            episodes = list(process.sample_episodes(per_instance, rng))
        for episode in episodes:
            drawn.append(Realization(process, episode, instance, len(drawn)))
    return drawn


def figure1(options: Options, track: Track) -> Drawn:
    """Distributions of the relative difference, alpha = 0.4."""
    realizations = draw_realizations(ALPHA, options)
    work = partial(outcomes, options=options)
    values = np.array(in_parallel(work, realizations, track, f"α = {ALPHA:g}"))
    numbers = _numbers1(realizations, values, options)
    return Drawn(_draw1(relative_difference(values), options), numbers)


def figure2(options: Options, track: Track) -> Drawn:
    """Outcome, relative difference and unique explanations against k, for four alphas."""
    panels: dict[str, dict[float, Average]] = {OUTCOME: {}, DIFFERENCE: {}, UNIQUE: {}}
    for alpha in ALPHAS:
        work = partial(outcomes_and_unique, options=options)
        results = in_parallel(work, draw_realizations(alpha, options), track, f"α = {alpha:g}")
        values = np.array([values for values, _ in results])
        panels[OUTCOME][alpha] = average(values)
        panels[DIFFERENCE][alpha] = average(relative_difference(values))
        panels[UNIQUE][alpha] = average([counts for _, counts in results])
    return Drawn(_draw2(panels, options), _numbers2(panels, options))


def outcomes(realization: Realization, options: Options) -> FloatArray:
    """(K + 1,) expected outcomes of the optimal policies with budgets 0..K."""
    return np.array(_frontier(realization, options).values)


def outcomes_and_unique(realization: Realization, options: Options) -> tuple[FloatArray, IntArray]:
    """(K + 1,) expected outcomes, and (K + 1,) numbers of unique explanations."""
    optimal = _frontier(realization, options)
    rng = options.generator(realization.number)
    return np.array(optimal.values), count_unique(optimal, UNIQUE_SAMPLES, rng)


def relative_difference(values: FloatArray) -> FloatArray:
    """(n, K + 1) per cent by which each budget improves on the observed outcome, k = 0."""
    return 100.0 * (values - values[:, :1]) / values[:, :1]


def _frontier(realization: Realization, options: Options) -> Frontier[PolicyExplanation]:
    mdp, episode = realization.process.mdp, realization.episode
    if options.samples is not None and options.seed == PAPER_SEED:
        return frontier(PublishedSampling(mdp, options.samples), episode, BUDGET)
    return frontier(mdp, episode, BUDGET, solver=options.solver(realization.number))


def _source(options: Options) -> str:
    if options.seed == PAPER_SEED:
        return "the authors' seeds"
    return f"drawn anew, seed {options.seed}"


def _numbers1(
    realizations: Sequence[Realization], values: FloatArray, options: Options
) -> pl.DataFrame:
    import polars as pl

    n, budgets = values.shape
    return pl.DataFrame(
        {
            "instance": np.repeat([one.instance for one in realizations], budgets),
            "realization": np.repeat(np.arange(n), budgets),
            "k": np.tile(np.arange(budgets), n),
            "observed_outcome": np.repeat(values[:, 0], budgets),
            "counterfactual_outcome": values.ravel(),
            "relative_difference_percent": relative_difference(values).ravel(),
        }
    ).with_columns(kernel=pl.lit(options.kernel), realizations=pl.lit(_source(options)))


def _numbers2(panels: dict[str, dict[float, Average]], options: Options) -> pl.DataFrame:
    import polars as pl

    rows = [
        {"quantity": quantity, "alpha": alpha, **row}
        for quantity, curves in panels.items()
        for alpha, curve in curves.items()
        for row in curve.rows()
    ]
    return pl.DataFrame(rows).with_columns(
        kernel=pl.lit(options.kernel), realizations=pl.lit(_source(options))
    )


def _draw1(differences: FloatArray, options: Options) -> Drawing:
    title = (
        f"Improvement over the observed outcome, synthetic process with α = {ALPHA:g}\n"
        f"{len(differences)} realizations ({_source(options)}), {options.kernel} kernel"
    )
    drawing = canvas(8.4, 2.8, title)
    row = drawing.subplots(1, len(SHOWN_BUDGETS), sharex=True, sharey=True)
    edges = histogram_edges(differences[:, SHOWN_BUDGETS])
    for axes, k, letter in zip(row, SHOWN_BUDGETS, "abc", strict=True):
        draw_histogram(axes, differences[:, k], edges)
        set_title(axes, f"({letter})  k = {k}")
    row[0].set_ylabel("realizations")
    return drawing


def _draw2(panels: dict[str, dict[float, Average]], options: Options) -> Drawing:
    title = (
        "Influence of the uncertainty α on counterfactual explanations, synthetic process\n"
        f"{panels[OUTCOME][ALPHA].n} realizations for each α ({_source(options)}), "
        f"{options.kernel} kernel, 95 % intervals shaded"
    )
    looks = {f"α = {alpha:g}": look for alpha, look in zip(ALPHAS, ORDERED, strict=True)}
    drawing = canvas(8.4, 3.1, title)
    row = drawing.subplots(1, len(panels))
    for axes, letter, (quantity, curves) in zip(row, "abc", panels.items(), strict=True):
        named = {f"α = {alpha:g}": curve for alpha, curve in curves.items()}
        draw_curves(axes, named, looks, quantity)
        set_title(axes, f"({letter})")
    style.add_legend(row[1], loc="lower right")
    return drawing
