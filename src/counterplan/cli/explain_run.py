"""`explain` into the folder of a run: all episodes, all cores, stopped and resumed at will."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplan.cli.explain_options import COHORT_NODES, ExplainOptions
from counterplan.cli.explain_question import inputs_of, question_of, schema_of, subject_of
from counterplan.cli.explain_table import detail, print_explanations
from counterplan.cli.support import check_where, keep_inputs, note, print_json
from counterplan.core.words import counted

if TYPE_CHECKING:
    from counterplan.cohort.inputs import Input
    from counterplan.cohort.question import Question
    from counterplan.cohort.run import RunSettings, RunSummary

# Cases that are shown at the end.
TOP = 10
STATUSES = {
    "optimal": "proved optimal",
    "limit": "stopped at a limit",
    "heuristic": "without proof",
    "failed": "failed",
}


def run_into_folder(options: ExplainOptions) -> None:
    """Explain all episodes and keep everything."""
    from counterplan.cohort.explain_task import explain_spec
    from counterplan.cohort.inputs import only, open_input, streamed
    from counterplan.cohort.run import run_cohort
    from counterplan.files.contents import check_readable
    from counterplan.io.models import model_bytes, model_from_bytes

    assert options.output is not None
    check_where(options.workers, options.cluster)
    keep_inputs(options.output, inputs_of(options))
    content = model_bytes(options.model)
    model = model_from_bytes(options.model, content)
    check_readable(options.episodes, "a table of episodes")
    given = open_input(options.episodes, model, options.model, schema_of(options))
    given = streamed(options.episodes, model, given)
    if options.episode:
        given = only(options.episode, options.episodes, given)
    question = question_of(options, model, None, COHORT_NODES)
    subject_of(options, model, given)  # what a worker could not begin with leaves no folder behind
    suffix = options.model.suffix.lower()
    spec = explain_spec(content, suffix, given.about, question, given.outcomes)
    hashes = {"model": hashlib.sha256(content).hexdigest()}
    settings = _settings(options, given, question, hashes)
    parts = given.parts(settings.part_size)
    _tell(options, given, question, run_cohort(spec, parts, options.output, settings))


def _settings(
    options: ExplainOptions, given: Input, question: Question, hashes: Mapping[str, str]
) -> RunSettings:
    from counterplan.cohort.run import RunSettings

    found = {**hashes, "input": _checksum(options.episodes)}
    if "schema" in given.about:
        text = json.dumps(given.about["schema"], sort_keys=True)
        found["schema"] = hashlib.sha256(text.encode()).hexdigest()
    return RunSettings(
        arguments=_arguments(options),
        hashes=found,
        seed=options.seed,
        workers=options.workers,
        cluster=options.cluster,
        repeatable=question.is_repeatable,
        # What is left out of a whole table says nothing about a few chosen episodes.
        notes=() if options.episode else given.notes,
    )


def _arguments(options: ExplainOptions) -> dict[str, Any]:
    """What was asked, by option; what was not is left out."""
    asked = {
        "k": ",".join(map(str, options.k)),
        "all_k": options.all_k or None,
        "solver": options.solver.value,
        "episode": list(dict.fromkeys(options.episode or ())) or None,
        "robust": options.robust or None,
        "seconds": options.seconds,
        "nodes": options.nodes,
        "gap": options.gap or None,
        "max_move": options.max_move,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tell(options: ExplainOptions, given: Input, question: Question, summary: RunSummary) -> None:
    """The most improvable cases, what became of all, and where they are."""
    from counterplan.cohort.cases import CaseQuery, count_far, review_list, terms_of
    from counterplan.cohort.reading import open_run
    from counterplan.cohort.records import records

    run = open_run(summary.out)
    top = records(review_list(run, CaseQuery(limit=TOP)).to_dicts(), terms_of(run).unit)
    totals = {name: int(summary.totals.get(name, 0)) for name in ("episodes", *STATUSES)}
    if options.as_json:
        counts = {"parts": summary.parts, "resumed": summary.resumed, **totals}
        print_json({"out": str(summary.out), **counts, "top": top})
        return
    many = counted(totals["episodes"], given.noun)
    heading = f"The most improvable of {many}, {detail(given.noun, question, top)}"
    print_explanations(top, heading, given.noun)
    for line in given.notes:
        note(line)
    words = [f"{totals[name]:,} {text}" for name, text in STATUSES.items() if totals[name]]
    note(f"{many}: {', '.join(words)}.")
    if far := count_far(run):
        note(
            f"warning: {counted(far, given.noun)} far outside what the model has learned from (see "
            "far_outside_training): what it says there means nothing"
        )
    if not question.is_repeatable:
        note("Limited in seconds: another run of the same question may give other answers.")
    note(f"Wrote {summary.out}. Next: counterplan cases {summary.out}")
