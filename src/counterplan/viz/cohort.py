"""How much a cohort of cases could have been improved, and where the most improvable ones are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError, counted
from counterplan.viz import style
from counterplan.viz.explained import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import FULL, PALE, STRIPES, TAIL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
# Multiples of a power of ten whose fifths are round.
ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


class Histogram(NamedTuple):
    """Cases by their improvement.

    edges       (n + 1,) of the bins, from zero
    body, tail  (n,) cases in each bin: the most improvable ones are the tail
    none        cases that no change helps
    infinite    cases that are not drawn, since their improvement is infinite
    threshold   the least improvement in the tail, nan if there is none
    """

    edges: FloatArray
    body: FloatArray
    tail: FloatArray
    none: int
    infinite: int
    threshold: float


def cohort_figure(
    improvements: ArrayLike | Rows,
    *,
    guaranteed: ArrayLike | None = None,
    tail: float | None = 0.1,
    quantity: Quantity | None = None,
) -> Figure:
    """Histogram of the cases' improvements; those that cannot be improved stand apart.

    improvements  of the cases, or a run's `results` of one k
    guaranteed    the improvement of each case that holds in every causal model, as an outline
    tail          the share of all cases that is highlighted as the most improvable
    """
    from matplotlib.ticker import MaxNLocator

    quantity = quantity or Quantity()
    found = histogram(_gains(improvements), tail, quantity.percent)
    sure = np.asarray([] if guaranteed is None else guaranteed, dtype=np.float64)
    outline, unsure = np.histogram(sure[sure > 0.0], found.edges)[0], int((sure <= 0.0).sum())
    left, width, top = found.edges[:-1], float(found.edges[1]), float(found.edges[-1])
    # "None" is not "a little": its bar stands left of zero.
    apart, has_none = -2.5 * width, found.none > 0 or unsure > 0

    figure, axes = style.new_axes(4.6, 3.1)
    if has_none:
        axes.bar(apart, found.none, width, color=PALE, label="no change helps")
    shape: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.6}
    if found.body.any():
        axes.bar(left, found.body, width, color=FULL, label="best explanation", **shape)
    if found.tail.any():
        most = counted(int(found.tail.sum()), "case")
        name = style.literal(f"top {most}: {quantity.write_gain(found.threshold)} or more")
        look = {"color": TAIL, "hatch": STRIPES, "label": name, **shape}
        axes.bar(left, found.tail, width, found.body, **look)
    if guaranteed is not None:
        look = {"color": style.GUARANTEED, "linewidth": 1.8}
        if has_none:
            axes.stairs([unsure], [apart - width / 2, apart + width / 2], **look)
        axes.stairs(outline, found.edges, label="guaranteed in every model", **look)
    unit = f" ({quantity.unit})" if quantity.unit else ""
    axes.set_xlabel(style.wrapped(f"improvement of the {quantity.name}{unit}", 3.8))
    left_out = f" ({found.infinite:,} infinite, left out)" if found.infinite else ""
    axes.set_ylabel(f"cases{left_out}")
    highest = max((found.body + found.tail).max(), outline.max(), found.none, unsure, 1.0)
    axes.set_ylim(0.0, 1.08 * float(highest))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    ticks = {place: quantity.write_tick(place) for place in np.linspace(0.0, top, 6).tolist()}
    ticks = {apart: "none", **ticks} if has_none else ticks
    axes.set_xticks([*ticks], [*ticks.values()])
    axes.set_xlim((apart if has_none else 0.0) - width, top + width)
    style.legend_above(figure)
    return figure


def histogram(gains: FloatArray, tail: float | None, percent: bool = False) -> Histogram:
    """Count every case once; `tail` is the share of cases that are the most improvable."""
    if tail is not None and not 0.0 <= tail <= 1.0:
        raise InputError(f"cohort_figure: tail must be a share between 0 and 1, got {tail}")
    if gains.size == 0:
        raise InputError("cohort_figure: there are no cases to draw")
    finite = gains[np.isfinite(gains)]
    positive = finite[finite > 0.0]
    top = 1.0 if percent else _round_top(float(positive.max(initial=0.0)) or 1.0)
    edges = np.linspace(0.0, top, BINS + 1)
    count = math.ceil((tail or 0.0) * finite.size)
    threshold = math.nan
    if count and positive.size:
        # Fewer may be improvable at all; then all of these are the tail.
        threshold = max(float(np.sort(finite)[-count]), float(positive.min()))
    is_tail = positive >= threshold
    body, most = (np.histogram(positive[chosen], edges)[0] for chosen in (~is_tail, is_tail))
    none, infinite = finite.size - positive.size, gains.size - finite.size
    return Histogram(edges, body.astype(np.float64), most, none, infinite, threshold)


def _gains(given: Any) -> FloatArray:
    if is_table(given):
        rows = as_rows(given, "cohort_figure", "improvement", "k", "status")
        if len({row["k"] for row in rows}) > 1:
            raise InputError("cohort_figure: the table holds several k; choose one")
        given = [row["improvement"] for row in rows if row["improvement"] is not None]
    return np.asarray(given, dtype=np.float64)


def _round_top(highest: float) -> float:
    """The least number from there on whose fifths are round."""
    size = 10.0 ** math.floor(math.log10(max(highest / 5, 1e-300)))
    return 5 * size * next(one for one in ROUND if one * size * 5 >= highest * (1 - 1e-12))
