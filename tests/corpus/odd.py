"""Tables without a mistake that are odd all the same, and forms of tables that no schema fits.

CASES are refused. TOLD go through, and a warning says what is odd, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from .case import Case
from .changes import lines, put

FIT = "fit clinic.csv --schema clinic.toml -o m.safetensors --hidden 2 --epochs 1"
DRAFT = "schema clinic.csv"
ROW = pl.int_range(pl.len())
PATIENT = pl.col("patient").str.slice(1).cast(pl.Int64)
DOSE = pl.col("dose").replace_strict({"none": 0, "low": 1, "high": 2})


def clinic(says: str, more: str = "", command: str = FIT, **columns: pl.Expr) -> Case:
    """The clinic's table with other columns, each in the schema by `more`: its name and role."""

    def change() -> None:
        pl.read_csv("clinic.csv").with_columns(**columns).write_csv("clinic.csv")
        name, _, role = more.partition(" ")
        if role:
            with Path("clinic.toml").open("a") as file:
                file.write(f'\n[columns.{name}]\nrole = "{role}"\n')

    return Case(command, says, change)


def cell(column: str, value: float, *rows: int) -> dict[str, pl.Expr]:
    """A column with another value in some rows; number 0 is row 2 of the file."""
    given = pl.col(column).cast(pl.Float64)
    return {column: pl.when(ROW.is_in(rows)).then(float(value)).otherwise(given)}


def refused(says: str, more: str = "", command: str = FIT, **columns: pl.Expr) -> Case:
    return clinic(rf"^error: clinic\.csv{says}", more, command, **columns)


def whole(content: str, says: str, command: str = DRAFT) -> Case:
    """Other contents for all of it."""
    return Case(command, rf"^error: clinic\.csv{says}", put("clinic.csv", content))


def text(column: str, value: str, says: str) -> Case:
    """A text in the second row of a column."""
    swapped = pl.when(ROW == 1).then(pl.lit(value)).otherwise(pl.col(column).cast(pl.String))
    return refused(f", 3 '{column}': {says}", **{column: swapped})


def rows(says: str, other: Callable[[list[str]], list[str]]) -> Case:
    """Other lines of the file."""
    return Case(FIT, rf"^error: clinic\.csv{says}", lines("clinic.csv", other))


CASES = {
    # --- rows that are no steps ---------------------------------------------------------------
    "a row for each measurement": whole(
        "patient_id,t,variable,value\na,0,lactate,2.5\na,0,map,70\n",
        ": has a row for each measurement, named in 'variable'; give one row for each step",
    ),
    "a row for each patient": whole(
        "patient_id,lactate_1,lactate_2,dose_1\na,1,2,0\nb,2,1,1\n",
        r": every episode \('patient_id'\) has a single row; give one for each step: columns such",
    ),
    "units below the header": rows(
        ", row 2, column 't': is missing; fill it in, or remove the row",
        lambda old: [old[0], ",,mmol/L,mmHg,a,,,,,", *old[1:]],
    ),
    "totals at the end": rows(
        ", row 242, column 't': is missing; fill it in, or remove the row",
        lambda old: [*old, "Total,,520.1,16000,50,north,0.3,low,1,0"],
    ),
    "header in the middle": rows(
        ", row 11, column 't': 't' is not a number; correct",
        lambda old: [*old[:10], old[0], *old[10:]],
    ),
    "a source at the end": rows(
        ", row 242: has 1 fields, but the header has 10; add or remove",
        lambda old: [*old, "Source: clinic"],
    ),
    # --- cells that programs and people write -------------------------------------------------
    "an error of a spreadsheet": text("lactate", "#DIV/0!", "'#DIV/0!' is not a number; correct"),
    "below the limit of detection": text("lactate", "<0.3", "'<0.3' says where .*; write one, or"),
    "a unit in the cell": text("lactate", "2.5 mmol/L", ".* has a unit beside the number; write"),
    "an asterisk": text("lactate", "2.5*", r"'2\.5\*' has a unit beside the number; write unit"),
    "a dash": text("pressure", "-", "'-' is not a number; correct or empty it"),
    "unknown": text("pressure", "unknown", "'unknown' is not a number; correct or empty it"),
    "wide digits": text(
        "pressure", "\uff17\uff10", "'\uff17\uff10' is not a number; correct or empty it"
    ),
    "a letter for a digit": text("pressure", "7O", "'7O' has a unit beside the number; write"),
    "a price": text("lactate", "$2.5", r"'\$2.5' has a unit beside the number; write unit = '...'"),
    "a slip of the key": text(
        "dose", "hihg", "'hihg' is none of 'none', 'low', 'high'; correct it"
    ),
    "two doses": text("dose", "low high", "'low high' is none of 'none', .*; correct it, or add"),
    # --- nothing to learn from ----------------------------------------------------------------
    "actions that never vary": refused(
        ": 'dose' is 'low' and 'fluids' is '0' in every row: .*; give a table in which actions",
        dose=pl.lit("low"),
        fluids=pl.lit(0),
    ),
    "a column that never varies": refused(
        ": column 'pressure' is 70 in every row, .*; give it role = 'ignore'",
        pressure=pl.lit(70.0),
    ),
    "more codes than values": refused(
        r": \d+ of 200 transitions hold a value far outside .*: too many .*; empty these cells, or",
        lactate=pl.when(ROW % 2 == 0).then(-999.0).otherwise("lactate"),
    ),
}

TOLD = {
    # --- cells --------------------------------------------------------------------------------
    "99,999,999": clinic(
        "'lactate': is 99999999 in row 12, far from .*; steps .*: correct it, or say low = 0",
        **cell("lactate", 99_999_999, 10),
    ),
    "-999": clinic(
        r"'lactate': is -999 in 2 rows \(row 5 first\), far .*", **cell("lactate", -999, 3, 90)
    ),
    "-1 among measurements": clinic("'lactate': is -1 in row 5, far .*", **cell("lactate", -1, 3)),
    "9999 and 1e9": clinic(
        "'pressure': is 9999 in row 5 and 1000000000 in row 6, far .*",
        pressure=pl.when(ROW == 3).then(9999.0).when(ROW == 4).then(1e9).otherwise("pressure"),
    ),
    "a pressure of 0": clinic("'pressure': is 0 in row 5, far .*", **cell("pressure", 0, 3)),
    "an age of 999": clinic(
        "'age': is 999 in 6 rows .*missing = 'mean'", **cell("age", 999, *range(6, 12))
    ),
    "an age of -1": clinic(
        "'age': is -1 in some rows .*; if that stands for a gap, say low",
        **cell("age", -1, *range(6)),
    ),
    "a code in an input": clinic("'oxygen': is 999 in row 5, far .*", **cell("oxygen", 999, 3)),
    "decimal point slipped": clinic(
        "'pressure': seems to be in two units, .* factor of 10 .*; convert",
        pressure=pl.when(ROW % 25 == 0).then(pl.col("pressure") * 10).otherwise("pressure"),
    ),
    "degrees": clinic(
        "'temp': seems to be in two units, .*°C and °F.*; convert them to one",
        "temp state",
        temp=pl.when(PATIENT % 5 == 0)
        .then(98.0 + 0.02 * (ROW % 37))
        .otherwise(36.5 + 0.01 * (ROW % 83)),
    ),
    # --- columns ------------------------------------------------------------------------------
    "a column twice": clinic(
        r"'bp': says the same as 'pressure' \(r = 1.0000\); give one of them role",
        "bp state",
        bp=pl.col("pressure") / 7.5,
    ),
    "a record number": clinic(
        "'mrn': is another number in every episode: a name, .*; give it role = 'ignore'",
        "mrn fixed",
        mrn=7000 + PATIENT * 37 % 41,
    ),
    "a number of the row": clinic(
        "'line': is another number in every row, ever larger.*; give it role = 'ignore'",
        "line state",
        line=ROW + 1,
    ),
    "the dose that was given": clinic(
        "'mg': tells what 'dose' is in its row: .* give it role = 'ignore'",
        "mg state",
        mg=DOSE * 50,
    ),
    "the next dose": clinic(
        "'later': tells what 'dose' is in the next row: .* give it role",
        "later state",
        later=DOSE.shift(-1).fill_null(0),
    ),
    "the next pressure": clinic(
        "'target': is what 'pressure' is in the next row, .*; give it role = 'ignore'",
        "target state",
        target=pl.col("pressure").shift(-1).fill_null(70.0),
    ),
    "how it ended": clinic(
        "'unit_left': tells 'died' in the first row already: .* give it role = 'ignore'",
        "unit_left fixed",
        unit_left=3 + 4 * pl.col("died"),
    ),
    # --- episodes and actions -----------------------------------------------------------------
    "a patient twice": clinic(
        "warning: 1 episode more than once, .* row 8 on is that from row 2 on; remove",
        **{
            name: pl.when(ROW.is_between(6, 11)).then(pl.col(name).shift(6)).otherwise(name)
            for name in ("lactate", "pressure", "age", "ward", "oxygen", "dose", "fluids", "died")
        },
    ),
    "an action that is hardly ever taken": clinic(
        "'fluids': hardly varies in 100% of all steps, it is '0' in .*; give it role",
        fluids=(ROW == 7) * 1,
    ),
    "an action that never varies beside one that does": clinic(
        "'fluids': hardly varies in 100% .* '1' in 100.0%: .*; give it role = 'contextual'",
        fluids=pl.lit(1),
    ),
}
