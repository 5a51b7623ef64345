"""The marker language: what each meaning looks like, on paper and on screens.

    meaning         colour     marker          line           sentences call it
    OBSERVED        dark grey  square          dashed         observed, executed
    COUNTERFACTUAL  blue       circle          solid          best explanation, planned
    HINDSIGHT       green      triangle up     dash and dot   hindsight
    GUARANTEED      orange     diamond         dotted         guaranteed in every model
    BOUND           purple     triangle down   long dashes    bound

No two share a marker or a line, and their greys differ: any one of the three is enough to tell them
apart. `SERIES` are for several things of one kind, such as planners.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from counterplan.viz import style

# Solid, or (offset, (on, off, ...)) in line widths.
Line: TypeAlias = Literal["-"] | tuple[int, tuple[float, ...]]


class Mark(NamedTuple):
    """How one meaning is drawn.

    marker, line  as matplotlib calls them
    symbol, dash  as plotly does
    """

    colour: str
    marker: str
    line: Line
    symbol: str
    dash: str


OBSERVED = Mark(style.OBSERVED, "s", (0, (4, 3)), "square", "dash")
COUNTERFACTUAL = Mark(style.COUNTERFACTUAL, "o", "-", "circle", "solid")
HINDSIGHT = Mark(style.HINDSIGHT, "^", (0, (5, 2, 1, 2)), "triangle-up", "dashdot")
GUARANTEED = Mark(style.GUARANTEED, "D", (0, (1, 1.5)), "diamond", "dot")
BOUND = Mark(style.BOUND, "v", (0, (9, 3)), "triangle-down", "longdash")
MEANINGS = (OBSERVED, COUNTERFACTUAL, HINDSIGHT, GUARANTEED, BOUND)

SERIES = (
    COUNTERFACTUAL,
    Mark("#e69f00", "s", (0, (4, 2)), "square", "dash"),
    Mark("#000000", "D", (0, (1, 1.5)), "diamond", "dot"),
    Mark("#56b4e9", "P", (0, (5, 2, 1, 2)), "cross", "dashdot"),
)

# Parts of a bar chart, from pale to dark, the last with stripes: greys alone tell them apart.
PALE, FULL, TAIL = style.MUTED, style.COUNTERFACTUAL, "#0b2a5b"
# Stripes, as matplotlib and as plotly call them.
STRIPES, STRIPES_ON_SCREEN = "////", "/"
