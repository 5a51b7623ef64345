"""A run's items as the explorer shows them, whatever they are: in lists, one by one, at a glance.

Results that are small are read once and kept. No list loads a larger run: to put items in order,
only the columns are read that they are filtered and sorted by; names and parts are kept for the
other pages of that list, while the run does not go on. Then all columns are read of the items of
the page alone.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from counterplan.errors import FileError
from counterplan.explorer import models
from counterplan.runs.run import OUTCOME, PART, RESULTS, Run, is_far, ranked, scan_files
from counterplan.viz.quantity import ROUNDING

if TYPE_CHECKING:
    import polars as pl

# Bytes of names and parts that are kept, and what those of one item take, about.
RANKED_BYTES, RANK_BYTES = 64 * 2**20, 40
# Rows of results that are kept in memory, at most.
KEPT_ROWS = 200_000
BARS = 32
# Outcomes with more values than this are not offered for choice.
MOST_VALUES = 12


def collect(*frames: pl.LazyFrame) -> list[pl.DataFrame]:
    """The rows of queries, which share what they read; files that cannot be read are an error in
    one line."""
    import polars as pl

    try:
        return pl.collect_all(frames, engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"the tables of the run cannot be read: {reason}") from None


def contains(texts: pl.Expr, part: str) -> pl.Expr:
    """Whether texts contain another, capitals or not."""
    return texts.str.to_lowercase().str.contains(part.lower(), literal=True)


class Items:
    """A run, opened for questions about its items.

    sorts  columns of the results that queries have other names for
    """

    sorts: ClassVar[Mapping[str, str]]

    def __init__(self, run: Run) -> None:
        self.run = run
        items = max(1, run.manifest.parts * run.manifest.part_size)
        self._ranked = lru_cache(RANKED_BYTES // (RANK_BYTES * items))(self._rank)
        # One list is put in order at a time: most who wait for it want the same.
        self._ranking = threading.Lock()
        self._kept = lru_cache(1)(self._read)

    def warm(self) -> None:
        """Load and compile what the first question would otherwise wait for."""
        return

    def sort_key(self, name: str) -> pl.Expr:
        """What a list is put in order by."""
        import polars as pl

        return pl.col(self.sorts.get(name, name))

    def conditions(self, query: Any) -> list[pl.Expr]:
        """Which items a query asks for."""
        import polars as pl

        found = []
        if query.status:
            found.append(pl.col("status").is_in(list(query.status)))
        if query.search:
            found.append(contains(pl.col(self.run.id_column), query.search))
        return found

    def results(self) -> pl.LazyFrame:
        """The results of all parts that are done by now, with the part of each row."""
        done = self.run.done
        if not done:
            raise FileError("no part of this run is done yet: try again later")
        kept = self._kept(len(done))
        return self.run.results(parts=True) if kept is None else kept.lazy()

    def _read(self, done: int) -> pl.DataFrame | None:
        """The results while `done` parts are done, None if they are not small."""
        import polars as pl

        found = self.run.scan(RESULTS, parts=True)
        is_small = collect(found.select(pl.len()))[0].item() <= KEPT_ROWS
        # In one piece: rows are found ten times faster than in one for each part.
        return collect(found)[0].rechunk() if is_small else None

    def rows(self, table: str, name: str) -> list[dict[str, Any]]:
        """The rows of one item in a table, in the order of budgets and steps."""
        (found,) = collect(self.run.item(table, name))
        order = [one for one in ("k", "t") if one in found.columns]
        return (found.sort(order) if order else found).to_dicts()

    def listed(self, query: models.ListQuery) -> dict[str, Any]:
        """A page of the list, whose `lines` are rows of the results."""
        import polars as pl

        run, every_page = self.run, query.model_copy(update={"offset": 0, "limit": 0})
        with self._ranking:
            found = self._ranked(len(run.done), every_page)
        places = dict(found.slice(query.offset, query.limit).iter_rows())
        page = {"total": len(found), "offset": query.offset, "lines": list[dict[str, Any]]()}
        if not places:
            return page
        for name, part in places.items():
            run.remember_part(name, part)
        is_here = pl.col(run.id_column).is_in([*places])
        results = self._of_parts({*places.values()})
        (rows,) = collect(results.filter(is_here, *self.conditions(query)))
        order = {name: number for number, name in enumerate(places)}
        return page | {"lines": sorted(rows.to_dicts(), key=lambda row: order[row[run.id_column]])}

    def _of_parts(self, parts: Collection[int]) -> pl.LazyFrame:
        """The results of some parts; of others nothing is read."""
        import polars as pl

        if (kept := self._kept(len(self.run.done))) is not None:
            return kept.lazy().filter(pl.col(PART).is_in(parts))
        return scan_files([self.run.check_done(RESULTS, part) for part in sorted(parts)])

    def _rank(self, done: int, query: models.ListQuery) -> pl.DataFrame:
        """The names of all items in order, and the part of each, while `done` parts are done."""

        name = self.run.id_column
        # Ties stand in the order of names, so that pages fit.
        columns: list[Any] = [self.sort_key(query.sort), name]
        falling = [query.descending, False]
        chosen = self.results().filter(*self.conditions(query))
        if query.sort == "low" and query.descending:  # as everywhere
            return collect(ranked(chosen).select(name, PART))[0]
        if "far_outside_training" in chosen.collect_schema():
            columns, falling = [is_far(), *columns], [False, *falling]
        in_order = chosen.sort(columns, descending=falling, nulls_last=True)
        return collect(in_order.select(name, PART))[0]

    def spread(
        self,
        compared: pl.Expr,
        outcomes: Sequence[str] = (),
        k: int | None = None,
        **facts: pl.Expr,
    ) -> dict[str, Any]:
        """Counts, the spread of what items are compared by, and other facts of all; `k` chooses
        among budgets where there are some."""
        import polars as pl

        frame = self.results().with_columns(compared=compared)
        if k is not None:
            frame = frame.filter(pl.col("k") == k)
        finite = pl.col("compared").filter(pl.col("compared").is_finite())
        facts |= {"total": pl.len(), "mean": finite.mean(), "median": finite.median()}
        if "supported" in frame.collect_schema():
            known = pl.col("supported")
            facts["supported"] = pl.when(known.count() > 0).then(known.sum())
        statuses, spread, *values = collect(
            frame.group_by("status").len().sort("status"),
            frame.select(**facts, known=finite.count(), low=finite.min(), largest=finite.max()),
            *(frame.select(OUTCOME + name).unique().head(MOST_VALUES + 1) for name in outcomes),
        )
        found = spread.row(0, named=True)
        choices = [sorted(one.to_series().drop_nulls()) for one in values]
        few = [one if len(one) <= MOST_VALUES else [] for one in choices]
        return {
            "k": k,
            "of": "",
            "total": found["total"],
            "statuses": dict(statuses.iter_rows()),
            **{name: found.get(name) for name in ("supported", "established")},
            **{name: found[name] for name in ("mean", "median", "largest")},
            "bars": _bars(frame, found),
            "outcomes": dict(zip(outcomes, few, strict=True)),
        }


def _bars(frame: pl.LazyFrame, facts: dict[str, Any]) -> list[dict[str, float]]:
    """Counts in equal steps from the lowest to the highest number, or from zero if it is higher."""
    import polars as pl

    if facts["low"] is None:
        return []
    low, high = min(0.0, facts["low"]), facts["largest"]
    width = (high - low) / BARS
    if not high - low > ROUNDING:  # all alike
        return [{"low": low, "high": high, "count": facts["known"]}]
    bar = ((pl.col("compared") - low) / width).floor().clip(0, BARS - 1).cast(pl.Int64)
    chosen = frame.filter(pl.col("compared").is_finite()).select(bar=bar)
    counts = dict(collect(chosen.group_by("bar").len())[0].iter_rows())
    return [
        {"low": low + i * width, "high": low + (i + 1) * width, "count": counts.get(i, 0)}
        for i in range(BARS)
    ]
