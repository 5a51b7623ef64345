"""What a table says at the end, and what the model expects: each under its own heading."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ..explorer.serving import serving
from .conftest import Run

SCHEMA = """
[columns.fluid]
role = "state"
[columns.site]
role = "contextual"
[columns.dose]
role = "action"
levels = [0, 1]
[columns.readmitted]
role = "cost"
when = "last"
"""


def test_observed_is_what_the_table_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(0), []
    for patient in range(80):
        fluid = rng.normal(0, 2)
        for t in range(4):
            dose = int(rng.integers(2))
            back = int(rng.uniform() < 1 / (1 + np.exp(-fluid))) if t == 3 else None
            rows.append((f"P{patient}", t, fluid, rng.normal(), dose, back))
            fluid = 0.9 * fluid - 0.5 * dose + rng.normal(0, 0.3)
    names = ["episode_id", "t", "fluid", "site", "dose", "readmitted"]
    pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None).write_csv("t.csv")
    Path("s.toml").write_text(SCHEMA)
    smooth = ("--learner", "smooth")
    assert run("fit", "t.csv", "--schema", "s.toml", "-o", "m.safetensors", *smooth).exit_code == 0
    asked = ("explain", "t.csv", "-m", "m.safetensors", "--k", "1")
    told = json.loads(run(*asked, "--episode", "P3", "--json").stdout)
    assert any(note.endswith("or by chance: fluid, site.") for note in told["notes"])
    (one,) = told["explanations"]
    assert one["observed"] in (0.0, -1.0) != one["factual"]
    every = json.loads(run(*asked, "--json").stdout)["explanations"]
    well = [one for one in every if one["observed"] == 0.0]
    assert len(well) > 20
    assert not any(one["established"] for one in well)
    assert all(one["improvement_low"] <= 0.0 for one in well)
    assert any(one["improvement"] > 0.0 for one in well)
    assert any(one["established"] for one in every)
    both = (f"{one['observed'] + 0.0:.4g}", f"{one['factual']:.4g}")
    shown = run(*asked, "--episode", "P3").stdout
    assert re.search(r"observed +by model", shown)
    assert re.search(rf"P3 +{both[0]} +{both[1]} ", shown)
    assert run(*asked, "--episode", "P3", "-o", "out", "--workers", "1").exit_code == 0
    assert run("report", "out", "-o", "r.html").exit_code == 0
    page = " ".join(Path("r.html").read_text(encoding="utf-8").split())
    assert page.index('"Observed"') < page.index('"By the model"')
    assert f"{both[0]} observed, {both[1]} by the model, " in page
    with serving(tmp_path / "out") as explorer:
        assert explorer.get("run")["as_done"] == "By the model"
