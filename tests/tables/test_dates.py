"""Dates as times of visits, and gaps between them as an input."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import counterplan as cp
from counterplan.cli import app
from counterplan.core.dates import date_texts, seconds_of
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import records
from counterplan.tables.fit import fit_continuous
from counterplan.tables.reader import from_frame, read_table
from counterplan.tables.schema import Column, Schema

from .schema_support import write

COLUMNS = (
    Column("x", "state", better="lower", low=0.0),
    Column("dose", "action", levels=(0.0, 1.0)),
)


def dated(**table: object) -> Schema:
    given = {"episode": "id", "time": "visit", "dates": True, "unit": "d", **table}
    return Schema(COLUMNS, **given)  # type: ignore[arg-type]


def table(*rows: str) -> str:
    return "id,visit,x,dose\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2024-03-01", "2024-03-01T00:00:00+00:00"),
        ("2024-03-01 14:30", "2024-03-01T14:30:00+00:00"),
        ("2024-03-01T14:30:05", "2024-03-01T14:30:05+00:00"),
        ("2024-03-01t14:30:05.25z", "2024-03-01T14:30:05.250000+00:00"),
        ("2024-03-01 14:30+01:00", "2024-03-01T14:30:00+01:00"),
        ("2024-03-01 14:30:00 -0530", "2024-03-01T14:30:00-05:30"),
        ("1.3.2024", "2024-03-01T00:00:00+00:00"),
        ("31.12.1999 9:05", "1999-12-31T09:05:00+00:00"),
    ],
)
def test_dates_are_read(text: str, same: str) -> None:
    assert seconds_of(text)[0] == datetime.fromisoformat(same).timestamp()


@pytest.mark.parametrize(
    "text", ["2024-02-30", "03/01/2024", "2024-13-1", "20240301", "2024-W09-5", "noon", "", "7"]
)
def test_what_is_no_date(text: str) -> None:
    assert np.isnan(seconds_of(text)[0])


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=1))
def test_dates_are_shown_as_they_are_read(dates: list[datetime]) -> None:
    seconds = [one.replace(microsecond=0, tzinfo=UTC).timestamp() for one in dates]
    assert [seconds_of(text)[0] for text in date_texts(seconds)] == seconds


def test_dates_sort_and_number_the_visits(tmp_path: Path) -> None:
    rows = ("a,2024-03-08,2,0", "a,2024-03-01,1,1", "a,15.03.2024,3,", "b,2023-12-31,5,0")
    path = write(tmp_path / "t.csv", table(*rows))
    first, second = read_table(path, dated(step=7.0))
    assert first.episode.states[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert first.times.tolist() == [0.0, 7.0, 14.0]
    assert first.dates == ("2024-03-01", "2024-03-08", "2024-03-15")
    assert second.dates == ("2023-12-31",)


def test_offsets_from_utc_count(tmp_path: Path) -> None:
    rows = (
        "a,2024-03-01T12:00Z,1,0",
        "a,2024-03-01T15:00+01:00,2,0",
        "a,2024-03-01T11:00-05:00,3,",
    )
    (one,) = read_table(write(tmp_path / "t.csv", table(*rows)), dated(unit="h", step=2.0))
    assert one.times.tolist() == [0.0, 2.0, 4.0]
    assert one.dates[1] == "2024-03-01 14:00Z"


def test_frames_with_dates() -> None:
    days = [datetime(2024, 3, 1), datetime(2024, 3, 4, 12)]
    frame = pl.DataFrame({"id": ["a", "a"], "visit": days, "x": [1.0, 2.0], "dose": [0, 1]})
    pandas = pytest.importorskip("pandas")
    other = pandas.DataFrame(frame.to_dict(as_series=False))
    for either in (frame, other):
        (one,) = from_frame(either, dated(gaps="input"))
        assert one.episode.actions.tolist() == [[0.0, 3.5]]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["a,2024-03-01,1,0", "a,03/02/2024,1,0"], "row 3.*'03/02/2024' may begin with the day or"),
        (["a,2024-02-30,1,0"], "row 2.*'2024-02-30' is no date"),
        (["a,2024-03-01,1,0", "a,,1,0"], "row 3, column 'visit': is missing; fill it in"),
        (["a,2024-03-01,1,0", "a,2024-03-01,1,0"], "2024-03-01 occurs twice in episode 'a'"),
        (["a,2024-03-01,1,0", "a,2024-03-01Z,1,0"], "row 3.*'2024-03-01Z' is no date"),
        (["a,2024-03-01 10:00,1,0", "a,2024-03-02 10:00Z,1,0"], "row 3.*has an offset from UTC, b"),
        (["a,2024-03-01 10:00Z,1,0", "a,2024-03-02 10:00,1,0"], "row 3.*has no offset from UTC, b"),
        (["a,0,1,0"], "row 2, column 'visit': '0' is no date"),
    ],
)
def test_mistakes_in_dates(tmp_path: Path, rows: list[str], says: str) -> None:
    for gaps in ("refuse", "input"):
        with pytest.raises(FileError, match=says):
            read_table(write(tmp_path / "t.csv", table(*rows)), dated(gaps=gaps))


def test_dates_that_the_schema_does_not_know_of(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", table("a,2024-03-01,1,0"))
    with pytest.raises(
        FileError, match=r"'2024-03-01' is a date; number the steps, or say dates ="
    ):
        read_table(path, Schema(COLUMNS, "id", "visit"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"unit": "fortnights"}, "table.unit: time by dates is measured in weeks, d, h, min, s"),
        ({"increment": 2.0}, "table.increment: says nothing beside dates"),
    ],
)
def test_schemas_of_dates_are_checked(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        dated(**given)


def test_a_gap_has_no_double() -> None:
    with pytest.raises(InputError, match=r"columns\.gap: is what gaps"):
        Schema((*COLUMNS, Column("gap", "contextual")), gaps="input")


IRREGULAR = Schema(
    (Column("x", "state", better="lower"), Column("dose", "action", levels=(0.0, 1.0))),
    *("id", "visit"),
    unit="d",
    dates=True,
    gaps="input",
)


def irregular(tmp_path: Path, episodes: int = 40) -> Path:
    """Drug levels halve in a day; a dose adds 4: what follows depends on how long it is until."""
    rng, rows = np.random.default_rng(0), []
    for one in range(episodes):
        level, day = rng.uniform(2, 8), int(rng.integers(0, 300))
        for _ in range(8):
            dose, gap = int(rng.integers(0, 2)), int(rng.integers(1, 8))
            date = date_texts([86_400.0 * (19_000 + day)])[0]
            rows.append(f"p{one},{date},{level:.4f},{dose}")
            level, day = (level + 4 * dose) * 0.5**gap + rng.uniform(0.01, 0.1), day + gap
    return write(tmp_path / "levels.csv", table(*rows))


def test_irregular_visits_from_draft_to_answer(tmp_path: Path) -> None:
    path = irregular(tmp_path)
    schema = cp.draft_schema(path)
    assert (schema.dates, schema.unit, schema.gaps) == (True, "d", "input")
    model = fit_continuous(path, IRREGULAR, {"hidden": 16, "epochs": 60, "lipschitz": None}).model
    assert model.about["actions"] == ["dose", "gap"]
    first, *_ = cp.explain_table(path, model, k=1, episodes=["p0"])
    assert first.recorded.dates[0].startswith("20")
    change = first.changes[0]
    assert change.date == first.recorded.dates[change.t]
    assert change.text == f"on {change.date}: dose 1 -> 0"
    (record,) = records([first.row()], "d")
    assert record["changes"][0]["date"] == change.date
    # What a dose leaves behind is less the longer it is until the next visit.
    states = np.full((2, 1), 2.0)
    noise = model.infer(states, np.array([[0.0, 1.0], [0.0, 7.0]]), states)
    after = model.step(states, np.array([[1.0, 1.0], [1.0, 7.0]]), noise * 0.0)
    assert after[0, 0] > after[1, 0] + 1.0


def test_runs_keep_dates_and_pseudonyms_hide_them(tmp_path: Path) -> None:
    path = irregular(tmp_path, 12)
    model = fit_continuous(path, IRREGULAR, {"hidden": 4, "epochs": 2}).model
    run = cp.explain_table(path, model, k=1, folder=tmp_path / "run", workers=1)
    found = pl.read_parquet(tmp_path / "run/trajectories/*.parquet")
    assert found["date"].str.contains(r"^20\d\d-\d\d-\d\d$").all()
    texts = run.results().collect()["changes"].explode().struct.field("text").drop_nulls()
    assert texts.str.contains(r"^on 20\d\d-\d\d-\d\d: dose").all()
    dates = {date for one in range(12) for date in run.episode(f"p{one}").dates}
    for options, shown in ((["--pseudonyms"], False), ([], True)):
        page = tmp_path / f"{shown}.html"
        command = ["report", str(tmp_path / "run"), "--cases=2", *options, "-o", str(page)]
        assert CliRunner().invoke(app, command).exit_code == 0
        text = page.read_text()
        assert any(date in text for date in dates) is shown


def test_days_of_a_time_zone_go_on_where_clocks_are_changed() -> None:
    """Every 12 weeks at eight in Berlin, summer or winter; hours stay hours."""
    begins = pl.datetime(2023, 1, 2, 8)

    def visits(step: str) -> pl.DataFrame:
        at = pl.datetime_range(begins, begins.dt.offset_by("60w"), step, time_zone="Europe/Berlin")
        one = (
            pl.select(at=at)
            .head(6)
            .with_row_index("n")
            .with_columns(x=pl.col("n") * 1.0, d=pl.col("n") % 2)
        )
        return pl.concat([one.with_columns(who=pl.lit(name)) for name in "ab"]).drop("n")

    frame = visits("12w")
    assert frame["at"].dt.convert_time_zone("UTC").dt.hour().n_unique() == 2
    drafted = cp.draft_schema(frame.rename({"who": "patient", "at": "date", "d": "dose"}))
    assert (drafted.step, drafted.unit, drafted.gaps) == (84.0, "d", "refuse")
    schema = {
        "table": {"episode": "who", "time": "at", "dates": True, "step": 12, "unit": "weeks"},
        "columns": {
            "x": {"role": "state", "better": "lower"},
            "d": {"role": "action", "levels": [0, 1]},
        },
    }
    read = cp.tables.from_frame(frame, cp.tables.read_schema(schema))
    assert [len(one.episode) for one in read] == [6, 6]
    hourly = {**schema, "table": {**schema["table"], "step": 1, "unit": "h"}}
    late = visits("1h").with_columns(
        pl.when(pl.col("x") > 3).then(pl.col("at").dt.offset_by("1h")).otherwise("at").alias("at")
    )
    with pytest.raises(InputError, match="add the missing row"):
        cp.tables.from_frame(late, cp.tables.read_schema(hourly))
