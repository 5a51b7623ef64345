"""The panels of a single patient: outcomes, the course of sessions, and the unique explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.discrete.budget_dp import OutcomeDistribution, PolicyExplanation
from counterplan.counterfactual.discrete.distributions import Realizations
from counterplan.viz import style
from counterplan.viz.quantity import Quantity, share
from experiments.therapy import SEVERITIES, TOPICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

LISTED_EXPLANATIONS = 10
CHANGED_FILL = "#cfe8dc"
OBSERVED_FILL = "#eceef1"


class DistinctExplanation(NamedTuple):
    """A set of changes with the share of realizations that make them and their mean outcome."""

    changes: tuple[Change, ...]
    frequency: float
    mean_outcome: float


def distinct_explanations(
    realizations: Realizations, episode: Episode
) -> tuple[DistinctExplanation, ...]:
    """All distinct action sequences among sampled counterfactual episodes, most frequent first; the
    observed one has no changes."""
    sequences, member, counts = np.unique(
        realizations.actions, axis=0, return_inverse=True, return_counts=True
    )
    totals = np.bincount(member.reshape(-1), weights=realizations.outcomes)
    observed = episode.actions
    return tuple(
        DistinctExplanation(
            tuple(
                Change(int(t), int(observed[t]), int(sequences[i, t]))
                for t in np.flatnonzero(sequences[i] != observed)
            ),
            float(counts[i] / len(realizations.outcomes)),
            float(totals[i] / counts[i]),
        )
        for i in np.argsort(-counts, kind="stable")
    )


@dataclass(frozen=True, eq=False)
class PatientView:
    """What the figures show of a patient: exact distributions, and realizations beside them."""

    name: str
    explanation: PolicyExplanation
    realizations: Realizations

    @cached_property
    def distribution(self) -> OutcomeDistribution:
        """The exact distribution of the outcome."""
        return self.explanation.outcome_distribution()

    @cached_property
    def frequencies(self) -> FloatArray:
        """The share of realizations that has each outcome of `distribution`."""
        hits = np.isclose(self.realizations.outcomes[:, None], self.distribution.values)
        shares: FloatArray = hits.mean(axis=0)
        return shares

    @cached_property
    def change_probabilities(self) -> FloatArray:
        """(T,) how likely each session is changed, exact."""
        chances: FloatArray = self.explanation.change_probabilities().sum(axis=1)
        return chances

    @property
    def observed_states(self) -> IntArray:
        """(T,) severities that were observed."""
        observed: IntArray = self.explanation.episode.states
        return observed

    @property
    def best_states(self) -> IntArray:
        """(T,) severities in the realization with the highest outcome."""
        best: IntArray = self.realizations.states[int(np.argmax(self.realizations.outcomes))]
        return best

    @cached_property
    def unique(self) -> list[DistinctExplanation]:
        """The distinct sequences of actions that differ from the observed one."""
        found = distinct_explanations(self.realizations, self.explanation.episode)
        return [explanation for explanation in found if explanation.changes]


def draw_outcomes(axes: Axes, view: PatientView) -> None:
    """The exact distribution as bars, the realizations as dots, and what was observed."""
    values, probabilities = view.distribution
    observed = view.explanation.factual_value
    style.style_axes(axes)
    for chosen, colour, label in (
        (values <= observed, style.MUTED, "not better"),
        (values > observed, style.COUNTERFACTUAL, "better"),
    ):
        axes.bar(values[chosen], probabilities[chosen], 0.85, color=colour, label=label)
    seen = view.frequencies > 0.0
    axes.plot(
        values[seen], view.frequencies[seen], linestyle="", marker="o", markersize=2.4,
        markerfacecolor="white", markeredgecolor=style.INK, markeredgewidth=0.6,
        label=f"{len(view.realizations.outcomes):,} realizations",
    )  # fmt: skip
    axes.axvline(
        observed, color=style.OBSERVED, linewidth=1.3, linestyle=(0, (4, 3)), label="observed"
    )
    axes.axvline(view.explanation.value, color=style.INK, linewidth=1.2, label="expected")
    shown = np.append(values[seen], observed)
    axes.set_xlim(shown.min() - 1.5, shown.max() + 1.5)
    Quantity(percent=True).label_axis(axes.yaxis)
    axes.set_ylabel("probability")


def add_outcome_legend(owner: Axes | Drawing, axes: Axes, **places: Any) -> None:
    """A legend for `draw_outcomes` on these axes, bars first, shown on the axes or the figure."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: isinstance(handles[i], Line2D))
    owner.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        frameon=False,
        fontsize=style.SMALL_SIZE,
        labelcolor=style.INK,
        **places,
    )


def draw_course(axes: Axes, view: PatientView) -> None:
    """Three rows of cells over time: how often a session is changed, the observed severities, and
    those of the best realization; darker is more often, or more severe."""
    from matplotlib import colormaps

    style.bare_axes(axes)
    severity = style.severity_colours()
    worst = len(SEVERITIES) - 1
    changed = view.change_probabilities
    for t, probability in enumerate(changed):
        text = f"{100 * probability:.0f}" if probability >= 0.005 else ""
        _cell(axes, 0, t, text, colormaps["Blues"](0.85 * probability))
    for row, states in ((1, view.observed_states), (2, view.best_states)):
        for t, state in enumerate(states):
            _cell(axes, row, t, str(state), severity(state / worst))
    axes.set_yticks(range(3), ["changed (%)", "observed severity", "best realization"])
    axes.tick_params(axis="y", labelcolor=style.INK)
    axes.set_xticks(range(len(changed)))
    axes.set_xlim(-0.55, len(changed) - 0.45)
    axes.set_ylim(2.55, -0.55)
    axes.set_xlabel("session t", size=style.TEXT_SIZE, color=style.INK)


def draw_explanations(axes: Axes, view: PatientView) -> None:
    """A row for each frequent explanation with its new topics, frequency f and mean outcome r;
    below, the observed topics that any of them changes."""
    shown = view.unique[:LISTED_EXPLANATIONS]
    if not shown:
        axes.set_axis_off()
        return
    steps = sorted({change.t for explanation in shown for change in explanation.changes})
    style.bare_axes(axes)
    for row, explanation in enumerate(shown):
        for change in explanation.changes:
            column = steps.index(change.t)
            _cell(axes, row, column, TOPICS[change.alternative], CHANGED_FILL)
    for column, t in enumerate(steps):
        observed = int(view.explanation.episode.actions[t])
        _cell(axes, len(shown), column, TOPICS[observed], OBSERVED_FILL)
    _write_margin(axes, shown, len(steps))
    axes.set_yticks(range(len(shown) + 1), [*map(str, range(1, len(shown) + 1)), "observed"])
    axes.tick_params(axis="y", labelcolor=style.INK)
    axes.set_xticks(range(len(steps)), [f"t = {t}" for t in steps])
    axes.xaxis.tick_top()
    axes.set_xlim(-0.55, len(steps) + 1.6)
    axes.set_ylim(len(shown) + 0.55, -0.55)


def _write_margin(axes: Axes, shown: Sequence[DistinctExplanation], columns: int) -> None:
    lines = [(-0.85, "f", "r", "italic")]
    for row, explanation in enumerate(shown):
        mean = f"{explanation.mean_outcome:.1f}"
        lines.append((row, share(explanation.frequency), mean, "normal"))
    for height, frequency, outcome, slant in lines:
        for place, text in ((columns + 0.1, frequency), (columns + 1.1, outcome)):
            axes.text(
                place, height, text, ha="center", va="center", style=slant,
                size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip


def _cell(axes: Axes, row: int, column: int, text: str, colour: object) -> None:
    axes.barh(
        row, 0.94, left=column - 0.47, height=0.86, color=colour, edgecolor=style.GRID,
        linewidth=0.5,
    )  # fmt: skip
    axes.text(
        column, row, text, ha="center", va="center", size=style.SMALL_SIZE - 0.5,
        color=style.ink_on(colour),
    )  # fmt: skip
