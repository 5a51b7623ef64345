"""How much of each case's value rests on the causal model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplan.core.result import Interval
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import Quantity, Rows, as_rows, is_table
from counterplan.viz.style import (
    COUNTERFACTUAL_MARK,
    GUARANTEED_MARK,
    OBSERVED_MARK,
    dots,
    figure_function,
    fitted,
    plain,
    stroke,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class IntervalRow(NamedTuple):
    """One case.

    value       of the explanation under the assumed causal model
    interval    of that value over all causal models that fit
    guaranteed  what some policy reaches in all of them, None if not known
    stable      the interval over models with counterfactual stability, None if not known
    """

    label: str
    value: float
    interval: Interval
    guaranteed: float | None = None
    stable: Interval | None = None


@dataclass(frozen=True)
class IntervalData:
    """What an interval figure shows: the cases, first on top, and the outcome that was, where all
    share it."""

    rows: tuple[IntervalRow, ...]
    observed: float | None = None
    quantity: Quantity = field(default_factory=Quantity)

    @property
    def has_stable(self) -> bool:
        """Whether intervals of stable models are known."""
        return any(row.stable is not None for row in self.rows)

    @property
    def guaranteed(self) -> list[tuple[float, int]]:
        """Guaranteed values and the rows they belong to."""
        return [
            (row.guaranteed, place)
            for place, row in enumerate(self.rows)
            if row.guaranteed is not None
        ]


def interval_data(
    rows: Sequence[IntervalRow] | Rows | IntervalData,
    *,
    observed: float | None = None,
    quantity: Quantity | None = None,
) -> IntervalData:
    """One line for each case, first case on top; `observed` is marked where all cases share it.

    rows  `IntervalRow`s, or a run's `results` of one k (with --robust)
    """
    if isinstance(rows, IntervalData):
        return rows
    given: Any = rows
    found = _of_table(given) if is_table(given) else [_row(one) for one in given]
    if not found:
        raise InputError("interval_figure: there are no cases to draw")
    return IntervalData(tuple(found), observed, quantity or Quantity())


def _row(one: Any) -> IntervalRow:
    if not isinstance(one, IntervalRow):
        raise InputError(f"interval_figure: cannot draw a {type(one).__name__}: pass IntervalRows")
    return one


def _of_table(table: Any) -> list[IntervalRow]:
    needed = ("episode_id", "value", "interval_low", "interval_high")
    return [
        IntervalRow(
            str(row["episode_id"]),
            float(row["value"]),
            Interval(float(row["interval_low"]), float(row["interval_high"])),
        )
        for row in as_rows(table, "interval_figure", *needed)
        if row["interval_low"] is not None
    ]


# ----------------------------------------------------------------------------------------------
# How much of each case's value rests on the causal model, for print.


def draw_intervals(data: IntervalData) -> Figure:
    """A row for each case: ranges as bars, the value as a circle, the guarantee as a diamond."""
    rows = data.rows
    figure, axes = style.new_axes(4.6, 1.1 + 0.17 * max(len(rows), 2), grid="x")
    _draw_ranges(axes, data)
    if data.observed is not None:
        axes.axvline(data.observed, **stroke(OBSERVED_MARK), label="observed")
    places = range(len(rows))
    axes.plot(
        [row.value for row in rows],
        places,
        **dots(COUNTERFACTUAL_MARK, 4.5),
        label="best explanation",
    )
    if data.guaranteed:
        values, where = zip(*data.guaranteed, strict=True)
        axes.plot(values, where, **dots(GUARANTEED_MARK, 4.0), label="guaranteed in every model")
    axes.set_yticks(places, [plain(row.label) for row in rows])
    axes.tick_params(axis="y", length=0, labelsize=style.SMALL_SIZE - 1)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(fitted(data.quantity.label, 3.0))
    if data.quantity.percent:
        axes.set_xlim(-0.03, 1.03)
    data.quantity.label_axis(axes.xaxis)
    style.legend_above(figure)
    return figure


def _draw_ranges(axes: Axes, data: IntervalData) -> None:
    axes.hlines(
        range(len(data.rows)),
        [row.interval.low for row in data.rows],
        [row.interval.high for row in data.rows],
        color=style.BAND,
        linewidth=7,
        label="range over causal models",
    )
    if data.has_stable:
        known = [(row.stable, n) for n, row in enumerate(data.rows) if row.stable is not None]
        axes.hlines(
            [place for _, place in known],
            [stable.low for stable, _ in known],
            [stable.high for stable, _ in known],
            color=style.STABLE,
            linewidth=3,
            label="range over stable ones",
        )


interval_figure = figure_function(interval_data, draw_intervals, "interval_figure")
