"""Minari datasets, from and to tables.

A dataset is a folder with `data/main_data.hdf5` (or that folder `data` itself): for each episode
T observations and T-1 actions, rewards and flags.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import FileError, InputError, not_installed
from counterplan.files.atomic import check_target
from counterplan.files.trial import try_reading
from counterplan.io.array_columns import Trajectory, stored_actions, trajectory
from counterplan.io.frames import frame_from_arrays, open_frame
from counterplan.io.hdf5 import array, check_hdf5, entry, hdf5_file, import_h5py
from counterplan.io.schema import Schema
from counterplan.io.schema_episodes import Told
from counterplan.io.schema_layout import SchemaLayout

if TYPE_CHECKING:
    import polars as pl

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
    try_reading(f"{__name__}:read_main_file", file_path)
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
    with open_frame(frame, schema) as table:
        every = [trajectory(layout, one) for one in _moving(table.told())]
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


def _moving(episodes: Iterable[Told]) -> Iterator[Told]:
    """The episodes, or an error if one has no transition, which Minari cannot store."""
    for one in episodes:
        if len(one.recorded.episode.states) < 2:
            name = one.recorded.episode.id
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
