"""Lists of a run's items, filtered, sorted and cut into pages.

First the items of the page are found by what they are filtered and sorted by (`ranking`), then all
columns are read of these alone: no list loads the run.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplan.explorer.folder import RESULTS, collected
from counterplan.explorer.ranking import Order, Rankings

if TYPE_CHECKING:
    import polars as pl

MOST_LINES = 200


@dataclass(frozen=True)
class Window:
    """Which lines of a list, in which order.

    sort  a column of the results
    """

    sort: str
    descending: bool
    offset: int
    limit: int


@dataclass(frozen=True)
class Found:
    """The rows of a page, in order, and how many the whole list has."""

    total: int
    rows: list[dict[str, Any]]


def page_of(
    rankings: Rankings, wanted: Hashable, conditions: Sequence[pl.Expr], window: Window
) -> Found:
    """The rows of results that meet all conditions, cut to the window; `wanted` stands for the
    conditions."""
    import polars as pl

    folder = rankings.folder
    ranking = rankings.get(wanted, conditions, Order(window.sort, window.descending))
    places = ranking.places(window.offset, window.limit)
    for name, part in places.items():
        folder.remember(name, part)
    rows = []
    if places:
        paths = [folder.run.layout.table(RESULTS, part) for part in sorted({*places.values()})]
        files = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        found = files.filter(*conditions, pl.col(folder.id_column).is_in([*places]))
        rank = {name: number for number, name in enumerate(places)}
        rows = sorted(collected(found).to_dicts(), key=lambda row: rank[row[folder.id_column]])
    return Found(len(ranking.items), rows)


def contains(column: str, text: str) -> pl.Expr:
    """Whether a column contains a text, capitals or not."""
    import polars as pl

    return pl.col(column).str.to_lowercase().str.contains(text.lower(), literal=True)
