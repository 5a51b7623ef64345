"""Some episodes as one Parquet file in memory: the form in which cohorts are stored and sent.

One row per step: episode_id, t, time, the state (one column `state`, or a column for each
feature), and the action (one column `action`, or a column for each component, named after "action:"
since a component may be called like a feature). An action is null in the last row where nothing was
done any more.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import BoolArray, FloatArray, IntArray

ID, STEP, TIME, DATE, FILLED = "episode_id", "t", "time", "date", "filled"
STATE, ACTION = "state", "action"
REWARD = "reward"
PREFIX, FEATURE, OUTCOME = "action:", "state:", "outcome:"
# Of an episode.
LONGEST_ID = 1_000


class Recorded(NamedTuple):
    """An episode as a table tells it.

    times     (T,) when its steps begin, in the table's unit
    filled    how many missing values were filled in
    outcomes  what the table says of the episode besides, such as (("died", "1"),); no model sees it
    rewards   (T,) what its steps earned, nan where the table does not say, None if it has no column
    rows      (T,) where its steps stand in the file, None if it comes from elsewhere
    dates     (T,) when its steps begin, where times are dates; `times` count from the first then
    guessed   (T,) whether a value of the state was filled in, None if that is not known
    """

    episode: Episode
    times: FloatArray
    filled: int = 0
    outcomes: tuple[tuple[str, str], ...] = ()
    rewards: FloatArray | None = None
    rows: IntArray | None = None
    dates: tuple[str, ...] = ()
    guessed: BoolArray | None = None

    def __repr__(self) -> str:
        times = f"{self.times[0]:g} to {self.times[-1]:g}"
        told = f", {', '.join(f'{name}={text}' for name, text in self.outcomes)}"
        return f"Recorded({self.episode!r}, times {times}, filled={self.filled}{told.rstrip(', ')})"

    @property
    def guesses(self) -> BoolArray:
        """(T-1,) the steps from or to a state that was filled in."""
        if self.guessed is None:
            return np.zeros(len(self.episode) - 1, dtype=np.bool_)
        return np.asarray(self.guessed[:-1] | self.guessed[1:])


class Rows:
    """All rows of some episodes with continuous states, one below the other.

    starts   (E,) the first rows of episodes
    owner    (n,) whose rows they are
    acts     (n,) whether an action follows: all but the last row of an episode
    states   (n, D)
    actions  (n, d) nan where none follows
    earned   (n,) what they earned, None if the table does not say
    rows     (n,) where they stand in the file
    """

    def __init__(self, every: Sequence[Recorded]) -> None:
        self.every = every
        lengths = [len(one.episode) for one in every]
        self.owner = np.repeat(np.arange(len(every)), lengths)
        self.starts = np.cumsum([0, *lengths[:-1]])
        self.acts = np.append(np.diff(self.owner) == 0, False)
        self.states = np.concatenate([one.episode.states for one in every])
        taken = np.concatenate([one.episode.actions for one in every])
        self.actions = np.full((len(self.states), taken.shape[1]), np.nan)
        self.actions[self.acts] = taken
        earned = [one.rewards for one in every if one.rewards is not None]
        self.earned = np.concatenate(earned) if earned else None

    @cached_property
    def rows(self) -> IntArray:
        return np.concatenate([np.asarray(one.rows) for one in self.every])

    @cached_property
    def ranges(self) -> FloatArray:
        """(2, D) the lowest and highest plausible values of each feature."""
        # Here, since only learning needs it.
        from counterplan.scm.transitions import plausible_range

        return np.array([plausible_range(column) for column in self.states.T]).T

    @cached_property
    def plausible(self) -> BoolArray:
        """(n,) rows whose states lie in that range."""
        low, high = self.ranges
        return np.asarray(((self.states >= low) & (self.states <= high)).all(axis=1))


def episodes_to_bytes(
    recorded: Sequence[Recorded], features: Sequence[str] = (), components: Sequence[str] = ()
) -> bytes:
    """A Parquet file; names of features and action components are needed where there are any."""
    import polars as pl

    lengths = [len(one.episode) for one in recorded]

    def each(values: Sequence[Any]) -> list[Any]:
        return [value for value, T in zip(values, lengths, strict=True) for _ in range(T)]

    columns: dict[str, Any] = {
        ID: each([one.episode.id for one in recorded]),
        STEP: np.concatenate([np.arange(T) for T in lengths]),
        TIME: np.concatenate([np.asarray(one.times, dtype=np.float64) for one in recorded]),
        FILLED: np.array(each([one.filled for one in recorded])),
    }
    if recorded[0].dates:
        columns[DATE] = [date for one in recorded for date in one.dates]
    states = np.concatenate([one.episode.states for one in recorded])
    if states.ndim == 1:
        columns[STATE] = states
    else:
        columns |= dict(zip([FEATURE + name for name in features], states.T, strict=True))
    padded = []
    for one, T in zip(recorded, lengths, strict=True):
        given = one.episode.actions.astype(np.float64)
        behind = [(0, T - len(given)), (0, 0)][: given.ndim]
        padded.append(np.pad(given, behind, constant_values=np.nan))
    actions = np.concatenate(padded)
    if actions.ndim == 1:
        columns[ACTION] = pl.Series(actions).fill_nan(None).cast(pl.Int64)
    else:
        names = [PREFIX + name for name in components]
        columns |= {
            name: pl.Series(part).fill_nan(None)
            for name, part in zip(names, actions.T, strict=True)
        }
    if recorded[0].rewards is not None:
        rewards = [one.rewards for one in recorded if one.rewards is not None]
        columns[REWARD] = np.concatenate(rewards)
    for place, (name, _) in enumerate(recorded[0].outcomes):
        columns[OUTCOME + name] = each([one.outcomes[place][1] for one in recorded])
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def episodes_from_bytes(content: bytes) -> list[Recorded]:
    """The episodes of such a file, in its order."""
    import polars as pl

    frame = pl.read_parquet(io.BytesIO(content))

    def columns(name: str, prefix: str) -> Any:
        several = [column for column in frame.columns if column.startswith(prefix)]
        return frame.select([name] if name in frame.columns else several)

    states, actions = columns(STATE, FEATURE).to_numpy(), columns(ACTION, PREFIX)
    acts = actions.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    actions = actions.fill_null(0).to_numpy()
    if STATE in frame.columns:
        states = states[:, 0]
    if ACTION in frame.columns:
        actions = actions[:, 0]
    ids, times, filled = frame[ID].to_list(), frame[TIME].to_numpy(), frame[FILLED].to_list()
    rewards = frame[REWARD].to_numpy() if REWARD in frame.columns else None
    dates = frame[DATE].to_list() if DATE in frame.columns else []
    outcomes = {
        name.removeprefix(OUTCOME): frame[name].to_list()
        for name in frame.columns
        if name.startswith(OUTCOME)
    }
    found, begins = [], np.flatnonzero(np.diff(frame[ID].rle_id().to_numpy(), prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(ids)], strict=True):
        part = slice(begin, end)
        found.append(
            Recorded(
                Episode(states[part], actions[part][acts[part]], id=ids[begin]),
                times[part],
                int(filled[begin]),
                tuple((name, values[begin]) for name, values in outcomes.items()),
                None if rewards is None else rewards[part],
                dates=tuple(dates[part]),
            )
        )
    return found
