"""Tables of a cohort run as rows: polars frames, lazy or not, or plain mappings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from counterplan.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Rows: TypeAlias = "pl.DataFrame | pl.LazyFrame | Iterable[Mapping[str, Any]]"


def is_table(given: object) -> bool:
    """Whether this is a frame, or rows of one."""
    if hasattr(given, "collect_schema") or hasattr(given, "to_dicts"):
        return True
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Mapping)


def as_rows(table: Any, what: str, *needed: str) -> list[Mapping[str, Any]]:
    """The rows of a table that must have some columns; `what` names it in errors."""
    frame = table.collect() if hasattr(table, "collect") else table
    rows: list[Mapping[str, Any]]
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else list(frame)
    if not rows:
        raise InputError(f"{what}: there are no rows to draw")
    absent = [name for name in needed if name not in rows[0]]
    if absent:
        raise InputError(f"{what}: the table has no column {absent[0]!r}")
    return rows


def one_episode(rows: list[Mapping[str, Any]], what: str) -> list[Mapping[str, Any]]:
    """Rows of one episode and budget, in the order of their steps."""
    which = {(row["episode_id"], row["k"]) for row in rows}
    if len(which) > 1:
        raise InputError(
            f"{what}: the table holds {len(which):,} pairs of episode and k; choose one, such as "
            "table.filter(episode_id=..., k=...)"
        )
    return sorted(rows, key=lambda row: int(row["t"]))
