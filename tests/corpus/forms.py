"""Tables in the forms that people have: packed, separated, encoded, in databases."""

from __future__ import annotations

import gzip
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

from .case import Case
from .changes import Change, put

HEAD = "stay_id;t;sofa;map;age;sex;vent;vaso;died\n"
# Of the table with a schema, as a German spreadsheet has it.
ROWS = "ann;0;9;65,5;70;F;0;0;1\nann;1;8;70,25;70;F;1;2;1\nann;2;7;{};70;F;1;2;1\n"
QUERY = "fit s.sqlite --schema stays.toml -o m.safetensors --query"


def fit(name: str, content: str | bytes, says: str, options: str = "") -> Case:
    """A table under another name."""
    command = f"fit {name} --schema stays.toml -o m.safetensors {options}"
    return Case(command, rf"^error: {name}{says}", put(name, content))


def semicolons(value: str, says: str, options: str = "") -> Case:
    return fit("s.csv", HEAD + ROWS.format(value), says, options)


def stored(name: str, write: Callable[[pl.DataFrame], object], says: str) -> Case:
    """The table written in another way."""
    command = f"fit {name} --schema stays.toml -o m.safetensors"
    return Case(command, rf"^error: {name}{says}", lambda: write(pl.read_csv("stays.csv")))


def database(query: str, says: str) -> Case:
    def make() -> None:
        connection = sqlite3.connect("s.sqlite")
        connection.execute("create table stays (stay_id, t, sofa, raw)")
        connection.execute("insert into stays values ('ann', 0, 9, x'00')")
        connection.commit()
        connection.close()

    command = f'{QUERY} "{query}"' if query else QUERY.removesuffix("--query")
    return Case(command, rf"^error: s\.sqlite{says}", make)


def folder(*frames: pl.DataFrame) -> Change:
    def make() -> None:
        Path("many").mkdir()
        for number, frame in enumerate(frames):
            frame.write_parquet(f"many/{number}.parquet")

    return make


def many(says: str, *frames: pl.DataFrame) -> Case:
    return Case("schema many", rf"^error: many{says}", folder(*frames))


def bomb() -> None:
    with gzip.open("s.csv.gz", "wb", compresslevel=9) as file:
        file.write(HEAD.encode())
        for _ in range(300):
            file.write(b"\n" * 2**20)


def spreadsheet(size: int) -> Change:
    def make() -> None:
        with zipfile.ZipFile("s.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
            for part in range(size):
                archive.writestr(f"xl/{part}", b"0" * 2**26)

    return make


PACKED = gzip.compress(b"stay_id,t\n" + bytes(range(32, 127)) * 999)
ONE = pl.DataFrame({"id": [1, 1], "t": [0, 1], "x": [0.5, 1.5], "action": [0, 1]})

CASES = {
    # --- numbers ------------------------------------------------------------------------------
    "a comma beside points": semicolons("70.2", ", 2 'map': '65,5' has a comma where .*; write"),
    "three digits behind a comma": fit(
        "s.csv",
        (HEAD + ROWS.format("2,901")).replace("65,5", "1,250").replace("70,25", "65"),
        ", 2 'map': '1,250' has a sign before its last three digits, which could .*: --decimal",
    ),
    "three digits behind a comma, beside points": fit(
        "s.csv",
        (HEAD + ROWS.format("2,901")).replace("65,5", "1.5").replace("70,25", "65"),
        ", 4 'map': '2,901' has a sign before its last three .* say which: --decimal",
    ),
    "a point where decimals have commas": semicolons(
        "70.5", ", 4 'map': '70.5' has a point where decimals have a comma; write", "--decimal ,"
    ),
    "thousands of odd lengths": semicolons(
        "1.23.456", ", 4 'map': '1.23.456' has a point .*; write"
    ),
    "decimals of a comma, said to be points": semicolons(
        "70", ", 2 'map': '65,5' has a comma where .*; write them", "--decimal ."
    ),
    "a unit behind a number": semicolons("70,5 mmHg", ", 4 'map': '70,5 mmHg' has a unit.*; w"),
    "draft of either": Case(
        "schema s.csv",
        r"^error: s\.csv, row 2, column 'x': '1,250' has a sign before .* --decimal",
        put("s.csv", "id;t;x;action\na;0;1,250;0\na;1;2,901;1\n"),
    ),
    # --- separators ---------------------------------------------------------------------------
    "semicolons, one too many": fit(
        "s.csv", HEAD + "ann;0;9;65;70;F;0;0;1;\n", ", row 2: has 10 fields, .*remove semicolons"
    ),
    "the wrong separator": semicolons("70", ": none of the columns .*with --sep", "--sep ,"),
    "tabs that are blanks": fit(
        "s.tsv", "stay_id  t  sofa\nann  0  9\n", ": none of the columns .*name the columns"
    ),
    # --- encodings ----------------------------------------------------------------------------
    "partly UTF-8": fit(
        "s.csv",
        HEAD.encode() + "änn;0;9;65;70;F;0;0;1\n".encode() + b"b\xe4r;0;9;65;70;F;0;0;1\n",
        ", row 2 or before: is partly in UTF-8 .*; save it in one",
    ),
    "UTF-16 cut off": fit("s.csv", HEAD.encode("utf-16")[:-1], ": is not text in utf-16.*; say"),
    "an encoding that it is not": semicolons(
        "\u00e4", ": is not text in ascii.*; say", "--encoding ascii"
    ),
    # --- packed -------------------------------------------------------------------------------
    "packed and cut off": fit("s.csv.gz", PACKED[:-20], ": is cut off or damaged .*; copy or"),
    "packed and turned": fit(
        "s.csv.gz", PACKED[:60] + b"??" + PACKED[62:], ": is cut off or damag"
    ),
    "packed without end": Case(
        "fit s.csv.gz --schema stays.toml -o m.safetensors",
        r"^error: s\.csv\.gz: unpacks to more than 300 times its size, .*; give it unp",
        bomb,
    ),
    "packed Parquet": fit("s.parquet.gz", PACKED, ": is no Parquet table .*; write it anew"),
    "a zip archive": fit("s.csv.zip", b"PK", r": has the extension '\.zip', .*; rename"),
    # --- spreadsheets, Arrow, folders ---------------------------------------------------------
    "a spreadsheet that is none": fit("s.xlsx", HEAD, ": is damaged or no Excel table.*; save it"),
    "a spreadsheet of 1.5 GB": Case(
        "schema s.xlsx", r"^error: s\.xlsx: unpacks to 1,610,612,736 bytes; save", spreadsheet(24)
    ),
    "an old spreadsheet": fit("s.xls", HEAD, r": has the extension '\.xls', .*; rename or convert"),
    "Arrow that is none": fit("s.arrow", HEAD, ": is damaged or .*; write it anew"),
    "Arrow cut off": stored(
        "s.feather",
        lambda frame: (
            frame.write_ipc("s.feather"),
            put("s.feather", Path("s.feather").read_bytes()[:-40])(),
        ),
        ": is damaged or .*; write it anew",
    ),
    "a folder of nothing": many(": is a folder without .parquet files; give"),
    "a folder of unlike files": many(
        "/1.parquet, column 'x': is String, but numbers in 0.parquet; store them alike",
        ONE,
        ONE.with_columns(pl.col("x").cast(pl.String)),
    ),
    "a folder with a column less": many(
        "/1.parquet, column 'x': is missing, but numbers in 0.parquet; store", ONE, ONE.drop("x")
    ),
    "a folder with a mistake": Case(
        "fit many --schema many.toml -o m.safetensors",
        r"^error: many, 1.parquet, row 1, column 'x': is missing; fill",
        lambda: (
            folder(ONE, ONE.with_columns(id=2, x=pl.lit(None, pl.Float64)))(),
            put(
                "many.toml",
                '[table]\nepisode = "id"\n[columns.x]\nrole = "state"\nbetter = "lower"\n'
                '[columns.action]\nrole = "action"\nlevels = [0, 1]\n',
            )(),
        ),
    ),
    # --- databases ----------------------------------------------------------------------------
    "a database without a query": database("", r": is a database \(its tables: 'stays'\); say"),
    "a query that deletes": database("delete from stays", ": --query may be one SELECT.*; correct"),
    "a query that attaches": database("attach 'x.db' as x", ": --query may be one SELECT.*; corr"),
    "two queries": database("select 1; select 2", ": --query may be one SELECT.*; correct"),
    "a query of nothing": database("select * from nobody", ": cannot answer --query: no such tab"),
    "a query for bytes": database(
        "select raw as stay_id, t, sofa, 1 as map, 1 as age, 'F' as sex, 0 as vent, 0 as vaso, "
        "1 as died from stays",
        ", column 'stay_id': holds no number or text; cast it",
    ),
    "a query without columns": database("select stay_id from stays", ": no column 't'; correct"),
    "a database that is none": fit("s.db", HEAD, ": is no SQLite database; give one"),
    "a query of a file": semicolons("70", ": has no use for --query; leave", "--query 'select 1'"),
    # --- options ------------------------------------------------------------------------------
    "a separator of two signs": Case("schema stays.csv --sep ;;", "sep ';;': give a single sign"),
    "an unknown decimal sign": Case("schema stays.csv --decimal x", "decimal 'x': give '.' or ','"),
    "an unknown encoding": Case(
        "schema stays.csv --encoding klingon", "encoding 'klingon' is unknown: give one like utf-8"
    ),
    "a separator of Parquet": Case(
        "fit many --schema stays.toml -o m.safetensors --sep ;",
        "^error: many: has no use for --sep; leave it out",
        folder(ONE),
    ),
}
