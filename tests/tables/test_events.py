"""Clinical events to episodes: against counting by hand, real stays, and two forms of the same."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import counterplan as cp
from counterplan.cli import app
from counterplan.errors import FileError
from counterplan.tables.events import episodes_from_events, frequent_codes, read_config

BEGIN = datetime(2130, 1, 1)
STAYS = Path(__file__).parents[3] / "shared" / "data" / "mimic3_demo" / "episodes_4h.csv"
CONFIG: dict[str, Any] = {
    "episodes": {"window": "4h", "start": ["ADMIT"], "end": ["LEAVE"]},
    "features": {
        "rate": {"codes": ["HR"], "unit": "bpm", "low": 20, "high": 250, "missing": "mean"},
        "lactate": {
            "codes": ["LAB//lactate*"], "unit": "mmol/L", "convert": {"mg/dL": 0.111},
            "take": "max", "carry": "6h", "age": True, "better": "lower", "missing": "median",
        },
    },
    "actions": {"fluid": {"codes": ["DRUG//fluid"], "unit": "ml", "levels": [0, 250, 500]}},
    "fixed": {
        "age": {"codes": ["MEDS_BIRTH"], "take": "years"},
        "sex": {"codes": ["GENDER//*"]},
    },
    "outcomes": {"died": {"codes": ["MEDS_DEATH"], "within": "1d"}},
}  # fmt: skip


def hours(number: float) -> datetime:
    return BEGIN + timedelta(hours=number)


def events(seed: int = 0, patients: int = 12) -> list[tuple[Any, ...]]:
    """(subject, time, code, value, unit) of some stays, one patient with two of them."""
    rng, rows = np.random.default_rng(seed), list[tuple[Any, ...]]()
    for subject in range(patients):
        rows.append((subject, BEGIN - timedelta(days=365.25 * 50), "MEDS_BIRTH", None, None))
        rows.append((subject, None, f"GENDER//{'FM'[subject % 2]}", None, None))
        for first in (0, 100) if subject == 3 else (0,):
            length = float(rng.uniform(10, 40))
            rows.append((subject, hours(first), "ADMIT", None, None))
            rows.append((subject, hours(first + length), "LEAVE", None, None))
            for _ in range(30):
                at = hours(first + float(rng.uniform(-6, length)))
                rows.append((subject, at, "HR", float(rng.normal(90, 40)), "bpm"))
                unit = ("mmol/L", "mg/dL")[int(rng.integers(2))]
                code = f"LAB//lactate{rng.integers(2)}"
                rows.append((subject, at, code, float(rng.uniform(1, 9)), unit))
            for _ in range(8):
                at = hours(first + float(rng.uniform(0, length)))
                rows.append((subject, at, "DRUG//fluid", float(rng.uniform(50, 400)), "ml"))
        if subject % 4 == 0:
            rows.append((subject, hours(45), "MEDS_DEATH", None, None))
    return rows


def write_meds(folder: Path, rows: list[tuple[Any, ...]], *, unit: bool = True) -> Path:
    frame = pl.DataFrame(
        rows, orient="row",
        schema={"subject_id": pl.Int64, "time": pl.Datetime("us"), "code": pl.String,
                "numeric_value": pl.Float32, "unit": pl.String},
    )  # fmt: skip
    frame = frame if unit else frame.drop("unit")
    (folder / "data" / "train").mkdir(parents=True)
    (folder / "metadata").mkdir()
    pl.DataFrame({"code": ["HR"]}).write_parquet(folder / "metadata" / "codes.parquet")
    for part in range(3):
        frame[part::3].write_parquet(folder / "data" / "train" / f"{part}.parquet")
    return folder


def by_hand(rows: list[tuple[Any, ...]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The same by counting one event after the other."""
    of, found = defaultdict(list), {}
    for row in rows:
        of[row[0]].append(row)
    for subject, every in of.items():
        starts = sorted(one[1] for one in every if one[2] == "ADMIT")
        for number, start in enumerate(starts, 1):
            name = f"{subject}-{number}" if len(starts) > 1 else f"{subject}"
            end = min(one[1] for one in every if one[2] == "LEAVE" and one[1] > start)
            steps = math.ceil((end - start) / timedelta(hours=4))
            died = [
                o for o in every if o[2] == "MEDS_DEATH" and start <= o[1] <= end + timedelta(1)
            ]
            rate, lactate, at = None, None, start
            for t in range(steps):
                known = start + timedelta(hours=4 * t)
                before = known - timedelta(hours=4)
                near = [o for o in every if o[1] is not None and before < o[1] <= known]
                near.sort(key=lambda one: one[1])
                for o in near:
                    if o[2] == "HR" and 20 <= np.float32(o[3]) <= 250:
                        rate = float(np.float32(o[3]))
                values = [
                    float(np.float32(o[3])) * (1.0 if o[4] == "mmol/L" else 0.111)
                    for o in near if o[2].startswith("LAB")
                ]  # fmt: skip
                if values:
                    lactate, at = max(values), [o[1] for o in near if o[2].startswith("LAB")][-1]
                old = (known - at) / timedelta(hours=1)
                given = sum(
                    float(np.float32(o[3])) for o in every
                    if o[2] == "DRUG//fluid" and known <= o[1] < known + timedelta(hours=4)
                )  # fmt: skip
                fresh = lactate is not None and old <= 6
                found[name, t] = {
                    "rate": rate,
                    "lactate": lactate if fresh else None,
                    "lactate_age": old if fresh else None,
                    "fluid": min((0.0, 250.0, 500.0), key=lambda level: abs(level - given)),
                    "age": (start - BEGIN) / timedelta(days=365.25) + 50,
                    "sex": "FM"[subject % 2],
                    "died": int(bool(died)),
                }
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_events_is_what_counting_by_hand_makes_of_it(tmp_path: Path, seed: int) -> None:
    rows = events(seed)
    found = episodes_from_events(write_meds(tmp_path / "meds", rows), CONFIG)
    expected = by_hand(rows)
    got = {(row.pop("episode_id"), row.pop("t")): row for row in found.frame.to_dicts()}
    assert got.keys() == expected.keys()
    for place, row in expected.items():
        assert got[place] == pytest.approx(row, nan_ok=True), place
    assert any("rate" in line and "left out" in line for line in found.notes)
    assert found.schema.of("fixed")[1].labels == ("F", "M")


def test_omop_tables_of_the_same_events_make_the_same_table(tmp_path: Path) -> None:
    rows = [row for row in events() if row[0] != 3]
    root = tmp_path / "omop"
    root.mkdir()

    def write(name: str, heads: str, lines: list[tuple[Any, ...]]) -> None:
        with (root / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([heads.split(), *lines])

    stays = [(r[0], r[0], r[1], e[1]) for r in rows if r[2] == "ADMIT"
             for e in rows if e[0] == r[0] and e[2] == "LEAVE"]  # fmt: skip
    write("VISIT_OCCURRENCE",
          "visit_occurrence_id person_id visit_start_datetime visit_end_datetime",
          stays)  # fmt: skip
    rounded = [(*r[:1], r[1], r[2], None if r[3] is None else float(np.float32(r[3])), r[4])
               for r in rows if r[1] is not None]  # fmt: skip
    write("measurement",
          "person_id measurement_datetime measurement_concept_id value_as_number unit_source_value",
          [r for r in rounded if r[2].startswith(("HR", "LAB"))])  # fmt: skip
    write("drug_exposure",
          "person_id drug_exposure_start_datetime drug_concept_id quantity dose_unit_source_value",
          [r for r in rounded if r[2].startswith("DRUG")])  # fmt: skip
    write("death", "person_id death_datetime", [r[:2] for r in rounded if r[2] == "MEDS_DEATH"])
    write("person", "person_id birth_datetime gender_concept_id",
          [(s, BEGIN - timedelta(days=365.25 * 50), 8507)
           for s in {r[0] for r in rows}])  # fmt: skip
    config = {**CONFIG, "episodes": {"window": "4h"}, "fixed": {"age": CONFIG["fixed"]["age"]}}
    whole = [(r[0], None if r[1] is None else r[1].replace(microsecond=0), *r[2:]) for r in rows]
    meds = {**config, "episodes": CONFIG["episodes"]}
    first = episodes_from_events(root, config).frame
    second = episodes_from_events(write_meds(tmp_path / "meds", whole), meds).frame
    assert first.sort("episode_id", "t").equals(second.sort("episode_id", "t"))


def test_an_infusion_is_spread_over_the_steps_that_it_lasts(tmp_path: Path) -> None:
    root = tmp_path / "omop"
    root.mkdir()
    pl.DataFrame({
        "visit_occurrence_id": [7], "person_id": [1], "visit_start_datetime": [hours(0)],
        "visit_end_datetime": [hours(16)],
    }).write_parquet(root / "visit_occurrence.parquet")  # fmt: skip
    pl.DataFrame({
        "person_id": [1] * 4, "measurement_datetime": [hours(4 * t) for t in range(4)],
        "measurement_concept_id": [5] * 4, "value_as_number": [1.0, 2.0, 3.0, 4.0],
    }).write_parquet(root / "measurement.parquet")  # fmt: skip
    pl.DataFrame({
        "person_id": [1], "drug_exposure_start_datetime": [hours(2)], "drug_concept_id": [9],
        "drug_exposure_end_datetime": [hours(12)], "quantity": [100.0],
    }).write_parquet(root / "drug_exposure.parquet")  # fmt: skip
    config = {
        "episodes": {"window": "4h"},
        "features": {"x": {"codes": ["5"]}},
        "actions": {"dose": {"codes": ["9"], "levels": [0, 20, 40]}},
    }
    frame = episodes_from_events(root, config).frame
    assert frame["dose"].to_list() == [20.0, 40.0, 40.0, 0.0]
    assert frame["x"].to_list() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.skipif(not STAYS.exists(), reason="needs ../shared")
def test_real_stays_as_events_come_back_as_they_were(tmp_path: Path) -> None:
    """MIMIC-III's demo: stays of 4-hour steps, told as events and read again."""
    table = pl.read_csv(STAYS, infer_schema_length=None)
    labs = ["hr", "map", "lact", "crea"]
    rows: list[tuple[Any, ...]] = []
    for stay in table.partition_by("episode_id"):
        subject, steps = stay["episode_id"][0], stay["t"].max() + 1
        rows += [(subject, hours(0), "ADMIT", None, None)]
        rows += [(subject, hours(4 * steps), "LEAVE", None, None)]
        for row in stay.iter_rows(named=True):
            at = hours(4 * row["t"])
            rows += [(subject, at, name, row[name], None) for name in labs if row[name] is not None]
            rows.append((subject, at + timedelta(hours=1), "iv", row["iv_ml"], "ml"))
        rows.append((subject, None, f"SEX//{stay['sex'][0]}", None, None))
    config = {
        "episodes": {"window": "4h", "start": ["ADMIT"], "end": ["LEAVE"]},
        "features": {name: {"codes": [name], "missing": "median"} for name in labs},
        "actions": {"iv": {"codes": ["iv"], "unit": "ml", "bins": 4}},
        "fixed": {"sex": {"codes": ["SEX//*"]}},
    }
    config["features"]["map"]["better"] = "higher"
    made = episodes_from_events(write_meds(tmp_path / "meds", rows), config)
    kept = table.filter(pl.len().over("episode_id") > 1).with_columns(
        pl.col("episode_id").cast(pl.String)
    )
    both = made.frame.join(kept, on=["episode_id", "t"], suffix="_was")
    assert both.height == made.frame.height == kept.height
    for name in labs:
        carried = both.select(pl.col(f"{name}_was").forward_fill().over("episode_id", order_by="t"))
        np.testing.assert_allclose(
            both[name].to_numpy(), carried.to_series().cast(pl.Float32).to_numpy(), rtol=1e-6
        )
    given = both.filter(pl.col("iv_ml") > 0)
    assert len(made.schema.of("action")[0].levels or ()) == 5
    # Each of the four bins holds a quarter of what was given.
    assert given["iv"].value_counts()["count"].min() >= given.height // 4 - 5
    model = cp.fit(made.frame, made.schema, members=2)
    assert len(cp.explain_table(made.frame.head(40), model, k=1)) >= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episodes": {"window": "4 hours"}}, r"episodes\.window: '4 hours' is no length of time"),
        ({"features": {"rate": {"codes": ["HB"]}}}, r"no event has the code 'HB' of rate.*'HR'"),
        ({"features": {"rate": {"codes": ["HR"], "unit": "Hz"}}}, r"rate is in 'Hz', but .* 'bpm'"),
        ({"features": {"t": {"codes": ["HR"]}}}, r"two columns are called 't'"),
        ({"actions": {"fluid": {"codes": ["DRUG//fluid"]}}}, r"give either bins = 4 or levels"),
        ({"fixed": {"male": {"codes": ["GENDER//M"], "take": "count"}}}, r"'count' is of a window"),
        ({"features": {"rate": {"code": ["HR"]}}}, r"features\.rate\.codes: Field required"),
        ({"episodes": {"window": "90d"}}, r"no episode has 2 steps"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = write_meds(tmp_path / "meds", events())
    with pytest.raises(FileError, match=message) as caught:
        episodes_from_events(folder, {**CONFIG, **change})
    assert "\n" not in str(caught.value)


def small(tmp_path: Path, more: list[tuple[Any, ...]], **config: Any) -> Any:
    """One stay of four steps with x = 1, 2, 3, 4, and some more events."""
    rows = [(1, hours(0), "ADMIT", None, ""), (1, hours(16), "LEAVE", None, "")]
    rows += [(1, hours(4 * t), "X", t + 1.0, "") for t in range(4)]
    folder = write_meds(tmp_path / f"meds{len([*tmp_path.iterdir()])}", [*rows, *more])
    return episodes_from_events(folder, {
        "episodes": CONFIG["episodes"], "features": {"x": {"codes": ["X"]}},
        "actions": {"d": {"codes": ["D"], "levels": [0, 10, 20]}}, **config,
    })  # fmt: skip


def doses(*amounts: float | None) -> list[tuple[Any, ...]]:
    return [(1, hours(4 * t + 1), "D", amount, "") for t, amount in enumerate(amounts)]


def test_amounts_keep_their_levels_where_many_are_the_same(tmp_path: Path) -> None:
    rows = [(s, hours(4 * t), "X", float(t), "") for s in (1, 2) for t in range(5)]
    rows += [(s, hours(0), "ADMIT", None, "") for s in (1, 2)]
    rows += [(s, hours(16), "LEAVE", None, "") for s in (1, 2)]
    given = {1: (1.0, 1.0, 1.0, 1.0), 2: (10.0, 10.0, 20.0, 20.0)}
    rows += [(s, hours(4 * t + 1), "D", given[s][t], "") for s in given for t in range(4)]
    config = {
        "episodes": CONFIG["episodes"], "features": {"x": {"codes": ["X"]}},
        "actions": {"d": {"codes": ["D"], "bins": 4}},
    }  # fmt: skip
    made = episodes_from_events(write_meds(tmp_path / "meds", rows), config)
    assert made.frame.sort("episode_id", "t")["d"].to_list() == [*given[1], *given[2]]


def test_amounts_that_are_no_numbers_are_told_of(tmp_path: Path) -> None:
    made = small(tmp_path, doses(float("nan"), None, 10.0, 20.0))
    assert made.frame["d"].to_list() == [0.0, 0.0, 10.0, 20.0]
    assert any("2 events without an amount" in line for line in made.notes)


def test_amounts_far_above_the_highest_level_are_told_of(tmp_path: Path) -> None:
    made = small(tmp_path, doses(0.0, 25.0, 40.0, 10.0))
    assert made.frame["d"].to_list() == [0.0, 20.0, 20.0, 10.0]
    assert made.notes == ["d: 1 step with up to 40 counts as the highest level, 20"]


def test_events_without_a_unit_are_told_of(tmp_path: Path) -> None:
    more = [*doses(0.0, 10.0), (1, hours(13), "X", 5.0, "kg")]
    made = small(tmp_path, more, features={"x": {"codes": ["X"], "unit": "kg"}})
    assert "x: 4 events without a unit: taken to be in kg" in made.notes


def test_an_age_at_the_start_is_fixed_wherever_it_is_asked_for(tmp_path: Path) -> None:
    born = [(1, BEGIN - timedelta(days=3652.5), "MEDS_BIRTH", None, "")]
    features = {"x": {"codes": ["X"]}, "years": {"codes": ["MEDS_BIRTH"], "take": "years"}}
    made = small(tmp_path, [*doses(0.0, 10.0), *born], features=features)
    assert made.frame["years"].to_list() == [10.0] * 4
    assert {one.name: one.role for one in made.schema.columns}["years"] == "fixed"


def test_what_is_fixed_was_known_at_the_start_or_is_told_of(tmp_path: Path) -> None:
    weights = [(1, hours(-90_000), "W", 3.0, ""), (1, hours(-1), "W", 77.0, ""),
               (1, hours(9), "W", 99.0, "")]  # fmt: skip
    fixed = {"w": {"codes": ["W"]}}
    made = small(tmp_path, [*weights, *doses(10.0)], fixed=fixed)
    assert made.frame["w"].unique().to_list() == [77.0]
    made = small(tmp_path, [weights[-1], *doses(10.0)], fixed=fixed)
    assert made.frame["w"].unique().to_list() == [99.0]
    assert any("known only after the start" in line for line in made.notes)


def test_sums_and_counts_of_a_window_are_not_carried_forward(tmp_path: Path) -> None:
    features = {"x": {"codes": ["X"]}, "n": {"codes": ["U"], "take": "sum"}}
    urine = [(1, hours(3), "U", 2.0, "")]
    made = small(tmp_path, [*urine, *doses(10.0)], features=features)
    assert made.frame["n"].to_list() == [0.0, 2.0, 0.0, 0.0]


def test_visits_numbered_by_patient_are_apart(tmp_path: Path) -> None:
    frame = pl.DataFrame({
        "subject_id": [1, 1, 1, 2, 2, 2], "v": [1] * 6, "code": ["X", "X", "D"] * 2,
        "time": [hours(0), hours(8), hours(1)] * 2,
        "numeric_value": [1.0, 2.0, 10.0, 5.0, 6.0, 20.0],
    })  # fmt: skip
    (tmp_path / "meds").mkdir()
    frame.write_parquet(tmp_path / "meds" / "0.parquet")
    config = {
        "episodes": {"window": "4h", "visit": "v"}, "features": {"x": {"codes": ["X"]}},
        "actions": {"d": {"codes": ["D"], "levels": [0, 10, 20]}},
    }  # fmt: skip
    made = episodes_from_events(tmp_path / "meds", config).frame.sort("episode_id", "t")
    assert made.rows() == [("1-1", 0, 1.0, 10.0), ("1-1", 1, 1.0, 0.0),
                           ("2-1", 0, 5.0, 20.0), ("2-1", 1, 5.0, 0.0)]  # fmt: skip


def test_dates_stand_in_for_date_times_and_no_time_is_lost(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")

    write("visit_occurrence",
          "visit_occurrence_id,person_id,visit_start_datetime,visit_end_datetime\n"
          "7,1.0,2130-01-01 08:00,2130-01-01 20:00:00\n")  # fmt: skip
    write("measurement", "person_id,measurement_concept_id,measurement_date,measurement_datetime,"
          "value_as_number\n1,5,2130-01-01,2130-01-01 08:00:00,1\n"
          "1,5,2130-01-01,,<22\n")  # fmt: skip
    write("drug_exposure", "person_id,drug_concept_id,drug_exposure_start_datetime,quantity\n"
          "1,9,2130-01-01T09:30:00,10\n")  # fmt: skip
    write("death", "person_id,death_date,death_datetime\n1,2130-01-01,\n")
    config = {
        "episodes": {"window": "4h"}, "features": {"x": {"codes": ["5"]}},
        "actions": {"d": {"codes": ["9"], "levels": [0, 10]}},
        "outcomes": {"died": {"codes": ["MEDS_DEATH"]}},
    }  # fmt: skip
    made = episodes_from_events(tmp_path, config)
    assert made.frame.select("x", "d", "died").rows() == [
        (1.0, 10.0, 1),
        (1.0, 0.0, 1),
        (1.0, 0.0, 1),
    ]
    assert any("'<22'" in line for line in made.notes)
    write("death", "person_id,death_datetime\n1,01/01/2130 09:00:00\n")
    with pytest.raises(FileError, match="'01/01/2130 09:00:00' is no time such as"):
        episodes_from_events(tmp_path, config)
    write("death", "person_id,death_datetime\n1,2130-01-01 12:00:00-08:00\n")
    with pytest.raises(FileError, match="others, here or in a table before, have none"):
        episodes_from_events(tmp_path, config)


def omop(folder: Path, measured: list[str], given: list[tuple[str, str]]) -> Path:
    """A visit from 08:00 to 20:00 UTC, with x = 1, 2, 3 measured and 10 given as told."""
    folder.mkdir()
    rows = {
        "visit_occurrence": [
            "visit_occurrence_id,person_id,visit_start_datetime,visit_end_datetime",
            "7,1,2130-06-01 08:00:00Z,2130-06-01T20:00:00+00:00",
        ],
        "measurement": [
            "person_id,measurement_concept_id,measurement_datetime,value_as_number",
            *(f"1,5,{at},{x + 1}" for x, at in enumerate(measured)),
        ],
        "drug_exposure": [
            "person_id,drug_concept_id,drug_exposure_start_datetime,drug_exposure_end_datetime,"
            "quantity",
            *(f"1,9,{start},{end},10" for start, end in given),
        ],
    }
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


OMOP: dict[str, Any] = {
    "episodes": {"window": "4h"}, "features": {"x": {"codes": ["5"]}},
    "actions": {"d": {"codes": ["9"], "levels": [0, 10]}},
}  # fmt: skip


def test_times_with_time_zones_are_the_same_moments(tmp_path: Path) -> None:
    """However they are written: ahead of UTC, behind it, with and without minutes or fractions."""
    measured = ["2130-06-01T10:00:00.250+02:00", "2130-06-01 06:30:00-0530", "2130-06-01 16:00 UTC"]
    given = [("2130-06-01 07:00:00.5 -05", "")]
    made = episodes_from_events(omop(tmp_path / "omop", measured, given), OMOP)
    assert made.frame.select("x", "d").rows() == [(1.0, 0.0), (2.0, 10.0), (3.0, 0.0)]


def test_an_end_that_is_none_neither_fills_the_memory_nor_goes_unsaid(tmp_path: Path) -> None:
    measured = [f"2130-06-01 {hour}:00:00Z" for hour in ("08", "12", "16")]
    given = [("2130-06-01 09:00:00Z", "9999-12-31 00:00:00Z")] * 40
    given += [("1900-01-01 00:00:00Z", "2130-06-01 09:00:00Z"), ("2130-06-01 13:00:00Z", "")]
    made = episodes_from_events(omop(tmp_path / "omop", measured, given), OMOP)
    assert made.frame["d"].to_list() == [0.0, 10.0, 0.0]
    told = "d: 41 amounts given over more than 30 days, such as until 9999-12-31"
    assert any(line.startswith(told) for line in made.notes)


def test_units_that_differ_are_refused_until_it_is_said_what_they_mean(tmp_path: Path) -> None:
    """Also where no unit was stated: 5 mmol/L and 90 mg/dL are no two sizes of one number."""
    mixed = [(1, hours(4 * t + 0.5), "G", value, unit)
             for t, (value, unit) in enumerate([(5.0, "mmol/L"), (90.0, "mg/dL")])]  # fmt: skip
    features: dict[str, Any] = {"x": {"codes": ["X"]}, "g": {"codes": ["G"], "missing": "mean"}}
    with pytest.raises(FileError, match="g has events in 'mg/dL', 'mmol/L': say what is meant"):
        small(tmp_path, [*mixed, *doses(10.0)], features=features)
    features["g"]["unit"] = "mmol/L"
    with pytest.raises(FileError, match="g is in 'mmol/L', but of its events 1 in 'mg/dL': say"):
        small(tmp_path, [*mixed, *doses(10.0)], features=features)
    features["g"]["convert"] = {"mg/dL": 1 / 18}
    made = small(tmp_path, [*mixed, *doses(10.0)], features=features)
    assert made.frame["g"].to_list() == [None, 5.0, 5.0, 5.0]


@pytest.mark.parametrize("zones", [(None, "UTC"), ("UTC", "America/New_York"), ("UTC", "UTC")])
def test_shards_in_several_time_zones_are_refused(
    tmp_path: Path, zones: tuple[str | None, str | None]
) -> None:
    folder = write_meds(tmp_path / "meds", events())
    for path, zone in zip((folder / "data" / "train").iterdir(), (*zones, zones[1]), strict=True):
        frame = pl.read_parquet(path)
        frame.with_columns(pl.col("time").dt.replace_time_zone(zone)).write_parquet(path)
    if zones[0] == zones[1]:
        plain = write_meds(tmp_path / "plain", events())
        same = [episodes_from_events(one, CONFIG).frame for one in (folder, plain)]
        assert same[0].equals(same[1])
    else:
        told = " and ".join(sorted(str(one or "none") for one in zones))
        with pytest.raises(FileError, match=f"different time zones, {told}: give one"):
            episodes_from_events(folder, CONFIG)


def test_events_that_are_there_twice_are_told_of(tmp_path: Path) -> None:
    made = small(tmp_path, [*doses(10.0), *doses(10.0)])
    assert made.frame["d"].to_list() == [20.0, 0.0, 0.0, 0.0]
    assert any("1 event is there twice, and counted twice" in line for line in made.notes)
    assert not any("twice" in line for line in small(tmp_path, doses(10.0)).notes)


def test_visits_that_overlap_are_told_of(tmp_path: Path) -> None:
    def visits(second: float) -> list[str]:
        root = tmp_path / f"omop{second}"
        root.mkdir()
        pl.DataFrame({
            "visit_occurrence_id": [7, 8], "person_id": [1, 1],
            "visit_start_datetime": [hours(0), hours(second)],
            "visit_end_datetime": [hours(16), hours(40)],
        }).write_parquet(root / "visit_occurrence.parquet")  # fmt: skip
        pl.DataFrame({
            "person_id": [1] * 10, "measurement_datetime": [hours(4 * t) for t in range(10)],
            "measurement_concept_id": [5] * 10, "value_as_number": [1.0] * 10,
        }).write_parquet(root / "measurement.parquet")  # fmt: skip
        pl.DataFrame({
            "person_id": [1], "drug_exposure_start_datetime": [hours(13)], "drug_concept_id": [9],
            "quantity": [10.0],
        }).write_parquet(root / "drug_exposure.parquet")  # fmt: skip
        config = {
            "episodes": {"window": "4h"},
            "features": {"x": {"codes": ["5"]}},
            "actions": {"d": {"codes": ["9"], "levels": [0, 10]}},
        }
        return episodes_from_events(root, config).notes

    assert any("1 episode overlaps with the next" in line for line in visits(12.0))
    assert not any("overlap" in line for line in visits(16.0))


def test_stays_that_are_too_long_are_cut_and_told_of(tmp_path: Path) -> None:
    limits = {**CONFIG["episodes"], "max_steps": 3}
    made = small(tmp_path, doses(10.0), episodes=limits)
    assert made.frame["t"].to_list() == [0, 1, 2]
    assert "1 episode longer than 3 steps: cut there" in made.notes
    whole = small(tmp_path, doses(10.0), episodes={**limits, "max_steps": 4})
    assert whole.frame.height == 4
    assert not any("cut" in line for line in whole.notes)


def test_levels_without_nothing_say_what_nothing_counts_as(tmp_path: Path) -> None:
    def given(*levels: float) -> Any:
        actions = {"d": {"codes": ["D"], "levels": [*levels]}}
        return small(tmp_path, doses(20.0, 20.0), actions=actions)

    assert given(10, 20).frame["d"].to_list() == [20.0, 20.0, 10.0, 10.0]
    assert any("d: 2 steps without any count as 10: list 0" in x for x in given(10, 20).notes)
    assert given(0, 20).frame["d"].to_list() == [20.0, 20.0, 0.0, 0.0]
    assert not any("without any" in line for line in given(0, 20).notes)


def test_folders_without_events_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="neither MEDS shards"):
        episodes_from_events(tmp_path / "empty", CONFIG)
    pl.DataFrame({"subject_id": [1]}).write_parquet(tmp_path / "empty" / "x.parquet")
    with pytest.raises(FileError, match="has no column 'time'"):
        episodes_from_events(tmp_path / "empty", CONFIG)
    with pytest.raises(FileError, match="no such folder"):
        frequent_codes(tmp_path / "gone")


def test_units_that_cannot_be_checked_are_told_of(tmp_path: Path) -> None:
    made = episodes_from_events(write_meds(tmp_path / "meds", events(), unit=False), CONFIG)
    assert any("units of rate, lactate, fluid were not checked" in line for line in made.notes)


def test_codes_that_end_with_their_unit_are_taken_by_it(tmp_path: Path) -> None:
    """As exports of MIMIC-IV have them, which have no column of units."""

    def told(one: tuple[Any, ...]) -> tuple[Any, ...]:
        code = f"{one[2]}//{one[4]}" if one[2].startswith("LAB") else one[2]
        return (*one[:2], code, *one[3:])

    rows = events()
    coded = write_meds(tmp_path / "coded", [*map(told, rows)], unit=False)
    made = episodes_from_events(coded, CONFIG)
    known = episodes_from_events(write_meds(tmp_path / "known", rows), CONFIG)
    assert made.frame.equals(known.frame)
    assert any("units of rate, fluid were not checked" in line for line in made.notes)
    lactate = {**CONFIG["features"]["lactate"], "convert": {}}
    with pytest.raises(FileError, match=r"lactate is in 'mmol/L', but of its events .* in 'mg/dL'"):
        episodes_from_events(coded, {**CONFIG, "features": {"lactate": lactate}})


def test_who_was_born_after_the_start_has_no_age(tmp_path: Path) -> None:
    age = {"codes": ["MEDS_BIRTH"], "take": "years", "missing": "median"}
    born = (1, hours(5), "MEDS_BIRTH", None, None)
    made = small(tmp_path, [*doses(10, 20), born], fixed={"age": age})
    assert made.frame["age"].null_count() == made.frame.height
    assert "age: 1 episode that began before it: left unknown" in made.notes


def test_the_command_lists_codes_and_writes_table_and_schema(tmp_path: Path) -> None:
    folder = write_meds(tmp_path / "meds", events(patients=30))
    run = CliRunner()
    listed = run.invoke(app, ["episodes", str(folder)])
    assert listed.exit_code == 0
    assert "DRUG//fluid" in listed.output
    config = tmp_path / "events.toml"
    config.write_text(
        '[episodes]\nwindow = "4h"\nstart = ["ADMIT"]\nend = ["LEAVE"]\n'
        '[features.rate]\ncodes = ["HR"]\nlow = 20\nhigh = 250\nbetter = "lower"\n'
        '[actions.fluid]\ncodes = ["DRUG//fluid"]\nbins = 2\n',
        encoding="utf-8",
    )
    out = tmp_path / "stays.parquet"
    made = run.invoke(app, ["episodes", str(folder), "--config", str(config), "-o", str(out)])
    assert made.exit_code == 0, made.output
    model = cp.fit(out, tmp_path / "stays.schema.toml", members=2)
    assert model.about["features"] == ["rate"]
    assert read_config(config).episodes.min_steps == 2
