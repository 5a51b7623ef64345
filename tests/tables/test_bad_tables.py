"""Every mistake in an episode table names file, row, column and value, and what to do."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counterplan.errors import FileError, MistakesError
from counterplan.tables import reader
from counterplan.tables.reader import read_table
from counterplan.tables.schema import Column, Schema, read_schema

from .schema_support import DISCRETE, SCHEMA_TOML, WARD, measured, write


def changed(old: str, new: str) -> str:
    assert old in WARD
    return WARD.replace(old, new, 1)


CSV = {
    "empty": ("", "is empty; expected a table of episodes"),
    "blank": ("\n \n\n", "is empty; expected a table of episodes"),
    "header only": (WARD.splitlines()[0] + "\n", "ward.csv: has a header but no rows; give one"),
    "rows are blank": (WARD.splitlines()[0] + "\n,,,,,,,,,\n\n", "has a header but no rows"),
    "no header": (
        WARD.partition("\n")[2],
        "none of the columns episode_id, t, age, sex",
    ),
    "semicolons": (WARD.replace(",", ";"), "separated by semicolons; separate them by commas"),
    "tabs": (WARD.replace(",", "\t"), "separated by tabs; separate them by commas"),
    "column missing": (
        WARD.replace("sofa", "SOFA"),
        "no column 'sofa'; correct the header or the schema",
    ),
    "column nearly right": (
        WARD.replace("fluids", "fluid"),
        "no column 'fluids'; did you mean 'fluid'? correct the header",
    ),
    "column twice": (WARD.replace("map", "sofa"), "2 columns are named 'sofa'; rename or remove"),
    "id empty": (changed("bob,0", ",0"), "row 5, column 'episode_id': is empty; name the episode"),
    "id endless": (changed("bob,0", "b" * 1001 + ",0"), "row 5, column 'episode_id': 'bbbb"),
    "t empty": (changed("ann,1", "ann,"), "row 3, column 't': is missing; fill it in"),
    "t text": (changed("ann,1", "ann,one"), "row 3, column 't': 'one' is not a number; correct"),
    "t a time": (changed("ann,1", "ann,2024-01-01"), "row 3, column 't': '2024-01-01' is not a n"),
    "t endless": (changed("ann,1", "ann,inf"), "row 3, column 't': 'inf' is not a finite number"),
    "t twice": (
        changed("ann,1", "ann,0"),
        "row 3, column 't': 0 occurs twice in episode 'ann', in row 2 too; keep one of them",
    ),
    "t jumps": (
        changed("ann,2", "ann,5"),
        "row 4, column 't': 5 follows 1 in episode 'ann'; expected 2: add the missing row, or "
        "correct `increment` in [table] of the schema",
    ),
    "t between": (changed("ann,2", "ann,1.5"), "row 4, column 't': 1.5 follows 1 in episode 'ann'"),
    "state text": (changed("65.5", "high"), "row 2, column 'map': 'high' is not a number; correct"),
    "state missing": (
        changed("65.5", ""),
        "row 2, column 'map': is missing; fill it in, or say missing = 'carry-forward' or 'mean'",
    ),
    "state nan": (changed("65.5", "NaN"), "row 2, column 'map': is missing; fill it in"),
    "state endless": (
        changed("65.5", "-inf"),
        "row 2, column 'map': '-inf' is not a finite",
    ),
    "state absurd": (
        changed("65.5", "1e200"),
        "row 2, column 'map': '1e200' is too far from 0, 1e+100 at most",
    ),
    "decimal comma": (changed("65.5", '"65,5"'), "row 2, column 'map': '65,5' has a decimal"),
    "hexadecimal": (changed("65.5", "0x41"), "row 2, column 'map': '0x41' is not a number"),
    "underscore": (changed("65.5", "6_5"), "row 2, column 'map': '6_5' is not a number"),
    "below": (
        changed("ann,0,9", "ann,0,-1"),
        "row 2, column 'sofa': '-1' is below low = 0 points; correct it, or low in the schema",
    ),
    "above": (
        changed("ann,0,9", "ann,0,25"),
        "row 2, column 'sofa': '25' is above high = 24",
    ),
    "unknown label": (
        changed("55,M", "55,X"),
        "row 5, column 'sex': 'X' is none of 'F', 'M'; correct it, or add it to the schema",
    ),
    "label in small letters": (changed("55,M", "55,m"), "row 5, column 'sex': 'm' is none of 'F'"),
    "unknown level": (
        changed("0,0,low,1", "0,3,low,1"),
        "row 2, column 'vaso': '3' is none of 0, 1, 2; correct it, or add it to the schema",
    ),
    "level between": (changed("0,0,low,1", "0,1.5,low,1"), "column 'vaso': '1.5' is none of 0, 1"),
    "fixed changes": (
        changed("8,70,70", "8,70,71"),
        "row 3, column 'age': differs from row 2 of episode 'ann', but its role is 'fixed'; "
        "correct it, or use role = 'state'",
    ),
    "fixed missing": (changed("8,70,70", "8,70,"), "row 3, column 'age': is missing; fill it in"),
    "outcome changes": (
        changed("2,high,1", "2,high,0"),
        "row 3, column 'died': differs from row 2 of episode 'ann', but its role is 'outcome'; "
        "correct it, or use role = 'ignore'",
    ),
    "action missing": (
        changed("1,2,high", "1,,high"),
        "row 3, column 'vaso': is missing; fill it in: only the last row of an episode may be",
    ),
    "contextual missing": (
        changed("F,1,2", "F,,2"),
        "row 3, column 'vent': is missing",
    ),
    "too few fields": (changed("1,2,high,1", "1,2"), "row 3: has 8 fields, but the header has 10"),
    "too many fields": (
        changed("1,2,high,1", "1,2,high,1,1"),
        "row 3: has 11 fields, but",
    ),
    "broken quote": (changed("ann,1", 'a"nn,1'), "row 3: a quote stands inside a field"),
}


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return read_schema(write(tmp_path / "schema.toml", SCHEMA_TOML))


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
    assert len(lines) == (2 if name in ("column twice", "t twice") else 1), lines


def test_the_ward_itself_is_right(tmp_path: Path, schema: Schema) -> None:
    assert len(read_table(write(tmp_path / "ward.csv", WARD), schema)) == 2


def parquet(change: Callable[[pl.DataFrame], pl.DataFrame]) -> bytes:
    buffer = io.BytesIO()
    change(pl.read_csv(WARD.encode())).write_parquet(buffer)
    return buffer.getvalue()


WHOLE = parquet(lambda frame: frame)
PARQUET: dict[str, tuple[bytes, str]] = {
    "no parquet": (WARD.encode(), "is no Parquet table (it does not begin with PAR1)"),
    "cut off": (WHOLE[:-20], "is cut off (it does not end with PAR1); copy or write it anew"),
    "cut to almost nothing": (WHOLE[:6], "is cut off"),
    "footer damaged": (WHOLE[:-40] + b"x" * 32 + WHOLE[-8:], "is damaged or no Parquet table"),
    "no rows": (parquet(lambda frame: frame.head(0)), "has a header but no rows"),
    "column missing": (parquet(lambda frame: frame.drop("map")), "no column 'map'"),
    "lists": (
        parquet(lambda frame: frame.with_columns(map=pl.concat_list("map", "sofa"))),
        "column 'map': holds List(Float64); store numbers or texts",
    ),
    "dates": (
        parquet(lambda frame: frame.with_columns(t=pl.lit("2024-01-01").str.to_date())),
        "row 1, column 't': '2024-01-01' is not a number",
    ),
    "nan": (
        parquet(lambda frame: frame.with_columns(map=pl.lit(float("nan")))),
        "row 1, column 'map': is missing; fill it in",
    ),
    "endless": (
        parquet(lambda frame: frame.with_columns(map=pl.lit(float("inf")))),
        "row 1, column 'map': 'inf' is not a finite number",
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
    assert "is damaged or no Parquet table" in line
    assert capfd.readouterr().err == ""


DISCRETE_HEADER = "episode_id,t,state,action,reward\n"
DISCRETE_ROWS = {
    "state unknown": (
        "a,0,dead,rest,1\n",
        "row 2, column 'state': 'dead' is none of 'ill'",
    ),
    "state missing": (
        "a,0,,rest,1\n",
        "row 2, column 'state': is missing; fill it in",
    ),
    "place too large": ("a,0,2,rest,1\n", "row 2, column 'state': '2' is none of 'ill', 'well'"),
    "reward missing": ("a,0,ill,rest,\n", "row 2, column 'reward': is missing; say what the step"),
    "reward without action": (
        "a,0,ill,,5\n",
        "row 2, column 'reward': is earned without an action; move it to the row of the action",
    ),
    "reward text": ("a,0,ill,rest,good\n", "row 2, column 'reward': 'good' is not a number"),
}


@pytest.mark.parametrize("name", DISCRETE_ROWS)
def test_discrete(name: str, tmp_path: Path) -> None:
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


def test_all_mistakes_at_once_and_each_once(tmp_path: Path, schema: Schema) -> None:
    text = changed("ann,0,9", "ann,0,99").replace("72", "?").replace("bob,1", "bob,4")
    lines = refusal(write(tmp_path / "ward.csv", text), schema)
    assert [line.partition(", ")[2].partition(":")[0] for line in lines] == [
        "row 2, column 'sofa'",
        "row 4, column 'map'",
        "row 6, column 't'",
    ]


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


def test_long_values_are_cut(tmp_path: Path) -> None:
    text = f"episode_id,t,x,a\ne,0,{'y' * 5000},0\n"
    (line,) = refusal(write(tmp_path / "t.csv", text), measured())
    assert len(line) < 300
    assert "... (5,002 characters) is not a number" in line


def test_endless_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_EPISODE", 10)
    rows = "".join(f"e,{t},1,0\n" for t in range(11))
    (line,) = refusal(write(tmp_path / "t.csv", "episode_id,t,x,a\n" + rows), measured())
    assert "row 2: episode 'e' has 11 rows, more than 10" in line


@pytest.mark.parametrize("name", ["table.xlsx", "table", "missing.csv", "folder.csv"])
def test_no_table(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    (line,) = refusal(tmp_path / name, measured())
    assert any(word in line for word in ("end in .csv or .parquet", "no such file", "is a folder"))


def test_columns_that_are_missing_are_all_named(tmp_path: Path, schema: Schema) -> None:
    path = write(tmp_path / "ward.csv", WARD.replace("sofa", "x").replace("vent", "y"))
    with pytest.raises(MistakesError) as caught:
        read_table(path, schema)
    assert str(caught.value).count("no column") == 2
