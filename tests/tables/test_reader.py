"""Tables by a schema, from files and frames: what is read, in which order, and what is refused."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplan.core import parquet as core_parquet
from counterplan.core import table as core_table
from counterplan.core.episode import Episode
from counterplan.errors import CounterplanError, FileError, InputError, MistakesError
from counterplan.tables import from_frame, reader
from counterplan.tables.formats import frame_from_arrays
from counterplan.tables.parts import Recorded, episodes_from_bytes, episodes_to_bytes
from counterplan.tables.reader import Filled, open_table, read_table
from counterplan.tables.schema import Column, Schema

from .schema_support import DISCRETE, WARD, answer, measured, names_the_file, write


def alike(left: list[Recorded], right: list[Recorded]) -> bool:
    return all(
        one.episode == other.episode
        and np.array_equal(one.times, other.times)
        and one.filled == other.filled
        and one.outcomes == other.outcomes
        for one, other in zip(left, right, strict=True)
    )


def test_what_is_read(tmp_path: Path, schema: Schema) -> None:
    ann, bob = read_table(write(tmp_path / "ward.csv", WARD), schema)
    assert (ann.episode.id, bob.episode.id) == ("ann", "bob")
    # Fixed columns first; F is 0.
    assert ann.episode.states.tolist() == [[70, 0, 9, 65.5], [70, 0, 8, 70], [70, 0, 6, 72]]
    # Levels, places of labels, and what is replayed; the last action leads nowhere.
    assert ann.episode.actions.tolist() == [[0, 0, 0], [2, 1, 1]]
    assert bob.episode.actions.tolist() == [[1, 0, 0]]
    assert ann.times.tolist() == [0.0, 4.0, 8.0]
    assert ann.outcomes == (("died", "1"),)
    assert ann.filled == 0


def test_parquet_says_the_same(tmp_path: Path, schema: Schema) -> None:
    path = write(tmp_path / "ward.csv", WARD)
    frame = pl.read_csv(path)
    frame.write_parquet(tmp_path / "ward.parquet")
    assert alike(read_table(tmp_path / "ward.parquet", schema), read_table(path, schema))
    kinds = {"sofa": pl.Int8, "map": pl.Float32, "sex": pl.Categorical, "died": pl.Float64}
    frame.cast(kinds).write_parquet(tmp_path / "typed.parquet")  # type: ignore[arg-type]
    assert alike(read_table(tmp_path / "typed.parquet", schema), read_table(path, schema))


@pytest.mark.parametrize("name", ["t[1].parquet", "t*.parquet"])
def test_names_are_no_patterns(tmp_path: Path, schema: Schema, name: str) -> None:
    """The file of that name is read, not those that match it."""
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "t.parquet")
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "t1.parquet")
    with (tmp_path / name).open("wb") as file:
        pl.read_csv(WARD.encode()).write_parquet(file)
    ward = read_table(write(tmp_path / "ward.csv", WARD), schema)
    assert alike(read_table(tmp_path / name, schema), ward)


def test_rows_may_lie_anywhere(tmp_path: Path, schema: Schema) -> None:
    header, *rows = WARD.splitlines()
    scattered = [rows[i] for i in (1, 4, 0, 3, 2)]
    path = write(tmp_path / "ward.csv", "\n".join([header, *scattered]))
    ordered = read_table(write(tmp_path / "in_order.csv", WARD), schema)
    assert alike(read_table(path, schema), ordered)


def test_order_is_that_of_first_appearance(tmp_path: Path) -> None:
    text = "episode_id,t,x,a\nz,1,1,0\nb,0,2,1\nz,0,3,1\nb,1,4,0\n"
    found = read_table(write(tmp_path / "t.csv", text), measured())
    assert [one.episode.id for one in found] == ["z", "b"]
    assert found[0].episode.states.tolist() == [[3.0], [1.0]]


def test_labels_may_name_levels(tmp_path: Path) -> None:
    column = Column("s", "state", levels=(10.0, 20.0), labels=("low", "high"))
    schema = measured(column, kind="continuous")
    text = "episode_id,t,x,s,a\ne,0,1,low,0\ne,1,1,20.0,0\n"
    (one,) = read_table(write(tmp_path / "t.csv", text), schema)
    assert one.episode.states[:, 1].tolist() == [10.0, 20.0]


def test_times_in_units(tmp_path: Path) -> None:
    columns = measured().columns
    text = "stay,hour,x,a\ne,16,1,0\ne,12,1,0\n"
    path = write(tmp_path / "t.csv", text)
    (one,) = read_table(path, Schema(columns, "stay", "hour", step=4.0, increment=4.0, unit="h"))
    assert one.times.tolist() == [12.0, 16.0]
    (one,) = read_table(path, Schema(columns, "stay", "hour", step=0.5, increment=4.0, unit="d"))
    assert one.times.tolist() == [1.5, 2.0]


def test_discrete(tmp_path: Path) -> None:
    text = (
        "episode_id,t,state,action,reward\na,0,ill,walk,1\na,1,well,rest,2\nb,0,1,0,2\nb,1,ill,,\n"
    )
    with open_table(write(tmp_path / "t.csv", text), DISCRETE) as table:
        one, two = table
    assert one.episode.states.tolist() == [0, 1]
    assert one.episode.actions.tolist() == [1, 0]
    assert one.rewards is not None
    assert one.rewards.tolist() == [1.0, 2.0]
    # Nothing was done in the last row of b: that is one action more.
    assert two.episode.actions.tolist() == [0, 2]


def test_grids_of_discrete_states(tmp_path: Path) -> None:
    schema = Schema(
        (
            Column("ward", "fixed", labels=("A", "B")),
            Column("severity", "state", levels=(3.0, 1.0, 2.0)),
            Column("drug", "action", levels=(0.0, 5.0)),
            Column("rest", "action", labels=("no", "yes")),
        )
    )
    text = "episode_id,t,ward,severity,drug,rest\ne,0,B,1,5,no\ne,1,B,3,0,yes\n"
    (one,) = read_table(write(tmp_path / "t.csv", text), schema)
    assert one.episode.states.tolist() == [1 * 3 + 1, 1 * 3 + 0]
    assert one.episode.actions.tolist() == [1 * 2 + 0, 0 * 2 + 1]


GAPS = """\
episode_id,t,x,y,z,a
e,0,1,,,0
e,1,n/a,4,#N/A,1
e,2,3,nan,7,0
f,0,,6,,1
f,1,5,,null,0
"""


def gaps(x: str, y: str, z: str) -> Schema:
    return Schema(
        (
            Column("x", "state", missing=x, better="higher"),
            Column("y", "state", missing=y),
            Column("z", "fixed", missing=z),
            Column("a", "action", levels=(0.0, 1.0)),
        )
    )


def test_missing_values_are_filled_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", GAPS)
    with open_table(path, gaps("carry-forward", "mean", "mean")) as table:
        ((e, f),) = table.parts()
    # z is fixed: 7 in all of e, and unknown in f, so the mean. x: carried in e, at first the mean.
    assert e.episode.states.tolist() == [[7, 1, 5], [7, 1, 4], [7, 3, 5]]
    assert f.episode.states.tolist() == [[7, 3, 6], [7, 5, 5]]
    assert (e.filled, f.filled) == (5, 4)
    assert table.filled["x"] == Filled(carried=1, mean=1)
    assert table.filled["y"] == Filled(carried=0, mean=3)
    assert table.filled["z"] == Filled(carried=2, mean=2)
    assert table.summary() == ("2 episodes, 5 steps; gaps: 3 carried forward, 6 set to the mean")
    assert table.means == {"x": 3.0, "y": 5.0, "z": 7.0}


def test_means_of_a_model_are_used(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", GAPS)
    means = {"x": 100.0, "y": 200.0, "z": 300.0}
    e, f = read_table(path, gaps("mean", "mean", "mean"), means)
    assert e.episode.states.tolist() == [[7, 1, 200], [7, 100, 4], [7, 3, 200]]
    assert f.episode.states[:, 0].tolist() == [300.0, 300.0]


def test_means_are_known_of_columns_without_gaps(tmp_path: Path) -> None:
    """So that a schema which fills gaps fits a model that was learned from a table without any."""
    text = "episode_id,t,x,a\ne,0,1,0\ne,1,4,0\n"
    with open_table(write(tmp_path / "t.csv", text), measured()) as table:
        means = table.means
    assert means == {"x": 2.5}
    schema = Schema((Column("x", "state", missing="mean"), *measured().of("action")))
    gap = write(tmp_path / "gap.csv", "episode_id,t,x,a\ne,0,,0\ne,1,4,0\n")
    assert read_table(gap, schema, means)[0].episode.states.tolist() == [[2.5], [4.0]]
    with pytest.raises(FileError, match="no mean is known"):
        read_table(gap, schema, {})


def test_a_gap_in_the_last_action_is_none(tmp_path: Path) -> None:
    schema = measured(Column("c", "contextual"))
    text = "episode_id,t,x,a,c\ne,0,1,0,5\ne,1,2,,\n"
    (one,) = read_table(write(tmp_path / "t.csv", text), schema)
    assert (one.episode.actions.tolist(), one.filled) == ([[0.0, 5.0]], 0)


def test_one_row_is_an_episode(tmp_path: Path) -> None:
    (one,) = read_table(write(tmp_path / "t.csv", "episode_id,t,x,a\ne,5,1,0\n"), measured())
    assert one.episode.states.tolist() == [[1.0]]
    assert one.episode.actions.shape == (0, 1)


def test_outcomes_may_stand_in_one_row_only(tmp_path: Path) -> None:
    schema = measured(Column("died", "outcome"), Column("note", "outcome"))
    text = 'episode_id,t,x,a,died,note\ne,0,1,0,,\ne,1,2,0,1.0,"fell, twice"\n'
    (one,) = read_table(write(tmp_path / "t.csv", text), schema)
    assert one.outcomes == (("died", "1"), ("note", "fell, twice"))


def test_outcomes_that_are_gaps_are_none(tmp_path: Path) -> None:
    schema = measured(Column("died", "outcome"))
    text = "episode_id,t,x,a,died\ne,0,1,0,NA\ne,1,2,0,1\nf,0,1,0,nan\n"
    e, f = read_table(write(tmp_path / "t.csv", text), schema)
    assert (e.outcomes, f.outcomes) == ((("died", "1"),), (("died", ""),))


def many(path: Path, episodes: int) -> pl.DataFrame:
    """Ragged episodes of one to five rows, the rows of all of them in disorder."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, episodes)
    frame = pl.DataFrame(
        {
            "episode_id": np.repeat([f"e{i}" for i in range(episodes)], lengths),
            "t": np.concatenate([np.arange(length) for length in lengths]),
            "x": rng.normal(size=lengths.sum()),
            "a": rng.integers(0, 2, lengths.sum()),
        }
    )
    frame = frame.sample(fraction=1.0, shuffle=True, seed=1)
    frame.write_csv(path)
    return frame


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_parts_and_buckets_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / "many.csv"
    frame = many(path, 70)
    whole = read_table(path, measured())
    if suffix == ".parquet":
        path = tmp_path / "many.parquet"
        frame.write_parquet(path)
    monkeypatch.setattr(reader, "EPISODES", 7)
    monkeypatch.setattr(core_table, "BLOCK", 200)
    monkeypatch.setattr(core_parquet, "ENTRIES", 40)
    with open_table(path, measured()) as table:
        parts = list(table.parts(16))
    assert [len(part) for part in parts] == [16, 16, 16, 16, 6]
    assert alike([one for part in parts for one in part], whole)
    assert [one.episode.id for one in whole] == frame["episode_id"].unique(
        maintain_order=True
    ).to_list()
    for one in whole:
        rows = frame.filter(pl.col("episode_id") == one.episode.id).sort("t")
        assert one.episode.states[:, 0].tolist() == rows["x"].to_list()
        assert all(after - before == 1.0 for before, after in pairwise(one.times))


def test_survives_the_form_in_which_cohorts_are_stored(tmp_path: Path, schema: Schema) -> None:
    found = read_table(write(tmp_path / "ward.csv", WARD), schema)
    names = [column.name for column in schema.features]
    components = [column.name for column in schema.components]
    assert alike(episodes_from_bytes(episodes_to_bytes(found, names, components)), found)


@pytest.mark.parametrize("actions", [[1, 0, 2], [1, 0]])
def test_features_and_numbered_actions(actions: list[int]) -> None:
    states = np.arange(6.0).reshape(3, 2)
    one = Recorded(Episode(states, actions, id="a"), np.array([0.0, 4.0, 8.0]), 2, (("died", "1"),))
    two = Recorded(Episode(states[:2], [1, 1], id="b"), np.array([0.0, 4.0]), 0, (("died", "0"),))
    found = episodes_from_bytes(episodes_to_bytes([one, two], ["x", "y"]))
    assert [record.episode for record in found] == [one.episode, two.episode]
    assert [record.filled for record in found] == [2, 0]
    assert [record.outcomes for record in found] == [one.outcomes, two.outcomes]
    assert np.array_equal(found[0].times, one.times)


def test_components_may_be_called_like_features() -> None:
    states, doses = np.ones((2, 1)), np.array([[0.5, 2.0]])
    one = Recorded(Episode(states, doses, id="a"), np.zeros(2))
    found = episodes_from_bytes(episodes_to_bytes([one], ["iv"], ["iv", "vaso"]))
    assert found[0].episode == one.episode


def test_discrete_parts() -> None:
    one = Recorded(Episode([0, 3, 1], [1, 1, 0], id="7"), np.arange(3.0))
    again = episodes_from_bytes(episodes_to_bytes([one]))
    assert again[0].episode == one.episode
    assert episodes_to_bytes(again) == episodes_to_bytes([one])


def test_nothing_is_given_before_all_is_checked(tmp_path: Path) -> None:
    text = "episode_id,t,x,a\n" + "".join(f"e{i},0,1,0\n" for i in range(200)) + "last,0,x,0\n"
    path = write(tmp_path / "t.csv", text)
    wrong = pytest.raises(FileError, match="row 202, column 'x': 'x' is not a number")
    with wrong, open_table(path, measured()) as table:
        pytest.fail(f"{next(table.parts(10))} came before the mistake was told")


def test_disk_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, content: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(reader.tempfile, "TemporaryFile", lambda prefix: Full())
    path = write(tmp_path / "t.csv", "episode_id,t,x,a\ne,0,1,0\n")
    with pytest.raises(FileError, match="No space left on device; free some space"):
        read_table(path, measured())


FUZZED = measured(
    Column("ward", "fixed", labels=("A", "B")),
    Column("y", "state", missing="mean", low=-9.0, high=9.0),
    Column("died", "outcome"),
)
VALID = (
    "episode_id,t,x,a,ward,y,died\ne,0,1,0,A,2,1\ne,1,2,,A,,1\nf,3,1e1,1,B,-2,0\nf,4,2,0,B,1,0\n"
)
PIECES = st.sampled_from(
    [b'"', b",", b"\n", b"\r", b"\0", b"", b"\xff", b"nan", b"inf", b"-", b"1e999", b";", b'""']
)


@given(st.data())
def test_any_change_of_a_table_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(VALID.encode())
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(content)))
        end = start + data.draw(st.integers(0, 4))
        content[start:end] = data.draw(PIECES | st.binary(max_size=2))
    path = write(tmp_path_factory.getbasetemp() / "changed.csv", bytes(content))
    found = answer(lambda: read_table(path, FUZZED))
    if isinstance(found, CounterplanError):
        assert names_the_file(path, found)
    else:
        assert all(np.isfinite(one.episode.states).all() for one in found)


def changed(old: str, new: str) -> str:
    assert old in WARD
    return WARD.replace(old, new, 1)


CSV = {
    "t empty": (changed("ann,1", "ann,"), "row 3, column 't': is missing; fill it in"),
    "state nan": (changed("65.5", "NaN"), "row 2, column 'map': is missing; fill it in"),
    "hexadecimal": (changed("65.5", "0x41"), "row 2, column 'map': '0x41' is not a number"),
    "underscore": (changed("65.5", "6_5"), "row 2, column 'map': '6_5' is not a number"),
    "level between": (changed("0,0,low,1", "0,1.5,low,1"), "column 'vaso': '1.5' is none of 0, 1"),
    "fixed missing": (changed("8,70,70", "8,70,"), "row 3, column 'age': is missing; fill it in"),
    "outcome changes": (
        changed("2,high,1", "2,high,0"),
        "row 3, column 'died': differs from row 2 of episode 'ann', but its role is 'outcome'; "
        "correct it, or use role = 'ignore'",
    ),
    "contextual missing": (changed("F,1,2", "F,,2"), "row 3, column 'vent': is missing"),
    "broken quote": (changed("ann,1", '"a"nn,1'), "row 3: a quote stands inside a field"),
}


def refusal(path: Path, schema: Schema) -> list[str]:
    with pytest.raises(FileError) as caught:
        read_table(path, schema)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(str(path)) for line in lines)
    return lines


@pytest.mark.parametrize("name", CSV)
def test_csv(name: str, tmp_path: Path, schema: Schema) -> None:
    text, says = CSV[name]
    lines = refusal(write(tmp_path / "ward.csv", text), schema)
    assert any(says in line for line in lines), lines
    # One slip, one line; but what is there twice is lacking elsewhere.
    assert len(lines) == 1, lines


def parquet(change: Callable[[pl.DataFrame], pl.DataFrame]) -> bytes:
    buffer = io.BytesIO()
    change(pl.read_csv(WARD.encode())).write_parquet(buffer)
    return buffer.getvalue()


WHOLE = parquet(lambda frame: frame)
PARQUET: dict[str, tuple[bytes, str]] = {
    "footer damaged": (WHOLE[:-40] + b"x" * 32 + WHOLE[-8:], "is damaged or no such table"),
    "dates": (
        parquet(lambda frame: frame.with_columns(t=pl.lit("2024-01-01").str.to_date())),
        "row 1, column 't': '2024-01-01' is a date; number the steps",
    ),
    "nan": (
        parquet(lambda frame: frame.with_columns(map=pl.lit(float("nan")))),
        "row 1, column 'map': is missing; fill it in",
    ),
    "huge field": (
        parquet(lambda frame: frame.with_columns(died=pl.lit("x" * 1_100_000))),
        "column 'died': has a field of 1,100,000 bytes, more than 1,048,576",
    ),
}


@pytest.mark.parametrize("name", PARQUET)
def test_parquet(name: str, tmp_path: Path, schema: Schema, capfd: Any) -> None:
    content, says = PARQUET[name]
    lines = refusal(write(tmp_path / "ward.parquet", content), schema)
    assert says in lines[0]
    # The decoder's own words about a panic are kept from the user.
    assert capfd.readouterr().err == ""


def test_parquet_damaged_inside_a_page(tmp_path: Path, schema: Schema, capfd: Any) -> None:
    content = bytearray(WHOLE)
    content[4:200] = bytes(196)
    (line,) = refusal(write(tmp_path / "ward.parquet", bytes(content)), schema)
    assert "is damaged or no such table" in line
    assert capfd.readouterr().err == ""


DISCRETE_HEADER = "episode_id,t,state,action,reward\n"
DISCRETE_ROWS = {
    "state missing": ("a,0,,rest,1\n", "row 2, column 'state': is missing; fill it in"),
    "place too large": ("a,0,2,rest,1\n", "row 2, column 'state': '2' is none of 'ill', 'well'"),
    "reward missing": ("a,0,ill,rest,\n", "row 2, column 'reward': is missing; say what the step"),
    "reward without action": (
        "a,0,ill,,5\n",
        "row 2, column 'reward': is earned without an action; move it to the row of the action",
    ),
}


@pytest.mark.parametrize("name", DISCRETE_ROWS)
def test_discrete_mistakes(name: str, tmp_path: Path) -> None:
    text, says = DISCRETE_ROWS[name]
    (line,) = refusal(write(tmp_path / "t.csv", DISCRETE_HEADER + text), DISCRETE)
    assert says in line


def test_nothing_to_carry_forward(tmp_path: Path) -> None:
    column = Column("s", "state", levels=(0.0, 1.0), missing="carry-forward")
    text = "episode_id,t,x,s,a\ne,0,1,,0\ne,1,1,1,0\ne,2,1,,0\n"
    schema = measured(column, kind="continuous")
    (line,) = refusal(write(tmp_path / "t.csv", text), schema)
    assert "row 2, column 's': is missing, and nothing stands before it in the episode" in line


def test_no_value_to_take_the_mean_of(tmp_path: Path) -> None:
    text = "episode_id,t,x,y,a\ne,0,1,,0\ne,1,1,,0\n"
    schema = measured(Column("y", "state", missing="mean"))
    lines = refusal(write(tmp_path / "t.csv", text), schema)
    assert "row 2, column 'y': is missing, and no mean is known: no row of the table" in lines[0]


def test_many_mistakes_are_counted(tmp_path: Path) -> None:
    rows = "".join(f"e{i},0,?,7\n" for i in range(100))
    path = write(tmp_path / "t.csv", "episode_id,t,x,a\n" + rows)
    lines = refusal(path, measured())
    assert len(lines) == 7
    assert lines[0].endswith("row 2, column 'x': '?' is not a number; correct or empty it")
    assert lines[4].endswith("correct or empty it (and 97 more like it)")
    assert lines[-1] == f"{path}: 200 mistakes in all; nothing was read"


def test_every_kind_is_shown_before_more_of_one(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(30)]
    schema = measured(*(Column(name, "state") for name in names))
    header = ",".join(["episode_id", "t", "x", "a", *names])
    rows = "".join(f"e{i},0,1,0,{','.join('?' * 30)}\n" for i in range(5))
    lines = refusal(write(tmp_path / "t.csv", f"{header}\n{rows}"), schema)
    assert len(lines) == 21
    assert {line.partition("column ")[2].partition(":")[0] for line in lines[:20]} == {
        repr(name) for name in names[:20]
    }
    assert lines[-1].endswith("150 mistakes in all; nothing was read")


def test_a_line_of_a_value_stays_one_line(tmp_path: Path) -> None:
    text = 'episode_id,t,x,a\n"e\n1",0,"a\nb",0\n'
    (line,) = refusal(write(tmp_path / "t.csv", text), measured())
    assert r"row 2, column 'x': 'a\nb' is not a number" in line


def test_endless_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_EPISODE", 10)
    rows = "".join(f"e,{t},1,0\n" for t in range(11))
    (line,) = refusal(write(tmp_path / "t.csv", "episode_id,t,x,a\n" + rows), measured())
    assert "row 12: episode 'e' has more than 10 rows; are they those of several episodes?" in line


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
        *("episode_id", "t", "obs_0", "obs_1", "action_0", "action_1", "reward")
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
