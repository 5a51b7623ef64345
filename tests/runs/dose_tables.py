"""A table of two drugs in real doses, and a run about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplan as cp

T = 6
SCHEMA: dict[str, Any] = {
    "table": {"episode": "stay", "time": "hour", "unit": "h"},
    "columns": {
        "agitation": {"role": "state", "better": "lower"},
        "ward": {"role": "contextual", "labels": ["a", "b", "c"]},
        "propofol": {"role": "action", "unit": "mg/h", "low": 0, "high": 120, "step": 70},
        "iron": {"role": "action", "unit": "mg", "low": 0, "high": 40, "total": 90},
        "price": {"role": "cost", "weight": 0.5},
    },
}


def stays(count: int, seed: int) -> pl.DataFrame:
    """Propofol calms, less and less the more there is; iron does nothing; both cost."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        state = rng.uniform(10.0, 30.0)
        for hour in range(T):
            doses = np.clip(rng.normal([10 + 2.5 * state, 15.0], [25.0, 8.0]), 0.0, [120.0, 40.0])
            price = 0.02 * doses[0] + 0.05 * doses[1] + 0.1 * state
            given: list[Any] = [*doses] if hour < T - 1 else [None, None]
            ward = "abc"[int(rng.integers(3))]
            rows.append(
                (f"s{number}", hour, state, ward, *given, price if hour < T - 1 else 0.1 * state)
            )
            calmer = 12.0 * doses[0] / (40.0 + doses[0])
            state = 0.8 * state + 7.0 - calmer + rng.normal(0.0, 1.0)
    names = ["stay", "hour", "agitation", "ward", "propofol", "iron", "price"]
    return pl.DataFrame(rows, schema=names, orient="row")


def dose_model() -> Any:
    return cp.fit(stays(120, 0), SCHEMA, members=4)


def dose_run(folder: Path, model: Any = None) -> Path:
    """Three of them explained, for one and two changes."""
    cp.explain_table(stays(3, 1), model or dose_model(), k=[1, 2], folder=folder, nodes=60)
    return folder
