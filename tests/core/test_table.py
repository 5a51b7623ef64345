"""CSV in blocks: the same rows as Python's own reader finds, each with its line; text tables as
people have them."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.core import table as csv_blocks
from counterplan.core.table import Mistakes, Signs, TablePath, open_table_file, plain_numbers
from counterplan.errors import FileError, InputError, MistakesError
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


# --- Numbers, separators and encodings ---------------------------------------------------------


def numbers(path: Path | str, name: str = "x") -> list[float]:
    """The numbers of a column; raises what is wrong with them."""
    file, found = open_table_file(path), list[float]()
    mistakes = Mistakes(file.path, file.place)
    for block in file.blocks([name], mistakes):
        found += block.numbers(name).tolist()
    mistakes.refuse()
    return found


def column(tmp_path: Path, *values: str, other: str = "1") -> list[float]:
    rows = "".join(f"{value};{other}\n" for value in values)
    return numbers(write(tmp_path / "t.csv", f"x;y\n{rows}"))


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        (["1,5", "2"], [1.5, 2.0]),
        (["1,5", "2,901"], [1.5, 2.901]),
        (["0,901", "2,901"], [0.901, 2.901]),
        (["1.234,5", "2.901"], [1234.5, 2901.0]),
        (["1.234.567", "1,5"], [1_234_567.0, 1.5]),
        (["1,234.5", "2,901"], [1234.5, 2901.0]),
        (["1,234,567", "2,901"], [1_234_567.0, 2901.0]),
        (["1.5", "2.901"], [1.5, 2.901]),
        (["2.901", "3"], [2.901, 3.0]),
        (["-1 234,5", "+2\u00a0000"], [-1234.5, 2000.0]),
        (["1'234.5", "2'000"], [1234.5, 2000.0]),
        (["1,5e-3", ",25"], [0.0015, 0.25]),
        (["1234,567"], [1234.567]),
    ],
)
def test_what_sets_off_decimals(tmp_path: Path, values: list[str], meant: list[float]) -> None:
    assert column(tmp_path, *values) == meant


@pytest.mark.parametrize(
    "values", [["2,901"], ["1,250", "7"], ["2,901", "3.5"], ["2,901", "2.901"]]
)
def test_what_may_be_read_in_two_ways_is_refused(tmp_path: Path, values: list[str]) -> None:
    with pytest.raises(MistakesError, match=r"could be thousands or decimals; say which: --decim"):
        column(tmp_path, *values)
    path = tmp_path / "t.csv"
    points = [value for value in values if "." in value]
    as_thousands = numbers(TablePath(path, decimal="."))
    assert as_thousands == [float(value.replace(",", "")) for value in values]
    if not points:
        commas = numbers(TablePath(path, decimal=","))
        assert commas == [float(value.replace(",", ".")) for value in values]


def test_other_columns_tell(tmp_path: Path) -> None:
    assert column(tmp_path, "2,901", "1,250", other="0,5") == [2.901, 1.25]
    # A point before three digits is in doubt there, too.
    with pytest.raises(MistakesError, match="could be thousands or decimals"):
        column(tmp_path, "2.901", other="0,5")


def test_numbers_of_both_kinds_in_a_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(MistakesError, match=r"row 3.*'65,5' has a comma where other numbers"):
        column(tmp_path, "70.2", "65,5")


def test_a_later_block_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK", 100)
    values = ["2,901"] * 50 + ["1,5"]
    assert column(tmp_path, *values) == [2.901] * 50 + [1.5]


@given(st.floats(-1e9, 1e9), st.sampled_from([".", ","]))
def test_numbers_come_back(value: float, sign: str) -> None:
    text = f"{value:,.4f}"
    if sign == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    signs = Signs()
    signs.add(pl.DataFrame({"x": [text]}))
    found = plain_numbers(pl.Series([text]), signs.decided()["x"])
    assert float(found[0]) == float(f"{value:.4f}")


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators(tmp_path: Path, sep: str) -> None:
    lines = ["x", '"a, b; c"', "y"], ["1", '"p;q|r,s"', "2"], ["3", '"\n"', "4"]
    path = write(tmp_path / "t.csv", "\n".join(sep.join(line) for line in lines))
    file = open_table_file(path)
    assert file.header == ["x", "a, b; c", "y"]
    assert numbers(path) == [1.0, 3.0]
    assert bool(file.form) is (sep != ",")


def test_commas_in_a_header_of_semicolons(tmp_path: Path) -> None:
    assert numbers(write(tmp_path / "t.csv", "x;size, cm;y\n1,5;2;3\n2,5;2;3\n")) == [1.5, 2.5]


def test_a_separator_in_the_first_line(tmp_path: Path) -> None:
    assert numbers(write(tmp_path / "t.csv", "sep=;\r\nx;y\r\n1,5;2\r\n")) == [1.5]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = "Gr\u00f6\u00dfe;x\nM\u00fcller;1,5\n" + ("\u20ac;2\n" if encoding == "cp1252" else "")
    path = write(tmp_path / "t.csv", text.encode(encoding))
    file = open_table_file(path)
    assert file.header == ["Gr\u00f6\u00dfe", "x"]
    (block,) = file.blocks(file.header, Mistakes(path))
    assert block.texts["Gr\u00f6\u00dfe"][0] == "M\u00fcller"
    assert any("1252" in one for one in file.form) is (encoding in ("latin-1", "cp1252"))


def test_an_encoding_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "\u0439,x\n\u0444,1\n".encode("cp1251"))
    assert open_table_file(TablePath(path, encoding="cp1251")).header == ["\u0439", "x"]


def test_packed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv.gz", gzip.compress(b"x;y\n1,5;2\n"))
    assert numbers(path) == [1.5]
    assert numbers(write(tmp_path / "t.csv", gzip.compress(b"x,y\n1.5,2\n"))) == [1.5]


def test_a_bomb_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplan.core.table.UNPACKED", 2**16)
    path = write(tmp_path / "t.csv.gz", gzip.compress(b"x,y\n" + b"\n" * 2**21))
    with pytest.raises(FileError, match="unpacks to more than 300 times its size"):
        numbers(path)


def test_what_only_begins_like_a_packed_file_is_closed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"\x1f\x8bxx")
    with pytest.raises(FileError, match="is cut off or damaged"):
        numbers(path)  # a file left open would be an error of the tests


@pytest.mark.parametrize(
    "options",
    [
        *({"sep": ";;"}, {"sep": '"'}, {"decimal": "x"}),
        *({"encoding": name} for name in ("?", "base64", "undefined")),
    ],
)
def test_options_are_checked(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="give"):
        TablePath("t.csv", **options)


def test_a_path_keeps_what_is_said(tmp_path: Path) -> None:
    path = TablePath(tmp_path / "t.csv", sep="tab")
    assert path.options == {"sep": "\t"}
    assert path == tmp_path / "t.csv"
    assert path.parent == tmp_path
