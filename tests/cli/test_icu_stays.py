"""`fit` and `explain` on ICU stays as they were recorded, and on tables that are nothing of all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.domains import icu_episodes
from counterplan.tables.layout import counts_of_model

from .conftest import Run

SHARED = Path(__file__).resolve().parents[3] / "shared"
DEMO = SHARED / "data" / "mimic3_demo" / "episodes_4h.csv"
STAYS, STEPS = 12, 8


@pytest.fixture
def icu(ward: Path) -> Path:
    """icu.csv beside the ward's files: slow random walks with gaps."""
    rng = np.random.default_rng(0)
    middle = {"hr": 90, "map": 75, "resp": 20, "fio2": 50, "po2": 100, "lact": 2}
    middle |= {"bili": 1.5, "plt": 200, "crea": 1.4, "urine": 200}
    rows = STAYS * STEPS
    bounds = {column.name: column for column in icu_episodes.SCHEMA.columns}
    walks = rng.normal(size=(STAYS, STEPS, len(middle))).cumsum(axis=1).reshape(rows, -1)
    vitals = {
        name: np.clip(value * np.exp(0.1 * walks[:, i]), bounds[name].low, bounds[name].high)
        for i, (name, value) in enumerate(middle.items())
    }
    frame = pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(100, 100 + STAYS), STEPS),
            "t": np.tile(np.arange(STEPS), STAYS),
            "sex": np.repeat(np.where(np.arange(STAYS) % 2, "Male", "Female"), STEPS),
            "age": np.repeat(rng.uniform(40, 90, STAYS), STEPS),
            **vitals,
            "a_vaso": rng.integers(0, 5, rows),
            "a_iv": rng.integers(0, 5, rows),
            "died": 0,
        }
    )
    gaps = pl.when(pl.col("t") == 3).then(None).otherwise(pl.col("lact"))
    frame.with_columns(lact=gaps).write_csv(ward / "icu.csv")
    return ward


def fit(run: Run, table: str) -> dict[str, object]:
    small = ("--hidden", "8", "--epochs", "3", "--json")
    result = run("fit", table, "-o", "icu.safetensors", *small)
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_from_file_to_explanations(icu: Path, run: Run) -> None:
    summary = fit(run, "icu.csv")
    assert (summary["episodes"], summary["features"]) == (STAYS, len(icu_episodes.FEATURES))
    assert summary["dose_edges"] is None
    assert f"{STAYS} carried forward" in str(summary["table"])
    arguments = ("explain", "icu.csv", "--model", "icu.safetensors", "--k", "1")
    records = json.loads(run(*arguments, "--json").stdout)["explanations"]
    assert len(records) == STAYS
    model = cp.load_model("icu.safetensors")
    episodes = {
        episode.id: episode for episode in icu_episodes.read_episodes_4h("icu.csv").episodes
    }
    # Of the 25 pairs of levels only those that occur often enough are advised.
    counts = counts_of_model(model, icu_episodes.IcuLayout().choices)
    assert counts is not None
    assert 0 < (counts >= 5).sum() < 25
    for record in records:
        found = cp.explain(
            model,
            episodes[record["episode_id"]],
            1,
            actions=icu_episodes.action_set(),
            reward=icu_episodes.reward(),
            constraints=cp.Constraints(allowed=counts >= 5),
        )
        assert record["value"] == pytest.approx(found.value)
        assert record["status"] == "optimal"
        for change, (t, _, _) in zip(record["changes"], found.changes, strict=True):
            assert change["text"].startswith(f"at {4 * t} h: ")
    printed = run(*arguments)
    assert printed.stdout.startswith(f"{STAYS} stays, k = 1, exact")
    assert f"{STAYS} episodes, {STAYS * STEPS} steps; " in printed.stderr


def test_the_demo_itself(ward: Path, run: Run) -> None:
    if not DEMO.is_file():
        pytest.skip("the MIMIC-III demo episodes are not here")
    assert fit(run, str(DEMO))["episodes"] == 132
    asked = ("--k", "1", "--nodes", "50", "--json", "--episode", "201006", "--episode", "201204")
    result = run("explain", str(DEMO), "--model", "icu.safetensors", *asked)
    assert len(json.loads(result.stdout)["explanations"]) == 2
