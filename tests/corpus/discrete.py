"""Files of discrete episodes: CSV, Parquet and JSON."""

from __future__ import annotations

import pickle

from .case import THEN, Case
from .changes import (
    Change,
    Swap,
    absurd,
    changed,
    columns,
    cut,
    document,
    folder,
    forged_rows,
    gone,
    link,
    negative_page,
    pipe,
    put,
)

EXPLAIN = "explain ward.csv -m model.json"
# There a table is read a few episodes at a time, by other code, and all mistakes are told at once.
OUT = f"{EXPLAIN} -o new --workers 1"
FIT = "fit ward.csv -o m.safetensors"
HEADER = "episode_id,t,state,action,reward\n"
ROWS = 121


def csv(change: Change | Swap, says: str, command: str = EXPLAIN) -> Case:
    """The table, whose first rows are ann,0,0,0,0 and ann,1,0,1,0 and ann,2,1,1,1."""
    return Case(command, rf"^error: ward\.csv{says}", changed("ward.csv", change))


def whole(content: str | bytes, says: str, command: str = EXPLAIN) -> Case:
    """Other contents for all of it."""
    return csv(put("ward.csv", content), says, command)


def parquet(change: Change, says: str, out: str = "") -> Case:
    """The same as Parquet."""
    command = f"explain ward.parquet -m model.json {out}"
    return Case(command, rf"^error: ward\.parquet{says}", change)


def column(name: str, value: object) -> Change:
    """A column of Parquet that holds the same in every row; None for no such column."""
    return columns("ward.parquet", **{name: None if value is None else [value] * ROWS})


def json(change: Change | str, says: str) -> Case:
    """The same as JSON, or any text in its place."""
    made = put("ward.json", change) if isinstance(change, str) else change
    return Case("explain ward.json -m model.json", rf"^error: ward\.json{says}", made)


def episode(**fields: object) -> Change:
    """Other fields in the second episode of it."""
    return document("ward.json", "episodes", 1, **fields)


CASES = {
    # --- CSV: the file ------------------------------------------------------------------------
    "csv missing": csv(gone("ward.csv"), ": no such file; check the path"),
    "csv a folder": csv(folder("ward.csv"), ": is a folder without .parquet files; give"),
    "csv a link to nowhere": csv(link("ward.csv", "a/b"), ": no such file; check"),
    "csv a link to itself": csv(link("ward.csv", "ward.csv"), ": cannot be read: .*links; check"),
    "csv a pipe": csv(pipe("ward.csv"), ": is a pipe or a device; give a file"),
    "csv a device": csv(link("ward.csv", "/dev/zero"), ": is a pipe or a device; give"),
    "csv of a terabyte": csv(absurd("ward.csv", 2**40), ", row 1: is longer than .*; corr"),
    "csv empty": whole("", ": is empty; expected a table"),
    "csv blank": whole(" \n\n\t\n", ": is empty; expected a table"),
    "csv header only": whole(HEADER, ": has a header but no rows; give one for each step"),
    "csv in UTF-16": whole(HEADER.encode("utf-16"), ": has a header but no rows; give"),
    "csv no text": csv(("ann,1", b"\xe9\2,1"), ", row 3: is not text .*0xe9.*; save it as UTF-8"),
    "csv a pickle": whole(pickle.dumps({"t": 1}), ", row 1: is not text in UTF-8 .*; save it"),
    "csv a zip": whole(b"PK\x03\x04" + b"\xff" * 99, ", row 1: is not text in UTF-8 .*; save it"),
    "csv by another name": Case(
        "explain ward.doc -m model.json", r"ward\.doc: has the extension '\.doc', .*; rename or con"
    ),
    # --- CSV: the header ----------------------------------------------------------------------
    "no column of actions": csv(("action", "act"), ": no column 'action'; did you mean 'act'.*nam"),
    "semicolons": whole("a;b\n1;2\n", ": none of the columns .*found 'a', 'b'; name the colum"),
    "a column twice": csv(("reward", "state"), ": 2 columns are named 'state'; rename"),
    "no header": csv((HEADER, ""), ": none of .*found 'ann', '0', '0'.*; name the columns"),
    # --- CSV: the rows ------------------------------------------------------------------------
    "row too long": csv(("ann,1,0", "ann,1,0,0"), ", row 3: has 6 fields, but the header has 5; a"),
    "row too short": csv((",1,0\n", "\n"), ", row 3: has 3 fields, but the header has 5; add"),
    "open quote": csv(("ann,1", '"ann,1'), ", row 3: a quote is opened .*; put"),
    "no id": csv(("ann,1", ",1"), ", 3 'episode_id': is empty; name the episode"),
    "t a word": csv(("ann,1", "ann,one"), ", 3 't': 'one' is not a number; correct"),
    "t twice": csv(("ann,1", "ann,0"), ", 3 't': 0 occurs twice .* in row 2 too; keep"),
    "t jumps": csv(("ann,2", "ann,7"), ", 4 't': 7 follows 1 .*: add the missing"),
    "state unknown": csv(("ann,1,0", "ann,1,9"), ", 3 'state': '9' is none of 0, 1; corr"),
    "state NUL": csv(("ann,1,0", "ann,1,\0"), ", row 3: holds a NUL byte; .*save"),
    "state of 5,000 digits": csv(
        ("ann,1,0", "ann,1," + "9" * 5000), ", 3 'state': '9+.* is none of .*; correct"
    ),
    "action negative": csv(("0,1,0", "0,-1,0"), ", 3 'action': '-1' is none of .*; corr"),
    "reward infinite": csv(
        ("0,1,0\n", "0,1,-inf\n"), ", 3 'reward': '-inf' is not a finite .*; corr", FIT
    ),
    "reward contradicted": csv(
        ("0,1,0\n", "0,1,5\n"), ", row 6: state 0, action 1 earned 0, but 5 in row 3; .*must", FIT
    ),
    "no rewards": csv(("reward", "wages"), ": has no rewards.*; add a column 'reward'", FIT),
    "state of two billion": csv(
        ("ann,1,0", "ann,1,2000000000"), ": 2000000001 states .*too large for memory; number", FIT
    ),
    # --- CSV, streamed into a folder ----------------------------------------------------------
    "folder: no header": csv((HEADER, ""), ": none of the columns .*: found 'ann'.*; name", OUT),
    "folder: row too long": csv(("ann,1,0", "ann,1,0,0"), ", row 3: has 6 fields.*; add or", OUT),
    "folder: open quote": csv(("ann,1", '"ann,1'), ", row 3: a quote is opened .*; put", OUT),
    "folder: Latin-1": csv(("ann,1", b"\xe9\2,1"), ", row 3: is not text .*0xe9.*; save", OUT),
    "folder: NUL": csv(("ann,1,0", "ann,1,\0"), ", row 3: holds a NUL byte; .*save it", OUT),
    "folder: state unknown": csv(
        ("ann,1,0", "ann,1,9"), ", 3 'state': '9' is none of 0, 1; correct it$", OUT
    ),
    "folder: three mistakes": csv(
        ("ann,0,0,0,0\nann,1,0,1,0\nann,2", "ann,0,x,0,0\nann,1,0,y,0\nann,5"),
        f", row 2, .*'state': 'x' .*{THEN}row 3, .*'action': 'y' .*{THEN}row 4, .*'t': 5 .*add",
        OUT,
    ),
    "folder: id of 1,001 letters": csv(
        ("ann,1", "z" * 1001 + ",1"), ", 3 'episode_id': 'z.* longer .*; shorten", OUT
    ),
    "folder: field of 2 MB": csv(
        ("ann,1", "z" * 2**21 + ",1"), ", row 3: has a field of more than .*; remove", OUT
    ),
    "folder: row of 18 MB": csv(
        ("ann,1,0", "z," * 9_000_000), ", row 3: is longer than 16,777,216 bytes; correct it", OUT
    ),
    "folder: 10,006 columns": csv(
        ("reward", "reward" + ",x" * 10_001), ": has 10,006 columns, more than 10,000; give", OUT
    ),
    # --- Parquet ------------------------------------------------------------------------------
    "parquet cut off": parquet(cut("ward.parquet", -5), ": is cut off .*; copy or write it anew"),
    "parquet half": parquet(cut("ward.parquet", 0.5), ": is cut off .*; copy or write it anew"),
    "parquet really CSV": parquet(put("ward.parquet", HEADER), ": is no Parquet table .*; write"),
    "parquet a zip": parquet(put("ward.parquet", b"PK\x03\x04"), ": is no Parquet table .*; write"),
    "parquet without states": parquet(column("state", None), ": no column 'state'; name"),
    "parquet of lists": parquet(column("state", [0]), r", column 'state': holds List.*; store"),
    "parquet of bytes": parquet(column("state", b"\xff"), ", column 'state': holds Binary; store"),
    "parquet of halves": parquet(column("state", 0.5), ", 1 'state': '0.5' .*; correct"),
    "parquet of flags": parquet(column("action", True), ", 1 'action': 'true' .*; corr"),
    "parquet of a billion rows": parquet(
        forged_rows("ward.parquet"), ": is damaged .*fewer values than it states; write it anew"
    ),
    "parquet that ends its decoder": parquet(negative_page("ward.parquet"), ": is damaged.*; writ"),
    "folder: parquet cut off": parquet(cut("ward.parquet", -5), ": is cut off .*; copy", "-o new"),
    "folder: parquet of lists": parquet(
        column("state", [0]), ", column 'state': holds List.*; store numbers", "-o new"
    ),
    "folder: parquet of noise": parquet(
        put("ward.parquet", b"PAR1" + b"\x99" * 400 + b"\x80\0\0\0PAR1"),
        ": is damaged or no such table: .*; write it anew",
        "-o new",
    ),
    "folder: parquet that ends its decoder": parquet(
        negative_page("ward.parquet"), ": is damaged.*; write it anew", "-o new"
    ),
    # --- JSON ---------------------------------------------------------------------------------
    "json cut off": json(cut("ward.json", 0.5), r", line 1, column \d+: is not JSON: .*; correct"),
    "json a number": json("3", ": holds no list of episodes; expected JSON such as"),
    "json without episodes": json("[]", ": the list of episodes is empty; add at least one"),
    "json nested too deeply": json("[" * 100_000, ": is nested too deeply; expected JSON"),
    "json of 8 GB": json(absurd("ward.json", 2**33), ": has 8,5.* bytes, more than .*; expected"),
    "json with a key twice": json('[{"id": 1, "id": 2}]', ": the key 'id' occurs twice .*; keep"),
    "json with 5,000 digits": json(f"[{'9' * 5000}]", ": a number .* thousands of digits; correct"),
    "json not of UTF-8": json(put("ward.json", b'["\xff"]'), ", line 1: is not text .*; save it"),
    "json of unequal lengths": json(
        episode(states=[0, 1, 0]), r", episodes\[1\]: has 3 states but 2 actions; give one for each"
    ),
    "json state null": json(
        episode(states=[0, None]), r', episodes\[1\]: "states"\[1\]: null is neither .*; correct it'
    ),
    "json state an object": json(
        episode(states=[{"a": 1}, 0]), r', episodes\[1\]: "states"\[0\]: .*is neither .*; correct'
    ),
    "json state unknown": json(
        episode(states=[0, 7]),
        r", episodes\[1\], t=1, column 'state': '7' is none of 0, 1; correct it",
    ),
    "json id twice": json(
        episode(id="ann"), r", episodes\[1\]: has the id 'ann' of episodes\[0\]; rename it"
    ),
    "json states a text": json(episode(states="0,1"), r', episodes\[1\]: has no list "states"; gi'),
}
