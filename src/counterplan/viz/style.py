"""The palette and the drawing conventions that all figures share.

Colours are from Okabe and Ito's palette, which people with any colour vision can tell apart. A
meaning has the same colour, marker and line in every figure, and no two meanings share any of the
three, so that nothing is lost in grey print:

    meaning         what it stands for                    colour     marker         line
    OBSERVED        what happened, what was executed      dark grey  square         dashed
    COUNTERFACTUAL  what an explanation would bring       blue       circle         solid
    HINDSIGHT       what foresight would have brought     green      triangle up    dash and dot
    GUARANTEED      what holds in every causal model      orange     diamond        dotted
    BOUND           what nothing can exceed               purple     triangle down  long dashes

`SERIES` are for several things of one kind, such as planners. Figures are plain
`matplotlib.figure.Figure` objects: nothing is registered anywhere, no display is needed, and
matplotlib is loaded only when something is drawn.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from counterplan.core.files import atomic_file
from counterplan.errors import InputError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from counterplan.viz.quantity import Quantity

OBSERVED = "#3d4450"
COUNTERFACTUAL = "#0072b2"
HINDSIGHT = "#009e73"
GUARANTEED = "#d55e00"
BOUND = "#cc79a7"
BAND = "#cfe3f1"
STABLE = "#8db9d8"
MONOTONE = "#3f7fae"
# From pale to dark, evenly in lightness: darker means more severe, in colour and in grey.
SEVERITY = ("#fbf3e6", "#f3cf9c", "#dd9a55", "#b2632c", "#6f3413")
MUTED = "#b9c0c9"
INK = "#1f2933"
SOFT_INK = "#5b6672"
GRID = "#e4e7eb"
# Parts of a bar chart: greys alone tell them apart.
PALE, FULL = MUTED, COUNTERFACTUAL

TEXT_SIZE = 9.0
SMALL_SIZE = 8.0
# Inches of a letter for each point of its size.
LETTER = 0.0083
# Lines of a long name; more would be a paragraph, so the rest of it is left out.
MOST_LINES = 3
# Inches of a small letter in a legend, and how many of them what stands beside a label is wide.
LEGEND_LETTER, BESIDE_LABEL = 0.06, 8
PIXELS_PER_INCH = 160
FORMATS = (".png", ".svg")
NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
# How matplotlib complains of letters that its font lacks.
MISSING_LETTER = r"Glyph .* missing from font"

# Solid, or (offset, (on, off, ...)) in line widths.
Line: TypeAlias = Literal["-"] | tuple[int, tuple[float, ...]]


class Mark(NamedTuple):
    """How one meaning is drawn."""

    colour: str
    marker: str
    line: Line

    def look(self, width: float = 1.6, size: float = 5.0) -> dict[str, Any]:
        """Arguments for `Axes.plot`; a width of 0 leaves out the line, a size of 0 the markers."""
        markers = {"marker": self.marker, "markersize": size} if size else {}
        line = {"linestyle": self.line, "linewidth": width} if width else {"linestyle": "none"}
        return {"color": self.colour, **markers, **line}


OBSERVED_MARK = Mark(OBSERVED, "s", (0, (4, 3)))
COUNTERFACTUAL_MARK = Mark(COUNTERFACTUAL, "o", "-")
HINDSIGHT_MARK = Mark(HINDSIGHT, "^", (0, (5, 2, 1, 2)))
GUARANTEED_MARK = Mark(GUARANTEED, "D", (0, (1, 1.5)))
BOUND_MARK = Mark(BOUND, "v", (0, (9, 3)))
MEANINGS = (OBSERVED_MARK, COUNTERFACTUAL_MARK, HINDSIGHT_MARK, GUARANTEED_MARK, BOUND_MARK)
SERIES = (
    COUNTERFACTUAL_MARK,
    Mark("#e69f00", "s", (0, (4, 2))),
    Mark("#000000", "D", (0, (1, 1.5))),
    Mark("#56b4e9", "P", (0, (5, 2, 1, 2))),
)


# --- Texts from data ---


def literal(text: str) -> str:
    """A text from data as it is: matplotlib takes dollars for formulas, and half a sign (as JSON
    can hold) not at all."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def wrap(text: str, letters: int) -> list[str]:
    """A text in lines of at most so many letters; at least one line."""
    lines = textwrap.wrap(text, max(letters, 4), max_lines=MOST_LINES, placeholder=" …")
    return lines or [text]


def wrapped(text: str, inches: float, size: float = TEXT_SIZE) -> str:
    """A literal text on as many lines as it needs to be at most so wide."""
    return literal("\n".join(wrap(text, int(inches / (LETTER * size)))))


# --- Figures and axes ---


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


def label_quantity(axes: Axes, side: Literal["x", "y"], quantity: Quantity, inches: float) -> None:
    """An axis of outcomes: name, unit and numbers; of probabilities from 0 to 100 %."""
    axes.set(**{f"{side}label": wrapped(quantity.label, inches)})
    quantity.label_axis(axes.xaxis if side == "x" else axes.yaxis)
    if quantity.percent:
        axes.set(**{f"{side}lim": (-0.03, 1.03)})


def write(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """A literal text in the middle of a cell."""
    usual: dict[str, Any] = {"ha": "center", "va": "center", "size": SMALL_SIZE, "color": INK}
    axes.text(x, y, literal(text), **(usual | look))


def add_legend(axes: Axes, **places: Any) -> None:
    """A legend inside the plot, without a frame."""
    axes.legend(frameon=False, fontsize=SMALL_SIZE, labelcolor=INK, **places)


def legend_above(figure: Figure, handles: Sequence[Artist] = (), columns: int = 2) -> None:
    """A legend above the plot, where it hides nothing: of these, or of all that has a label.

    Long names are broken into lines, and have fewer columns.
    """
    shown = list(handles) or [
        one for axes in figure.axes for one in axes.get_legend_handles_labels()[0]
    ]
    labels = [str(one.get_label()) for one in shown]
    letters = int(figure.get_figwidth() / LEGEND_LETTER)

    def width(columns: int) -> int:
        # Names go from above to below, then into the next column.
        rows = -(-len(labels) // columns) or 1
        starts = range(0, len(labels), rows)
        return sum(max(map(len, labels[at : at + rows])) + BESIDE_LABEL for at in starts)

    while columns > 1 and width(columns) > letters:
        columns -= 1
    names = ["\n".join(wrap(label, letters - BESIDE_LABEL)) for label in labels]
    figure.legend(
        shown, names, loc="outside upper left", ncols=columns, frameon=False,
        fontsize=SMALL_SIZE, labelcolor=INK,
    )  # fmt: skip


def severity_colours() -> Colormap:
    """`SEVERITY` as a continuous scale."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("severity", SEVERITY)


def ink_on(colour: Any) -> str:
    """Black or white, whichever can be read on this colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else INK


# --- Files ---


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png or .svg, whole or not at all."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path}: a figure is saved as {' or '.join(FORMATS)}; choose such a name")
    content = png_bytes(figure) if suffix == ".png" else svg_bytes(figure)
    with atomic_file(path) as file:
        file.write(content)


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING_LETTER)
        figure.savefig(file, format="png", dpi=PIXELS_PER_INCH, metadata={"Software": None})
    return file.getvalue()


def svg_bytes(figure: Figure) -> bytes:
    """The figure as an SVG file: the same bytes each time, and no outside references.

    Letters are drawn as shapes; where the font lacks one, as text, for which whoever shows the file
    has another font.
    """
    import matplotlib

    nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    for letters in ("path", "none"):
        file = io.BytesIO()
        # Element ids are drawn at random unless there is a salt.
        salted: dict[Any, Any] = {"svg.hashsalt": "counterplan", "svg.fonttype": letters}
        with warnings.catch_warnings(record=True) as noticed, matplotlib.rc_context(salted):
            warnings.filterwarnings("always", MISSING_LETTER)
            figure.savefig(file, format="svg", metadata=nothing)
        if not any(re.match(MISSING_LETTER, str(one.message)) for one in noticed):
            break
    # Names from data may hold signs that XML has no word for.
    return re.sub(NOT_XML, "\ufffd", file.getvalue().decode()).encode()
