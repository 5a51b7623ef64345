"""Some episodes as one Parquet file in memory: the form in which cohorts are stored and sent.

One row per step: episode_id, t, time, the state (one column `state`, or a column for each
feature), and the action (one column `action`, or a column for each component, named after "action:"
since a component may be called like a feature). An action is null in the last row where nothing was
done any more.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray

ID, STEP, TIME, FILLED = "episode_id", "t", "time", "filled"
STATE, ACTION = "state", "action"
PREFIX = "action:"
FEATURE = "state:"
# Of an episode.
LONGEST_ID = 1_000


class Recorded(NamedTuple):
    """An episode as a table tells it.

    times     (T,) when its steps begin, in the table's unit
    filled    how many missing values were filled in
    outcomes  what the table says of the episode besides, such as (("died", "1"),); no model sees it
    rewards   (T,) what its steps earned, nan where the table does not say, None if it has no column
    rows      (T,) where its steps stand in the file, None if it comes from elsewhere
    """

    episode: Episode
    times: FloatArray
    filled: int = 0
    outcomes: tuple[tuple[str, str], ...] = ()
    rewards: FloatArray | None = None
    rows: IntArray | None = None


def episodes_to_bytes(
    recorded: Sequence[Recorded], features: Sequence[str] = (), components: Sequence[str] = ()
) -> bytes:
    """A Parquet file; names of features and action components are needed where there are any."""
    import polars as pl

    columns: dict[str, Any] = {
        ID: [one.episode.id for one in recorded for _ in range(len(one.episode))],
        STEP: np.concatenate([np.arange(len(one.episode)) for one in recorded]),
        TIME: np.concatenate([np.asarray(one.times, dtype=np.float64) for one in recorded]),
        FILLED: np.concatenate([np.full(len(one.episode), one.filled) for one in recorded]),
    }
    states = np.concatenate([one.episode.states for one in recorded])
    if states.ndim == 1:
        columns[STATE] = states
    else:
        names = [FEATURE + name for name in features]
        columns |= dict(zip(names, states.T, strict=True))
    columns |= _actions(recorded, components)
    for name in [name for name, _ in recorded[0].outcomes]:
        columns[f"outcome:{name}"] = [
            dict(one.outcomes)[name] for one in recorded for _ in range(len(one.episode))
        ]
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _actions(recorded: Sequence[Recorded], components: Sequence[str]) -> dict[str, Any]:
    """By column, null where an episode has no last action."""
    import polars as pl

    is_index = recorded[0].episode.actions.ndim == 1
    whole = []
    for one in recorded:
        actions, T = one.episode.actions.astype(np.float64), len(one.episode)
        if actions.ndim == 1:
            actions = actions[:, np.newaxis]
        padding = np.full((T - len(actions), actions.shape[1]), np.nan)
        whole.append(np.concatenate([actions, padding]))
    table = np.concatenate(whole)
    if is_index:
        column = pl.Series(table[:, 0]).fill_nan(None).cast(pl.Int64)
        return {ACTION: column}
    names = [PREFIX + name for name in components]
    return {
        name: pl.Series(values).fill_nan(None) for name, values in zip(names, table.T, strict=True)
    }


def episodes_from_bytes(content: bytes) -> list[Recorded]:
    """The episodes of such a file, in its order."""
    import polars as pl

    frame = pl.read_parquet(io.BytesIO(content))
    groups = frame.partition_by(ID, maintain_order=True)
    return [_recorded(group) for group in groups]


def _recorded(frame: Any) -> Recorded:
    columns = frame.columns
    if STATE in columns:
        states = frame[STATE].to_numpy()
    else:
        names = [name for name in columns if name.startswith(FEATURE)]
        states = frame.select(names).to_numpy()
    if ACTION in columns:
        actions = frame[ACTION].drop_nulls().to_numpy()
    else:
        components = [name for name in columns if name.startswith(PREFIX)]
        actions = frame.select(components).drop_nulls().to_numpy()
    outcomes = tuple(
        (name.removeprefix("outcome:"), frame[name][0])
        for name in columns
        if name.startswith("outcome:")
    )
    episode = Episode(states, actions, id=frame[ID][0])
    return Recorded(episode, frame[TIME].to_numpy(), int(frame[FILLED][0]), outcomes)
