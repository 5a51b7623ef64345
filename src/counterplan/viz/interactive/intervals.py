"""How much of each case's value rests on the causal model, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.core.result import Interval
from counterplan.viz import style
from counterplan.viz.interactive.canvas import axis, canvas, dots, plain, stroke
from counterplan.viz.intervals import IntervalData, interval_data
from counterplan.viz.style import (
    COUNTERFACTUAL_MARK,
    GUARANTEED_MARK,
    OBSERVED_MARK,
    figure_function,
)

ROW, AROUND = 22, 150


def draw_intervals(data: IntervalData) -> Any:
    """A row for each case: ranges as bars, the value as a circle, the guarantee as a diamond."""
    rows, count = data.rows, len(data.rows)
    more: dict[str, Any] = {"range": [-0.03, 1.03]} if data.quantity.percent else {}
    figure = canvas(
        ROW * count + AROUND,
        xaxis=axis(data.quantity.label, data.quantity, **more),
        yaxis=axis(
            "", range=[count - 0.4, -0.6], tickmode="array", tickvals=list(range(count)),
            ticktext=[plain(row.label) for row in rows], showgrid=False,
        ),
    )  # fmt: skip
    ranges = [(place, row.interval) for place, row in enumerate(rows)]
    _add_ranges(figure, ranges, style.BAND, 0.62, "range over causal models")
    if data.has_stable:
        stable = [(n, row.stable) for n, row in enumerate(rows) if row.stable is not None]
        _add_ranges(figure, stable, style.STABLE, 0.26, "range over stable ones")
    if data.observed is not None:
        figure.add_scatter(
            x=[data.observed] * 2, y=[-0.6, count - 0.4], name="observed", **stroke(OBSERVED_MARK)
        )
    figure.add_scatter(
        x=[row.value for row in rows], y=list(range(count)), name="best explanation",
        **dots(COUNTERFACTUAL_MARK),
    )  # fmt: skip
    if data.guaranteed:
        values, places = zip(*data.guaranteed, strict=True)
        figure.add_scatter(
            x=values, y=places, name="guaranteed in every model", **dots(GUARANTEED_MARK)
        )
    return figure


def _add_ranges(
    figure: Any, rows: list[tuple[int, Interval]], colour: str, width: float, name: str
) -> None:
    figure.add_bar(
        orientation="h", y=[place for place, _ in rows], base=[one.low for _, one in rows],
        x=[one.width for _, one in rows], width=width, marker={"color": colour}, name=name,
        customdata=[list(one) for _, one in rows],
        hovertemplate="%{customdata[0]:.4~g} to %{customdata[1]:.4~g}<extra></extra>",
    )  # fmt: skip


interval_figure = figure_function(interval_data, draw_intervals, "interval_figure")
