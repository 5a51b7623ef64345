"""Replay buffers of d3rlpy, from and to tables: the HDF5 files of `ReplayBuffer.dump`, version 2.1.

columns         names of what is stored for each episode
num_episodes    how many there are
observations_0  (T, D) of episode 0, actions_0, rewards_0 (T, 1), terminated_0; and so on
version         "2.1"
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import FileError, InputError
from counterplan.files.atomic import atomic_file, check_target
from counterplan.files.trial import try_reading
from counterplan.io.array_columns import stored_actions, trajectory
from counterplan.io.frames import frame_from_arrays, open_frame
from counterplan.io.hdf5 import array, check_hdf5, entry, hdf5_file, import_h5py
from counterplan.io.schema import Schema
from counterplan.io.schema_layout import SchemaLayout

if TYPE_CHECKING:
    import polars as pl

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
    try_reading(f"{__name__}:read_buffer", Path(path))
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
    with open_frame(frame, schema) as table, h5py.File(content, "w") as file:
        file.create_dataset("columns", data=list(COLUMNS))
        file.create_dataset("num_episodes", data=len(table.episodes))
        for number, one in enumerate(table.told()):
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
