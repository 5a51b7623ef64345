"""Tables of scenarios, recorded prices and drive cycles."""

from __future__ import annotations

from .case import THEN, Case
from .changes import (
    Change,
    Swap,
    changed,
    columns,
    cut,
    folder,
    gone,
    lines,
    negative_page,
    pipe,
    put,
)

JUDGE = "plan bunkering --scenarios voyages.csv"
OUT = f"{JUDGE} -o new --workers 1"
HEADER = "scenario_id,t,price,action\n"
ROWS = 21


def voyages(change: Change | Swap, says: str, command: str = JUDGE) -> Case:
    """The table, whose first rows are v0,0,1000,50 and v0,1,900,12."""
    return Case(command, rf"^error: voyages\.csv{says}", changed("voyages.csv", change))


def parquet(change: Change, says: str) -> Case:
    """The same as Parquet."""
    command = "plan bunkering --scenarios voyages.parquet"
    return Case(command, rf"^error: voyages\.parquet{says}", change)


def prices(change: Change | Swap, says: str) -> Case:
    """The recorded prices; the third row of the file is 2001-01-01,47."""
    command = "plan bunkering --prices-csv prices.csv"
    return Case(command, rf"^error: prices\.csv{says}", changed("prices.csv", change))


def cycle(change: Change | Swap, says: str) -> Case:
    """The drive cycle; the row of the sixth second is 5,5."""
    command = "plan hybrid --drive-cycle cycle.csv"
    return Case(command, rf"^error: cycle\.csv{says}", changed("cycle.csv", change))


THREE = ("v0,0,1000,50\nv0,1,900,12\nv0,2,1500,25", "v0,0,dear,50\nv0,1,900,-1\nv0,2,1500,25,9")
CASES = {
    # --- scenarios ----------------------------------------------------------------------------
    "scenarios missing": voyages(gone("voyages.csv"), ": no such file; check the path"),
    "scenarios a folder": voyages(folder("voyages.csv"), ": is a folder without .*; give a file"),
    "scenarios a pipe": voyages(pipe("voyages.csv"), ": is a pipe or a device; give a file"),
    "scenarios empty": voyages(put("voyages.csv", ""), ": is empty; expected a table"),
    "scenarios header only": voyages(put("voyages.csv", HEADER), ": has no rows; give one for eac"),
    "scenarios in UTF-16": voyages(put("voyages.csv", "a".encode("utf-16")), ": has no col.*; na"),
    "scenarios in Latin-1": voyages(
        ("v0,1", b"\xf8\2,1"), ", row 3: is not text .*0xf8.*; save it"
    ),
    "scenarios by another name": Case(
        "plan bunkering --scenarios v.doc", r"v\.doc: has the extension '\.doc', .*; rename or conv"
    ),
    "no ids": voyages(("scenario_id", "id"), ": has no column 'scenario_id'; name scenarios in on"),
    "two ids": voyages(("action", "voyage_id"), ": has both 'scenario_id' and 'voyage_id'; name"),
    "no steps": voyages(("d,t,p", "d,step,p"), ": no column 't'; number a scenario's decisions 0,"),
    "no prices": voyages(("price", "Price"), ": no column 'price': found .*; name the columns"),
    "two prices": voyages(("action", "price"), ": two columns are named 'price'; keep one of them"),
    "scenario without a name": voyages(("v0,1", ",1"), ", 3 'scenario_id': is .*; fill"),
    "scenario of 5,000 letters": voyages(
        ("v0,0", "v" * 5000 + ",0"), r", 2 'scenario_id': 'v+\.\.\. .* longer .*; shorten"
    ),
    "step twice": voyages(("v0,1", "v0,0"), ", 3 't': 0 where 1 is expected; number"),
    "step of a half": voyages(("v0,1", "v0,1.5"), ", 3 't': '1.5' is not .*; number"),
    "too few steps": voyages(("v0,6,900,0\n", ""), ", 7 't': 'v0' has 6 .*; give all"),
    "too many steps": voyages(("v1,0", "v0,7,9,0\nv1,0"), ", row 9, .*'t': 'v0' has 8 .*; give al"),
    "in two places": voyages(
        ("v2,0", "v0,0"), ", 16 'scenario_id': 'v0' continues .* began in row 2; put"
    ),
    "price of nothing": voyages(("0,1000", "0,0"), ", 2 'price': '0' is not .*; give one"),
    "price a word": voyages(("0,1000", "0,dear"), ", 2 'price': 'dear' is not .*; corr"),
    "price infinite": voyages(("0,1000", "0,inf"), ", 2 'price': 'inf' is not .*; corr"),
    "price of 1e300": voyages(("0,1000", "0,1e300"), ", 2 'price': '1e300' is .*; corr"),
    "bought less than none": voyages(("1000,50", "1000,-5"), ", row 2, .*'action': '-5' is .*; gi"),
    "bought left out once": voyages(("1000,50", "1000,"), ", row 2, .*'action': is empty, .*; wri"),
    "three mistakes": voyages(
        THREE, f", row 2.*'dear' .*{THEN}row 3.*'-1' .*{THEN}row 4: has 5 .*add"
    ),
    "another problem": Case(
        "plan hybrid --scenarios voyages.csv", r"voyages\.csv: no column 'mode' .*found .*; name"
    ),
    "another horizon": Case(
        "plan options --scenarios voyages.csv",
        r"voyages\.csv, row 8, .*'t': 'v0' has 7 .*; give all",
    ),
    "folder: price a word": voyages(("0,1000", "0,dear"), ", row 2, .*'price': 'dear' .*; co", OUT),
    "folder: too few steps": voyages(
        ("v2,6,900,0\n", ""), ", row 21, .*'t': 'v2' has 6 .*; give", OUT
    ),
    "folder: open quote": voyages(("v1,1", '"v1,1'), ", row 10: a quote is opened .*; put", OUT),
    "scenarios cut off": parquet(cut("voyages.parquet", -9), ": is cut off .*; copy or write it a"),
    "scenarios of lists": parquet(
        columns("voyages.parquet", price=[[1.0]] * ROWS),
        ", column 'price': holds List.*; store num",
    ),
    "scenarios of nulls": parquet(
        columns("voyages.parquet", price=[None] * 20 + [1]), ", 1 'price': is missing; fill"
    ),
    "scenarios that end their decoder": parquet(
        negative_page("voyages.parquet"), ": is damaged.*; write it anew"
    ),
    # --- prices -------------------------------------------------------------------------------
    "prices missing": prices(gone("prices.csv"), ": no such file; check the path"),
    "prices empty": prices(put("prices.csv", ""), ": is empty; expected a table of prices"),
    "prices a pipe": prices(pipe("prices.csv"), ": is a pipe or a device; give a file"),
    "prices without dates": prices(("Date", "day"), ": no column 'Date'; name the columns Date"),
    "prices of three days": prices(
        lines("prices.csv", lambda all: all[:4]), ": has 3 prices, but 7 ports need 8 .*; add rows"
    ),
    "prices of one day": prices(lines("prices.csv", lambda all: all[:2]), ": has one row; add mor"),
    "price of a day negative": prices((",47", ",-47"), ", 3 'Price': '-47' is .*; correct"),
    "price of a day a word": prices((",47", ",n.a."), ", 3 'Price': 'n.a.' is not .*; c"),
    "date that is none": prices(("2001-01-01", "2001-13-77"), ", 3 'Date': .*; write it"),
    "date twice": prices(("2001-01-01", "2000-01-01"), ", 3 'Date': .* twice; keep one"),
    # --- drive cycles -------------------------------------------------------------------------
    "cycle missing": cycle(gone("cycle.csv"), ": no such file; check the path"),
    "cycle without speeds": cycle(("cycMps", "mph"), ": no column 'cycMps'; .*name the columns"),
    "cycle with speed -5": cycle(("\n5,5", "\n5,-5"), ", 7 'cycMps': '-5' is neg.*; give"),
    "cycle that runs back": cycle(("\n5,5", "\n3,5"), ", 7 'cycSecs': '3' is .*; sort"),
    "cycle of a second": cycle(lines("cycle.csv", lambda all: all[:3]), ": lasts 1 s, .*; give a"),
}
