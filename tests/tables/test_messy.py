"""Tables as strangers bring them: units in cells, rows of units, capitals, names of columns,
American dates, slips in rewards, doses that change their meaning, ids that are used twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from counterplan.core.dates import order_of
from counterplan.errors import FileError
from counterplan.tables.draft import draft
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Rows
from counterplan.tables.quality import findings
from counterplan.tables.reader import from_frame, read_table
from counterplan.tables.rewards import learn_rewards
from counterplan.tables.schema import Column, Schema

from .schema_support import write

HOSPITAL = """\
Patient No., Visit date ,Weight (kg),Creatinine [mg/dL],Drug given,Dose,Length of stay,Passed
{}P1,03/01/2024,84.0 kg,1.4,none,0 mg,9,yes
P1,03/15/2024,83.7,"1,25",Ramipril,10,9,yes
P1,03/29/2024,83.6,1.8,ramipril,5 mg,9,yes
P2,03/02/2024,60.5,0.9,None,0,4,no
P2,03/16/2024,60.1 kg,0.8,ramipril,5,4,no
P2,03/30/2024,60.0,0.8,none,0,4,no
"""


def hospital(folder: Path, more: str = "", **swapped: str) -> Path:
    text = HOSPITAL.replace('"1,25"', "1.25").format(more)
    for old, new in swapped.items():
        text = text.replace(old.replace("_", "."), new)
    return write(folder / "h.csv", text)


def test_a_draft_reads_what_people_write(tmp_path: Path) -> None:
    path = hospital(tmp_path)
    found = draft(path).schema
    by_name = {column.name: column for column in found.columns}
    assert (found.episode, found.time, found.dates) == ("Patient No.", "Visit date", "mdy")
    assert (by_name["Weight (kg)"].role, by_name["Weight (kg)"].unit) == ("state", "kg")
    assert by_name["Creatinine [mg/dL]"].unit == "mg/dL"
    assert by_name["Drug given"].labels == ("none", "ramipril")
    assert (by_name["Dose"].levels, by_name["Dose"].unit) == ((0.0, 5.0, 10.0), "mg")
    # Known only at the end, by their names.
    assert by_name["Length of stay"].role == by_name["Passed"].role == "outcome"
    first, second = read_table(path, found)
    assert first.episode.states[:, 0].tolist() == [84.0, 83.7, 83.6]
    assert first.episode.actions.tolist() == [[0.0, 0.0], [1.0, 10.0]]
    assert (first.dates[1], second.times.tolist()) == ("2024-03-15", [0.0, 14.0, 28.0])


@pytest.mark.parametrize(
    ("more", "swapped", "says"),
    [
        (
            ",,kg,mg/dL,,mg,,\n",
            {},
            "row 2, column 'Patient No.': names no episode; if this row hol",
        ),
        ("", {"1_25": '"1,250"', "1_": "1,4", "0_9": "2,9"}, "has a sign before its last three"),
    ],
)
def test_a_draft_that_is_refused(
    tmp_path: Path, more: str, swapped: dict[str, str], says: str
) -> None:
    with pytest.raises(FileError, match=says):
        draft(hospital(tmp_path, more, **swapped))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("83.6", "184 lb", "row 4, column 'Weight .kg.': '184 lb' is not in kg; convert it"),
        ("1.25", "<0.5", "row 3, .*: '<0.5' says where a number lies, not which it is; write one"),
        ("03/15/2024", "15/03/2024", "row 3, column 'Visit date': '15/03/2024' is no date"),
        ("5 mg", "5 g", "row 4, column 'Dose': '5 g' is none of 0, 5, 10; correct it"),
    ],
)
def test_what_no_unit_explains(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = hospital(tmp_path)
    schema = draft(path).schema
    write(path, path.read_text().replace(old, new))
    with pytest.raises(FileError, match=says):
        read_table(path, schema)


def test_numbers_that_are_none_are_told_by_the_draft(tmp_path: Path) -> None:
    rows = [
        f"{p},{t},{'<0.5' if p == t == 3 else p + t / 9:.4}\t,{t % 2}"
        for p in range(9)
        for t in range(5)
    ]
    path = write(tmp_path / "t.csv", "\n".join(["id,t,lactate,dose", *rows]).replace("\t", ""))
    found = draft(path)
    assert found.comments["lactate"]["role"].endswith(
        "no numbers: one entry, '<0.5' in row 20: correct or empty them"
    )
    assert found.schema.columns[0].role == "state"


def test_a_gap_is_no_label_in_capitals() -> None:
    salt = Column("s", "action", labels=("K", "Na"))
    frame = pl.DataFrame({"episode_id": "e", "t": [0, 1, 2], "x": 1.0, "s": ["na", "k", "NA"]})
    schema = Schema((Column("x", "state"), salt))
    (one,) = from_frame(frame.with_columns(s=pl.Series(["K", "k", "NA"])), schema)
    assert one.episode.actions[:, 0].tolist() == [0.0, 0.0]
    with pytest.raises(FileError, match="row 0, column 's': is missing"):
        from_frame(frame, schema)


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["01/02/2024", "01/13/2024"], "mdy"),
        (["01/02/2024", "13/01/2024"], "dmy"),
        (["01/02/2024", "02/01/2024"], ""),
        (["13/02/2024", "02/13/2024"], ""),
        (["2024-03-01"], ""),
    ],
)
def test_which_comes_first(texts: list[str], order: str) -> None:
    assert order_of(pl.Series(texts)) == order


# --- What is learned and told ---

BASE = (Column("x", "state"), Column("a", "action", levels=(0.0, 1.0, 2.0)))


def steps(n: int = 40, T: int = 6, **columns: pl.Expr) -> pl.DataFrame:
    """x' = 0.8 x - 0.5 a + noise; score = 10 - 3 x - 2 a."""
    rng, rows = np.random.default_rng(0), []
    for p in range(n):
        x = rng.normal(5, 1)
        for t in range(T):
            a = int(rng.integers(3))
            rows.append((p, t, x, a, 10 - 3 * x - 2 * a))
            x = 0.8 * x - 0.5 * a + rng.normal(0, 0.3)
    frame = pl.DataFrame(rows, schema=["episode_id", "t", "x", "a", "score"], orient="row")
    return frame.with_columns(**columns)


def slip(column: str, value: float) -> dict[str, pl.Expr]:
    return {column: pl.when(pl.int_range(pl.len()) == 14).then(value).otherwise(column)}


@pytest.mark.parametrize("cell", [slip("score", -99_999.0), slip("x", 99_999_999.0)])
def test_one_cell_changes_nothing_that_is_learned_of_rewards(cell: dict[str, pl.Expr]) -> None:
    schema = Schema((*BASE, Column("score", "reward")))
    _, clean, _ = learn_rewards(schema, Rows(from_frame(steps(), schema)))
    every = from_frame(steps(**cell), schema)
    _, learned, remarks = learn_rewards(schema, Rows(every))
    assert clean.step
    assert learned.step
    assert clean.following
    assert learned.following
    assert learned.step.weights == pytest.approx(clean.step.weights)
    assert learned.following.weights == pytest.approx(clean.following.weights, abs=0.2)
    said = [
        line for line in remarks if line.startswith("warning: column 'score': is -99999 in row 14")
    ]
    odd = SchemaLayout(schema, None, learned).odd_reward(every[2])
    assert bool(said) == (odd is not None) == ("score" in cell)


def test_a_slip_at_the_end() -> None:
    schema = Schema((*BASE, Column("bill", "cost", when="last")))
    bill = 100.0 * pl.col("x") + pl.col("episode_id") % 7
    frame = steps(bill=pl.when(pl.col("episode_id") == 3).then(99_999_999.0).otherwise(bill))
    _, learned, remarks = learn_rewards(schema, Rows(from_frame(frame, schema)))
    assert remarks[0].startswith(
        "warning: column 'bill': is 99999999 in row 23, far from all other"
    )
    assert learned.finals[0].weights == pytest.approx([100.0], rel=0.1)


def test_a_dose_that_changes_its_meaning() -> None:
    """Tablets after the twentieth patient, milligrams before."""
    levels = (0.0, 1.0, 2.0, 50.0, 100.0)
    schema = Schema((Column("x", "state"), Column("a", "action", levels=levels)))
    dose = pl.when(pl.col("episode_id") < 20).then(50 * pl.col("a")).otherwise("a")
    layout = SchemaLayout(schema)
    told = [one.text for one in findings(Rows(from_frame(steps(a=dose), schema)), layout)]
    assert any(
        one.startswith("is 1, 2 and 50, 100 in different episodes and never") for one in told
    )
    mixed = dose * pl.when(pl.col("t") == 3).then(1).otherwise(1)
    both = pl.when(pl.col("episode_id") == 30).then(50 * pl.col("a")).otherwise(mixed)
    both = pl.when((pl.col("episode_id") == 30) & (pl.col("t") < 3)).then("a").otherwise(both)
    told = [one.text for one in findings(Rows(from_frame(steps(a=both), schema)), layout)]
    assert not any("in different episodes" in one for one in told)


def test_an_id_that_is_used_twice() -> None:
    schema = Schema(BASE, unit="d", dates=True, gaps="input")
    days = 7 * pl.col("t") + pl.col("episode_id") % 3 * (pl.col("t") % 2)
    later = 400 * (pl.col("t") > 2) * (pl.col("episode_id") % 10 == 0)
    frame = steps(t=pl.date(2023, 1, 1) + pl.duration(days=days + later))
    told = {
        one.column: one.text
        for one in findings(Rows(from_frame(frame, schema)), SchemaLayout(schema))
    }
    assert told["gap"].endswith("if an id stands for several episodes, give each its own")
    with pytest.raises(FileError, match=r"occurs twice .* or give each episode an id of its own"):
        from_frame(steps(t=pl.col("t") % 3), Schema(BASE))
