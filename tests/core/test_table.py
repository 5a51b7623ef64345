"""CSV in blocks: the same rows as Python's own reader finds, each with its line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.core import table as csv_blocks
from counterplan.core.table import Mistakes, open_table_file
from counterplan.errors import FileError
from tests.tables.schema_support import write


def rows_of(path: Path, wanted: list[str] | None = None) -> list[tuple[int, list[str]]]:
    """Line and texts of every row."""
    file = open_table_file(path)
    mistakes = Mistakes(path)
    found = []
    for block in file.blocks(wanted or file.header, mistakes):
        found += zip(block.rows.tolist(), map(list, block.texts.iter_rows()), strict=True)
    mistakes.refuse()
    return found


FIELDS = st.text(st.sampled_from('ab1é ",\n;'), max_size=5)


@given(st.lists(st.lists(FIELDS, min_size=3, max_size=3), max_size=8), st.sampled_from([7, 20, 99]))
def test_agrees_with_pythons_reader(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], block: int
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["x", "y", "z"], *rows])
    path = write(tmp_path_factory.getbasetemp() / "fields.csv", text.getvalue())
    expected, line = [], 2
    for row in rows:
        stripped = [field.strip() for field in row]
        if any(stripped):
            expected.append((line, stripped))
        line += 1 + sum(field.count("\n") for field in row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK", max(block, 12))
        assert rows_of(path) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "END"])
def test_blank_lines_do_not_shift_rows(tmp_path: Path, end: str, last: str) -> None:
    lines = ["", "a,b", "1,2", "", "  ", ",", '3,"4', '5"', "6,7"]
    path = write(tmp_path / "t.csv", end.join(lines) + last.replace("END", end))
    joined = f"4{end}5"
    assert rows_of(path) == [(3, ["1", "2"]), (7, ["3", joined]), (9, ["6", "7"])]


def test_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'a," b ",c\n1,2,3\n')
    assert rows_of(path, ["c", "b"]) in ([(2, ["2", "3"])], [(2, ["3", "2"])])
    file = open_table_file(path)
    (block,) = file.blocks(["c", "b"], Mistakes(path))
    assert block.texts["c"].to_list() == ["3"]
    assert block.texts["b"].to_list() == ["2"]


def test_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"\xef\xbb\xbfa,b\n1,2\n")
    assert rows_of(path) == [(2, ["1", "2"])]


MISTAKES = {
    "header not utf-8": (b"a,\xff\1\n", "row 1: is not text in UTF-8 (byte 0xff)"),
    "nul in header": (b"a,\0\n", "row 1: holds a NUL byte"),
    "quote in header": (b'"a"x,b\n1,2\n', "row 1: a quote stands inside a field"),
    "open quote, others after it": (b'a,b\n"1,2\n"3",4\n', "row 2: a quote stands inside a field"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str, tmp_path: Path) -> None:
    content, says = MISTAKES[name]
    path = write(tmp_path / "t.csv", content)
    with pytest.raises(FileError) as caught:
        rows_of(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


def test_endless_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK", 1000)
    monkeypatch.setattr(csv_blocks, "LONGEST_ROW", 5000)
    path = write(tmp_path / "t.csv", b"a,b\n1," + b"x" * 10_000)
    with pytest.raises(FileError, match="row 2: is longer than 5,000 bytes"):
        rows_of(path)
    write(path, b"a" * 10_000)
    with pytest.raises(FileError, match="row 1: is longer than 5,000 bytes"):
        rows_of(path)
