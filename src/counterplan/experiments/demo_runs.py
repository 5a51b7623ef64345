"""Runs as `counterplan explain -o` makes them, from Python: the same command continues them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from counterplan.cohort.explain_task import explain_spec
from counterplan.cohort.inputs import open_input
from counterplan.cohort.manifest import sha256
from counterplan.cohort.question import Question
from counterplan.cohort.run import RunSettings, run_cohort
from counterplan.files.contents import suffix_of
from counterplan.io.models import FORMATS, model_from_bytes


def explain_table(table: Path, model_path: Path, question: Question, out: Path) -> None:
    """Explain every episode of a table into a folder."""
    content = model_path.read_bytes()
    model = model_from_bytes(model_path, content)
    given = open_input(table, model, model_path, None)
    suffix = suffix_of(model_path, FORMATS, "model files")
    spec = explain_spec(content, suffix, given.about, question, given.outcomes)
    hashes = {"model": sha256(content), "input": sha256(table.read_bytes())}
    if "schema" in given.about:
        text = json.dumps(given.about["schema"], sort_keys=True)
        hashes["schema"] = hashlib.sha256(text.encode()).hexdigest()
    asked = {
        "k": str(question.budgets[-1]),
        "all_k": len(question.budgets) > 1 or None,
        "solver": question.solver,
        "robust": question.robust or None,
    }
    arguments = {name: value for name, value in asked.items() if value is not None}
    settings = RunSettings(arguments, hashes, seed=question.seed, notes=given.notes)
    run_cohort(spec, given.parts(settings.part_size), out, settings)
