"""The distinct explanations that a policy gives (Figure 4c of the 2021 paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.distributions import Realizations
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import Quantity, share
from counterplan.viz.style import figure_function, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# ----------------------------------------------------------------------------------------------
# The distinct explanations among sampled counterfactual episodes.


class DistinctExplanation(NamedTuple):
    """A set of changes with the share of realizations that make them and their mean outcome."""

    changes: tuple[Change, ...]
    frequency: float
    mean_outcome: float


def distinct_explanations(
    realizations: Realizations, episode: Episode
) -> tuple[DistinctExplanation, ...]:
    """All distinct action sequences, most frequent first; the observed one has no changes."""
    sequences, member, counts = np.unique(
        realizations.actions, axis=0, return_inverse=True, return_counts=True
    )
    totals = np.bincount(member.reshape(-1), weights=realizations.outcomes)
    order = np.argsort(-counts, kind="stable")
    return tuple(
        DistinctExplanation(
            tuple(
                Change(int(t), int(episode.actions[t]), int(sequences[i, t]))
                for t in np.flatnonzero(sequences[i] != episode.actions)
            ),
            float(counts[i] / len(realizations.outcomes)),
            float(totals[i] / counts[i]),
        )
        for i in order
    )


# ----------------------------------------------------------------------------------------------

SAMPLES = 1_000


@dataclass(frozen=True)
class ExplanationTable:
    """What the table shows.

    steps     the steps that any of the explanations changes
    rows      for each explanation and step: the new action, empty where it is kept
    observed  the action that was taken at each step
    margins   for each explanation: how often it is given, and the mean outcome
    """

    steps: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]
    observed: tuple[str, ...]
    margins: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """How the rows are called, the observed one last."""
        return (*(f"explanation {row + 1}" for row in range(len(self.rows))), "observed")

    @property
    def longest(self) -> int:
        """Letters in the longest cell."""
        return max(len(text) for row in (*self.rows, self.observed) for text in row)


def explanations_data(
    explanations: PolicyExplanation | Sequence[DistinctExplanation] | ExplanationTable,
    episode: Episode | None = None,
    action_name: Callable[[int], str] | None = None,
    *,
    most: int = 8,
    quantity: Quantity | None = None,
) -> ExplanationTable:
    """A row for each explanation, a column for each step that any of them changes.

    explanations  a policy's explanation, or those of `distinct_explanations`, most frequent first;
                  the first `most` are shown
    episode       its observed actions stand in the last row; a policy's explanation knows it
    action_name   a short name for an action; if not given the model's
    """
    if isinstance(explanations, ExplanationTable):
        return explanations
    if isinstance(explanations, PolicyExplanation):
        action_name = action_name or explanations.process.setting.mdp.action_name
        episode = explanations.episode
        explanations = distinct_explanations(explanations.sample(SAMPLES, seed=0), episode)
    if episode is None:
        raise InputError("explanations_figure: say which episode is explained: episode=")
    name, written = action_name or str, quantity or Quantity()
    shown = [explanation for explanation in explanations[:most] if explanation.changes]
    if not shown:
        raise InputError("explanations_figure: no explanation changes anything")
    steps = tuple(sorted({change.t for one in shown for change in one.changes}))
    rows = []
    for one in shown:
        new = {change.t: name(change.alternative) for change in one.changes}
        rows.append(tuple(new.get(t, "") for t in steps))
    margins = [(share(one.frequency), written.write(one.mean_outcome)) for one in shown]
    observed = tuple(name(int(episode.actions[t])) for t in steps)
    return ExplanationTable(steps, tuple(rows), observed, tuple(margins))


# ----------------------------------------------------------------------------------------------
# The distinct explanations that a policy gives, for print.

KEPT = "#eceef1"


def draw_explanations(data: ExplanationTable) -> Figure:
    """A table: changed actions dark, the observed ones pale below them."""
    cell = max(0.62, 0.085 * data.longest)
    figure = style.new_figure(2.6 + cell * len(data.steps), 0.55 + 0.3 * len(data.names))
    axes = figure.add_subplot()
    style.bare_axes(axes)
    for row, texts in enumerate((*data.rows, data.observed)):
        colour = style.COUNTERFACTUAL if row < len(data.rows) else KEPT
        for column, text in enumerate(texts):
            if text:
                _cell(axes, row, column, text, colour)
    _margins(axes, data)
    axes.set_xticks(range(len(data.steps)), [f"step {t}" for t in data.steps])
    axes.xaxis.tick_top()
    return figure


def _cell(axes: Axes, row: int, column: int, text: str, colour: str) -> None:
    axes.barh(row, 0.94, left=column - 0.47, height=0.84, color=colour)
    axes.text(
        column, row, plain(text), ha="center", va="center", size=style.SMALL_SIZE,
        color=style.ink_on(colour),
    )  # fmt: skip


def _margins(axes: Axes, data: ExplanationTable) -> None:
    """Row names on the left; frequency f and mean outcome r on the right."""
    columns = len(data.steps)
    places = (columns - 0.1, columns + 0.75)
    for place, heading in zip(places, ("f", "r"), strict=True):
        axes.text(
            place, -0.75, heading, ha="center", va="center", style="italic",
            size=style.TEXT_SIZE, color=style.INK,
        )  # fmt: skip
    for row, texts in enumerate(data.margins):
        for place, text in zip(places, texts, strict=True):
            axes.text(
                place, row, text, ha="center", va="center", size=style.SMALL_SIZE, color=style.INK
            )
    axes.set_yticks(range(len(data.names)), data.names)
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_xlim(-0.55, columns + 1.25)
    axes.set_ylim(len(data.rows) + 0.5, -0.5)


explanations_figure = figure_function(explanations_data, draw_explanations, "explanations_figure")
