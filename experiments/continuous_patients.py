"""Figure 3 of the 2023 paper: what a different treatment would have brought each patient.

Improvement is the relative decrease of the SOFA score summed over the episode, according to the
model. The paper's search is run as well, for budgets that it can afford; both are exact, so its
points lie on our curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.claims import SequenceExplanation
from counterplan.counterfactual.explain import frontier
from counterplan.domains import sepsis
from counterplan.domains.icu_episodes import DRUGS, HOURS, LEVELS
from counterplan.viz import style
from counterplan.viz.explained import Trajectory
from counterplan.viz.labels import Move
from counterplan.viz.trajectory import draw_trajectory
from experiments.continuous_panels import LOOKS
from experiments.continuous_study import HORIZON, LOCATION, OURS, PAPERS, SCALE, Cell, Study
from experiments.figure import Drawn, Options, Track
from experiments.panels import canvas, set_title
from experiments.parts import Parts, finish
from experiments.statistics import average

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

SOFA = sepsis.FEATURES.index("SOFA")


@dataclass(frozen=True)
class Plan:
    """How many patients, our largest budget, the one of panels (b) and (c), and the budgets and M
    of the paper's search."""

    patients: int = 60
    largest: int = 4
    shown: int = 3
    papers_budgets: tuple[int, ...] = (1, 2, 3)
    sample: int = 100


FULL = Plan()
QUICK = Plan(patients=10, largest=2, shown=2, papers_budgets=(1,), sample=15)


def figure3(options: Options, track: Track) -> Drawn:
    """Improvement against k, its distribution over patients, and one patient's course."""
    study, plan = Study(options), QUICK if options.quick else FULL
    parts = Parts(options.parts, study.settings(figure="figure 3", plan=asdict(plan)))

    def explained(patient: int) -> dict[str, Any]:
        return _explained(study, patient, plan)

    patients = range(plan.patients)
    ours = finish(explained, patients, parts, lambda patient: [OURS, patient], (track, "patients"))
    cells = [
        Cell(PAPERS, plan.sample, LOCATION, k, patient)
        for k in plan.papers_budgets
        for patient in patients
    ]
    papers = finish(study.search, cells, parts, list, (track, "the paper's search"))
    return Drawn(_draw(ours, papers, study, plan), _numbers(ours, papers, plan))


def _explained(study: Study, patient: int, plan: Plan) -> dict[str, Any]:
    """Our values for every budget, and the course with the budget that is shown."""
    model, episode = study.model(), study.patient(patient)
    actions, reward = sepsis.action_set(episode), sepsis.reward()
    found = frontier(model, episode, plan.largest, actions=actions, reward=reward)
    shown = found[plan.shown]
    return {
        "episode_id": episode.id,
        "factual": shown.factual_value,
        "values": list(found.values),
        "status": [explanation.status.value for explanation in found],
        "sofa": episode.states[:, SOFA].tolist(),
        "counterfactual_sofa": shown.states[:, SOFA].tolist(),
        "moves": [list(move[:4]) for move in _moves(shown)],
    }


def _moves(explanation: SequenceExplanation) -> list[Move]:
    """One for each drug whose level changes; actions are numbered 5 * vasopressor + fluids."""
    found = []
    for t, observed, alternative in explanation.changes:
        levels = zip(DRUGS, divmod(observed, LEVELS), divmod(alternative, LEVELS), strict=True)
        found += [Move(t, drug[:1].upper(), old, new) for drug, old, new in levels if old != new]
    return found


def improvements(results: Sequence[Mapping[str, Any]]) -> FloatArray:
    """(n, K + 1) per cent by which each budget lowers the summed SOFA score."""
    values = np.array([result["values"] for result in results])
    observed = np.array([result["factual"] for result in results])[:, None]
    return np.asarray(100.0 * (values - observed) / np.abs(observed))


def _paper_improvements(papers: Mapping[Cell, Mapping[str, Any]], k: int) -> FloatArray:
    found = [result for cell, result in papers.items() if cell.k == k]
    pairs = np.array([(result["value"], result["factual"]) for result in found])
    return np.asarray(100.0 * (pairs[:, 0] - pairs[:, 1]) / np.abs(pairs[:, 1]))


def _numbers(
    ours: Mapping[int, Mapping[str, Any]], papers: Mapping[Cell, Mapping[str, Any]], plan: Plan
) -> pl.DataFrame:
    import polars as pl

    rows = [
        {
            "bound": OURS,
            "episode_id": result["episode_id"],
            "k": k,
            "observed_sofa": -result["factual"],
            "counterfactual_sofa": -value,
            "improvement_percent": 100.0 * (value - result["factual"]) / abs(result["factual"]),
            "status": result["status"][k],
            "changes": _in_words(result["moves"]) if k == plan.shown else None,
        }
        for result in ours.values()
        for k, value in enumerate(result["values"])
    ]
    rows += [
        {
            "bound": PAPERS,
            "episode_id": result["episode_id"],
            "k": cell.k,
            "observed_sofa": -result["factual"],
            "counterfactual_sofa": -result["value"],
            "improvement_percent": 100.0
            * (result["value"] - result["factual"])
            / abs(result["factual"]),
            "status": result["status"],
            "changes": None,
        }
        for cell, result in papers.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _in_words(moves: Sequence[Sequence[Any]]) -> str:
    return "; ".join(f"at {HOURS * t} h: {what} {old} -> {new}" for t, what, old, new in moves)


def _draw(
    ours: Mapping[int, Mapping[str, Any]],
    papers: Mapping[Cell, Mapping[str, Any]],
    study: Study,
    plan: Plan,
) -> Drawing:
    percent = improvements(list(ours.values()))
    title = (
        "What other doses would have brought according to the model learned from "
        f"{study.sizes.simulated} simulated stays, {plan.patients} patients\n"
        f"T = {HORIZON}, $L_h$ = {LOCATION:g}, $L_\\phi$ = {SCALE:g}; "
        "improvement is the decrease of the summed SOFA score"
    )
    drawing = canvas(9.6, 3.5, title)
    first, second, third = drawing.subplots(1, 3, width_ratios=[1.0, 1.0, 1.5])
    _draw_budgets(first, percent, papers, plan)
    _draw_distribution(second, percent[:, plan.shown], plan)
    # The one who gains most points: per cents single out those who were hardly ill.
    gains = [result["values"][plan.shown] - result["factual"] for result in ours.values()]
    chosen = int(np.argmax(gains))
    best = list(ours.values())[chosen]
    course = Trajectory(
        np.array(best["sofa"]),
        np.array(best["counterfactual_sofa"]),
        tuple(Move(*move) for move in best["moves"]),
        "SOFA score",
        HOURS,
        "h",
    )
    draw_trajectory(third, course)
    third.set_xlabel("time (h); levels of vasopressor (V), fluids (F)")
    style.add_legend(third, loc="best")
    gain = percent[chosen, plan.shown]
    set_title(third, f"(c)  stay {best['episode_id']}, k = {plan.shown}: {gain:.1f} % better")
    return drawing


def _draw_budgets(
    axes: Axes, percent: FloatArray, papers: Mapping[Cell, Mapping[str, Any]], plan: Plan
) -> None:
    style.style_axes(axes)
    mean = average(percent)
    look = LOOKS[OURS]
    axes.errorbar(
        range(plan.largest + 1), mean.mean, yerr=mean.high - mean.mean, color=look.colour,
        marker=look.marker, markersize=4, linewidth=1.4, capsize=2.5, label="ours",
    )  # fmt: skip
    look = LOOKS[PAPERS]
    means = [float(_paper_improvements(papers, k).mean()) for k in plan.papers_budgets]
    axes.plot(
        plan.papers_budgets, means, color=look.colour, marker=look.marker, markersize=8,
        markerfacecolor="none", markeredgewidth=1.3, linestyle="none", label="paper's",
    )  # fmt: skip
    axes.set_xticks(range(plan.largest + 1))
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("changes allowed k")
    axes.set_ylabel("mean improvement (%)")
    style.add_legend(axes, loc="lower right")
    set_title(axes, "(a)")


def _draw_distribution(axes: Axes, percent: FloatArray, plan: Plan) -> None:
    from matplotlib.ticker import MaxNLocator

    style.style_axes(axes)
    bins = int(np.clip(len(percent) // 3, 6, 24))
    edges = np.linspace(0.0, max(1.0, float(np.ceil(percent.max()))), bins + 1)
    axes.hist(
        percent, bins=edges.tolist(), color=style.COUNTERFACTUAL, edgecolor="white", linewidth=0.5
    )
    median = float(np.median(percent))
    axes.axvline(median, color=style.INK, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.annotate(
        f"median {median:.1f} %", xy=(median, 1.0), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", va="top", size=style.SMALL_SIZE,
        color=style.INK,
    )  # fmt: skip
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("improvement (%)")
    axes.set_ylabel("patients")
    set_title(axes, f"(b)  k = {plan.shown}")
