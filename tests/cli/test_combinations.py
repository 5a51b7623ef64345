"""From a table of drugs and doses to the report: no pair is advised that nobody ever had."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl

from .conftest import Run

PAIRS = {"none": (0,), "heparin": (100, 200), "warfarin": (2, 5), "apixaban": (5, 10)}
WORTH = {"none": 0.0, "heparin": 0.5, "warfarin": -0.3, "apixaban": 0.9}


def drugs(path: Path) -> set[str]:
    """Writes a table, and gives the names of the pairs that occur in it often enough."""
    rng, rows = np.random.default_rng(1), []
    for patient in range(120):
        clot = rng.normal(8.0, 2.0)
        for visit in range(6):
            drug = [*PAIRS][rng.integers(len(PAIRS))]
            dose = int(rng.choice(PAIRS[drug]))
            if (patient, visit) in ((5, 1), (6, 0)):
                drug, dose = "none", 200  # slips of the pen
            rows.append((f"p{patient}", visit, round(clot, 2), drug, dose))
            stronger = 1.5 if dose == max(PAIRS[drug]) else 1.0
            clot += -WORTH[drug] * stronger - 0.1 * (clot - 8.0) + rng.normal(0.0, 0.5)
    names = ["patient", "visit", "clot", "drug", "dose mg"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(path)
    return {f"drug {drug}, dose mg {dose}" for drug, doses in PAIRS.items() for dose in doses}


def test_from_the_draft_of_a_schema_to_the_report(ward: Path, run: Run) -> None:
    pairs = drugs(ward / "drugs.csv")
    assert run("schema", "drugs.csv", "-o", "drugs.toml").exit_code == 0
    draft = (ward / "drugs.toml").read_text()
    schema = draft.replace("[columns.clot]\n", '[columns.clot]\nbetter = "lower"\n')
    (ward / "drugs.toml").write_text(schema)
    fit = "fit drugs.csv --schema drugs.toml -o m.safetensors --hidden 8 --epochs 8"
    fitted = run(*fit.split())
    said = "7 of 24 combinations of drug and dose mg"
    assert f"{said} occur at least 5 times" in fitted.stdout
    # Wherever the data is: the rule that stays inside it would hide what is tried here.
    explain = "explain drugs.csv -m m.safetensors --k 2 --nodes 100 --unsupported"
    asked = run(*explain.split(), "--episode", "p0", "--json")
    document = json.loads(asked.stdout)
    assert f"Advises only the {said} that occur at least 5 times." in document["notes"]
    found = run(*explain.split(), "-o", "out", "--workers", "1", "--keep", "-1", "--forbid", "10")
    assert "Forbidden: 10.\n" in found.stderr
    results = pl.read_parquet("out/results/*.parquet").explode("changes").drop_nulls("changes")
    changes = results["changes"].struct.unnest()
    assert len(changes) > 100
    assert set(changes["alternative_label"]) <= {one for one in pairs if not one.endswith(" 10")}
    assert changes["t"].max() == 3, "the last of five decisions is kept"
    steps = pl.read_parquet("out/trajectories/*.parquet")
    kept = steps.filter(~pl.col("changed")).drop_nulls("action_label")
    assert (kept["action_label"] == kept["counterfactual_action_label"]).all()
    assert run("report", "out", "-o", "report.html", "--cases", "1").exit_code == 0
    page = (ward / "report.html").read_text()
    for line in (f"Advises only the {said}", "Forbidden: 10.", "Steps that stay as they were: -1."):
        assert line in page
    again = run(*explain.split(), "-o", "out", "--workers", "1", "--forbid", "10")
    assert re.search(r"another question: --keep \[-1\] there, no --keep now", again.stderr)
    # What the schema of the question says counts, not that of the model.
    grid = schema.replace("[table]\n", '[table]\ncombinations = "grid"\n')
    (ward / "grid.toml").write_text(grid)
    some = (f"--episode=p{number}" for number in range(30))
    every = run(*explain.split(), "--schema", "grid.toml", "-o", "grid", "--workers", "1", *some)
    assert "Advises any combination, as the schema says; 7 of 24 combinations of" in every.stderr
    results = pl.read_parquet("grid/results/*.parquet").explode("changes").drop_nulls("changes")
    assert not set(results["changes"].struct.unnest()["alternative_label"]) <= pairs
