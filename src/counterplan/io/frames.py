"""Tables in memory: polars and pandas frames, and NumPy arrays, under the same checks as files.

Rows of a frame count from 0 in messages, as indexing does. pandas is never imported: a frame of it
comes with all that is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.errors import InputError
from counterplan.io.csv_blocks import Block, tidy
from counterplan.io.episode_parts import Recorded
from counterplan.io.mistakes import Mistakes
from counterplan.io.schema import Schema
from counterplan.io.schema_table import CheckedTable, check_blocks
from counterplan.io.table_blocks import TableFile

if TYPE_CHECKING:
    import polars as pl

NAME = "the table"
# Rows that are looked at in one go.
ROWS = 50_000


@dataclass(frozen=True)
class FrameTable(TableFile):
    """A polars frame as a table."""

    frame: pl.DataFrame

    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        import polars as pl

        for name in wanted:
            kind = self.frame.schema[name]
            if kind.is_nested() or kind in (pl.Binary, pl.Object):
                raise InputError(f"{NAME}, column {name!r}: holds {kind}; give numbers or texts")
        for start in range(0, self.frame.height, ROWS):
            part = self.frame[start : start + ROWS].select(pl.col(wanted).cast(pl.String))
            yield tidy(part, np.arange(start, start + part.height))


def from_frame(
    frame: Any, schema: Schema, means: Mapping[str, float] | None = None
) -> list[Recorded]:
    """The episodes of a polars or pandas frame, in the order in which they first appear.

    means  what gaps in columns with missing = "mean" stand for; None takes the frame's own
    """
    with open_frame(frame, schema, means) as table:
        return [one for part in table.parts() for one in part]


def open_frame(
    frame: Any, schema: Schema, means: Mapping[str, float] | None = None
) -> CheckedTable:
    """The same as `open_table` for a frame in memory."""
    given = as_polars(frame)
    header = [name.strip() for name in given.columns]
    if len(set(header)) == len(header):
        given = given.rename(dict(zip(given.columns, header, strict=True)))
    return check_blocks(FrameTable(NAME, header, None, given), schema, means)


def as_polars(frame: Any) -> pl.DataFrame:
    """A frame of polars or pandas as one of polars."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "columns"):
        raise InputError(
            f"expected a frame of polars or pandas, got {type(frame).__name__}; for arrays use "
            "counterplan.formats.frame_from_arrays"
        )
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{NAME}: two columns are named {twice!r}; keep one of them")
    columns = zip(names, frame.columns, strict=True)
    return pl.DataFrame([_series(name, frame[key]) for name, key in columns])


def _series(name: str, column: Any) -> pl.Series:
    """A column of pandas; anything but numbers becomes text."""
    import polars as pl

    missing = np.asarray(column.isna(), dtype=np.bool_)
    kind = str(column.dtype).lower()
    if kind.startswith(("int", "uint", "float", "bool")):
        values = zip(missing, column.tolist(), strict=True)
        return pl.Series(name, [None if gap else value for gap, value in values], strict=False)
    texts = [None if gap else str(value) for gap, value in zip(missing, column, strict=True)]
    return pl.Series(name, texts, dtype=pl.String)


def frame_from_arrays(
    observations: Sequence[ArrayLike],
    actions: Sequence[ArrayLike],
    rewards: Sequence[ArrayLike] | None = None,
    *,
    schema: Schema | None = None,
    ids: Sequence[str] | None = None,
) -> pl.DataFrame:
    """A table, one row per step, from arrays with one entry of each list for each episode.

    observations  (T,) or (T, D)
    actions       (T,) or (T, d), or one row less where nothing was done in the last state
    rewards       likewise (T,) or (T-1,)
    schema        names the columns: observations are its features and then its contextual columns,
                  actions its action columns, or numbers of their combinations; without it columns
                  are called obs_0, obs_1, ..., action (or action_0, ...) and reward
    ids           of the episodes; 0, 1, ... if not given
    """
    import polars as pl

    from counterplan.io.array_columns import action_columns, observation_columns

    names = [str(number) for number in range(len(observations))] if ids is None else list(ids)
    for what, given in (("actions", actions), ("rewards", rewards), ("ids", names)):
        if given is not None and len(given) != len(observations):
            raise InputError(f"{len(observations)} observations but {len(given)} {what}")
    if not names:
        raise InputError("no episodes given")
    states = [_table(values, f"observations[{i}]") for i, values in enumerate(observations)]
    lengths = [len(table) for table in states]
    episode, time = (schema.episode, schema.time) if schema else ("episode_id", "t")
    columns: dict[str, Any] = {
        episode: list(chain.from_iterable([n] * T for n, T in zip(names, lengths, strict=True))),
        time: np.concatenate([np.arange(T) for T in lengths]) * _increment(schema),
    }
    columns |= observation_columns(_stacked(states, lengths, "observations"), schema)
    taken = [_table(values, f"actions[{i}]") for i, values in enumerate(actions)]
    columns |= action_columns(_stacked(taken, lengths, "actions"), schema)
    if rewards is not None:
        earned = [_table(values, f"rewards[{i}]") for i, values in enumerate(rewards)]
        name = schema.reward.name if schema and schema.reward else "reward"
        columns[name] = _stacked(earned, lengths, "rewards")[:, 0]
    frame = pl.DataFrame(columns)
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def _increment(schema: Schema | None) -> float | int:
    return 1 if schema is None or schema.increment == 1.0 else schema.increment


def _table(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: must hold numbers, (T,) or (T, D)") from None
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{name}: has shape {np.shape(values)}, expected (T,) or (T, D)")
    return array


def _stacked(
    tables: Sequence[NDArray[np.float64]], lengths: Sequence[int], name: str
) -> NDArray[np.float64]:
    """All rows, with nan in the last row of episodes that have one less."""
    width = tables[0].shape[1]
    parts = []
    for number, (table, T) in enumerate(zip(tables, lengths, strict=True)):
        if table.shape[1] != width:
            raise InputError(f"{name}[{number}]: has {table.shape[1]} columns, {name}[0] {width}")
        if len(table) not in (T, T - 1):
            raise InputError(f"{name}[{number}]: has {len(table)} rows for {T} observations")
        parts.append(np.concatenate([table, np.full((T - len(table), width), np.nan)]))
    return np.concatenate(parts)
