"""Other forms of episode tables: arrays, Minari, d3rlpy and Gymnasium.

Each gives or takes a table in memory (a polars frame with one row per step), which
`counterplan.tables.from_frame` reads with a schema, and `frame.write_parquet(path)` stores for the
command line.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.files import atomic_file, check_readable, check_target
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

# --- Arrays -----------------------------------------------------------------------------------
# An observation is the features of a schema and then its contextual columns; an action is the
# number of a combination of action columns, or one number for each of them. Columns with labels
# hold the places of these.


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


def trajectory(layout: SchemaLayout, one: Recorded) -> Trajectory:
    """The arrays of an episode of a table."""
    episode, schema = one.episode, layout.schema
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


# --- HDF5 -------------------------------------------------------------------------------------
# A file may point anywhere: only what lies in the file itself is read.

LARGEST_ARRAY = 2**31


def import_h5py() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import h5py
    except ImportError:
        raise InputError(not_installed("reading HDF5 needs h5py", "minari")) from None
    return h5py


def check_hdf5(path: str | Path) -> None:
    """Raise unless there is a file and a library to read it."""
    import_h5py()
    check_readable(path, "an HDF5 file")


# What another process runs: an error that is raised on purpose will be found, and told, later.
TRIAL = """
import sys
from pathlib import Path
from counterplan.errors import CounterplanError
from counterplan.tables import formats
try:
    getattr(formats, sys.argv[1])(Path(sys.argv[2]))
except CounterplanError:
    pass
"""
# How long reading may take: to begin with, and for every ten megabytes.
SECONDS = 30.0
PACE = 10_000_000


def _try_reading(function: str, path: Path) -> None:
    """Raise if reading a file does not end, or ends the process that reads it.

    The library below h5py can follow a damaged text for ever, which cannot be caught, so another
    process reads such a file first.
    """
    search = [entry or os.getcwd() for entry in sys.path]
    try:
        finished = subprocess.run(
            [sys.executable, "-P", "-c", TRIAL, function, os.fspath(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
            timeout=SECONDS + path.stat().st_size / PACE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FileError(f"{path}: is damaged: reading it does not end; write it anew") from None
    if finished.returncode != 0:
        raise FileError(f"{path}: is damaged: whatever reads it breaks down; write it anew")


@contextmanager
def hdf5_file(path: str | Path) -> Iterator[Any]:
    """An HDF5 file opened for reading; whatever is wrong with it is a FileError."""
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (InputError, FileError):
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
        raise FileError(f"{path}: is damaged or no HDF5 file: {reason}; write it anew") from None


def entry(path: str | Path, group: Any, name: str) -> Any:
    """A group or array that lies in the file itself."""
    h5py = import_h5py()
    link = group.get(name, getlink=True)
    if link is None:
        raise FileError(f"{path}: has no {name!r}; is it a dataset of this kind?")
    if not isinstance(link, h5py.HardLink):
        raise FileError(f"{path}: {name!r} points elsewhere, which is not followed; copy it in")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.is_virtual or found.external):
        raise FileError(f"{path}: {name!r} lies in other files, which are not read; copy it in")
    return found


def array(path: str | Path, group: Any, name: str) -> NDArray[Any]:
    """(n, D) the numbers of an array of one or more dimensions; the type of whole ones is kept."""
    found = entry(path, group, name)
    if not hasattr(found, "dtype") or found.dtype.kind not in "biuf":
        raise FileError(f"{path}: {name!r} holds no numbers; only these can be a table")
    if found.ndim == 0 or found.size * 8 > LARGEST_ARRAY:
        raise FileError(f"{path}: {name!r} has shape {found.shape}: no array that fits a table")
    numbers = np.asarray(found[()], dtype=None if found.dtype.kind in "iu" else np.float64)
    return numbers.reshape(len(numbers), -1)


# --- d3rlpy -----------------------------------------------------------------------------------
# Replay buffers, from and to tables: the HDF5 files of `ReplayBuffer.dump`, version 2.1.
#
# columns         names of what is stored for each episode
# num_episodes    how many there are
# observations_0  (T, D) of episode 0, actions_0, rewards_0 (T, 1), terminated_0; and so on
# version         "2.1"

VERSION = "2.1"
COLUMNS = ("observations", "actions", "rewards", "terminated")
MOST_EPISODES = 10_000_000


def read_d3rlpy(path: str | Path, schema: Schema | None = None) -> pl.DataFrame:
    """The table of a replay buffer; `schema` names its columns.

    Without a schema they are obs_0, obs_1, ..., action (or action_0, ...) and reward. A column
    terminated says whether the last action of an episode ended it. Actions that are whole numbers
    count the combinations of the schema's levels.
    """
    import polars as pl

    check_hdf5(path)
    _try_reading("read_buffer", Path(path))
    stored, ended = read_buffer(path)
    try:
        observations, actions, rewards = stored.values()
        actions = stored_actions(actions, schema)
        frame = frame_from_arrays(observations, actions, rewards, schema=schema)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    lengths = [len(table) for table in observations]
    return frame.with_columns(pl.Series("terminated", np.repeat(ended, lengths)))


def read_buffer(path: str | Path) -> tuple[dict[str, list[NDArray[Any]]], list[bool]]:
    """The arrays of all episodes by name, and whether each was ended by its last action."""
    stored: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS[:3]}
    ended = []
    with hdf5_file(path) as file:
        for number in range(_episodes(path, file)):
            for name, arrays in stored.items():
                arrays.append(array(path, file, f"{name}_{number}"))
            ended.append(bool(entry(path, file, f"terminated_{number}")[()]))
    return stored, ended


def write_d3rlpy(path: str | Path, frame: Any, schema: Schema) -> None:
    """Write a frame of polars or pandas as a replay buffer.

    Observations are features and then contextual columns, actions numbers of the combinations of
    action columns; a reward is that of the row, or of its state where the schema has no such
    column. The last state of an episode keeps its place: its action is the one before where
    nothing was done, and leads nowhere since the episode is not marked as terminated.
    """
    h5py = import_h5py()
    check_target(path)
    layout = SchemaLayout(schema)
    content = io.BytesIO()
    with open_table(frame, schema) as table, h5py.File(content, "w") as file:
        file.create_dataset("columns", data=list(COLUMNS))
        file.create_dataset("num_episodes", data=len(table.episodes))
        for number, one in enumerate(table):
            found = trajectory(layout, one)
            file.create_dataset(f"observations_{number}", data=found.observations)
            file.create_dataset(f"actions_{number}", data=found.actions[:, np.newaxis])
            rewards = found.rewards.astype(np.float32)[:, np.newaxis]
            file.create_dataset(f"rewards_{number}", data=rewards)
            file.create_dataset(f"terminated_{number}", data=False)
        file.create_dataset("version", data=VERSION)
    with atomic_file(path) as target:
        target.write(content.getvalue())


def _episodes(path: str | Path, file: Any) -> int:
    """How many episodes the file says it has, once it is of the right kind."""
    version = entry(path, file, "version")[()]
    text = version.decode(errors="replace") if isinstance(version, bytes) else str(version)
    if text != VERSION:
        raise FileError(
            f"{path}: has version {text[:20]!r} of d3rlpy's format, but this program reads "
            f"{VERSION}; load and dump it with a recent d3rlpy"
        )
    given = entry(path, file, "columns")[()]
    names = {name.decode(errors="replace") for name in given if isinstance(name, bytes)}
    absent = [name for name in COLUMNS if name not in names]
    if absent:
        raise FileError(f"{path}: its episodes have no {', '.join(absent)}; dump the buffer anew")
    count = int(entry(path, file, "num_episodes")[()])
    if not 0 < count <= MOST_EPISODES:
        raise FileError(f"{path}: says that it has {count:,} episodes; dump the buffer anew")
    return count


# --- Minari -----------------------------------------------------------------------------------
# A dataset is a folder with `data/main_data.hdf5` (or that folder `data` itself): for each episode
# T observations and T-1 actions, rewards and flags.

MAIN = "main_data.hdf5"
STORED = ("observations", "actions", "rewards")


def read_minari(path: str | Path, schema: Schema | None = None) -> pl.DataFrame:
    """The table of a Minari dataset in HDF5; `schema` names its columns.

    Without a schema they are obs_0, obs_1, ..., action (or action_0, ...) and reward; parts of
    observations that are dictionaries come one after the other. Actions that are whole numbers
    count the combinations of the schema's levels.
    """
    file_path = _main_file(path)
    check_hdf5(file_path)
    _try_reading("read_main_file", file_path)
    try:
        observations, actions, rewards = read_main_file(file_path).values()
        actions = stored_actions(actions, schema)
        return frame_from_arrays(observations, actions, rewards, schema=schema)
    except FileError:
        raise
    except InputError as problem:
        raise FileError(f"{file_path}: {problem}") from None


def read_main_file(path: Path) -> dict[str, list[NDArray[Any]]]:
    """The arrays of all episodes of a dataset's main file, by name."""
    stored: dict[str, list[NDArray[Any]]] = {name: [] for name in STORED}
    with hdf5_file(path) as file:
        count = sum(name.startswith("episode_") for name in file)
        if not count:
            raise FileError(f"{path}: has no episodes; is it a Minari dataset?")
        for number in range(count):
            group = entry(path, file, f"episode_{number}")
            for name, arrays in stored.items():
                arrays.append(_numbers(path, group, name))
    return stored


def write_minari(path: str | Path, frame: Any, schema: Schema) -> None:
    """Write a frame of polars or pandas as a Minari dataset, a new folder.

    Observations are features and then contextual columns, actions numbers of the combinations of
    action columns; a reward is that of the row, or of its state where the schema has no such
    column. Minari stores no action for the last state.
    """
    minari, gymnasium = _import_minari()
    import_h5py()
    target = Path(path)
    if target.exists():
        raise FileError(f"{path}: exists already; give the name of a new folder")
    check_target(path)
    layout = SchemaLayout(schema)
    with open_table(frame, schema) as table:
        every = [trajectory(layout, one) for one in _moving(table)]
    width = every[0].observations.shape[1]
    spaces = gymnasium.spaces
    space = spaces.Box(-np.inf, np.inf, (width,), np.float64)
    choices = spaces.Discrete(len(layout.choices))
    temporary = target.resolve().with_name(f".{secrets.token_hex(8)}.part")
    try:
        temporary.mkdir()
        storage = minari.dataset.minari_storage.MinariStorage.new(
            temporary / "data", observation_space=space, action_space=choices
        )
        storage.update_episodes(_buffer(minari, number, one) for number, one in enumerate(every))
        storage.update_metadata(
            {"dataset_id": _identifier(target), "minari_version": minari.__version__}
        )
        os.replace(temporary, target)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _moving(episodes: Iterable[Recorded]) -> Iterator[Recorded]:
    """The episodes, or an error if one has no transition, which Minari cannot store."""
    for one in episodes:
        if len(one.episode.states) < 2:
            name = one.episode.id
            raise InputError(f"episode {name!r} has a single row, and no transition; leave it out")
        yield one


def _identifier(target: Path) -> str:
    plain = "".join(letter if letter.isalnum() else "-" for letter in target.name).strip("-")
    return f"counterplan/{plain or 'table'}-v0"


def _buffer(minari: Any, number: int, one: Trajectory) -> Any:
    steps = len(one.observations) - 1
    ends = np.zeros(steps, dtype=np.bool_)
    cut = ends.copy()
    cut[-1:] = True
    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=one.observations,
        actions=one.actions[:steps],
        rewards=list(one.rewards[:steps]),
        terminations=list(ends),
        truncations=list(cut),
        infos={},
    )


def _numbers(path: Path, group: Any, name: str) -> NDArray[Any]:
    """An array, or those of a dictionary side by side."""
    found = entry(path, group, name)
    if hasattr(found, "dtype"):
        return array(path, group, name)
    parts = [_numbers(path, found, part) for part in found]
    if not parts or len({len(part) for part in parts}) > 1:
        raise FileError(f"{path}: {name!r} has no parts, or parts of different lengths")
    return np.concatenate(parts, axis=1)


def _main_file(path: str | Path) -> Path:
    for place in (Path(path) / "data" / MAIN, Path(path) / MAIN):
        if place.is_file():
            return place
    if not Path(path).exists():
        raise FileError(f"{path}: no such folder; check the path")
    raise FileError(
        f"{path}: is no Minari dataset in HDF5: data/{MAIN} is missing; give the dataset's folder"
    )


def _import_minari() -> tuple[Any, Any]:
    try:
        import gymnasium
        import minari
        import minari.dataset.minari_storage
    except ImportError:
        needed = "writing Minari datasets needs minari"
        raise InputError(not_installed(needed, "minari")) from None
    return minari, gymnasium


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
    found: list[tuple[Any, ...]] = []
    try:
        for number in range(episodes):
            found.append(_episode(made, policy, longest, seed + number))
    finally:
        if isinstance(environment, str):
            made.close()
    observations, actions, rewards = zip(*found, strict=True)
    return frame_from_arrays(observations, actions, rewards)


def _episode(
    environment: Any, policy: Callable[[Any], Any] | None, longest: int, seed: int
) -> tuple[Any, Any, Any]:
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


def _flat(value: Any) -> Any:
    try:
        return np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(
            f"observations and actions must be numbers, got {type(value).__name__}; wrap the "
            "environment with gymnasium.wrappers.FlattenObservation"
        ) from None


def _made(name: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        needed = "environments by name need gymnasium"
        raise InputError(not_installed(needed, "gymnasium")) from None
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as problem:
        reason = str(problem).splitlines()[0]
        raise InputError(f"there is no environment {name!r}: {reason}") from None
