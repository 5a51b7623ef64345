"""The distinct explanations that a policy gives, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplan.viz import style
from counterplan.viz.data.explanations import ExplanationTable, explanations_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
