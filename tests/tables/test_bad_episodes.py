"""Every mistake in a plain file of episodes is a line that says where, what, why and what to do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counterplan.errors import FileError
from counterplan.tables.episodes import open_episodes

HEADER = "episode_id,t,state,action,reward\n"
WHOLE = "is not a whole number from 0 to 2147483647; number the states so, or give their labels"

CSV = {
    "empty file": ("", "table.csv: is empty; expected a table of episodes"),
    "header only": (HEADER, "table.csv: has a header but no rows; give one for each step"),
    "blank rows only": (HEADER + "\n,,,,\n", "has a header but no rows"),
    "column missing": (
        "episode_id,t,state\na,0,1\n",
        "no column 'action'; name the columns episode_id, t, state, action",
    ),
    "semicolons": (
        "episode_id;t;state;action\na;0;1;0\n",
        "found 'episode_id;t;state;action', separated by semicolons; separate them by commas",
    ),
    "column twice but for blanks": (
        "episode_id,t,state,action, state\na,0,1,0,1\n",
        "2 columns are named 'state'; rename or remove all but one",
    ),
    "no id": (HEADER + "a,0,1,0,1\n ,1,1,0,1\n", "row 3, column 'episode_id': is empty; name the"),
    "no t": (HEADER + "a,,1,0,1\n", "row 2, column 't': is missing; fill it in"),
    "t starts at 1": (
        HEADER + "a,2,1,0,1\na,1,1,0,1\n",
        "row 3, column 't': 1 is the first step of episode 'a'; number the steps from 0 up",
    ),
    "t twice": (
        HEADER + "a,0,1,0,1\nb,0,1,0,1\na,1,1,0,1\na,1,2,0,1\n",
        "row 5, column 't': 1 occurs twice in episode 'a', in row 4 too; keep one of them",
    ),
    "t with a gap": (
        HEADER + "a,3,1,0,1\na,1,1,0,1\na,0,1,0,1\n",
        "row 2, column 't': 3 follows 1 in episode 'a'; expected 2: add the missing row",
    ),
    "t not whole": (
        HEADER + "a,0,1,0,1\na,0.5,1,0,1\n",
        "row 3, column 't': 0.5 follows 0 in episode 'a'; expected 1: add the missing row",
    ),
    "state is text": (
        HEADER + "a,0,1,0,1\na,1,ill,0,1\n",
        f"row 3, column 'state': 'ill' {WHOLE}",
    ),
    "state negative": (HEADER + "a,0,-3,0,1\n", f"row 2, column 'state': '-3' {WHOLE}"),
    "state not whole": (HEADER + "a,0,1.5,0,1\n", f"row 2, column 'state': '1.5' {WHOLE}"),
    "state too large": (HEADER + "a,0,2147483648,0,1\n", f"column 'state': '2147483648' {WHOLE}"),
    "state absurdly large": (HEADER + f"a,0,{'9' * 5000},0,1\n", "is not a whole number"),
    "state empty": (HEADER + "a,0,,0,1\n", "row 2, column 'state': is missing; fill it in"),
    "action empty": (HEADER + "a,0,1,,1\n", "row 2, column 'action': is missing; fill it in"),
    "action negative": (HEADER + "a,0,1,-1,1\n", "row 2, column 'action': '-1' is not a whole"),
    "reward is text": (HEADER + "a,0,1,0,good\n", "column 'reward': 'good' is not a number"),
    "reward infinite": (HEADER + "a,0,1,0,-inf\n", "'-inf' is not a finite number"),
    "reward missing": (HEADER + "a,0,1,0,\n", "row 2, column 'reward': is missing; say what the"),
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
    "not UTF-8": (b'{"episodes": "\xff"}', "line 1: is not text in UTF-8"),
    "a number": ("3", "holds no list of episodes; expected JSON such as"),
    "no list": ('{"states": [1]}', "holds no list of episodes"),
    "no episodes": ("[]", "the list of episodes is empty; add at least one"),
    "key twice": ('[{"id": 1, "id": 2}]', "the key 'id' occurs twice in one object"),
    "nested too deeply": ("[" * 100_000, "is nested too deeply"),
    "not an object": ("[[1]]", "episodes[0]: is no object; expected"),
    "states no list": ('[{"states": 3, "actions": [0]}]', 'episodes[0]: has no list "states"; giv'),
    "empty episode": ('[{"states": [], "actions": []}]', 'episodes[0]: "states" is empty; an epi'),
    "unequal lengths": (
        f'[{ONE}, {{"states": [0, 1], "actions": [0]}}]',
        "episodes[1]: has 2 states but 1 actions; give one for each step",
    ),
    "state is text": (
        '[{"states": [0, "x"], "actions": [0, 0]}]',
        "episodes[0], t=1, column 'state': 'x' is not a whole number",
    ),
    "state null": ('[{"states": [null], "actions": [0]}]', '"states"[0]: null is neither a number'),
    "state boolean": ('[{"states": [true], "actions": [0]}]', "true is neither a number nor"),
    "state not whole": (
        '[{"states": [0, 0.5], "actions": [0, 0]}]',
        f"episodes[0], t=1, column 'state': '0.5' {WHOLE}",
    ),
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
    "reward is text": (
        '[{"states": [0], "actions": [0], "rewards": ["much"]}]',
        "episodes[0], t=0, column 'reward': 'much' is not a number",
    ),
}


def parquet(**columns: list[Any]) -> bytes:
    file = io.BytesIO()
    usual = {"episode_id": ["a", "a"], "t": [0, 1], "state": [1, 2], "action": [0, 1]}
    pl.DataFrame(usual | columns, strict=False).write_parquet(file)
    return file.getvalue()


PARQUET = {
    "no Parquet": (b"PAR1 is not enough", "is cut off (it does not end with PAR1)"),
    "cut off": (parquet()[:-5], "is cut off (it does not end with PAR1)"),
    "no rows": (parquet(episode_id=[], t=[], state=[], action=[]), "has a header but no rows"),
    "empty cell": (parquet(state=[1, None]), "row 2, column 'state': is missing"),
    "not whole": (parquet(state=[1.5, 2]), f"row 1, column 'state': '1.5' {WHOLE}"),
    "not a number": (parquet(t=[0, float("nan")]), "row 2, column 't': 'NaN' is missing"),
    "boolean": (
        parquet(action=[True, False]),
        "row 1, column 'action': 'true' is not a whole",
    ),
    "lists": (parquet(action=[[0], [1]]), "column 'action': holds List"),
}
CASES = [
    pytest.param(f"table.{kind}", content, says, id=f"{kind}: {name}")
    for kind, cases in (("csv", CSV), ("json", JSON), ("parquet", PARQUET))
    for name, (content, says) in cases.items()  # type: ignore[attr-defined]
]


def refusal(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        open_episodes(path)
    text = str(caught.value)
    assert all(line.startswith(str(path)) for line in text.splitlines())
    assert "schema" not in text
    return text


@pytest.mark.parametrize(("name", "content", "says"), CASES)
def test_refused(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert says in refusal(path)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER + "a,0,x,0,1\na,1,1,-1,1\na,3,1,0,much\n")
    assert [line.split(": ")[0].split("row ")[1] for line in refusal(path).splitlines()] == [
        "2, column 'state'",
        "3, column 'action'",
        "4, column 'reward'",
        "4, column 't'",
    ]


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.csv").endswith("absent.csv: no such file; check the path")


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder; give a file with a table" in refusal(tmp_path / "folder.csv")


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
