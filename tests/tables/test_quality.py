"""What is said about tables before anything is learned from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.tables.fit import FitSettings as TabularSettings
from counterplan.tables.fit import fit_continuous, fit_discrete
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Rows
from counterplan.tables.quality import Finding, findings
from counterplan.tables.reader import from_frame
from counterplan.tables.schema import Schema, schema_from_dict

QUICK: Any = {"epochs": 25, "hidden": 16}
COLUMNS: dict[str, dict[str, Any]] = {
    "lactate": {"role": "state", "better": "lower"},
    "pressure": {"role": "state"},
    "age": {"role": "fixed"},
    "ward": {"role": "fixed", "labels": ["north", "south", "west"]},
    "dose": {"role": "action", "labels": ["none", "low", "high"], "ordered": True},
    "fluids": {"role": "action", "levels": [0, 1]},
    "died": {"role": "outcome"},
}
STEPS = 8


def ward(patients: int = 200, seed: int = 0) -> pl.DataFrame:
    """A table in which nothing is wrong; row 0 is its first."""
    rng, rows = np.random.default_rng(seed), []
    for patient in range(patients):
        lactate, pressure = rng.lognormal(0.9, 0.4), rng.normal(68.0, 7.0)
        age, place = int(rng.uniform(25, 90)), ["north", "south", "west"][patient % 3]
        died = int(rng.uniform() < 0.3)
        for t in range(STEPS):
            dose, fluids = int(rng.integers(3)), int(rng.integers(2))
            row = (f"p{patient}", t, round(lactate, 2), round(pressure, 1), age, place)
            rows.append((*row, ["none", "low", "high"][dose], fluids, died))
            drift = 0.15 * (2.0 - lactate) - 0.25 * dose + 0.02 * (65.0 - pressure)
            lactate = max(0.3, lactate + drift + rng.normal(0.0, 0.25))
            pressure = 68.0 + 0.6 * (pressure - 68.0) + 2.0 * dose + fluids + rng.normal(0.0, 3.0)
    return pl.DataFrame(rows, schema=["episode_id", "t", *COLUMNS], orient="row")


WARD = ward()
DOSES = WARD["dose"].replace_strict({"none": 0, "low": 1, "high": 2})


def schema(**more: dict[str, Any]) -> Schema:
    return schema_from_dict({"columns": {**COLUMNS, **more}})


def said(frame: pl.DataFrame, **more: dict[str, Any]) -> list[Finding]:
    layout = SchemaLayout(schema(**more))
    return findings(Rows(from_frame(frame, layout.schema)), layout)


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def with_cells(column: str, cells: dict[int, float]) -> pl.DataFrame:
    values = WARD[column].to_list()
    for row, value in cells.items():
        values[row] = value
    return WARD.with_columns(pl.Series(column, values, dtype=pl.Float64))


def test_of_a_good_table_nothing_is_said() -> None:
    assert said(WARD) == []


# --- Cells ------------------------------------------------------------------------------------


def test_outliers_and_codes_are_named_by_row_and_column() -> None:
    found = only(said(with_cells("lactate", {10: 99_999_999.0, 33: -999.0, 70: -999.0})))
    assert (found.severity, found.kind, found.column) == ("warning", "outliers", "lactate")
    assert (found.count, found.rows) == (3, [10, 33, 70])
    assert "is -999 in 2 rows (row 33 first) and 99999999 in row 10, far from" in found.text
    assert "say low = 0, high = " in found.text


def test_the_advice_about_outliers_is_right() -> None:
    """With low, high, outside and missing as it says, the table has no gap in its report."""
    frame = with_cells("lactate", {10: 99_999_999.0, 33: -999.0, 800: -999.0})
    text = only(said(frame)).text
    low, high = (float(text.split(f"{key} = ")[1].split(",")[0]) for key in ("low", "high"))
    fixed = {"low": low, "high": high, "outside": "missing", "missing": "carry-forward"}
    told = said(frame, lactate={**COLUMNS["lactate"], **fixed})
    assert [one.kind for one in told] == ["gaps"]
    aged = with_cells("age", dict.fromkeys(range(16, 24), 999.0))
    assert "missing = 'mean'" in only(said(aged)).text
    fixed = {"low": 0.0, "high": 150.0, "outside": "missing", "missing": "mean"}
    assert said(aged, age={**COLUMNS["age"], **fixed}) == []


@pytest.mark.parametrize(
    ("factor", "offset", "words"),
    [
        (18.016, 0.0, "glucose in mg/dL and mmol/L"),
        (1000.0, 0.0, "a factor of 1000"),
        (1 / 100.0, 0.0, "a factor of 100"),
        (88.4, 0.0, "creatinine"),
    ],
)
def test_two_units_in_one_column(factor: float, offset: float, words: str) -> None:
    """Every tenth patient is recorded by another hospital."""
    other = pl.col("episode_id").str.slice(1).cast(pl.Int64) % 10 == 0
    value = 5.0 + 0.3 * pl.col("lactate")
    frame = WARD.with_columns(sugar=pl.when(other).then(value * factor + offset).otherwise(value))
    found = [one for one in said(frame, sugar={"role": "state"}) if one.kind == "units"]
    assert words in only(found).text
    assert found[0].count == 20 * STEPS
    assert found[0].rows[0] == 0


def test_degrees_and_pounds() -> None:
    rng = np.random.default_rng(1)
    celsius = 37.0 + rng.normal(0.0, 0.6, len(WARD))
    is_other = rng.uniform(size=len(WARD)) < 0.1
    frame = WARD.with_columns(temp=np.where(is_other, 1.8 * celsius + 32.0, celsius))
    found = [one for one in said(frame, temp={"role": "state"}) if one.kind == "units"]
    assert "°C and °F" in only(found).text
    assert found[0].count == is_other.sum()
    # Weights overlap between units, but no patient doubles his weight within hours.
    weight = np.repeat(rng.uniform(50.0, 130.0, 200), STEPS) + rng.normal(0.0, 0.3, len(WARD))
    slips = np.isin(np.arange(len(WARD)), [20, 21, 333, 404])
    frame = WARD.with_columns(weight=np.where(slips, 2.2046 * weight, weight))
    found = [one for one in said(frame, weight={"role": "state"}) if one.kind == "units"]
    assert "jumps by a factor of 2.205 (such as lb and kg?)" in only(found).text
    assert set(found[0].rows) == {20, 22, 333, 334, 404, 405}


@pytest.mark.parametrize("code", [-1.0, -999.0, 9999.0])
@pytest.mark.parametrize("digits", [0, 1])
def test_codes_of_gaps_do_not_hide_two_units(code: float, digits: int) -> None:
    other = pl.col("episode_id").str.slice(1).cast(pl.Int64) % 5 == 0
    value = 150.0 + 9.0 * pl.col("lactate")
    sugar = pl.when(other).then(value / 18.016).otherwise(value).round(digits)
    is_gap = pl.int_range(pl.len()).is_in([3, 100, 101, 700, 901])
    frame = WARD.with_columns(sugar=pl.when(is_gap).then(code).otherwise(sugar))
    found = [one for one in said(frame, sugar={"role": "state"}) if one.kind == "units"]
    assert "glucose in mg/dL and mmol/L" in only(found).text


def test_codes_of_gaps_are_no_second_unit() -> None:
    frame = with_cells("pressure", dict.fromkeys(range(5, 1600, 90), 999.0))
    frame = frame.with_columns(pressure=(2.0 * pl.col("pressure")).clip(None, 999.0))
    assert [one.kind for one in said(frame)] == ["outliers"]


@pytest.mark.parametrize("settings", [(1.0, 10.0), (0.5, 5.0, 50.0), (2.5, 25.0, 100.0, 1000.0)])
def test_a_few_settings_are_no_two_units(settings: tuple[float, ...]) -> None:
    """They lie by factors apart, and jump from one to another within an episode."""
    rng = np.random.default_rng(2)
    chosen = np.repeat(rng.choice(settings, len(WARD) // 4), 4)
    frame = WARD.with_columns(setting=chosen)
    assert [one for one in said(frame, setting={"role": "state"}) if one.kind == "units"] == []


# --- Columns ----------------------------------------------------------------------------------


def test_a_dose_that_is_a_total_so_far() -> None:
    doses = DOSES.to_numpy().reshape(-1, STEPS).cumsum(axis=1).ravel()
    total = {"dose": {"role": "action", "levels": list(range(2 * STEPS + 1))}}
    told = said(WARD.with_columns(dose=pl.Series(doses)), **total)
    (one,) = [one for one in told if one.kind == "totals"]
    assert one.column == "dose"
    assert "write what was given in each step" in one.text
    plain = said(WARD.with_columns(dose=DOSES), dose={"role": "action", "levels": [0, 1, 2]})
    assert not [one for one in plain if one.kind == "totals"]


@pytest.mark.parametrize("late", [False, True])
def test_doses_that_stand_one_row_late(late: bool) -> None:
    """Decided by lactate; a row may say what is given next, or what was given before."""
    rng, rows = np.random.default_rng(5), []
    for patient in range(150):
        lactate, given = rng.normal(4.0, 1.0), 0.0
        for t in range(8):
            dose = float(np.clip(np.round(lactate - 3.0 + rng.normal(0.0, 0.7)), 0, 3))
            rows.append((patient, t, lactate, given if late else dose))
            lactate, given = 0.7 * lactate + 1.6 - 0.4 * dose + rng.normal(0.0, 0.6), dose
    frame = pl.DataFrame(rows, schema=["episode_id", "t", "lactate", "dose"], orient="row")
    columns = {"lactate": COLUMNS["lactate"], "dose": {"role": "action", "levels": [0, 1, 2, 3]}}
    layout = SchemaLayout(schema_from_dict({"columns": columns}))
    told = [
        one
        for one in findings(Rows(from_frame(frame, layout.schema)), layout)
        if one.kind == "late"
    ]
    assert len(told) == late
    assert not late or "move it one row up" in told[0].text


def test_what_was_done_before_is_no_leak() -> None:
    frame = WARD.with_columns(DOSES.shift(1).fill_null(0).alias("before"))
    assert said(frame, before={"role": "state"}) == []


def test_too_few_transitions() -> None:
    found = only(said(ward(60)))
    assert (found.kind, found.severity) == ("size", "note")
    assert only(said(ward(20))).severity == "warning"
    assert (
        "420 transitions are few for 8 inputs; by a rule of thumb 800 would do, 115" in found.text
    )


# --- Actions ----------------------------------------------------------------------------------


def test_where_an_action_hardly_varies() -> None:
    is_ill = pl.col("lactate") > 2.5
    frame = WARD.with_columns(dose=pl.when(is_ill).then(pl.lit("high")).otherwise("dose"))
    found = only([one for one in said(frame) if one.kind == "positivity"])
    assert found.column == "dose"
    truly = WARD.filter(pl.col("t") < STEPS - 1).select(is_ill.mean()).item()
    share = float(found.text.split("hardly varies in ")[1].split("%")[0]) / 100.0
    assert share == pytest.approx(truly, abs=0.08)
    assert "where lactate > 2." in found.text
    assert "it is 'high' in " in found.text


def test_where_a_place_never_varies() -> None:
    is_there = pl.col("ward") == "south"
    frame = WARD.with_columns(fluids=pl.when(is_there).then(pl.lit(1)).otherwise("fluids"))
    found = only([one for one in said(frame) if one.kind == "positivity"])
    assert "where ward is 'south' it is '1' in 100.0%" in found.text


def test_discrete_tables(tmp_path: Path) -> None:
    given = {
        "columns": {
            "state": {"role": "state", "levels": [0, 1], "better": "higher"},
            "action": {"role": "action", "labels": ["rest", "walk"]},
        }
    }
    rng, rows = np.random.default_rng(0), []
    for number in range(200):
        for t in range(4):
            state = int(rng.integers(2))
            action = ["rest", "walk"][state * rng.integers(2)]
            rows.append((f"e{number}", t, state, action))
    frame = pl.DataFrame(rows, schema=["episode_id", "t", "state", "action"], orient="row")
    frame.write_csv(tmp_path / "t.csv")
    found = fit_discrete(tmp_path / "t.csv", schema_from_dict(given), TabularSettings())
    assert "in 1 of 2 states, 48%" in only(list(found.findings)).text
    assert found.model.about["findings"][0]["kind"] == "positivity"
    frame.with_columns(action=pl.lit("rest")).write_csv(tmp_path / "t.csv")
    found = fit_discrete(tmp_path / "t.csv", schema_from_dict(given), TabularSettings())
    assert "in 2 of 2 states, 100%" in only(list(found.findings)).text


# --- What is learned --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quality") / "ward.csv"
    WARD.write_csv(path)
    return path


@pytest.fixture(scope="module")
def model(clean: Path) -> cp.NeuralSCM:
    return fit_continuous(clean, schema(), QUICK).model


def answers(path: Path, model: cp.NeuralSCM, count: int = 0) -> dict[str, Any]:
    """About all episodes, or the first of them."""
    some = [f"p{number}" for number in range(count)]
    return {one.episode_id: one for one in cp.explain_table(path, model, k=1, episodes=some)}


def test_one_cell_changes_no_advice_but_its_own(
    clean: Path, model: cp.NeuralSCM, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.csv"
    with_cells("lactate", {12: 99_999_999.0}).write_csv(odd)
    fitted = fit_continuous(odd, schema(), QUICK)
    assert [one.kind for one in fitted.findings] == ["outliers"]
    assert (
        fitted.model.about["training"]["transitions"] >= model.about["training"]["transitions"] - 2
    )
    expected, found = answers(clean, model, 30), answers(clean, fitted.model, 30)
    gains = np.array([[one.improvement for one in side.values()] for side in (expected, found)])
    assert np.abs(gains[0] - gains[1]).max() < 0.25 * gains[0].mean()
    advice = [
        {name: [(one.t, one.alternative_label) for one in answer.changes] for name, answer in side}
        for side in (expected.items(), found.items())
    ]
    assert np.mean([advice[0][name] == advice[1][name] for name in expected]) > 0.9
    # Nothing is said of the episode itself.
    own = answers(odd, fitted.model, 2)["p1"]
    assert (own.status, own.improvement, own.changes) == ("failed", None, ())
    assert own.reason.startswith(
        "column 'lactate': 1e+08 is far outside what the model has learned"
    )


def test_nothing_is_said_of_episodes_with_a_code_near_the_data(tmp_path: Path) -> None:
    """A -1 is no farther from lactates than they are from each other."""
    path = tmp_path / "odd.csv"
    with_cells("lactate", {12: -1.0, 33: -1.0}).write_csv(path)
    fitted = fit_continuous(path, schema(), {"members": 2})
    assert fitted.model.about["implausible"] == {"lactate": [-1.0, None]}
    found = answers(path, fitted.model)
    assert [name for name, one in found.items() if one.status == "failed"] == ["p1", "p4"]
    assert found["p1"].reason.startswith("column 'lactate': -1 is set apart from all that the ")
    assert found["p1"].reason.endswith("; correct it (step 4)")
    assert found["p1"].far_outside_training == "lactate"
    damaged = replace(fitted.model, about={**fitted.model.about, "implausible": {"lactate": "x"}})
    with pytest.raises(InputError, match="implausible to the model is damaged: fit it anew"):
        answers(path, damaged)


def test_gaps_are_set_to_the_mean_of_what_is_plausible(tmp_path: Path) -> None:
    """The first patient has no lactate at first, the second an absurd one."""
    frame = with_cells("lactate", {12: 99_999_999.0})
    frame = frame.with_columns(
        lactate=pl.when(pl.int_range(pl.len()) < 2).then(None).otherwise("lactate")
    )
    frame.write_csv(tmp_path / "t.csv")
    gaps = schema(lactate={**COLUMNS["lactate"], "missing": "carry-forward"})
    fitted = fit_continuous(tmp_path / "t.csv", gaps, QUICK)
    known = frame["lactate"].drop_nulls().filter(frame["lactate"].drop_nulls() < 1e6).mean()
    assert fitted.model.about["means"]["lactate"] == pytest.approx(known)
    assert fitted.episodes[0].states[:2, 2].tolist() == pytest.approx([known, known])
    assert [(one.kind, one.count) for one in fitted.findings] == [("outliers", 1), ("gaps", 2)]


@pytest.mark.parametrize("fill", ["mean", "carry-forward"])
def test_steps_from_or_to_filled_gaps_are_not_learned_from(fill: str) -> None:
    """They look as if no dose did anything: with a quarter of the cells missing a dose would seem
    to take a quarter less off."""
    empty = np.random.default_rng(1).random(len(WARD)) < 0.25
    gaps = pl.when(pl.Series(empty)).then(None).otherwise(pl.col("lactate")).alias("lactate")
    frame, lactate = WARD.with_columns(gaps), {**COLUMNS["lactate"], "missing": fill}
    told = only([one for one in said(frame, lactate=lactate) if one.kind == "gaps"])
    steps = sum(bool(empty[row] or empty[row + 1]) for row in range(len(WARD)) if row % STEPS < 7)
    assert (told.severity, told.count) == ("note", steps)
    whole = taken_off(WARD, schema())
    assert whole < -0.35
    assert taken_off(frame, schema(lactate=lactate)) == pytest.approx(whole, rel=0.1)


def taken_off(frame: pl.DataFrame, described: Schema) -> float:
    """By how much two levels of the dose lower lactate, says a model."""
    found = fit_continuous(frame, described, {"learner": "smooth", "members": 0})
    model, layout = found.model, found.layout
    assert layout.features == ("age", "ward", "lactate", "pressure")
    states = np.tile([60.0, 1.0, *WARD.select("lactate", "pressure").mean().row(0)], (2, 1))
    actions = np.zeros((2, len(layout.actions)))
    actions[1, layout.actions.index("dose")] = 2.0
    after = model.step(states, actions, np.zeros((2, 2)))[:, 2]
    return float(after[1] - after[0])


def test_of_discrete_states_neither() -> None:
    """Machines that are repaired are good, and others wear; a state that is not written down says
    nothing about that."""
    rng, rows = np.random.default_rng(3), []
    for machine in range(150):
        state = 0
        for t in range(10):
            action = int(rng.integers(2))
            seen = None if t and rng.random() < 0.2 else ["good", "worn", "broken"][state]
            rows.append((machine, t, seen, ["run", "repair"][action], -float(action)))
            state = 0 if action else min(2, state + 1)
    frame = pl.DataFrame(
        rows, schema=["episode_id", "t", "state", "action", "earned"], orient="row"
    )
    columns = {
        "state": {
            "role": "state", "labels": ["good", "worn", "broken"], "missing": "carry-forward"
        },
        "action": {"role": "action", "labels": ["run", "repair"]},
        "earned": {"role": "reward"},
    }  # fmt: skip
    fitted = fit_discrete(frame, schema_from_dict({"columns": columns}), TabularSettings(prior=0.0))
    assert [one.kind for one in fitted.findings] == ["gaps"]
    counted = fitted.counts.transitions
    assert (np.count_nonzero(counted[:, :2], axis=2) == 1).all()
    assert counted[:, :2].sum() == 150 * 9 - fitted.findings[0].count


def test_too_many_gaps_are_learned_from_with_a_warning() -> None:
    empty = pl.Series(np.random.default_rng(1).random(len(WARD)) < 0.5)
    frame = WARD.with_columns(
        pl.when(empty).then(None).otherwise(pl.col("lactate")).alias("lactate")
    )
    lactate = {**COLUMNS["lactate"], "missing": "mean"}
    told = only([one for one in said(frame, lactate=lactate) if one.kind == "gaps"])
    assert told.severity == "warning"
    assert "too many to learn without them" in told.text


def test_the_order_of_rows_does_not_matter(
    clean: Path, model: cp.NeuralSCM, tmp_path: Path
) -> None:
    shuffled = tmp_path / "shuffled.csv"
    WARD.sample(fraction=1.0, shuffle=True, seed=1).write_csv(shuffled)
    again = fit_continuous(shuffled, schema(), QUICK).model
    assert (again.location.state == model.location.state).all()
    assert again.about["training"] == model.about["training"]
    smooth = [cp.fit(path, schema(), members=2) for path in (clean, shuffled)]
    assert (smooth[0].draws == smooth[1].draws).all()
