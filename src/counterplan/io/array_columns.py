"""Arrays of reinforcement learning and columns of a schema, there and back.

An observation is the features of a schema and then its contextual columns; an action is the number
of a combination of action columns, or one number for each of them. Columns with labels hold the
places of these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.io.schema import Column, Schema
from counterplan.io.schema_episodes import Told
from counterplan.io.schema_grid import Grid
from counterplan.io.schema_layout import SchemaLayout


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


def trajectory(layout: SchemaLayout, one: Told) -> Trajectory:
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
