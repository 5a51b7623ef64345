"""Tables in memory: polars and pandas frames, and NumPy arrays, under the same checks as files.

Rows of a frame count from 0 in messages, as indexing does. pandas is never imported: a frame of it
comes with all that is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.tables.grid import Grid
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.mistakes import Mistakes
from counterplan.tables.parts import Recorded
from counterplan.tables.reader import Block, TableFile, tidy
from counterplan.tables.schema import Column, Schema
from counterplan.tables.schema_table import CheckedTable, GatherNotes, check_blocks

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# Arrays of reinforcement learning and columns of a schema, there and back.
#
# An observation is the features of a schema and then its contextual columns; an action is the
# number of a combination of action columns, or one number for each of them. Columns with labels
# hold the places of these.


def observation_columns(table: FloatArray, schema: Schema | None) -> dict[str, Any]:
    """By name the columns of observations (n, D)."""
    if schema is None:
        return _numbered("obs", table)
    columns = observed(schema)
    if table.shape[1] != len(columns):
        raise InputError(
            f"observations have {table.shape[1]} components, but the schema has {len(columns)} "
            f"columns for them: {', '.join(column.name for column in columns)}"
        )
    return {column.name: table[:, place] for place, column in enumerate(columns)}


def action_columns(table: FloatArray, schema: Schema | None) -> dict[str, Any]:
    """By name the columns of actions (n, d), nan where nothing was done."""
    if schema is None:
        return _numbered("action", table)
    columns = schema.of("action")
    if table.shape[1] == 1 and len(columns) > 1:
        table = _decoded(Grid(columns), table[:, 0])
    elif table.shape[1] == 1 and columns[0].levels is not None:
        table = _level(columns[0], table)
    if table.shape[1] != len(columns):
        raise InputError(
            f"actions have {table.shape[1]} components, but the schema has {len(columns)} action "
            f"columns: {', '.join(column.name for column in columns)}"
        )
    return {column.name: table[:, place] for place, column in enumerate(columns)}


def stored_actions(actions: list[NDArray[Any]], schema: Schema | None) -> list[NDArray[Any]]:
    """Actions (n, d) of files as levels: whole numbers count these, others are levels already."""
    columns = schema.of("action") if schema else ()
    if len(columns) != 1 or columns[0].levels is None:
        return actions
    grid = Grid(columns)
    return [
        _decoded(grid, table[:, 0].astype(np.float64))
        if table.dtype.kind in "iu" and table.shape[1] == 1
        else table
        for table in actions
    ]


def observed(schema: Schema) -> tuple[Column, ...]:
    """The columns of an observation."""
    return (*schema.features, *schema.of("contextual"))


class Trajectory(NamedTuple):
    """An episode as learners store it.

    observations  (T, D)
    actions       (T,) numbers of combinations; the last one is repeated where nothing was done
    rewards       (T,) 0 where the table does not say
    """

    observations: FloatArray
    actions: IntArray
    rewards: FloatArray


def trajectory(layout: SchemaLayout, one: GatherNotes) -> Trajectory:
    """The arrays of an episode of a table."""
    episode, schema = one.recorded.episode, layout.schema
    chosen = len(schema.of("action"))
    T = len(episode)
    if layout.states is not None:
        states, actions = layout.states.vectors[episode.states], episode.actions
        given = actions if actions[-1] != layout.no_action else actions[:-1]
    else:
        states = episode.states
        given = layout.choices.cells(episode.actions[:, :chosen])
        states = np.concatenate([states, _kept(episode.actions[:, chosen:], T)], axis=1)
    rewards = np.zeros(T) if one.rewards is None else np.nan_to_num(one.rewards, nan=0.0)
    if one.rewards is None and layout.has_merit:
        rewards = states[:, : len(layout.features)] @ layout.reward().weights
    return Trajectory(states, _kept(given[:, np.newaxis], T)[:, 0], rewards)


def _kept(table: NDArray[Any], T: int) -> NDArray[Any]:
    """T rows: the last is repeated where one is missing."""
    if len(table) == T:
        return table
    last = table[-1:] if len(table) else np.zeros_like(table, shape=(1, table.shape[1]))
    return np.concatenate([table, last])


def _decoded(grid: Grid, numbers: FloatArray) -> FloatArray:
    """(n, columns) the values that numbers of combinations stand for."""
    known = np.isfinite(numbers)
    wrong = known & ~(np.isin(numbers, np.arange(len(grid))))
    if wrong.any():
        raise InputError(
            f"action {numbers[wrong][0]:g} is none of the schema's {len(grid)} combinations of "
            f"levels, 0..{len(grid) - 1}"
        )
    values = np.full((len(numbers), len(grid.columns)), np.nan)
    values[known] = grid.vectors[numbers[known].astype(np.int64)]
    return values


def _level(column: Column, table: FloatArray) -> FloatArray:
    """Levels as they are, or numbers of levels where these are meant."""
    levels = np.array(column.levels)
    known = table[np.isfinite(table)]
    if np.isin(known, levels).all():
        return table
    return _decoded(Grid((column,)), table[:, 0])


def _numbered(base: str, table: FloatArray) -> dict[str, Any]:
    if table.shape[1] == 1:
        return {base: table[:, 0]}
    return {f"{base}_{place}": values for place, values in enumerate(table.T)}


# ----------------------------------------------------------------------------------------------

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
            "counterplan.tables.formats.frame_from_arrays"
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
