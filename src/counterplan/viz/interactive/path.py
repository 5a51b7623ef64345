"""A realised path and what everyone did along it, for screens."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.viz import style
from counterplan.viz.interactive.canvas import LOW, axis, dots, dress, pen, plain
from counterplan.viz.path import PathData, path_data
from counterplan.viz.style import SERIES, figure_function

# Pixels of a panel, and of what stands around them.
PANEL, AROUND = 130, 100
# Width and marker size of lines that lie upon each other, the lowest first.
PENS = ((2.6, 9.0), (2.0, 8.0), (1.6, 5.0))


def draw_path(data: PathData) -> Any:
    """Panels above each other: what was seen, what was done, what was left, what was lost."""
    from plotly.subplots import make_subplots

    panels = data.panels
    figure = make_subplots(
        rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.16 / len(panels)
    )
    dress(figure, PANEL * len(panels) + AROUND)
    for row, panel in enumerate(panels, start=1):
        more = DRAWN[panel.kind](figure, data, row, panel.part)
        figure.update_yaxes(row=row, col=1, **axis(panel.title, letters=LOW, **more))
        figure.update_xaxes(row=row, col=1, **axis("", tickformat="d", showticklabels=False))
    last = {"title": {"text": plain(data.axis_title)}, "showticklabels": True}
    figure.update_xaxes(row=len(panels), col=1, **last)
    for player in data.players:  # the legend: one entry for each, whatever is drawn
        figure.add_scatter(x=[None], y=[None], name=plain(player.name), **pen(player.mark))
    return figure


def _add_seen(figure: Any, data: PathData, row: int, part: int) -> dict[str, Any]:
    marks = SERIES * len(data.seen.T)
    for name, values, mark in zip(data.names.seen, data.seen.T, marks, strict=False):
        figure.add_scatter(
            x=data.steps.tolist(), y=values.tolist(), name=plain(name), showlegend=False,
            mode="lines+markers", marker={"color": style.INK, "size": 4}, row=row, col=1,
            line={"color": style.INK, "width": 1.6, "dash": mark.dash},
        )  # fmt: skip
    return {}


def _add_modes(figure: Any, data: PathData, row: int, part: int) -> dict[str, Any]:
    names = data.names.modes
    figure.add_scatter(
        x=data.steps.tolist(), y=data.seen[:, 0].tolist(), name=plain(data.names.seen[0]),
        mode="lines+markers", marker={"color": style.INK, "size": 4}, showlegend=False,
        line={"color": style.INK, "width": 1.6, "shape": "hvh"}, row=row, col=1,
        text=[plain(names[int(mode)]) for mode in data.seen[:, 0]],
        hovertemplate="%{x}: %{text}<extra></extra>",
    )  # fmt: skip
    ends = [-0.5, len(names) - 0.5]
    return {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names,
            "range": ends}  # fmt: skip


def _add_amounts(figure: Any, data: PathData, row: int, part: int) -> dict[str, Any]:
    """A stem with a marker for each player and step."""
    top = max(float(player.actions[:, part].max()) for player in data.players) or 1.0
    for number, player in enumerate(data.players):
        places = (data.steps + data.offset(number)).tolist()
        values = player.actions[:, part].tolist()
        figure.add_scatter(
            x=[x for place in places for x in (place, place, None)],
            y=[y for value in values for y in (0.0, value, None)],
            mode="lines", hoverinfo="skip", row=row, col=1, showlegend=False,
            line={"color": player.mark.colour, "width": 2}, name=f"{plain(player.name)}, stems",
        )  # fmt: skip
        figure.add_scatter(
            x=places, y=values, name=plain(player.name), showlegend=False, row=row, col=1,
            customdata=data.steps.tolist(), hovertemplate="t = %{customdata}: %{y}",
            **dots(player.mark),
        )  # fmt: skip
    return {"range": [-0.1 * top, 1.12 * top]}


def _add_choices(figure: Any, data: PathData, row: int, part: int) -> dict[str, Any]:
    """A row for each thing that can be done, a marker where someone does it."""
    rows = len(data.names.actions)
    for number, player in enumerate(data.players):
        step, what = np.nonzero(player.actions)
        figure.add_scatter(
            x=step.tolist(), y=(what + data.offset(number)).tolist(), name=plain(player.name),
            showlegend=False, row=row, col=1, hovertemplate="t = %{x}", **dots(player.mark, 10.0),
        )  # fmt: skip
    names = [plain(name) for name in data.names.actions]
    return {"tickmode": "array", "tickvals": list(range(rows)), "ticktext": names,
            "range": [rows - 0.5, -0.5]}  # fmt: skip


def _add_levels(figure: Any, data: PathData, row: int, part: int) -> dict[str, Any]:
    """The resource before each decision, and at the end."""
    # From the solid line up to the dashed one: where they are the same, all are seen.
    players = (*data.players[1:], *data.players[:1])
    for player, (width, size) in zip(players, PENS[-len(players) :], strict=True):
        values = player.levels[:, part].tolist()
        figure.add_scatter(
            x=list(range(len(values))), y=values, name=plain(player.name), row=row, col=1,
            showlegend=False, **pen(player.mark, width, size),
        )  # fmt: skip
    return {}


def _add_losses(figure: Any, data: PathData, row: int, part: int) -> dict[str, Any]:
    """What each executed decision lost in expectation."""
    assert data.losses is not None
    figure.add_bar(
        x=data.steps.tolist(), y=data.losses.tolist(), width=0.6, name="expected loss", row=row,
        col=1, showlegend=False, marker={"color": style.OBSERVED},
    )  # fmt: skip
    return {"rangemode": "tozero"}


DRAWN = {
    "seen": _add_seen,
    "modes": _add_modes,
    "amounts": _add_amounts,
    "choices": _add_choices,
    "levels": _add_levels,
    "losses": _add_losses,
}

path_figure = figure_function(path_data, draw_path, "path_figure")
