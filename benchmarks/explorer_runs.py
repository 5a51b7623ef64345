"""Runs of 16,000 episodes to explore: fifty that are solved, and copies under other names."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from benchmarks.cohort_problems import Cohort
from counterplan.runs.explain import explain_spec
from counterplan.runs.question import Question
from counterplan.runs.store import Manifest, open_store, task_record
from counterplan.runs.task import PartResult, open_task

BUDGETS = (1, 2, 3)
NODES = 300
ID = "episode_id"


def write_run(cohort: Cohort, out: Path, copies: int) -> int:
    """A run with `copies` parts; how many episodes it has."""
    (model,) = cohort.spec().files.values()
    question = Question(BUDGETS, nodes=NODES if cohort.about["kind"] != "discrete" else None)
    spec = explain_spec(model, ".safetensors", cohort.about, question, [])
    (part,) = cohort.parts()
    solved = open_task(spec).solve(part)
    asked = Manifest(task_record(spec), {"k": "1,2,3"}, {}, 0, len(cohort.recorded), True)
    with open_store(out, asked, spec.files) as store:
        store.begin(_renamed(part, copy) for copy in range(copies))
        for copy in range(copies):
            tables = {name: _renamed(one, copy) for name, one in solved.tables.items()}
            store.write_part(copy, PartResult(tables, solved.summary))
        store.complete()
    return copies * len(cohort.recorded)


def _renamed(content: bytes, copy: int) -> bytes:
    """The same table about other episodes."""
    buffer = io.BytesIO()
    frame = pl.read_parquet(io.BytesIO(content))
    frame = frame.with_columns(pl.format(f"{copy:03d}-{{}}", pl.col(ID)).alias(ID))
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
