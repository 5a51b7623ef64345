"""Other forms of episode tables: arrays, Minari, d3rlpy and Gymnasium.

Each gives or takes a table in memory (a polars frame with one row per step), which
`counterplan.tables.from_frame` reads with a schema, and `frame.write_parquet(path)` stores for the
command line. Between a table and any other form stand three lists of arrays, one for each episode:

    observations  (T, D) the features of a schema and then its contextual columns; columns with
                  labels hold the places of these
    actions       (T,) or (T-1,) numbers of combinations of action columns, or (T, d) one number
                  for each of them
    rewards       (T,) or (T-1,)

Datasets of Minari are folders with `data/main_data.hdf5` (or that folder `data` itself), with T
observations and T-1 actions and rewards for each episode. Replay buffers of d3rlpy are the HDF5
files of `ReplayBuffer.dump`, version 2.1:

    columns         names of what is stored for each episode
    num_episodes    how many there are
    observations_0  (T, D) of episode 0, actions_0, rewards_0 (T, 1), terminated_0; and so on
    version         "2.1"
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.files import atomic_file, check_readable, check_target
from counterplan.core.shown import module_tells
from counterplan.core.table import MOST_PACKED, UNPACKED
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.errors import FileError, InputError, not_installed
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Recorded
from counterplan.tables.reader import open_table
from counterplan.tables.schema import Column, Grid, Schema

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "frame_from_arrays",
    "read_d3rlpy",
    "read_minari",
    "roll_out",
    "write_d3rlpy",
    "write_minari",
]

STORED = ("observations", "actions", "rewards")
COLUMNS = (*STORED, "terminated")
VERSION = "2.1"
MOST_EPISODES = 10_000_000
MAIN = "main_data.hdf5"
LARGEST_ARRAY = 2**31

# The arrays of all episodes by name.
Arrays: TypeAlias = dict[str, list[NDArray[Any]]]


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
    states = _tables(observations, "observations")
    lengths = [len(table) for table in states]
    episode, time = (schema.episode, schema.time) if schema else ("episode_id", "t")
    increment = 1 if schema is None or schema.increment == 1.0 else schema.increment
    columns: dict[str, Any] = {
        episode: np.repeat(np.array(names, dtype=object), lengths),
        time: np.concatenate([np.arange(T) for T in lengths]) * increment,
    }
    observed = (*schema.features, *schema.of("contextual")) if schema else None
    columns |= _named(np.concatenate(states), observed, "obs", "columns for them")
    taken = _stacked(actions, lengths, "actions")
    chosen = schema.of("action") if schema else None
    if chosen and taken.shape[1] == 1 and not _are_values(chosen, taken):
        taken = _decoded(Grid(chosen), taken[:, 0])
    columns |= _named(taken, chosen, "action", "action columns")
    if rewards is not None:
        name = schema.rewards[0].name if schema and schema.rewards else "reward"
        columns[name] = _stacked(rewards, lengths, "rewards")[:, 0]
    frame = pl.DataFrame(columns, schema_overrides={episode: pl.String})
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def _tables(arrays: Sequence[ArrayLike], name: str) -> list[FloatArray]:
    """Arrays (T, D) of equal widths."""
    tables: list[FloatArray] = []
    for number, values in enumerate(arrays):
        try:
            table = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{name}[{number}]: must hold numbers, (T,) or (T, D)") from None
        table = table[:, np.newaxis] if table.ndim == 1 else table
        if table.ndim != 2 or table.shape[1] == 0:
            shape = np.shape(values)
            raise InputError(f"{name}[{number}]: has shape {shape}, expected (T,) or (T, D)")
        tables.append(table)
    width = tables[0].shape[1]
    for number, table in enumerate(tables):
        if table.shape[1] != width:
            raise InputError(f"{name}[{number}]: has {table.shape[1]} columns, {name}[0] {width}")
    return tables


def _stacked(arrays: Sequence[ArrayLike], lengths: Sequence[int], name: str) -> FloatArray:
    """All rows, with nan in the last row of episodes that have one less."""
    parts = []
    for number, (table, T) in enumerate(zip(_tables(arrays, name), lengths, strict=True)):
        if len(table) not in (T, T - 1):
            raise InputError(f"{name}[{number}]: has {len(table)} rows for {T} observations")
        parts.append(np.pad(table, ((0, T - len(table)), (0, 0)), constant_values=np.nan))
    return np.concatenate(parts)


def _named(
    table: FloatArray, columns: Sequence[Column] | None, base: str, what: str
) -> dict[str, Any]:
    """The columns of a table (n, D) by name: those of a schema, or numbered ones."""
    width = table.shape[1]
    if columns is None:
        names = [base] if width == 1 else [f"{base}_{place}" for place in range(width)]
    else:
        names = [column.name for column in columns]
    if len(names) != width:
        kind = "observations" if base == "obs" else "actions"
        raise InputError(
            f"{kind} have {width} components, but the schema has {len(names)} {what}: "
            f"{', '.join(names)}"
        )
    return dict(zip(names, table.T, strict=True))


def _are_values(columns: Sequence[Column], table: FloatArray) -> bool:
    """Whether actions (n, 1) are what the only action column holds, not numbers of its levels."""
    levels = columns[0].levels
    known = table[np.isfinite(table)]
    return len(columns) == 1 and (levels is None or bool(np.isin(known, levels).all()))


def _decoded(grid: Grid, numbers: FloatArray) -> FloatArray:
    """(n, columns) the values that numbers of combinations stand for."""
    known = np.isfinite(numbers)
    wrong = known & ~np.isin(numbers, np.arange(len(grid)))
    if wrong.any():
        raise InputError(
            f"action {numbers[wrong][0]:g} is none of the schema's {len(grid)} combinations of "
            f"levels, 0..{len(grid) - 1}"
        )
    values = np.full((len(numbers), len(grid.columns)), np.nan)
    values[known] = grid.vectors[numbers[known].astype(np.int64)]
    return values


def _trajectory(layout: SchemaLayout, one: Recorded) -> tuple[FloatArray, IntArray, FloatArray]:
    """Observations (T, D), numbers of actions (T,) of which the last is repeated where nothing was
    done, and rewards (T,), 0 where the table does not say."""
    episode, chosen, T = one.episode, len(layout.choices.columns), len(one.episode)
    if layout.doses:
        raise InputError(
            f"column {layout.doses[0].name!r} is a dose, and here actions are numbered: give its "
            "levels in the schema"
        )
    if layout.states is not None:
        states, given = layout.states.vectors[episode.states], episode.actions
        given = given if given[-1] != layout.no_action else given[:-1]
    else:
        replayed = _repeated(episode.actions[:, chosen:], T)
        states = np.concatenate([episode.states, replayed], axis=1)
        given = layout.choices.cells(episode.actions[:, :chosen])
    rewards = states[:, : len(layout.features)] @ [one.merit for one in layout.schema.features]
    if one.rewards is not None:
        rewards = rewards + np.nan_to_num(one.rewards, nan=0.0)
    return states, _repeated(given, T), rewards


def _repeated(table: NDArray[Any], T: int) -> NDArray[Any]:
    """T rows: the last is repeated where one is missing, or 0 where there is none."""
    last = table[-1:] if len(table) else np.zeros_like(table, shape=(1, *table.shape[1:]))
    return np.concatenate([table, last])[:T]


def _library(needed: str, extra: str, *modules: str) -> Any:
    """The last of these modules, or an error that says how to get them."""
    try:
        return [import_module(name) for name in modules][-1]
    except ImportError:
        raise InputError(not_installed(needed, extra)) from None


# --- HDF5 -------------------------------------------------------------------------------------
# A file may point anywhere: only what lies in the file itself is read.


def _import_h5py() -> Any:
    return _library("reading HDF5 needs h5py", "minari", "h5py")


def _read_hdf5(path: Path, is_buffer: bool, schema: Schema | None) -> tuple[pl.DataFrame, Arrays]:
    """The table of a replay buffer of d3rlpy, or of the main file of a Minari dataset, and its
    arrays.

    Without a schema its columns are obs_0, obs_1, ... (parts of observations that are dictionaries
    one after the other), action (or action_0, ...) and reward. Actions that are whole numbers count
    the combinations of the schema's levels.
    """
    stored: Arrays = {name: [] for name in COLUMNS}
    _import_h5py()
    check_readable(path, "an HDF5 file")
    # Packed, or many times under other names, a few kilobytes can hold any number of values.
    left = [min(LARGEST_ARRAY, max(UNPACKED, MOST_PACKED * path.stat().st_size))]
    with _hdf5_file(path) as file:
        every = sum(name.startswith("episode_") for name in file)
        if not every and not is_buffer:
            raise FileError(f"{path}: has no episodes; is it a Minari dataset?")
        for number in range(_episodes(path, file) if is_buffer else every):
            group = file if is_buffer else _entry(path, file, f"episode_{number}")
            for name in STORED:
                own = f"{name}_{number}" if is_buffer else name
                stored[name].append(_array(path, group, own, left))
            if is_buffer:
                ends = _whole(path, file, f"terminated_{number}")
                stored["terminated"].append(np.array(ends))
    observations, actions, rewards = (stored[name] for name in STORED)
    chosen = schema.of("action") if schema else ()
    try:
        # Whole numbers count the levels of a column, others are levels already.
        if len(chosen) == 1 and chosen[0].levels is not None:
            actions = [
                _decoded(Grid(chosen), table[:, 0].astype(np.float64))
                if table.dtype.kind in "iu" and table.shape[1] == 1
                else table
                for table in actions
            ]
        return frame_from_arrays(observations, actions, rewards, schema=schema), stored
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None


@contextmanager
def _hdf5_file(path: Path) -> Iterator[Any]:
    """An HDF5 file opened for reading; whatever is wrong with it is a FileError."""
    try:
        with _import_h5py().File(path, "r") as file:
            yield file
    except InputError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
        raise FileError(f"{path}: is damaged or no HDF5 file: {reason}; write it anew") from None


def _entry(path: Path, group: Any, name: str) -> Any:
    """A group or array that lies in the file itself."""
    h5py = _import_h5py()
    link = group.get(name, getlink=True)
    if link is None:
        raise FileError(f"{path}: has no {name!r}; is it a dataset of this kind?")
    if not isinstance(link, h5py.HardLink):
        raise FileError(f"{path}: {name!r} points elsewhere, which is not followed; copy it in")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.is_virtual or found.external):
        raise FileError(f"{path}: {name!r} lies in other files, which are not read; copy it in")
    return found


def _array(path: Path, group: Any, name: str, left: list[int]) -> NDArray[Any]:
    """(n, D) the numbers of an array of one or more dimensions, the type of whole ones kept; those
    of a group of arrays side by side. `left`: how many bytes of the file may still be read."""
    found = _entry(path, group, name)
    if isinstance(found, _import_h5py().Group):
        parts = [_array(path, found, part, left) for part in found]
        if not parts or len({len(part) for part in parts}) > 1:
            raise FileError(f"{path}: {name!r} has no parts, or parts of different lengths")
        return np.concatenate(parts, axis=1)
    if not hasattr(found, "dtype") or found.dtype.kind not in "biuf":
        raise FileError(f"{path}: {name!r} holds no numbers; only these can be a table")
    left[0] -= found.size * 8
    if left[0] < 0:
        raise FileError(
            f"{path}: {name!r} has shape {found.shape}, and all together more numbers than a file "
            "of this size holds; store less of it"
        )
    if found.ndim == 0:
        raise FileError(f"{path}: {name!r} has shape {found.shape}: no array that fits a table")
    numbers = np.asarray(found[()], dtype=None if found.dtype.kind in "iu" else np.float64)
    return numbers.reshape(len(numbers), -1)


# --- d3rlpy -----------------------------------------------------------------------------------


def read_d3rlpy(path: str | Path, schema: Schema | None = None) -> pl.DataFrame:
    """The table of a replay buffer; `schema` names its columns, see `_read_hdf5`. A column
    terminated says whether the last action of an episode ended it."""
    import polars as pl

    frame, stored = _read_hdf5(Path(path), True, schema)
    lengths = [len(table) for table in stored["observations"]]
    ended = np.repeat([bool(flag) for flag in stored["terminated"]], lengths)
    return frame.with_columns(pl.Series("terminated", ended))


def _whole(path: Path, file: Any, name: str) -> int:
    """One whole number, or whether something is so."""
    found = _entry(path, file, name)
    if not hasattr(found, "dtype") or found.dtype.kind not in "biu" or found.shape != ():
        raise FileError(f"{path}: {name!r} is not one whole number; dump the buffer anew")
    return int(found[()])


def _episodes(path: Path, file: Any) -> int:
    """How many episodes the file says it has."""
    # No text is read: the library below h5py can follow a damaged one for ever.
    _entry(path, file, "version")
    count = _whole(path, file, "num_episodes")
    if not 0 < count <= MOST_EPISODES:
        raise FileError(f"{path}: says that it has {count:,} episodes; dump the buffer anew")
    return count


def write_d3rlpy(path: str | Path, frame: Any, schema: Schema) -> None:
    """Write a frame of polars or pandas as a replay buffer.

    Observations are features and then contextual columns, actions numbers of the combinations of
    action columns; a reward is that of the row, or of its state where the schema has no such
    column. The last state of an episode keeps its place: its action is the one before where
    nothing was done, and leads nowhere since the episode is not marked as terminated.
    """
    h5py, layout, content = _import_h5py(), SchemaLayout(schema), io.BytesIO()
    check_target(path)
    with open_table(frame, schema) as table, h5py.File(content, "w") as file:
        file["columns"], file["num_episodes"] = list(COLUMNS), len(table.episodes)
        for number, one in enumerate(table):
            observations, actions, rewards = _trajectory(layout, one)
            file[f"observations_{number}"] = observations
            file[f"actions_{number}"] = actions[:, np.newaxis]
            file[f"rewards_{number}"] = rewards.astype(np.float32)[:, np.newaxis]
            file[f"terminated_{number}"] = False
        file["version"] = VERSION
    with atomic_file(path) as target:
        target.write(content.getvalue())


# --- Minari -----------------------------------------------------------------------------------


def read_minari(path: str | Path, schema: Schema | None = None) -> pl.DataFrame:
    """The table of a Minari dataset in HDF5; `schema` names its columns, see `_read_hdf5`."""
    for place in (Path(path) / "data" / MAIN, Path(path) / MAIN):
        if place.is_file():
            return _read_hdf5(place, False, schema)[0]
    if not Path(path).exists():
        raise FileError(f"{path}: no such folder; check the path")
    raise FileError(
        f"{path}: is no Minari dataset in HDF5: data/{MAIN} is missing; give the dataset's folder"
    )


def write_minari(path: str | Path, frame: Any, schema: Schema) -> None:
    """Write a frame of polars or pandas as a Minari dataset, a new folder, as `write_d3rlpy` does;
    Minari stores no action for the last state."""
    needed = "writing Minari datasets needs minari"
    spaces = _library(needed, "minari", "minari", "gymnasium").spaces
    storage = _library(needed, "minari", "minari.dataset.minari_storage").MinariStorage
    minari = _library(needed, "minari", "minari")
    _import_h5py()
    target, layout = Path(path), SchemaLayout(schema)
    if target.exists():
        raise FileError(f"{path}: exists already; give the name of a new folder")
    check_target(path)
    with open_table(frame, schema) as table:
        every = [_trajectory(layout, one) for one in table]
        short = next((i for i, one in enumerate(every) if len(one[0]) < 2), None)
        if short is not None:
            name = table.episodes[short]
            raise InputError(f"episode {name!r} has a single row, and no transition; leave it out")
    width = every[0][0].shape[1]
    word = "".join(letter if letter.isalnum() else "-" for letter in target.name).strip("-")
    name = f"counterplan/{word or 'table'}-v0"
    temporary = target.resolve().with_name(f".{secrets.token_hex(8)}.part")
    try:
        temporary.mkdir()
        new = storage.new(
            temporary / "data",
            observation_space=spaces.Box(-np.inf, np.inf, (width,), np.float64),
            action_space=spaces.Discrete(len(layout.choices)),
        )
        new.update_episodes(_buffer(minari, i, *one) for i, one in enumerate(every))
        new.update_metadata({"dataset_id": name, "minari_version": minari.__version__})
        os.replace(temporary, target)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _buffer(
    minari: Any, number: int, observations: FloatArray, actions: IntArray, rewards: FloatArray
) -> Any:
    steps = len(observations) - 1
    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=observations,
        actions=actions[:steps],
        rewards=list(rewards[:steps]),
        terminations=[False] * steps,
        truncations=[t == steps - 1 for t in range(steps)],
        infos={},
    )


# --- Gymnasium --------------------------------------------------------------------------------


def roll_out(
    environment: Any,
    policy: Callable[[Any], Any] | None = None,
    *,
    episodes: int = 100,
    longest: int = 1_000,
    seed: int = 0,
) -> pl.DataFrame:
    """Play episodes in a Gymnasium environment and write down what happens.

    environment  one, or the name of one, such as "CartPole-v1"
    policy       the action for an observation; None draws actions at random
    longest      steps after which an episode ends in any case

    The columns are episode_id, t, obs_0, obs_1, ..., action (or action_0, ...) and reward; nothing
    is done in the last row of an episode.
    """
    whole_number(episodes, "episodes", minimum=1)
    whole_number(longest, "longest", minimum=1)
    whole_number(seed, "seed")
    made = _made(environment) if isinstance(environment, str) else environment
    for name in ("reset", "step", "action_space"):
        if not hasattr(made, name):
            raise InputError(f"{type(made).__name__} is no Gymnasium environment: it has no {name}")
    made.action_space.seed(seed)
    try:
        found = [_episode(made, policy, longest, seed + number) for number in range(episodes)]
    finally:
        if isinstance(environment, str):
            made.close()
    return frame_from_arrays(*zip(*found, strict=True))


def _episode(
    environment: Any, policy: Callable[[Any], Any] | None, longest: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    observation, _ = environment.reset(seed=seed)
    observations, actions, rewards = [_flat(observation)], [], []
    for _ in range(longest):
        action = environment.action_space.sample() if policy is None else policy(observation)
        observation, reward, terminated, truncated, _ = environment.step(action)
        observations.append(_flat(observation))
        actions.append(_flat(action))
        rewards.append(float(reward))
        if terminated or truncated:
            break
    return np.array(observations), np.array(actions), np.array(rewards)


def _flat(value: Any) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(
            f"observations and actions must be numbers, got {type(value).__name__}; wrap the "
            "environment with gymnasium.wrappers.FlattenObservation"
        ) from None


def _made(name: str) -> Any:
    gymnasium = _library("environments by name need gymnasium", "gymnasium", "gymnasium")
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as problem:
        reason = str(problem).splitlines()[0]
        raise InputError(f"there is no environment {name!r}: {reason}") from None


module_tells(globals())
