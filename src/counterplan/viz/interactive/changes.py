"""When an explanation changes the course, for screens."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.viz import style
from counterplan.viz.changes import ChangeStrip, change_strip_data
from counterplan.viz.interactive.canvas import SMALL, axis, canvas, plain
from counterplan.viz.labels import Quantity, share
from counterplan.viz.style import figure_function

# Pixels of a row of cells, of the bars, and of what stands around them.
ROW, BARS, AROUND = 30, 110, 110
# Pixels of a strip on a laptop, and of a letter.
WIDTH, LETTER = 900, 6.2


def draw_change_strip(data: ChangeStrip) -> Any:
    """Bars for how often a step is changed, above rows of shaded cells."""
    rows, steps = len(data.bands), list(range(len(data.changed)))
    split = ROW * rows / (ROW * rows + BARS)
    figure = canvas(
        ROW * rows + BARS + AROUND,
        showlegend=False,
        xaxis=axis(
            data.title, anchor="y2", tickmode="array", tickvals=steps[:: data.every],
            ticktext=[plain(time) for time in data.times[:: data.every]], showgrid=False,
        ),
        yaxis=axis(
            "changed", Quantity(percent=True), domain=[split + 0.14, 1.0], range=[0.0, 1.2],
            tickvals=[0.0, 0.5, 1.0],
        ),
        yaxis2=axis(
            "", domain=[0.0, split], range=[rows - 0.5, -0.5], tickmode="array",
            tickvals=list(range(rows)), ticktext=[plain(band.label) for band in data.bands],
            showgrid=False, showline=False,
        ),
    )  # fmt: skip
    figure.add_bar(
        x=steps, y=data.changed.tolist(), name="changed", width=0.82,
        marker={"color": style.COUNTERFACTUAL}, textposition="outside", cliponaxis=False,
        text=[share(one).removesuffix(" %") if one >= 0.005 else "" for one in data.changed],
        hovertemplate="%{x}: %{y:.1%}<extra></extra>",
    )  # fmt: skip
    _draw_bands(figure, data)
    figure.add_annotation(
        text=plain(data.heading), x=0.5, y=split + 0.01, xref="paper", yref="paper",
        yanchor="bottom", showarrow=False, font={"size": SMALL, "color": style.SOFT_INK},
    )  # fmt: skip
    return figure


def _draw_bands(figure: Any, data: ChangeStrip) -> None:
    """Cells with their texts where these fit; a cell without a level has its text on white."""
    fits = len(data.changed) * LETTER * (data.longest + 1) <= WIDTH
    shades = [
        [data.shade(level) if np.isfinite(level) else None for level in band.levels]
        for band in data.bands
    ]
    figure.add_heatmap(
        z=shades, yaxis="y2", zmin=0.0, zmax=1.0, xgap=2, ygap=3, showscale=False,
        colorscale=list(style.SEVERITY), name="states", hoverongaps=False,
        text=[[plain(text) for text in band.texts] for band in data.bands],
        texttemplate="%{text}" if fits else "", textfont={"size": SMALL},
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    for row, band in enumerate(data.bands):
        for t, (level, text) in enumerate(zip(band.levels, band.texts, strict=True)):
            if text and np.isnan(level):
                figure.add_annotation(
                    text=plain(text), x=t, y=row, yref="y2", showarrow=False, font={"size": SMALL}
                )


change_strip_figure = figure_function(change_strip_data, draw_change_strip, "change_strip_figure")
