"""Lists of a run's items, filtered, sorted and cut into pages by the files themselves.

First the items of the page are found by what they are filtered and sorted by, then all columns are
read of these alone: no list loads the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplan.explorer.folder import PATH, Folder, all_collected, collected

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


def page_of(folder: Folder, conditions: Sequence[pl.Expr], window: Window) -> Found:
    """The rows of results that meet all conditions, cut to the window."""
    import polars as pl

    name, sort = folder.id_column, window.sort
    chosen = folder.results().filter(*conditions)
    # Ties stand in the order of names, so that pages fit together.
    order = [sort] if sort == name else [sort, name]
    ranked = chosen.select(*dict.fromkeys((name, sort)), PATH).sort(
        order, descending=[window.descending, False][: len(order)], nulls_last=True
    )
    total, page = all_collected(
        [chosen.select(pl.len()), ranked.slice(window.offset, window.limit).select(name, PATH)]
    )
    places = dict(page.iter_rows())
    for one, path in places.items():
        folder.remember(one, path)
    rows = []
    if places:
        files = pl.scan_parquet(sorted(set(places.values())), glob=False, hive_partitioning=False)
        found = files.filter(*conditions, pl.col(name).is_in(list(places)))
        rank = {one: number for number, one in enumerate(places)}
        rows = sorted(collected(found).to_dicts(), key=lambda row: rank[row[name]])
    return Found(int(total.item()), rows)


def contains(column: str, text: str) -> pl.Expr:
    """Whether a column contains a text, capitals or not."""
    import polars as pl

    return pl.col(column).str.to_lowercase().str.contains(text.lower(), literal=True)
