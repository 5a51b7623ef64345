"""Lists of a run's items, filtered, sorted and cut into pages, and all items at a glance.

No list loads the run. To put items in order, only the columns are read that they are filtered and
sorted by; names and parts are kept for the other pages of that list, while the run does not go on.
Then all columns are read of the items of the page alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from counterplan.errors import FileError
from counterplan.explorer import models
from counterplan.runs.run import OUTCOME, PART, RESULTS, Run

if TYPE_CHECKING:
    import polars as pl

# Bytes of names and parts that are kept: of one item they take about thirty.
RANKED_BYTES = 64 * 2**20
BARS = 32
# Outcomes with more values than this are not offered for choice.
MOST_VALUES = 12

Entry = TypeVar("Entry")


class Cache(Generic[Entry]):
    """What was made before, up to `limit` in all; what was not used for longest is forgotten first.
    Threads may share it.

    size  what an entry counts for
    """

    def __init__(self, limit: int, size: Callable[[Entry], int] = lambda _: 1) -> None:
        self._limit, self._size, self._used = limit, size, 0
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._lock, self._making = threading.Lock(), threading.Lock()

    def find(self, key: Hashable) -> Entry | None:
        """What is there under a key, None if nothing is."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def add(self, key: Hashable, entry: Entry) -> None:
        """Keep an entry, unless it is too large."""
        with self._lock:
            if key in self._entries or self._size(entry) > self._limit:
                return
            self._entries[key] = entry
            self._used += self._size(entry)
            while self._used > self._limit:
                self._used -= self._size(self._entries.popitem(last=False)[1])

    def get(self, key: Hashable, make: Callable[[], Entry]) -> Entry:
        """What is there under a key, made if there is nothing: once for all who ask meanwhile."""
        if (found := self.find(key)) is not None:
            return found
        with self._making:
            if (found := self.find(key)) is None:
                found = make()
                self.add(key, found)
        return found


def collect(*frames: pl.LazyFrame) -> list[pl.DataFrame]:
    """The rows of queries, which share what they read; files that cannot be read are an error in
    one line."""
    import polars as pl

    try:
        return pl.collect_all(frames, engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"the tables of the run cannot be read: {reason}") from None


def results(run: Run) -> pl.LazyFrame:
    """The results of all parts that are done by now, with the part of each row."""
    if not run.done:
        raise FileError("no part of this run is done yet: try again later")
    return run.results(parts=True)


def item_rows(run: Run, table: str, name: str) -> list[dict[str, Any]]:
    """The rows of one item in a table, in the order of budgets and steps."""
    (found,) = collect(run.item(table, name))
    order = [one for one in ("k", "t") if one in found.columns]
    return (found.sort(order) if order else found).to_dicts()


class ItemList:
    """The list of a run's items, in any order."""

    def __init__(self, run: Run, limit: int = RANKED_BYTES) -> None:
        self._run = run
        self._rankings: Cache[pl.DataFrame] = Cache(limit, lambda one: int(one.estimated_size()))

    def page(
        self, query: models.ListQuery, column: str, conditions: Sequence[pl.Expr]
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many items meet the conditions of a query, and the rows of those on its page.

        column  of the results that `query.sort` stands for
        """
        import polars as pl

        run = self._run
        every_page = query.model_copy(update={"offset": 0, "limit": 0})
        ranked = self._rankings.get(
            (len(run.done), every_page), lambda: self._ranked(query, column, conditions)
        )
        places = dict(ranked.slice(query.offset, query.limit).iter_rows())
        if not places:
            return len(ranked), []
        for name, part in places.items():
            run.remember_part(name, part)
        paths = [run.layout.table(RESULTS, part) for part in sorted({*places.values()})]
        files = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        (rows,) = collect(files.filter(*conditions, pl.col(run.id_column).is_in([*places])))
        order = {name: number for number, name in enumerate(places)}
        return len(ranked), sorted(rows.to_dicts(), key=lambda row: order[row[run.id_column]])

    def _ranked(
        self, query: models.ListQuery, column: str, conditions: Sequence[pl.Expr]
    ) -> pl.DataFrame:
        """The names of all items in order, and the part of each."""
        name = self._run.id_column
        # Ties stand in the order of names, so that pages fit.
        columns = [*dict.fromkeys((column, name))]
        falling = [query.descending, False][: len(columns)]
        chosen = results(self._run).filter(*conditions).select(*columns, PART)
        ranked = chosen.sort(columns, descending=falling, nulls_last=True)
        return collect(ranked.select(name, PART))[0]


def conditions_of(query: models.ListQuery, id_column: str) -> list[pl.Expr]:
    """The conditions that lists of all kinds have."""
    import polars as pl

    found = []
    if query.status:
        found.append(pl.col("status").is_in(list(query.status)))
    if query.search:
        found.append(contains(pl.col(id_column), query.search))
    return found


def contains(texts: pl.Expr, part: str) -> pl.Expr:
    """Whether texts contain another, capitals or not."""
    return texts.str.to_lowercase().str.contains(part.lower(), literal=True)


# --- All items ----------------------------------------------------------------------------------


def overview_of(
    run: Run, column: str, outcomes: Sequence[str] = (), k: int | None = None
) -> models.Overview:
    """Counts and the spread of a column; `k` chooses among budgets where there are some."""
    import polars as pl

    frame = results(run)
    if k is not None:
        frame = frame.filter(pl.col("k") == k)
    finite = pl.col(column).filter(pl.col(column).is_finite())
    numbers = {"mean": finite.mean(), "median": finite.median(), "low": finite.min()}
    statuses, spread = collect(
        frame.group_by("status").len().sort("status"),
        frame.select(total=pl.len(), largest=finite.max(), **numbers),
    )
    facts = spread.row(0, named=True)
    return models.Overview(
        k=k,
        total=facts["total"],
        statuses=dict(statuses.iter_rows()),
        supported=_supported(frame),
        mean=facts["mean"],
        median=facts["median"],
        largest=facts["largest"],
        bars=_bars(frame, column, facts),
        outcomes={name: _values(frame, OUTCOME + name) for name in outcomes},
    )


def _supported(frame: pl.LazyFrame) -> int | None:
    import polars as pl

    if "supported" not in frame.collect_schema():
        return None
    (known,) = collect(frame.select(pl.col("supported").count(), yes=pl.col("supported").sum()))
    count, yes = known.row(0)
    return int(yes) if count else None


def _values(frame: pl.LazyFrame, column: str) -> list[str]:
    """The values of an outcome, none if they are too many to choose from."""
    (rows,) = collect(frame.select(column).unique().head(MOST_VALUES + 1))
    found = rows[column].drop_nulls()
    return sorted(found.to_list()) if len(found) <= MOST_VALUES else []


def _bars(frame: pl.LazyFrame, column: str, facts: dict[str, Any]) -> list[models.Bar]:
    """Counts in equal steps from the lowest to the highest number, or from zero if it is higher."""
    import polars as pl

    if facts["low"] is None:
        return []
    low, high = min(0.0, facts["low"]), facts["largest"]
    width = (high - low) / BARS
    if not width > 0.0:
        return [models.Bar(low=low, high=high, count=facts["total"])]
    bar = ((pl.col(column) - low) / width).floor().clip(0, BARS - 1).cast(pl.Int64)
    chosen = frame.filter(pl.col(column).is_finite()).select(bar=bar)
    counts = dict(collect(chosen.group_by("bar").len())[0].iter_rows())
    return [
        models.Bar(low=low + i * width, high=low + (i + 1) * width, count=counts.get(i, 0))
        for i in range(BARS)
    ]
