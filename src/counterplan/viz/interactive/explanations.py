"""The distinct explanations that a policy gives, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.explanations import ExplanationTable, explanations_data
from counterplan.viz.interactive.canvas import SMALL, canvas, plain
from counterplan.viz.style import figure_function

# Pixels of a row, of a further line in it, of a letter, and of the table on a laptop.
ROW, LINE, LETTER, WIDTH = 26, 15, 6.2, 900
KEPT = "#eceef1"


def draw_explanations(data: ExplanationTable) -> Any:
    """A table: changed actions dark, the observed ones pale below them."""
    widths = [1.6, *[1.0] * len(data.steps), 0.7, 0.8]
    letters = WIDTH / sum(widths) / LETTER - 3
    height = ROW + LINE * int(data.longest / letters)
    # Rows that are higher than this would be hidden below the table's own edge.
    figure = canvas(height * len(data.names) + ROW + 60, margin={"l": 0, "r": 0, "t": 8, "b": 8})
    middle = [[*(row[place] for row in data.rows), data.observed[place]]
              for place in range(len(data.steps))]  # fmt: skip
    fills = [[*(style.COUNTERFACTUAL if text else "white" for text in column[:-1]), KEPT]
             for column in middle]  # fmt: skip
    inks = [["white" if fill == style.COUNTERFACTUAL else style.INK for fill in column]
            for column in fills]  # fmt: skip
    margins = [[*column, ""] for column in zip(*data.margins, strict=True)]
    columns = [list(data.names), *middle, *margins]
    figure.add_table(
        name="explanations",
        columnwidth=widths,
        header={
            "values": ["", *(f"step {t}" for t in data.steps), "<i>f</i>", "<i>r</i>"],
            "fill": {"color": "white"}, "line": {"color": "white"},
            "font": {"size": SMALL, "color": style.SOFT_INK},
        },
        cells={
            "values": [[plain(text) for text in column] for column in columns],
            "fill": {"color": ["white", *fills, "white", "white"]},
            "font": {"size": SMALL, "color": [style.INK, *inks, style.INK, style.INK]},
            "align": ["left", "center"], "height": height, "line": {"color": "white", "width": 2},
        },
    )  # fmt: skip
    return figure


explanations_figure = figure_function(explanations_data, draw_explanations, "explanations_figure")
