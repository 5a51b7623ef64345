"""Spreadsheets, databases, Arrow, and folders of Parquet files."""

from __future__ import annotations

import datetime
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counterplan as cp
from counterplan.core.table import Mistakes, TablePath, open_table_file
from counterplan.errors import FileError
from counterplan.runs.explain import _checksum

FRAME = pl.DataFrame(
    {
        "id": ["a", "a", "b"],
        "day": [datetime.date(2024, 3, 1), datetime.date(2024, 3, 4), None],
        "x": [1.5, 2.0, 1e-7],
    }
)
TEXTS = [("a", "2024-03-01", 1.5), ("a", "2024-03-04", 2.0), ("b", "", 1e-7)]


def rows(path: Path) -> list[tuple[str, str, float]]:
    file = open_table_file(path)
    found = []
    for block in file.blocks(file.header, Mistakes(path, file.place)):
        days = [day[:10] for day in block.texts["day"]]
        found += zip(block.texts["id"], days, block.numbers("x").tolist(), strict=True)
    return found


def database(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("create table visits (id text, day text, x real)")
        kept = [(one, str(day) if day else None, x) for one, day, x in FRAME.rows()]
        connection.executemany("insert into visits values (?, ?, ?)", kept)
    connection.close()
    return path


@pytest.mark.parametrize("name", ["t.arrow", "t.feather"])
def test_arrow(tmp_path: Path, name: str) -> None:
    FRAME.write_ipc(tmp_path / name, compression="lz4" if name == "t.feather" else "uncompressed")
    assert rows(tmp_path / name) == TEXTS


@pytest.mark.parametrize("name", ["t.arrow", "t.parquet"])
def test_dates_beyond_all_calendars(tmp_path: Path, name: str, capfd: Any) -> None:
    frame = pl.DataFrame({"id": ["a"], "day": pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date)})
    (frame.write_ipc if name == "t.arrow" else frame.write_parquet)(tmp_path / name)
    with pytest.raises(FileError, match=f"{name}: is damaged or no such table: .*; write it an"):
        rows(tmp_path / name)
    assert capfd.readouterr().err == ""


def test_a_folder(tmp_path: Path) -> None:
    for place in range(3):
        FRAME[place : place + 1].write_parquet(tmp_path / f"part-{place}.parquet")
    assert rows(tmp_path) == TEXTS
    file = open_table_file(tmp_path)
    assert [file.place(row) for row in (1, 3)] == ["part-0.parquet, row 1", "part-2.parquet, row 1"]


def test_a_query(tmp_path: Path) -> None:
    path = TablePath(database(tmp_path / "t.sqlite"), query="select * from visits")
    before = path.read_bytes()
    assert rows(path) == TEXTS
    assert path.read_bytes() == before
    ordered = TablePath(
        path, query="with some as (select * from visits) select * from some limit 1"
    )
    assert rows(ordered) == TEXTS[:1]


@pytest.mark.parametrize(
    "query",
    [
        "insert into visits values (1, 2, 3)",
        "pragma journal_mode = delete",
        "create table other (x)",
        "attach 'other.db' as other",
        "vacuum into 'copy.db'",
        "select 1; select 2",
    ],
)
def test_a_query_only_reads(tmp_path: Path, query: str) -> None:
    path = TablePath(database(tmp_path / "t.sqlite"), query=query)
    with pytest.raises(FileError, match="--query may be one SELECT, which changes nothing"):
        open_table_file(path)
    assert [one.name for one in tmp_path.iterdir()] == ["t.sqlite"]


def test_the_query_is_part_of_the_question(tmp_path: Path) -> None:
    path = database(tmp_path / "t.sqlite")
    queries = ["select * from visits", "select * from visits where id = 'a'"]
    sums = {_checksum(TablePath(path, query=query)) for query in queries}
    assert len(sums) == 2
    FRAME.write_parquet(tmp_path / "a.parquet")
    one = _checksum(tmp_path)
    FRAME.write_parquet(tmp_path / "b.parquet")
    assert _checksum(tmp_path) != one


def test_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute("create table visits (id text, day date, x double)")
    connection.executemany("insert into visits values (?, ?, ?)", FRAME.rows())
    connection.close()
    assert rows(TablePath(path, query="select * from visits")) == TEXTS
    with pytest.raises(FileError, match="its tables: 'visits'"):
        open_table_file(path)
    for query in ("delete from visits", "select 1; select 2", "copy visits to 'x.csv'"):
        with pytest.raises(FileError, match="may be one SELECT"):
            open_table_file(TablePath(path, query=query))
    with pytest.raises(FileError, match="cannot answer --query"):
        open_table_file(TablePath(path, query="select * from read_csv('other.csv')"))


def test_excel(tmp_path: Path) -> None:
    pytest.importorskip("fastexcel")
    assert rows(sheet(tmp_path / "t.xlsx")) == TEXTS
    assert open_table_file(tmp_path / "t.xlsx").place(0) == "row 2"


def test_excel_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastexcel", None)
    with pytest.raises(FileError, match=r"fastexcel, for .xlsx, is not installed; in the"):
        open_table_file(sheet(tmp_path / "t.xlsx"))


def sheet(path: Path) -> Path:
    """A spreadsheet as small as one can be."""

    def cell(value: object) -> str:
        if isinstance(value, datetime.date):
            return f'<c s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return "<c/>" if value is None else f"<c><v>{value}</v></c>"

    lines = "".join(
        f"<row>{''.join(map(cell, row))}</row>" for row in [FRAME.columns, *FRAME.rows()]
    )
    open_format = "http://schemas.openxmlformats.org"
    main = f'xmlns="{open_format}/spreadsheetml/2006/main"'
    link = f"{open_format}/officeDocument/2006/relationships"
    links = f'<Relationships xmlns="{open_format}/package/2006/relationships">{{}}</Relationships>'
    one = '<Relationship Id="rId{}" Type="' + link + '/{}" Target="{}"/>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{open_format}/package/2006/content-types"/>',
        "_rels/.rels": links.format(one.format(1, "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{link}"><sheets>'
        '<sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": links.format(
            one.format(1, "worksheet", "worksheets/sheet1.xml")
            + one.format(2, "styles", "styles.xml")
        ),
        "xl/styles.xml": f'<styleSheet {main}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
        "</cellXfs></styleSheet>",
        "xl/worksheets/sheet1.xml": f"<worksheet {main}><sheetData>{lines}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def test_pandas_reads_what_is_written(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    episodes = [cp.Episode([0, 1], [1, 0], id="a")]
    cp.tables.write_episodes(tmp_path / "t.csv", episodes)
    assert pandas.read_csv(tmp_path / "t.csv")["state"].tolist() == [0, 1]
