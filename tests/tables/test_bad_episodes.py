"""Every mistake in an episode file is one line that says where, what, why and what to do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counterplan.errors import FileError
from counterplan.tables.episodes import read_episode_table

HEADER = "episode_id,t,state,action,reward\n"

CSV = {
    "empty file": ("", "table.csv: is empty; expected a table with the columns episode_id"),
    "blank file": (" \n\n", "table.csv: is empty"),
    "header only": (HEADER, "table.csv: has no rows; give one for each step"),
    "blank rows only": (HEADER + "\n,,,,\n", "has no rows"),
    "column missing": (
        "episode_id,t,state\na,0,1\n",
        "no column 'action': found 'episode_id', 't', 'state'; name the columns episode_id, t, "
        "state, action",
    ),
    "semicolons": (
        "episode_id;t;state;action\na;0;1;0\n",
        "found 'episode_id;t;state;action'; name the columns episode_id, t, state, action, "
        "separated by commas",
    ),
    "column twice": (
        "episode_id,t,state,action,state\na,0,1,0,1\n",
        "two columns are named 'state'; keep one",
    ),
    "column twice but for blanks": (
        "episode_id,t,state,action, state\na,0,1,0,1\n",
        "two columns are named 'state'",
    ),
    "not UTF-8": (
        (HEADER + "a,0,1,0,1\n").encode() + b"M\xfcller,0,1,0,1\n",
        "line 3: is not text in UTF-8 (byte 0xfc); save it as UTF-8",
    ),
    "UTF-16": (HEADER.encode("utf-16"), "line 1: is not text in UTF-8 (byte 0xff)"),
    "too many fields": (
        HEADER + "a,0,1,0,1\n\na,1,1,0,1,9\n",
        "row 4: has 6 fields, but the header has 5; correct the file",
    ),
    "quote left open": (
        HEADER + 'a,0,1,0,1\n"a,1,1,0,1\n',
        "row 3: is not CSV: unexpected end of data; correct the file",
    ),
    "text after a quote": (HEADER + '"a"b,0,1,0,1\n', "row 2: is not CSV: ',' expected after '\"'"),
    "row cut short": (HEADER + "a,0,1\n", "row 2, column 'action': is empty; fill it in"),
    "no id": (HEADER + "a,0,1,0,1\n ,1,1,0,1\n", "row 3, column 'episode_id': is empty; name the"),
    "no t": (HEADER + "a,,1,0,1\n", "row 2, column 't': is empty; fill it in"),
    "t not whole": (HEADER + "a,0.5,1,0,1\n", "row 2, column 't': '0.5' is not a whole number"),
    "t negative": (HEADER + "a,-1,1,0,1\n", "row 2, column 't': '-1' is negative; number from 0"),
    "t starts at 1": (
        HEADER + "a,2,1,0,1\na,1,1,0,1\n",
        "row 3, column 't': '1' is the first step of episode 'a'; number the steps from 0 up",
    ),
    "t twice": (
        HEADER + "a,0,1,0,1\nb,0,1,0,1\na,1,1,0,1\na,1,2,0,1\n",
        "row 5, column 't': '1' is a step of episode 'a' in row 4 too; keep one of them",
    ),
    "t with a gap": (
        HEADER + "a,3,1,0,1\na,1,1,0,1\na,0,1,0,1\n",
        "row 2, column 't': '3' follows t=1 in episode 'a'; add the missing t=2",
    ),
    "state is text": (
        HEADER + "a,0,1,0,1\na,1,ill,0,1\n",
        "row 3, column 'state': 'ill' is not a whole number; number the states from 0 up or give "
        "their labels",
    ),
    "state negative": (HEADER + "a,0,-3,0,1\n", "row 2, column 'state': '-3' is negative"),
    "state not whole": (HEADER + "a,0,1.5,0,1\n", "column 'state': '1.5' is not a whole number"),
    "state not a number": (HEADER + "a,0,nan,0,1\n", "column 'state': 'nan' is not a whole number"),
    "state in scientific notation": (HEADER + "a,0,1e3,0,1\n", "'1e3' is not a whole number"),
    "state empty": (HEADER + "a,0,,0,1\n", "row 2, column 'state': is empty; fill it in"),
    "state too large": (
        HEADER + "a,0,2147483648,0,1\n",
        "row 2, column 'state': '2147483648' is too large (over 2147483647)",
    ),
    "state absurdly large": (HEADER + f"a,0,{'9' * 5000},0,1\n", "is too large (over 2147483647)"),
    "action negative": (HEADER + "a,0,1,-1,1\n", "row 2, column 'action': '-1' is negative"),
    "action is text": (HEADER + "a,0,1,rest,1\n", "'rest' is not a whole number; number the acti"),
    "reward is text": (HEADER + "a,0,1,0,good\n", "column 'reward': 'good' is not a finite number"),
    "reward infinite": (HEADER + "a,0,1,0,-inf\n", "'-inf' is not a finite number"),
    "reward nan": (HEADER + "a,0,1,0,nan\n", "'nan' is not a finite number"),
    "a line break in an entry": (
        HEADER + 'a,0,"1\n2",0,1\n',
        r"row 2, column 'state': '1\n2' is not a whole number",
    ),
    "place after a long entry": (
        HEADER + '"a\n\nz",0,1,0,1\n"a\n\nz",1,x,0,1\n',
        "row 5, column 'state': 'x'",
    ),
}

ONE = '{"id": "a", "states": [0, 1], "actions": [1, 0]}'
JSON = {
    "empty file": ("", 'is empty; expected JSON such as {"episodes":'),
    "no JSON": (
        '{"episodes": [\n  {"id": 1 2}\n]}',
        "line 2, column 12: is not JSON: Expecting ','",
    ),
    "cut off": (f'{{"episodes": [{ONE}', "is not JSON: Expecting ',' delimiter; correct the file"),
    "not UTF-8": (b'{"episodes": "\xff"}', "line 1: is not text in UTF-8"),
    "a number": ("3", "holds no list of episodes; expected JSON such as"),
    "no list": ('{"states": [1]}', "holds no list of episodes"),
    "no episodes": ("[]", "the list of episodes is empty; add at least one"),
    "key twice": ('[{"id": 1, "id": 2}]', "the key 'id' occurs twice in one object"),
    "nested too deeply": ("[" * 100_000, "is nested too deeply"),
    "not an object": ("[[1]]", "episodes[0]: is no object; expected"),
    "no states": ('[{"actions": [0]}]', 'episodes[0]: has no list "states"; give one entry'),
    "states no list": ('[{"states": 3, "actions": [0]}]', 'has no list "states"'),
    "empty episode": ('[{"states": [], "actions": []}]', 'episodes[0]: "states" is empty; an epi'),
    "unequal lengths": (
        f'[{ONE}, {{"states": [0, 1], "actions": [0]}}]',
        "episodes[1]: has 2 states but 1 actions; give one for each step",
    ),
    "state is text": ('[{"states": ["x"], "actions": [0]}]', '"states"[0]: "x" is not a whole num'),
    "state null": ('[{"states": [null], "actions": [0]}]', '"states"[0]: null is neither a number'),
    "state boolean": ('[{"states": [true], "actions": [0]}]', "true is neither a number nor"),
    "state not whole": ('[{"states": [0, 0.5], "actions": [0, 0]}]', '"states"[1]: 0.5 is not a'),
    "state negative": ('[{"states": [-1], "actions": [0]}]', '"states"[0]: -1 is negative'),
    "state too large": ('[{"states": [9999999999], "actions": [0]}]', "9999999999 is too large"),
    "number too long": (
        f'[{{"states": [{"9" * 5000}]}}]',
        "a number in it has thousands of digits; correct it",
    ),
    "state infinite": ('[{"states": [1e999], "actions": [0]}]', "is not a whole number"),
    "id twice": (f"[{ONE}, {ONE}]", "episodes[1]: has the id 'a' of episodes[0]; rename it"),
    "id null": ('[{"id": null}]', "episodes[0]: has the id None; give a name or a whole number"),
    "id empty": ('[{"id": " "}]', "has the id ' '; give a name"),
    "rewards of some": (
        f'[{{"states": [0], "actions": [0], "rewards": [1]}}, {ONE}]',
        'episodes[1]: has no list "rewards"',
    ),
    "too few rewards": (
        '[{"states": [0, 1], "actions": [0, 0], "rewards": [1]}]',
        "episodes[0]: has 2 states but 1 rewards",
    ),
    "reward is text": (
        '[{"states": [0], "actions": [0], "rewards": ["much"]}]',
        '"rewards"[0]: "much" is not a finite number',
    ),
}


def refusal(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        read_episode_table(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(str(path))
    return text


@pytest.mark.parametrize("case", CSV)
def test_csv(tmp_path: Path, case: str) -> None:
    content, message = CSV[case]
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refusal(path)


@pytest.mark.parametrize("case", JSON)
def test_json(tmp_path: Path, case: str) -> None:
    content, message = JSON[case]
    path = tmp_path / "table.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refusal(path)


def parquet(**columns: list[Any]) -> bytes:
    file = io.BytesIO()
    usual = {"episode_id": ["a", "a"], "t": [0, 1], "state": [1, 2], "action": [0, 1]}
    pl.DataFrame(usual | columns, strict=False).write_parquet(file)
    return file.getvalue()


PARQUET = {
    "no Parquet": (b"PAR1 is not enough", "is cut off (it does not end with PAR1)"),
    "cut off": (parquet()[:-5], "is cut off (it does not end with PAR1)"),
    "no rows": (parquet(episode_id=[], t=[], state=[], action=[]), "has no rows"),
    "empty cell": (parquet(state=[1, None]), "row 2, column 'state': is empty"),
    "not whole": (parquet(state=[1.5, 2]), "row 1, column 'state': '1.5' is not a whole number"),
    "not a number": (
        parquet(t=[0, float("nan")]),
        "row 2, column 't': 'NaN' is not a whole number",
    ),
    "boolean": (parquet(action=[True, False]), "row 1, column 'action': 'true' is not a whole"),
    "lists": (parquet(action=[[0], [1]]), "column 'action'"),
    "t twice": (parquet(t=[0, 0]), "row 2, column 't': '0' is a step of episode 'a' in row 1 too"),
}


@pytest.mark.parametrize("case", PARQUET)
def test_parquet(tmp_path: Path, case: str) -> None:
    content, message = PARQUET[case]
    path = tmp_path / "table.parquet"
    path.write_bytes(content)
    assert message in refusal(path)


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.csv").endswith("absent.csv: no such file; check the path")


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder; give a file with a table" in refusal(tmp_path / "folder.csv")


def test_file_inside_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be read: Not a directory" in refusal(tmp_path / "file" / "table.csv")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("table.xlsx", "has the extension '.xlsx', but episode files end in .csv, .parquet or"),
        ("table", "has no extension, but episode files end in .csv, .parquet or .json"),
    ],
)
def test_unknown_extension(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("episode_id,t,state,action\na,0,0,0\n")
    assert message in refusal(tmp_path / name)
