"""How much of each case's value rests on the causal model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplan.core.result import Interval
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.explained import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import COUNTERFACTUAL_MARK, GUARANTEED_MARK, OBSERVED_MARK

if TYPE_CHECKING:
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


def interval_figure(
    rows: Sequence[IntervalRow] | Rows,
    *,
    observed: float | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """One line for each case, first case on top: the range over all causal models as a bar, the
    value as a circle, the guarantee as a diamond.

    rows      `IntervalRow`s, or a run's `results` of one k (with --robust)
    observed  the outcome that was, marked where all cases share it
    """
    cases = _cases(rows)
    if not cases:
        raise InputError("interval_figure: there are no cases to draw")
    figure, axes = style.new_axes(4.6, 1.1 + 0.17 * max(len(cases), 2), grid="x")
    for name, colour, width, label in (
        ("interval", style.BAND, 7, "range over causal models"),
        ("stable", style.STABLE, 3, "range over stable ones"),
    ):
        given = [(line, getattr(row, name)) for line, row in enumerate(cases)]
        ranges = [(line, *interval) for line, interval in given if interval is not None]
        if ranges:
            lines, low, high = zip(*ranges, strict=True)
            axes.hlines(lines, low, high, color=colour, linewidth=width, label=label)
    if observed is not None:
        axes.axvline(observed, **OBSERVED_MARK.look(1.4, 0), label="observed")
    values, look = [row.value for row in cases], COUNTERFACTUAL_MARK.look(0, 4.5)
    axes.plot(values, range(len(cases)), **look, label="best explanation")
    sure = [(row.guaranteed, line) for line, row in enumerate(cases) if row.guaranteed is not None]
    if sure:
        look = GUARANTEED_MARK.look(0, 4.0)
        axes.plot(*zip(*sure, strict=True), **look, label="guaranteed in every model")
    axes.set_yticks(range(len(cases)), [style.literal(row.label) for row in cases])
    axes.tick_params(axis="y", length=0, labelsize=style.SMALL_SIZE - 1)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    style.label_quantity(axes, "x", quantity or Quantity(), 3.0)
    style.legend_above(figure)
    return figure


def _cases(given: Any) -> list[IntervalRow]:
    if is_table(given):
        needed = ("episode_id", "value", "interval_low", "interval_high")
        return [
            IntervalRow(str(name), float(value), Interval(float(low), float(high)))
            for row in as_rows(given, "interval_figure", *needed)
            for name, value, low, high in [[row[column] for column in needed]]
            if low is not None
        ]
    for one in given:
        if not isinstance(one, IntervalRow):
            raise InputError(
                f"interval_figure: cannot draw a {type(one).__name__}: pass IntervalRows"
            )
    return list(given)
