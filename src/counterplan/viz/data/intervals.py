"""How much of each case's value rests on the causal model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from counterplan.core.result import Interval
from counterplan.errors import InputError
from counterplan.viz.data.rows import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity


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
