"""Minari, d3rlpy and Gymnasium, with the libraries themselves where they are installed."""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counterplan.errors import CounterplanError, FileError, InputError
from counterplan.tables import from_frame
from counterplan.tables.formats import (
    read_d3rlpy,
    read_minari,
    roll_out,
    write_d3rlpy,
    write_minari,
)
from counterplan.tables.schema import Column, Schema

from .schema_support import DISCRETE, WARD, measured, write

h5py = pytest.importorskip("h5py")


@pytest.fixture
def ward() -> pl.DataFrame:
    return pl.read_csv(WARD.encode())


def same_episodes(left: pl.DataFrame, right: pl.DataFrame, schema: Schema) -> bool:
    pairs = zip(from_frame(left, schema), from_frame(right, schema), strict=True)
    return all(
        np.array_equal(one.episode.states, other.episode.states)
        and np.array_equal(one.episode.actions, other.episode.actions)
        for one, other in pairs
    )


# --- Minari -----------------------------------------------------------------------------------


def test_minari_there_and_back(tmp_path: Path, schema: Schema, ward: pl.DataFrame) -> None:
    minari = pytest.importorskip("minari")
    write_minari(tmp_path / "ward", ward, schema)
    again = read_minari(tmp_path / "ward", schema).with_columns(died=pl.lit(0))
    assert same_episodes(again, ward, schema)
    assert read_minari(tmp_path / "ward" / "data").columns[2:4] == ["obs_0", "obs_1"]
    # The library itself reads it.
    dataset = minari.MinariDataset(tmp_path / "ward" / "data")
    assert (dataset.total_episodes, dataset.total_steps) == (2, 3)
    first = next(iter(dataset.iterate_episodes()))
    assert first.observations.shape == (3, 5)
    assert first.actions.tolist() == [0, 5]
    assert first.rewards.tolist() == [-9.0, -8.0]
    assert dataset.action_space.n == 6
    with pytest.raises(FileError, match="exists already"):
        write_minari(tmp_path / "ward", ward, schema)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# Minari warns of everything that is not said about a dataset.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_written_by_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    spaces = gymnasium.spaces
    observation = spaces.Dict({"body": spaces.Box(-9, 9, (2,)), "gear": spaces.Discrete(3)})
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=number,
            observations={"body": np.full((3, 2), number + 0.5), "gear": np.array([0, 1, 2])},
            actions=np.array([1, 0]),
            rewards=[1.0, 2.0],
            terminations=[False, True],
            truncations=[False, False],
            infos={},
        )
        for number in range(2)
    ]
    minari.create_dataset_from_buffers(
        "cars-v0", buffers, observation_space=observation, action_space=spaces.Discrete(2)
    )
    frame = read_minari(tmp_path / "cars-v0")
    assert frame["obs_0"].to_list() == [0.5] * 3 + [1.5] * 3
    assert frame["obs_2"].to_list() == [0.0, 1.0, 2.0] * 2
    assert frame["action"].to_list() == [1.0, 0.0, None] * 2
    assert frame["reward"].to_list() == [1.0, 2.0, None] * 2


def minari_file(path: Path, **arrays: Any) -> Path:
    """A dataset with one episode, by hand."""
    usual = {"observations": np.ones((3, 2)), "actions": [0, 1], "rewards": [1.0, 1.0]}
    (path / "data").mkdir(parents=True)
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        for name, values in (usual | arrays).items():
            if values is not None:
                group[name] = values
    return path


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"observations": None}, "has no 'observations'"),
        ({"observations": h5py.ExternalLink("other.h5", "/x")}, "points elsewhere, which is not"),
        ({"observations": h5py.SoftLink("/episode_0/actions")}, "points elsewhere"),
        ({"observations": np.array([b"a", b"b", b"c"])}, "'observations' holds no numbers"),
        ({"actions": 3}, r"'actions' has shape \(\): no array"),
        ({"actions": [1]}, r"actions\[0\]: has 1 rows for 3 observations"),
    ],
)
def test_minari_mistakes(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    with pytest.raises(FileError, match=says) as caught:
        read_minari(minari_file(tmp_path / "set", **arrays))
    assert str(caught.value).startswith(str(tmp_path / "set"))


def test_numbers_are_counted_before_they_are_read(tmp_path: Path) -> None:
    """A few kilobytes: a thousand names of one array without contents."""
    path = minari_file(tmp_path / "set")
    with h5py.File(path / "data" / "main_data.hdf5", "r+") as file:
        packed = {"chunks": (1000, 2), "compression": "gzip"}
        del file["episode_0/observations"]
        file["episode_0"].create_dataset("observations", (200_000, 2), "f4", **packed)
        for number in range(1, 1000):
            file[f"episode_{number}"] = file["episode_0"]
    with pytest.raises(FileError, match="more numbers than a file of this size holds"):
        read_minari(path)


def test_no_bytes_of_a_file_do_more_than_be_refused(tmp_path: Path) -> None:
    path = minari_file(tmp_path / "set")
    stored, rng, refused = path / "data" / "main_data.hdf5", random.Random(0), 0
    good = stored.read_bytes()
    for _ in range(200):
        content = bytearray(good)
        for _ in range(rng.choice([1, 2, 5, 20])):
            content[rng.randrange(len(good))] = rng.choice([0, 127, 255, rng.randrange(256)])
        stored.write_bytes(content)
        with suppress(FileError):
            read_minari(path)
            refused -= 1
        refused += 1
    assert refused > 50


@pytest.mark.parametrize("kind", ["minari", "d3rlpy"])
def test_numbers_of_levels_are_not_taken_for_levels(tmp_path: Path, kind: str) -> None:
    """Levels 2 and 3 of 1, 2, 3 are stored as 1 and 2, which are levels as well."""
    schema = Schema((Column("x", "state"), Column("a", "action", levels=(1.0, 2.0, 3.0))))
    frame = pl.DataFrame({"episode_id": "e", "t": [0, 1, 2], "x": [0.1, 0.2, 0.3], "a": [2, 3, 2]})
    path = tmp_path / "stored.h5"
    if kind == "minari":
        pytest.importorskip("minari")
        write_minari(path, frame, schema)
        found = read_minari(path, schema)
    else:
        write_d3rlpy(path, frame, schema)
        found = read_d3rlpy(path, schema)
    assert found["a"].to_list()[:2] == [2.0, 3.0]


def test_minari_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        read_minari(tmp_path / "absent")
    with pytest.raises(FileError, match=r"is no Minari dataset in HDF5: data/main_data"):
        read_minari(tmp_path)
    write(tmp_path / "main_data.hdf5", b"no hdf5")
    with pytest.raises(FileError, match="is damaged or no HDF5 file"):
        read_minari(tmp_path)
    with h5py.File(tmp_path / "main_data.hdf5", "w"):
        pass
    with pytest.raises(FileError, match="has no episodes"):
        read_minari(tmp_path)


# --- d3rlpy -----------------------------------------------------------------------------------


def d3rlpy_file(path: Path, **changes: Any) -> Path:
    """What `ReplayBuffer.dump` writes for two episodes, by hand; None leaves an entry out."""
    entries: dict[str, Any] = {
        "columns": ["observations", "actions", "rewards", "terminated"],
        "num_episodes": 2,
        "version": "2.1",
    }
    for number, length in enumerate((3, 2)):
        entries |= {
            f"observations_{number}": np.full((length, 2), number + 0.5, dtype=np.float32),
            f"actions_{number}": np.arange(length)[:, np.newaxis] % 2,
            f"rewards_{number}": np.ones((length, 1), dtype=np.float32),
            f"terminated_{number}": number == 0,
        }
    with h5py.File(path, "w") as file:
        for name, value in (entries | changes).items():
            if isinstance(value, h5py.ExternalLink):
                file[name] = value
            elif value is not None:
                file.create_dataset(name, data=value)
    return path


def test_d3rlpy(tmp_path: Path) -> None:
    frame = read_d3rlpy(d3rlpy_file(tmp_path / "buffer.h5"))
    assert frame.columns == ["episode_id", "t", "obs_0", "obs_1", "action", "reward", "terminated"]
    assert frame["obs_1"].to_list() == [0.5] * 3 + [1.5] * 2
    assert frame["action"].to_list() == [0.0, 1.0, 0.0, 0.0, 1.0]
    assert frame["terminated"].to_list() == [True] * 3 + [False] * 2


def test_d3rlpy_there_and_back(tmp_path: Path, schema: Schema, ward: pl.DataFrame) -> None:
    path = tmp_path / "buffer.h5"
    write_d3rlpy(path, ward, schema)
    again = read_d3rlpy(path, schema).with_columns(died=pl.lit(0))
    assert same_episodes(again, ward, schema)
    with h5py.File(path) as file:
        assert file["version"][()] == b"2.1"
        assert [name.decode() for name in file["columns"][()]] == [
            *("observations", "actions", "rewards", "terminated")
        ]
        assert int(file["num_episodes"][()]) == 2
        assert file["rewards_0"].shape == (3, 1)
        assert not file["terminated_0"][()]


def test_d3rlpy_discrete(tmp_path: Path) -> None:
    text = "episode_id,t,state,action,reward\na,0,ill,walk,1\na,1,well,rest,2\n"
    frame = pl.read_csv(text.encode())
    write_d3rlpy(tmp_path / "b.h5", frame, DISCRETE)
    again = read_d3rlpy(tmp_path / "b.h5", DISCRETE)
    assert same_episodes(again, frame, DISCRETE)
    assert again["reward"].to_list() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": None}, "has no 'version'"),
        ({"num_episodes": "two"}, "'num_episodes' is not one whole number"),
        ({"terminated_0": [True, False]}, "'terminated_0' is not one whole number"),
        ({"actions_0": None}, "has no 'actions_0'; is it a dataset of this kind"),
        ({"num_episodes": 3}, "has no 'observations_2'"),
        ({"num_episodes": -1}, "says that it has -1 episodes"),
        ({"num_episodes": 10**12}, "says that it has 1,000,000,000,000 episodes"),
        ({"observations_1": np.ones((2, 3))}, r"observations\[1\]: has 3 columns"),
        ({"actions_0": np.ones((1, 1))}, r"actions\[0\]: has 1 rows for 3 observations"),
        ({"actions_0": h5py.ExternalLink("passwords.h5", "/x")}, "'actions_0' points elsewhere"),
        ({"rewards_0": ["a", "b", "c"]}, "'rewards_0' holds no numbers"),
    ],
)
def test_d3rlpy_mistakes(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    path = d3rlpy_file(tmp_path / "buffer.h5", **changes)
    with pytest.raises(FileError, match=says) as caught:
        read_d3rlpy(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("length", [0, 1, 7, 8, 100, 2000, 4000])
def test_d3rlpy_cut_off(tmp_path: Path, length: int) -> None:
    content = d3rlpy_file(tmp_path / "buffer.h5").read_bytes()
    with pytest.raises(FileError):
        read_d3rlpy(write(tmp_path / "cut.h5", content[:length]))


# --- Gymnasium --------------------------------------------------------------------------------


def test_roll_out() -> None:
    pytest.importorskip("gymnasium")
    frame = roll_out("CartPole-v1", episodes=3, seed=7)
    assert frame.columns == [
        *("episode_id", "t", "obs_0", "obs_1", "obs_2", "obs_3", "action", "reward")
    ]
    assert frame["episode_id"].n_unique() == 3
    last = frame.group_by("episode_id", maintain_order=True).last()
    assert last["action"].null_count() == 3
    assert frame.equals(roll_out("CartPole-v1", episodes=3, seed=7))
    assert not frame.equals(roll_out("CartPole-v1", episodes=3, seed=8))
    columns = [Column(f"obs_{i}", "state") for i in range(4)]
    schema = Schema(
        (*columns, Column("action", "action", levels=(0.0, 1.0)), Column("reward", "reward"))
    )
    assert len(from_frame(frame, schema)) == 3


def test_roll_out_of_a_policy() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    environment = gymnasium.make("CartPole-v1")
    frame = roll_out(environment, lambda seen: int(seen[2] > 0), longest=5, episodes=2)
    assert frame.height == 12
    taken, angle = (
        frame["action"].drop_nulls(),
        frame.filter(frame["action"].is_not_null())["obs_2"],
    )
    assert (taken == (angle > 0).cast(pl.Float64)).all()


def test_roll_out_of_discrete_states() -> None:
    pytest.importorskip("gymnasium")
    frame = roll_out("FrozenLake-v1", episodes=5)
    assert frame.columns == ["episode_id", "t", "obs", "action", "reward"]
    levels = tuple(float(i) for i in range(16))
    columns = (
        Column("obs", "state", levels=levels),
        Column("action", "action", levels=levels[:4]),
        Column("reward", "reward"),
    )
    found = from_frame(frame, Schema(columns))
    assert found[0].episode.states.tolist() == frame.filter(episode_id="0")["obs"].to_list()


def test_roll_out_mistakes() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(InputError, match="there is no environment 'Nowhere-v0'"):
        roll_out("Nowhere-v0")
    with pytest.raises(InputError, match="int is no Gymnasium environment: it has no reset"):
        roll_out(3)
    with pytest.raises(InputError, match="episodes must be at least 1"):
        roll_out("CartPole-v1", episodes=0)

    class Texts(gymnasium.Env[Any, Any]):  # type: ignore[misc]
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
            return "x", {}

    with pytest.raises(InputError, match="observations and actions must be numbers, got str"):
        roll_out(Texts())


@pytest.mark.parametrize(
    ("absent", "call"),
    [
        ("h5py", lambda path: read_d3rlpy(path)),
        ("h5py", lambda path: write_d3rlpy(path, pl.DataFrame(), measured())),
        ("minari", lambda path: write_minari(path, pl.DataFrame(), measured())),
        ("gymnasium", lambda path: roll_out("CartPole-v1")),
    ],
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str, call: Any
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(
        CounterplanError, match=rf"needs? {absent}, .*: in .*, python -m pip install '\.\["
    ):
        call(tmp_path / "set")
