"""The palette and the drawing conventions that all figures share.

Colours are from Okabe and Ito's palette, which people with any colour vision can tell apart; their
lightness differs too, and every meaning also has a shape or line of its own, so that nothing is
lost in grey print. A meaning keeps its colour everywhere:

    OBSERVED        what happened                               dark grey, dashed
    COUNTERFACTUAL  what an explanation would have brought      blue, circles
    GUARANTEED      what holds in every causal model            orange, diamonds
    BAND            a range over causal models                  pale blue

Figures are plain `matplotlib.figure.Figure` objects: nothing is registered anywhere, no display
is needed, and matplotlib is loaded only when something is drawn.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

OBSERVED = "#3d4450"
COUNTERFACTUAL = "#0072b2"
GUARANTEED = "#d55e00"
BAND = "#cfe3f1"
MUTED = "#b9c0c9"
INK = "#1f2933"
SOFT_INK = "#5b6672"
GRID = "#e4e7eb"

TEXT_SIZE = 9.0
SMALL_SIZE = 8.0
PIXELS_PER_INCH = 160


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float, height: float, *, grid: Literal["x", "y"] = "y") -> tuple[Figure, Axes]:
    """A figure with one plot, in the shared style."""
    figure = new_figure(width, height)
    axes = figure.add_subplot()
    style_axes(axes, grid=grid)
    return figure, axes


def style_axes(axes: Axes, *, grid: Literal["x", "y"] = "y") -> None:
    """Thin frame on two sides, quiet ticks, grid lines behind the data."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.tick_params(labelsize=SMALL_SIZE, colors=SOFT_INK, length=3, width=0.8, color=MUTED)
    axes.xaxis.label.set(size=TEXT_SIZE, color=INK)
    axes.yaxis.label.set(size=TEXT_SIZE, color=INK)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def bare_axes(axes: Axes) -> None:
    """No frame and no tick marks: for tables and strips."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, labelsize=SMALL_SIZE, colors=SOFT_INK)


def add_legend(axes: Axes, **places: Any) -> None:
    """A legend inside the plot, without a frame."""
    axes.legend(frameon=False, fontsize=SMALL_SIZE, labelcolor=INK, **places)


def legend_above(figure: Figure) -> None:
    """A legend above the plot, where it hides nothing."""
    figure.legend(
        loc="outside upper left", ncols=2, frameon=False, fontsize=SMALL_SIZE, labelcolor=INK
    )


def severity_colours() -> Colormap:
    """From pale to dark, evenly in lightness: darker means more severe, in colour and in grey."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "severity", ["#fbf3e6", "#f3cf9c", "#dd9a55", "#b2632c", "#6f3413"]
    )


def ink_on(colour: Any) -> str:
    """Black or white, whichever can be read on this colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else INK


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=PIXELS_PER_INCH, metadata={"Software": None})
    return file.getvalue()


def svg_bytes(figure: Figure) -> bytes:
    """The figure as an SVG file: the same bytes each time, and no outside references."""
    import matplotlib

    file = io.BytesIO()
    nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # Element ids are drawn at random unless there is a salt.
    with matplotlib.rc_context({"svg.hashsalt": "counterplan", "svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata=nothing)
    return file.getvalue()
