"""A hospital's table as it comes, from its draft to the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from .conftest import Run

QUICK = ("--hidden", "8", "--epochs", "6")
ABSURD = "P017"


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty patients; a lactate of 99,999,999, some of -999, glucose in two units, weights twice,
    a record number, a note, the next dose, a drug that is hardly ever given."""
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(0), []
    for patient in range(60):
        lactate, sugar, weight = rng.lognormal(0.9, 0.4), rng.normal(150, 20), rng.normal(80, 12)
        unit, doses = 18.0 if patient % 9 == 0 else 1.0, rng.integers(0, 3, 7)
        for t in range(6):
            name = f"P{patient:03d}"
            seen = (
                99_999_999 if (name, t) == (ABSURD, 3) else -999 if rng.uniform() < 0.01 else None
            )
            rows.append(
                {
                    "patient_id": name,
                    "hour": 4 * t,
                    "mrn": 7000 + 37 * patient % 61,
                    "lactate": round(lactate, 2) if seen is None else seen,
                    "glucose": round(sugar / unit, 1),
                    "weight_kg": round(weight, 1),
                    "weight_lb": round(2.2046 * weight, 1),
                    "note": f"seen on the round of {rng.integers(10**6)}",
                    "next_dose": int(doses[t + 1]),
                    "vaso_dose": ["none", "low", "high"][doses[t]],
                    "steroid_dose": int(patient == 5 and t == 0),
                }
            )
            drift = 0.15 * (2.0 - lactate) - 0.3 * doses[t] + rng.normal(0.0, 0.2)
            lactate, sugar = max(0.3, lactate + drift), sugar + rng.normal(0.0, 5.0)
    pl.DataFrame(rows).with_columns(pl.col("lactate").cast(pl.Float64)).write_csv("ward.csv")
    return tmp_path


def test_from_the_draft_to_the_report(hospital: Path, run: Run) -> None:
    assert run("schema", "ward.csv", "-o", "schema.toml").exit_code == 0
    draft = Path("schema.toml").read_text()
    for name in ("mrn", "note", "next_dose"):
        assert f'[columns.{name}]\nrole = "ignore"' in draft
    better = draft.replace("[columns.lactate]\n", '[columns.lactate]\nbetter = "lower"\n')
    Path("schema.toml").write_text(better)
    fitted = run("fit", "ward.csv", "--schema", "schema.toml", "-o", "m.safetensors", *QUICK)
    assert fitted.exit_code == 0
    for words in (
        "warning: column 'lactate': is -999 in ",
        " and 99999999 in row 107, far from all other values",
        "warning: column 'glucose': seems to be in two units",
        "note: column 'weight_lb': says the same as 'weight_kg'",
        "warning: column 'steroid_dose': hardly varies in 100% of all steps",
    ):
        assert words in fitted.stderr
    told = json.loads(
        run(
            *("fit", "ward.csv", "--schema", "schema.toml", "-o", "m.safetensors", "--json"),
            *QUICK,
        ).stdout
    )
    assert {one["kind"] for one in told["findings"]} == {
        *("outliers", "units", "copies", "positivity", "size"),
    }
    explained = run(
        *("explain", "ward.csv", "-m", "m.safetensors", "--k", "1", "-o", "out", "--workers", "1")
    )
    assert explained.exit_code == 0, explained.stderr
    # About the patient with the absurd lactate there is no answer, and it counts in no average.
    assert "far outside what the model has learned from (see far_outside_tr" in explained.stderr
    asked = ("cases", "out", "--json", "--limit", "60")
    assert ABSURD not in {one["episode_id"] for one in json.loads(run(*asked).stdout)["cases"]}
    failed = json.loads(run(*asked, "--status", "failed").stdout)["cases"]
    reasons = {one["episode_id"]: one["reason"] for one in failed}
    assert reasons[ABSURD].startswith("column 'lactate': 1e+08 is far outside what the model has")
    assert run("report", "out", "-o", "r.html", "--cases", "1").exit_code == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert "What its table is like" in page
    assert "warnings about the table that the model was learned from" in page
    average = re.search(r"improvement on average[^<]*</dt>\s*<dd>([^<]*)</dd>", page)
    assert average is not None
    assert 0.0 < float(average[1]) < 20.0


def test_of_many_findings_the_first_are_shown_and_the_rest_counted(
    hospital: Path, run: Run
) -> None:
    copies = [pl.col("weight_kg").alias(f"weight_{number}") for number in range(6)]
    pl.read_csv("ward.csv").with_columns(copies).write_csv("ward.csv")
    run("schema", "ward.csv", "-o", "schema.toml")
    draft = Path("schema.toml").read_text()
    better = draft.replace("[columns.lactate]\n", '[columns.lactate]\nbetter = "lower"\n')
    Path("schema.toml").write_text(better)
    fitted = run("fit", "ward.csv", "--schema", "schema.toml", "-o", "m.safetensors", *QUICK)
    lines = [line for line in fitted.stderr.splitlines() if "claims of networks" not in line]
    said = [line for line in lines if line.startswith(("warning", "note"))]
    assert len([line for line in said if "held-out" not in line]) == 6
    assert "more findings about the table, see --json" in fitted.stderr
