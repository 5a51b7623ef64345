"""Tables in memory: the same episodes and the same refusals as from a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplan.errors import InputError, MistakesError
from counterplan.tables import from_frame
from counterplan.tables.formats import frame_from_arrays
from counterplan.tables.reader import read_table
from counterplan.tables.schema import Column, Schema, read_schema

from .schema_support import DISCRETE, SCHEMA_TOML, WARD, measured, write
from .test_schema_table import alike


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return read_schema(write(tmp_path / "schema.toml", SCHEMA_TOML))


def test_polars(tmp_path: Path, schema: Schema) -> None:
    expected = read_table(write(tmp_path / "ward.csv", WARD), schema)
    frame = pl.read_csv(WARD.encode())
    assert alike(from_frame(frame, schema), expected)
    assert alike(from_frame(frame.lazy(), schema), expected)
    assert alike(from_frame(frame.rename({"map": " map "}), schema), expected)


def test_pandas(tmp_path: Path, schema: Schema) -> None:
    pandas = pytest.importorskip("pandas")
    path = write(tmp_path / "ward.csv", WARD)
    frame = pandas.read_csv(path)
    expected = read_table(path, schema)
    assert alike(from_frame(frame, schema), expected)
    nullable = frame.convert_dtypes()
    nullable["sex"] = nullable["sex"].astype("category")
    assert alike(from_frame(nullable, schema), expected)
    assert alike(from_frame(frame.astype(object), schema), expected)


def test_rows_count_from_0(schema: Schema) -> None:
    frame = pl.read_csv(WARD.replace("72", "?").encode())
    with pytest.raises(MistakesError, match=r"the table, row 2, column 'map': '\?' is not"):
        from_frame(frame, schema)


def test_what_is_no_frame(schema: Schema) -> None:
    with pytest.raises(InputError, match="expected a frame of polars or pandas, got list"):
        from_frame([1, 2], schema)
    nested = pl.read_csv(WARD.encode()).with_columns(map=pl.concat_list("map", "sofa"))
    with pytest.raises(InputError, match="column 'map': holds List"):
        from_frame(nested, schema)
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(InputError, match="two columns are named 'x'"):
        from_frame(twice, schema)


def test_pandas_is_never_imported() -> None:
    code = (
        "import sys, polars as pl, counterplan as cp\n"
        "from counterplan.tables.schema import Column, Schema\n"
        "s = Schema((Column('x', 'state'), Column('a', 'action', levels=(0.0, 1.0))))\n"
        "f = pl.DataFrame({'episode_id': ['e'], 't': [0], 'x': [1.5], 'a': [1]})\n"
        "assert len(cp.tables.from_frame(f, s)) == 1\n"
        "assert not {'pandas', 'h5py', 'minari', 'gymnasium'} & set(sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr


FLOATS = hnp.arrays(np.float64, (3, 2), elements=st.floats(-1e9, 1e9))


@given(FLOATS, FLOATS)
def test_arrays_there_and_back(first: np.ndarray, second: np.ndarray) -> None:
    schema = measured(Column("y", "state"))
    actions = [np.array([0, 1]), np.array([1, 1, 0])]
    frame = frame_from_arrays([first, second], actions, schema=schema, ids=["p", "q"])
    one, two = from_frame(frame, schema)
    assert (one.episode.id, two.episode.id) == ("p", "q")
    assert np.array_equal(one.episode.states, first)
    assert np.array_equal(two.episode.states, second)
    assert one.episode.actions.tolist() == [[0.0], [1.0]]
    assert two.episode.actions.tolist() == [[1.0], [1.0]]


def test_arrays_without_a_schema() -> None:
    frame = frame_from_arrays([np.ones((2, 2))], [np.zeros((1, 2))], [[1.0]])
    assert frame.columns == [
        *("episode_id", "t", "obs_0", "obs_1", "action_0", "action_1", "reward"),
    ]
    assert frame["action_0"].to_list() == [0.0, None]
    assert frame_from_arrays([[0, 1]], [[1, 0]]).columns == ["episode_id", "t", "obs", "action"]


def test_numbers_of_combinations(schema: Schema) -> None:
    # Observations are the features (fixed ones first) and then what is contextual.
    observation = [[70, 0, 9, 65.5, 0], [70, 0, 8, 70, 1], [70, 0, 6, 72, 1]]
    frame = frame_from_arrays([observation], [[0, 5]], schema=schema).with_columns(died=pl.lit(1))
    (one,) = from_frame(frame, schema)
    (ann, _) = from_frame(pl.read_csv(WARD.encode()), schema)
    assert np.array_equal(one.episode.states, ann.episode.states)
    assert np.array_equal(one.episode.actions, ann.episode.actions)


def test_levels_or_their_numbers() -> None:
    schema = Schema((Column("x", "state"), Column("dose", "action", levels=(0.0, 10.0, 50.0))))
    observations = [[[1.0], [2.0], [3.0]]]
    for doses in ([10, 50], [1, 2]):
        (one,) = from_frame(frame_from_arrays(observations, [doses], schema=schema), schema)
        assert one.episode.actions.tolist() == [[10.0], [50.0]]


def test_discrete_arrays() -> None:
    frame = frame_from_arrays([[0, 1, 1]], [[1, 0]], [[2.0, 3.0]], schema=DISCRETE)
    (one,) = from_frame(frame, DISCRETE)
    assert one.episode.states.tolist() == [0, 1, 1]
    assert one.episode.actions.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([], []), "no episodes given"),
        (([[1, 2]], []), "1 observations but 0 actions"),
        (([[1, 2]], [[1]], [[1], [1]]), "1 observations but 2 rewards"),
        (([[1, 2]], [[1, 2, 3]]), r"actions\[0\]: has 3 rows for 2 observations"),
        (([["x"]], [[1]]), r"observations\[0\]: must hold numbers"),
        (([np.ones((2, 2, 2))], [[1]]), r"observations\[0\]: has shape \(2, 2, 2\)"),
        (
            ([np.ones((2, 2)), np.ones((2, 3))], [[1], [1]]),
            r"observations\[1\]: has 3 columns, observations\[0\] 2",
        ),
    ],
)
def test_arrays_that_do_not_fit(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        frame_from_arrays(*arguments)  # type: ignore[arg-type]


def test_arrays_that_do_not_fit_the_schema(schema: Schema) -> None:
    with pytest.raises(InputError, match="observations have 2 components, but the schema has 5"):
        frame_from_arrays([np.ones((2, 2))], [[1]], schema=schema)
    with pytest.raises(InputError, match="actions have 3 components, but the schema has 2 action"):
        frame_from_arrays([np.ones((2, 5))], [np.ones((1, 3))], schema=schema)
    with pytest.raises(InputError, match=r"action 6 is none of the schema's 6 comb.* 0\.\.5"):
        frame_from_arrays([np.ones((2, 5))], [[6]], schema=schema)
