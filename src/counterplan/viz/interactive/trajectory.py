"""One feature as it was and as it would have been, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.interactive.canvas import HIGH, SMALL, axis, canvas, faint, pen, plain
from counterplan.viz.labels import Move
from counterplan.viz.style import COUNTERFACTUAL_MARK, OBSERVED_MARK, figure_function
from counterplan.viz.trajectory import Trajectory, trajectory_data

# Pixels of the courses, of a row of changes, and of what stands around them.
COURSES, ROW, AROUND = 230, 34, 100
# Markers of changes: smallest and largest.
SMALLEST, LARGEST = 9.0, 16.0
WAYS = {
    1: ("raised", "triangle-up"),
    -1: ("lowered", "triangle-down-open"),
    0: ("replaced", "diamond"),
}
MOST_NAMES = 12
# Pixels: of the narrowest plot that texts are made for, and of a letter.
WIDTH, LETTER = 640, 6.2
SHADE = faint(style.BAND, 0.6)


def draw_trajectory(data: Trajectory) -> Any:
    """Both courses over time; below, which dose goes up or down, and by how much."""
    doses = data.doses
    below = ROW * len(doses) / (COURSES + ROW * len(doses))
    gap = 0.05 if doses else 0.0
    figure = canvas(
        COURSES + ROW * len(doses) + AROUND,
        xaxis=axis(data.time_title, anchor="y2" if doses else "y"),
        yaxis=axis(data.feature, letters=HIGH, domain=[below + gap, 1.0], **_names(data)),
        yaxis2=axis(
            "", domain=[0.0, below], range=[len(doses) - 0.4, -0.6], tickmode="array",
            tickvals=list(range(len(doses))), ticktext=[plain(dose) for dose in doses],
        ),
    )  # fmt: skip
    _add_courses(figure, data)
    for direction in WAYS:
        moves = [move for move in data.moves if move.direction == direction]
        if moves:
            _add_moves(figure, data, direction, moves)
    for time in sorted({data.time(move.t) for move in data.moves}):
        figure.add_shape(
            type="line", x0=time, x1=time, y0=0, y1=1, yref="paper", layer="below",
            line={"color": style.MUTED, "width": 1, "dash": "dot"},
        )  # fmt: skip
    return figure


def _names(data: Trajectory) -> dict[str, Any]:
    if not data.ticks or len(data.ticks) > MOST_NAMES:
        return {}
    places, texts = zip(*data.ticks, strict=True)
    return {"tickmode": "array", "tickvals": places, "ticktext": [plain(text) for text in texts]}


def _add_courses(figure: Any, data: Trajectory) -> None:
    times = data.times.tolist()
    if data.low is not None and data.high is not None:
        edges = {"x": times, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(y=data.low.tolist(), showlegend=False, name="low", **edges)
        figure.add_scatter(
            y=data.high.tolist(), fill="tonexty", fillcolor=style.BAND, name="8 in 10 courses",
            **edges,
        )  # fmt: skip
    # Dashes over the solid line: where both are the same, both are seen.
    figure.add_scatter(
        x=times, y=data.counterfactual.tolist(), name="counterfactual",
        **pen(COUNTERFACTUAL_MARK, 2.6, 8),
    )  # fmt: skip
    between = {} if data.low is not None else {"fill": "tonexty", "fillcolor": SHADE}
    figure.add_scatter(
        x=times, y=data.observed.tolist(), name="observed", **between, **pen(OBSERVED_MARK, 1.8, 5)
    )
    for end in data.ends:
        colour = style.OBSERVED if end.is_observed else style.COUNTERFACTUAL
        figure.add_annotation(
            text=plain(end.text), x=data.time(end.t), y=end.last, yshift=12, showarrow=False,
            font={"color": colour, "weight": "bold"},
        )  # fmt: skip


def _add_moves(figure: Any, data: Trajectory, direction: int, moves: list[Move]) -> None:
    """Markers in rows, as large as the change is, with its size beside them."""
    name, symbol = WAYS[direction]
    step = WIDTH / len(data.observed)
    written = {dose: data.beside(dose, step, LARGEST + 6, [LETTER])[0] for dose in data.doses}
    figure.add_scatter(
        x=[data.time(move.t) for move in moves],
        y=[data.doses.index(move.what) for move in moves],
        yaxis="y2", name=name, mode="markers+text", textposition="middle right",
        text=[plain(written[move.what](move)).replace("\n", "<br>") for move in moves],
        textfont={"size": SMALL}, cliponaxis=False,
        customdata=[plain(f"{move.what}: {_change(move)}") for move in moves],
        hovertemplate="%{x}<br>%{customdata}<extra></extra>",
        marker={
            "symbol": symbol, "color": style.COUNTERFACTUAL, "opacity": 1.0,
            "size": [SMALLEST + (LARGEST - SMALLEST) * data.share(move) for move in moves],
            "line": {"width": 2, "color": style.COUNTERFACTUAL},
        },
    )  # fmt: skip


def _change(move: Move) -> str:
    return move.text or f"{move.before:g} → {move.after:g}"


trajectory_figure = figure_function(trajectory_data, draw_trajectory, "trajectory_figure")
