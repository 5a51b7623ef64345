"""Figures 3 and 5 of the 2021 paper (section 6, appendix D): all patients of a therapy cohort."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.problem import Solver
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.baselines import Greedy, NoisyGreedy, Random
from counterplan.scm.tabular import TabularMDP
from counterplan.viz import style
from experiments import therapy
from experiments.figure import Drawn, Options, Track, in_parallel
from experiments.panels import Look, canvas, draw_curves, draw_histogram, histogram_edges, set_title
from experiments.statistics import Average, average, count_unique
from experiments.therapy_sessions import (
    PATIENT_BUDGET,
    REALIZATIONS,
    Patient,
    Sessions,
    explain_episode,
    explain_patients,
    load_sessions,
)

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Drawing

OUTCOME = "average counterfactual outcome"
DIFFERENCE = "relative difference (%)"
UNIQUE = "unique explanations"
OPTIMAL = "optimal"
LOOKS = {
    OPTIMAL: Look(style.COUNTERFACTUAL, "o"),
    "greedy": Look("#009e73", "s"),
    "noisy greedy": Look("#e69f00", "^"),
    "random": Look("#cc79a7", "D"),
}


def figure3(options: Options, track: Track) -> Drawn:
    """Relative difference at k = 3, and outcome and unique explanations against k."""
    sessions = load_sessions(options)
    patients = explain_patients(sessions, options, track)
    counts = in_parallel(partial(_unique, options=options), patients, track, "unique explanations")
    curves = {
        OUTCOME: average([patient.optimal.values for patient in patients]),
        UNIQUE: average(counts),
    }
    numbers = _numbers3(patients, curves, sessions, options)
    return Drawn(_draw3(patients, curves, sessions, options), numbers)


def figure5(options: Options, track: Track) -> Drawn:
    """The optimal policy and the baselines, which are all evaluated exactly; pairs never seen are
    valued like the others, since baselines would run into them."""
    sessions = load_sessions(options)
    mdp = therapy.estimate(sessions.episodes, unobserved="value")
    curves = {}
    for policy in LOOKS:
        work = partial(_values, policy=policy, mdp=mdp, options=options)
        numbered = list(enumerate(sessions.episodes))
        curves[policy] = average(in_parallel(work, numbered, track, policy))
    return Drawn(_draw5(curves, sessions, options), _numbers5(curves, sessions, options))


def _unique(patient: Patient, options: Options) -> IntArray:
    return count_unique(patient.optimal, REALIZATIONS, options.generator(patient.number))


def _values(
    numbered: tuple[int, Episode], policy: str, mdp: TabularMDP, options: Options
) -> tuple[float, ...]:
    """Expected outcomes of a policy for all budgets."""
    number, episode = numbered
    baselines: dict[str, Solver] = {
        "greedy": Greedy(),
        "noisy greedy": NoisyGreedy(),
        "random": Random(),
    }
    solver = options.solver(number) if policy == OPTIMAL else baselines[policy]
    return explain_episode(mdp, episode, solver).values


def _differences(patients: Sequence[Patient]) -> FloatArray:
    """(n,) relative differences at k = 3 in per cent."""
    return np.array([100.0 * patient.improvement for patient in patients])


def _numbers3(
    patients: Sequence[Patient], curves: dict[str, Average], sessions: Sessions, options: Options
) -> pl.DataFrame:
    import polars as pl

    singles = [
        {"quantity": DIFFERENCE, "patient": patient.name, "k": PATIENT_BUDGET, "mean": difference}
        for patient, difference in zip(patients, _differences(patients), strict=True)
    ]
    means = [
        {"quantity": quantity, "patient": "all", **row}
        for quantity, curve in curves.items()
        for row in curve.rows()
    ]
    return pl.DataFrame(means + singles).with_columns(
        kernel=pl.lit(options.kernel), data=pl.lit(sessions.source)
    )


def _draw3(
    patients: Sequence[Patient], curves: dict[str, Average], sessions: Sessions, options: Options
) -> Drawing:
    drawing = canvas(8.4, 3.0, _title("Optimal explanations", sessions, options))
    first, *others = drawing.subplots(1, 3)
    differences = _differences(patients)
    draw_histogram(first, differences, histogram_edges(differences))
    set_title(first, f"(a)  k = {PATIENT_BUDGET}")
    first.set_ylabel("patients")
    for axes, letter, (quantity, curve) in zip(others, "bc", curves.items(), strict=True):
        draw_curves(axes, {"optimal": curve}, LOOKS, quantity)
        set_title(axes, f"({letter})")
    return drawing


def _numbers5(curves: dict[str, Average], sessions: Sessions, options: Options) -> pl.DataFrame:
    import polars as pl

    rows = [
        {
            "policy": policy,
            **row,
            "kernel": options.kernel if policy == OPTIMAL else "exact",
        }
        for policy, curve in curves.items()
        for row in curve.rows()
    ]
    return pl.DataFrame(rows).with_columns(data=pl.lit(sessions.source))


def _draw5(curves: dict[str, Average], sessions: Sessions, options: Options) -> Drawing:
    drawing = canvas(
        5.6, 3.8, _title("The optimum and simpler policies, unseen pairs valued", sessions, options)
    )
    axes = drawing.subplots()
    draw_curves(axes, curves, LOOKS, OUTCOME)
    style.add_legend(axes)
    return drawing


def _title(what: str, sessions: Sessions, options: Options) -> str:
    count = len(sessions.episodes)
    return (
        f"{what}, {count} therapy patients ({sessions.source})\n"
        f"{options.kernel} kernel, 95 % intervals shaded"
    )
