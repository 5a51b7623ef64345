"""How much a cohort of cases could have been improved, and where the most improvable ones are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, counted
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import Quantity, Rows, as_rows, is_table
from counterplan.viz.style import FULL, PALE, STRIPES, TAIL, figure_function, fitted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 20
ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


@dataclass(frozen=True, eq=False)
class CohortData:
    """What a cohort figure shows.

    edges       (n + 1,) of the bins, from zero
    body, tail  (n,) cases in each bin: the most improvable ones are the tail
    none        cases that no change helps
    threshold   the least improvement in the tail, nan if there is none
    sure        (n,) cases by what holds in every causal model, None if not asked for
    unsure      cases in which nothing does
    infinite    cases that are not drawn, since their improvement is infinite
    """

    edges: FloatArray
    body: FloatArray
    tail: FloatArray
    none: int
    threshold: float = math.nan
    sure: FloatArray | None = None
    unsure: int = 0
    infinite: int = 0
    quantity: Quantity = field(default_factory=Quantity)

    @property
    def width(self) -> float:
        """Of a bin."""
        return float(self.edges[1] - self.edges[0])

    @property
    def apart(self) -> float:
        """The middle of the bar for none, left of zero: "none" is not "a little"."""
        return -2.5 * self.width

    @property
    def ends(self) -> tuple[float, float]:
        """Of the axis of improvements."""
        first = self.apart if self.has_none else 0.0
        return first - self.width, float(self.edges[-1]) + self.width

    @property
    def highest(self) -> float:
        """Of all bars and outlines; at least 1."""
        sure = 0.0 if self.sure is None else float(self.sure.max())
        bars = float((self.body + self.tail).max())
        return max(bars, sure, float(self.none), float(self.unsure), 1.0)

    @property
    def has_body(self) -> bool:
        """Whether any improvable case does not belong to the tail."""
        return bool(self.body.any())

    @property
    def has_tail(self) -> bool:
        """Whether any case belongs to the tail."""
        return bool(self.tail.any())

    @property
    def tail_name(self) -> str:
        """The tail in words."""
        return f"top {counted(int(self.tail.sum()), 'case')}: {self._gain} or more"

    @property
    def title(self) -> str:
        """What stands at the axis of improvements."""
        unit = f" ({self.quantity.unit})" if self.quantity.unit else ""
        return f"improvement of the {self.quantity.name}{unit}"

    @property
    def count_title(self) -> str:
        """What stands at the axis of cases."""
        return f"cases ({self.infinite:,} infinite, left out)" if self.infinite else "cases"

    @property
    def _gain(self) -> str:
        return self.quantity.write_gain(self.threshold)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Where numbers stand, and what they say."""
        places = np.linspace(0.0, float(self.edges[-1]), 6)
        texts = [self.quantity.write_tick(place) for place in places]
        none = [(self.apart, "none")] if self.has_none else []
        return [*none, *zip(places.tolist(), texts, strict=True)]

    @property
    def has_none(self) -> bool:
        """Whether there is anything to draw apart."""
        return self.none > 0 or self.unsure > 0


def cohort_data(
    improvements: ArrayLike | Rows | CohortData,
    *,
    guaranteed: ArrayLike | None = None,
    tail: float | None = 0.1,
    quantity: Quantity | None = None,
) -> CohortData:
    """Histogram of the cases' improvements; those that cannot be improved stand apart.

    improvements  of the cases, or a run's `results` of one k
    guaranteed    the improvement of each case that holds in every causal model, as an outline
    tail          the share of all cases that is highlighted as the most improvable
    """
    if isinstance(improvements, CohortData):
        return improvements
    if tail is not None and not 0.0 <= tail <= 1.0:
        raise InputError(f"cohort_figure: tail must be a share between 0 and 1, got {tail}")
    gains = _gains(improvements)
    if gains.size == 0:
        raise InputError("cohort_figure: there are no cases to draw")
    named = quantity or Quantity()
    drawn = gains[np.isfinite(gains)]
    top = 1.0 if named.percent else _round_top(float(drawn.max(initial=0.0)) or 1.0)
    edges = np.linspace(0.0, top, BINS + 1)
    threshold = _threshold(drawn, tail)
    is_tail = drawn >= threshold
    body, most = (np.histogram(drawn[is_one & (drawn > 0.0)], edges)[0].astype(np.float64)
                  for is_one in (~is_tail, is_tail))  # fmt: skip
    sure = None if guaranteed is None else np.asarray(guaranteed, dtype=np.float64)
    return CohortData(
        edges,
        body,
        most,
        int((drawn <= 0.0).sum()),
        threshold,
        None if sure is None else np.histogram(sure[sure > 0.0], edges)[0].astype(np.float64),
        0 if sure is None else int((sure <= 0.0).sum()),
        int(gains.size - drawn.size),
        named,
    )


def _gains(given: Any) -> FloatArray:
    if not is_table(given):
        return np.asarray(given, dtype=np.float64)
    rows = as_rows(given, "cohort_figure", "improvement", "k", "status")
    if len({row["k"] for row in rows}) > 1:
        raise InputError("cohort_figure: the table holds several k; choose one")
    found = [row["improvement"] for row in rows if row["improvement"] is not None]
    return np.array(found, dtype=np.float64)


def _round_top(highest: float) -> float:
    """The least number from there on whose fifths are round."""
    size = 10.0 ** math.floor(math.log10(max(highest / 5, 1e-300)))
    return 5 * size * next(one for one in ROUND if one * size * 5 >= highest * (1 - 1e-12))


def _threshold(gains: FloatArray, tail: float | None) -> float:
    """The improvement from which on cases belong to the tail; nan if there is none."""
    count = 0 if tail is None else math.ceil(tail * gains.size)
    if count == 0:
        return math.nan
    least = float(np.sort(gains)[-count])
    positive = gains[gains > 0.0]
    if positive.size == 0:
        return math.nan
    # Fewer may be improvable at all; then all of these are the tail.
    return max(least, float(positive.min()))


# ----------------------------------------------------------------------------------------------
# How much a cohort of cases could have been improved, for print.


def draw_cohort(data: CohortData) -> Figure:
    """Bars, "none" apart in grey, the tail dark and striped; what is guaranteed as an outline."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    width = data.width
    if data.has_none:
        axes.bar(data.apart, data.none, width, color=PALE, label="no change helps")
    shape: dict[str, Any] = {
        "width": width,
        "align": "edge",
        "edgecolor": "white",
        "linewidth": 0.6,
    }
    if data.has_body:
        axes.bar(data.edges[:-1], data.body, color=FULL, label="best explanation", **shape)
    if data.has_tail:
        axes.bar(
            data.edges[:-1], data.tail, bottom=data.body, color=TAIL, hatch=STRIPES,
            label=plain(data.tail_name), **shape,
        )  # fmt: skip
    _draw_guaranteed(axes, data)
    axes.set_xlabel(fitted(data.title, 3.8))
    axes.set_ylabel(data.count_title)
    axes.set_ylim(0.0, 1.08 * data.highest)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    places, texts = zip(*data.ticks, strict=True)
    axes.set_xticks(places, texts)
    axes.set_xlim(*data.ends)
    style.legend_above(figure)
    return figure


def _draw_guaranteed(axes: Axes, data: CohortData) -> None:
    if data.sure is None:
        return
    outline: dict[str, Any] = {"color": style.GUARANTEED, "linewidth": 1.8}
    if data.has_none:
        ends = [data.apart - data.width / 2, data.apart + data.width / 2]
        axes.stairs([data.unsure], ends, **outline)
    axes.stairs(data.sure, data.edges, label="guaranteed in every model", **outline)


cohort_figure = figure_function(cohort_data, draw_cohort, "cohort_figure")
