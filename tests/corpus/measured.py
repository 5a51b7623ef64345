"""Tables that a schema describes, drafts of schemas, and sepsis cohorts."""

from __future__ import annotations

from .case import THEN, Case
from .changes import Change, Swap, absurd, changed, gone, lines, pipe, put, renamed

FIT = "fit stays.csv --schema stays.toml -o m.safetensors"
DRAFT = "schema stays.csv"
COHORT = "fit cohort.csv -o m.safetensors"
EXPLAIN = "explain cohort.csv -m sepsis.safetensors"


def stays(change: Change | Swap, says: str, command: str = FIT) -> Case:
    """The table with a schema; the third row of its file is ann,1,8,70,70,F,1,2,1."""
    return Case(command, rf"^error: stays\.csv{says}", changed("stays.csv", change))


def whole(content: str | bytes, says: str, command: str = FIT) -> Case:
    """Other contents for all of it."""
    return stays(put("stays.csv", content), says, command)


def cohort(change: Change | Swap, says: str, command: str = COHORT) -> Case:
    """The cohort; its first row is 200001,1,0,1,33360.3,... in row 2 of the file."""
    return Case(command, rf"^error: cohort\.csv{says}", changed("cohort.csv", change))


def first(count: int) -> Change:
    """The cohort's first lines only."""
    return lines("cohort.csv", lambda every: every[:count])


def field(place: int, value: str, rows: int = 1) -> Change:
    """Another value in a field of the cohort's first rows."""

    def edit(every: list[str]) -> list[str]:
        for row in range(1, min(1 + rows, len(every))):
            fields = every[row].split(",")
            every[row] = ",".join([*fields[:place], value, *fields[place + 1 :]])
        return every

    return lines("cohort.csv", edit)


FIVE = (
    "ann,0,9,65.5,70,F,0,0,1\nann,1,8,70,70,F,1,2,1\nann,2",
    "ann,0,99,high,70,F,0,0,1\nann,1,8,70,71,F,1,7,1\nann,4",
)
FIVE_TOLD = THEN.join(
    (
        ", 2 'sofa': '99' is above high = 24 points; correct",
        "row 2, column 'map': 'high' is not a number; correct",
        "row 3, column 'vaso': '7' is none of 0, 1, 2; correct",
        "row 3, column 'age': differs .*; correct",
        "row 4, column 't': 4 follows 1 .*: add the missing row",
    )
)
MANY = "stay_id,t,sofa,map,age,sex,vent,vaso,died\n" + "".join(
    f"p{stay},0,x,y,z,?,w,9,0\n" for stay in range(5000)
)

CASES = {
    # --- with a schema ------------------------------------------------------------------------
    "stays missing": stays(gone("stays.csv"), ": no such file; check the path"),
    "stays a pipe": stays(pipe("stays.csv"), ": is a pipe or a device; give a file"),
    "stays empty": whole("", ": is empty; expected a table of episodes"),
    "stays header only": whole(MANY[:42], ": has a header but no rows; give one for each step"),
    "stays in UTF-16": whole("a,b\n".encode("utf-16"), ": none of the columns .*; name the col"),
    "stays with old line ends": whole("a,b\r1,2\r", ", row 1: a line ends in CR alone; save it"),
    "stays with tabs": whole("a\tb\n1\t2\n", ": none of the columns .*found 'a', 'b'; name t"),
    "stays without an end of header": whole(
        '"' + "a" * 2**21, ", row 1: has a field of more than .*; remove"
    ),
    "stays of a terabyte": stays(absurd("stays.csv", 2**40), ", row 1: is longer than .*; correct"),
    "no column of the schema": stays(("sofa", "sofaa"), r": no column 'sofa'; did you mean 'sofaa"),
    "column twice": stays(("map", "sofa"), ": 2 columns are named 'sofa'; rename or remove"),
    "stay without a name": stays(("ann,1", ",1"), ", 3 'stay_id': is empty; name the"),
    "time a date": stays(("ann,1", "ann,2024-01-01"), ", 3 't': '2024-01-01' is a date; number"),
    "time twice": stays(("ann,1", "ann,0"), ", 3 't': 0 occurs twice .* row 2 too; keep"),
    "time jumps": stays(("ann,2", "ann,5"), ", 4 't': 5 follows 1 .*: add the missing r"),
    "value a word": stays(("65.5", "high"), ", 2 'map': 'high' is not a number; correct"),
    "value missing": stays(("65.5", ""), ", 2 'map': is missing; fill it in, or say"),
    "value infinite": stays(("65.5", "-inf"), ", 2 'map': '-inf' is not a finite .*; c"),
    "value of 1e200": stays(("65.5", "1e200"), ", 2 'map': '1e200' is too far .*; correct"),
    "value of 1e400": stays(
        ("65.5", "1e400"), r", 2 'map': '1e400' is too far from 0, 1e\+100 at .*; corr"
    ),
    "value with a comma": stays(("65.5", '"1,655"'), ", 2 'map': '1,655' has .*--deci"),
    "value of 5,000 digits": stays(("65.5", "9" * 5000), r", 2 'map': '9+\.\.\. .*; corr"),
    "value below": stays(("ann,0,9", "ann,0,-1"), ", row 2, .*'sofa': '-1' is below low = 0 .*; c"),
    "value above": stays(
        ("ann,0,9", "ann,0,99"), ", row 2, .*'sofa': '99' is above high = 24 .*; c"
    ),
    "label unknown": stays(("55,M", "55,X"), ", 5 'sex': 'X' is none of 'F', 'M'; corr"),
    "level unknown": stays(("F,1,2", "F,1,7"), ", 3 'vaso': '7' is none of 0, 1, 2; cor"),
    "fixed value changes": stays(("8,70,70", "8,70,71"), ", 3 'age': differs .*; correc"),
    "action missing": stays(("F,1,2", "F,1,"), ", 3 'vaso': is missing; fill it in: onl"),
    "five mistakes at once": stays(FIVE, FIVE_TOLD),
    "a mistake everywhere": whole(MANY, rf", row 2, {THEN}30,000 mistakes in all; nothing was rea"),
    "one stay of one step": whole(MANY[:42] + "p,0,1,1,1,F,0,0,0\n", ": .*needs two states; give"),
    # --- drafts -------------------------------------------------------------------------------
    "draft of blanks": whole("\n\n", ": is empty; expected a table of episodes", DRAFT),
    "draft without actions": whole(
        "id,t,x\na,0,1.5\n", ": no column looks like an action; name", DRAFT
    ),
    "draft without states": whole(
        "id,t,a\na,0,1\na,1,0\n", ": no column looks like a .*; add", DRAFT
    ),
    "draft of one column": whole("id\na\nb\n", ": has the column 'id' only; add those of", DRAFT),
    "draft of JSON": Case("schema ward.json", r"ward\.json: has the extension '\.json', .*; renam"),
    "draft of ragged rows": stays(("ann,1,8", "ann,1,8,8"), ", row 3: has 10 fields, .*; a", DRAFT),
    "draft of equal names": stays(("sofa", "map"), ": 2 columns are named 'map'; rename", DRAFT),
    # --- sepsis cohorts -----------------------------------------------------------------------
    "cohort without SOFA": cohort(("SOFA", "sofa"), ": no column 'SOFA'; correct the header"),
    "cohort header only": cohort(first(1), ": has a header but no rows; give one for each step"),
    "cohort with a word": cohort(field(2, "male"), ", 2 'gender': 'male' is none of .*; correct"),
    "cohort with a gap": cohort(field(4, ""), ", 2 'age': is missing; fill it in"),
    "cohort with 1e300": cohort(
        field(4, "1e300"), r", 2 'age': '1e300' is too far from 0, 1e\+100 at .*; corr"
    ),
    "cohort with bloc 0": cohort(field(1, "0"), ", 2 'bloc': 0 is not a whole number .*; correct"),
    "cohort with bloc 1e99": cohort(field(1, "1e99"), r", 2 'bloc': 1e\+99 follows .*: add the "),
    "cohort with a bloc twice": cohort(field(1, "2"), ", 3 'bloc': 2 occurs twice .*; keep one"),
    "cohort with gender 2": cohort(field(2, "2"), ", 2 'gender': '2' is none of .*; correct"),
    "cohort whose age changes": cohort(field(4, "9"), ", 3 'age': differs from row 2 .*; correct"),
    "cohort with SOFA 77": cohort(field(13, "77"), ", 2 'SOFA': '77' is above high = 24 .*; cor"),
    "cohort of short stays": cohort(first(6), r": no stay can be used: .*fewer than 10 .*; add ot"),
    "cohort without doses": cohort(field(14, "0", 999), ": no vasopressor dose .* quartiles: pass"),
    "cohort no text": cohort(("200001,1", b"\xfc\1,1"), ", row 2: is not text .*; save", EXPLAIN),
    "cohort as Parquet": Case(
        "fit cohort.parquet -o m.safetensors",
        r"^error: cohort\.parquet: is no Parquet table .*; write it anew",
        renamed("cohort.csv", "cohort.parquet"),
    ),
    "cohort for a discrete model": Case(
        "explain cohort.csv -m model.json",
        r"^error: model\.json: holds a model of discrete states, but cohort\.csv is .*; use",
    ),
    "ward for a neural model": Case(
        "explain ward.csv -m sepsis.safetensors",
        r"^error: sepsis\.safetensors: holds a neural model, but ward\.csv is no cohort .*; give",
    ),
    "stay unknown": cohort(lambda: None, ": has no stay '999'; the fi", f"{EXPLAIN} --episode 999"),
    "folder: cohort with SOFA 77": cohort(
        field(13, "77"), ", 2 'SOFA': '77' is above high = 24 .*; correct", f"{EXPLAIN} -o new"
    ),
}
