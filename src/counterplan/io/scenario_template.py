"""A table of sampled scenarios, to be filled in: what `open_scenarios` reads."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from counterplan.core.validation import Seed
from counterplan.errors import InputError
from counterplan.files.atomic import atomic_file, check_target
from counterplan.files.contents import suffix_of
from counterplan.io.scenario_form import ScenarioForm
from counterplan.io.scenario_rows import STEP
from counterplan.io.scenario_table import ID
from counterplan.planning.journey import checked_path, played
from counterplan.planning.playing import futures
from counterplan.planning.policies import OpenLoop

# How many scenarios it has.
SCENARIOS = 10


def write_template(path: Path, form: ScenarioForm, seed: Seed) -> None:
    """Write sampled paths, with the decisions of the plan that is optimal for expected values."""
    suffix_of(path, (".csv",), "templates")
    if check_target(path).exists():
        raise InputError(f"{path}: exists already; remove it or choose another name")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    entries = (*form.seen, *form.decided)
    writer.writerow([ID, STEP, *(entry.column for entry in entries)])
    rule = OpenLoop().prepare(form.problem)
    for i, sampled in enumerate(futures(form.problem, SCENARIOS, seed)):
        exogenous, state = checked_path(form.problem, sampled)
        done = played(form.problem, rule, exogenous, state)
        for t, row in enumerate(form.written(exogenous, done.actions)):
            values = zip(entries, row, strict=True)
            texts = [one.names[int(x)] if one.names else f"{x + 0.0:.10g}" for one, x in values]
            writer.writerow([f"s{i + 1:02d}", t, *texts])
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())
