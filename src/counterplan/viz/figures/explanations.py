"""The distinct explanations that a policy gives (the paper's Figure 4c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from counterplan.core.episode import Episode
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.distinct import DistinctExplanation
from counterplan.viz.quantity import Quantity, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def explanations_figure(
    explanations: Sequence[DistinctExplanation],
    episode: Episode,
    action_name: Callable[[int], str],
    *,
    most: int = 8,
    quantity: Quantity | None = None,
) -> Figure:
    """A table: one row for each explanation, one column for each step that any of them changes.

    explanations  from `distinct_explanations`, most frequent first; the first `most` are shown
    episode       its observed actions stand in the last row
    action_name   a short name for an action
    """
    shown = [explanation for explanation in explanations[:most] if explanation.changes]
    if not shown:
        raise InputError("explanations_figure: no explanation changes anything")
    quantity = quantity or Quantity()
    steps = sorted({change.t for explanation in shown for change in explanation.changes})
    observed = {t: action_name(int(episode.actions[t])) for t in steps}
    longest = max(
        len(action_name(change.alternative))
        for explanation in shown
        for change in explanation.changes
    )
    cell = max(0.62, 0.085 * max(longest, *map(len, observed.values())))
    height = 0.55 + 0.3 * (len(shown) + 1)
    figure = style.new_figure(2.6 + cell * len(steps), height)
    axes = figure.add_subplot()
    style.bare_axes(axes)
    for row, explanation in enumerate(shown):
        for change in explanation.changes:
            name = action_name(change.alternative)
            _cell(axes, row, steps.index(change.t), name, style.COUNTERFACTUAL)
    for column, t in enumerate(steps):
        _cell(axes, len(shown), column, observed[t], "#eceef1")
    _margins(axes, shown, len(steps), quantity)
    axes.set_xticks(range(len(steps)), [f"step {t}" for t in steps])
    axes.xaxis.tick_top()
    return figure


def _cell(axes: Axes, row: int, column: int, text: str, colour: str) -> None:
    axes.barh(row, 0.94, left=column - 0.47, height=0.84, color=colour)
    ink = style.ink_on(colour)
    axes.text(column, row, text, ha="center", va="center", size=style.SMALL_SIZE, color=ink)


def _margins(
    axes: Axes, shown: Sequence[DistinctExplanation], columns: int, quantity: Quantity
) -> None:
    """Row names on the left; frequency f and mean outcome r on the right."""
    places = (columns - 0.1, columns + 0.75)
    for place, heading in zip(places, ("f", "r"), strict=True):
        axes.text(
            place, -0.75, heading, ha="center", va="center", style="italic",
            size=style.TEXT_SIZE, color=style.INK,
        )  # fmt: skip
    for row, explanation in enumerate(shown):
        texts = (share(explanation.frequency), quantity.write(explanation.mean_outcome))
        for place, text in zip(places, texts, strict=True):
            axes.text(
                place, row, text, ha="center", va="center", size=style.SMALL_SIZE, color=style.INK
            )
    names = [f"explanation {row + 1}" for row in range(len(shown))]
    axes.set_yticks(range(len(shown) + 1), [*names, "observed"])
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_xlim(-0.55, columns + 1.25)
    axes.set_ylim(len(shown) + 0.5, -0.5)
