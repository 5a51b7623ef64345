"""How much a cohort of cases could have been improved, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.cohort import CohortData, cohort_data
from counterplan.viz.interactive.canvas import axis, canvas, plain
from counterplan.viz.style import FULL, PALE, STRIPES_ON_SCREEN, TAIL, figure_function

FEW = 8


def draw_cohort(data: CohortData) -> Any:
    """Bars, "none" apart in grey, the tail dark and striped; what is guaranteed as an outline."""
    places, texts = zip(*data.ticks, strict=True)
    # Cases are counted: no halves where there are few.
    few: dict[str, Any] = {"dtick": 1} if data.highest <= FEW else {}
    figure = canvas(
        330,
        barmode="stack",
        xaxis=axis(data.title, tickmode="array", tickvals=places, ticktext=texts, range=data.ends),
        yaxis=axis(data.count_title, tickformat=",d", range=[0.0, 1.08 * data.highest], **few),
    )
    edge = {"color": "white", "width": 0.6}
    left, width = data.edges[:-1].tolist(), data.width
    if data.has_none:
        figure.add_bar(
            x=[data.apart - width / 2], y=[data.none], width=width, offset=0.0,
            name="no change helps", marker={"color": PALE},
        )  # fmt: skip
    bars: list[tuple[str, Any, dict[str, Any]]] = []
    if data.has_body:
        bars.append(("best explanation", data.body, {"color": FULL, "line": edge}))
    if data.has_tail:
        stripes = {"shape": STRIPES_ON_SCREEN, "bgcolor": TAIL, "fgcolor": "white", "size": 7}
        look = {"color": TAIL, "line": edge, "pattern": stripes}
        bars.append((plain(data.tail_name), data.tail, look))
    for name, heights, marker in bars:
        figure.add_bar(
            x=left, y=heights.tolist(), width=width, offset=0.0, name=name, marker=marker
        )
    _add_guaranteed(figure, data)
    return figure


def _add_guaranteed(figure: Any, data: CohortData) -> None:
    """Two outlines as one line: the bar of none, and the bins."""
    if data.sure is None:
        return
    low, high = data.apart - data.width / 2, data.apart + data.width / 2
    xs: list[float | None] = [low, low, high, high, None] if data.has_none else []
    ys: list[float | None] = [0.0, data.unsure, data.unsure, 0.0, None] if data.has_none else []
    xs, ys = [*xs, float(data.edges[0])], [*ys, 0.0]
    for place, height in enumerate(data.sure.tolist()):
        xs += [float(data.edges[place]), float(data.edges[place + 1])]
        ys += [height, height]
    figure.add_scatter(
        x=[*xs, xs[-1]], y=[*ys, 0.0], mode="lines",
        line={"color": style.GUARANTEED, "width": 2.2}, name="guaranteed in every model",
    )  # fmt: skip


cohort_figure = figure_function(cohort_data, draw_cohort, "cohort_figure")
