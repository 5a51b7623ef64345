"""`explain`: to the terminal, into one file, or into the folder of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplan.cli.explain_options import COHORT_SECONDS, ExplainOptions
from counterplan.cli.explain_question import inputs_of, question_of, schema_of, subject_of
from counterplan.cli.explain_table import detail, methods_of, print_explanations
from counterplan.cli.support import check_where, keep_inputs, note, print_json, tracked
from counterplan.core.words import counted
from counterplan.errors import CounterplanError

if TYPE_CHECKING:
    from counterplan.cohort.inputs import Input
    from counterplan.cohort.question import Question
    from counterplan.cohort.subject import Subject
    from counterplan.io.stay_models import Outlier

FILES = (".json", ".csv")
# Names that end so are meant to be files, not folders.
OTHER_FILES = (".xlsx", ".xls", ".parquet", ".tsv", ".txt", ".html", ".pdf", ".toml", ".md")


def answer(options: ExplainOptions) -> None:
    """Explain episodes, and put the answers where they are wanted."""
    if options.output is not None and not is_file(options.output):
        from counterplan.cli.explain_run import run_into_folder

        run_into_folder(options)
        return
    why = "is for runs into a folder: give one with -o OUT"
    check_where(options.workers, options.cluster, why)
    _explain_here(options)


def is_file(output: Path) -> bool:
    """Whether results go into a single file."""
    suffix = output.suffix.lower()
    return suffix in FILES or (suffix in OTHER_FILES and not output.is_dir())


def _explain_here(options: ExplainOptions) -> None:
    from counterplan.cohort.inputs import only, open_input
    from counterplan.cohort.records import records
    from counterplan.io.explanations import check_explanations_target, write_explanations
    from counterplan.io.models import load_model

    if options.output is not None:
        check_explanations_target(options.output)
        keep_inputs(options.output, inputs_of(options))
    model = load_model(options.model)
    given = open_input(options.episodes, model, options.model, schema_of(options))
    question = question_of(options, model, COHORT_SECONDS, None)
    if options.episode:
        given = only(options.episode, options.episodes, given)
    subject = subject_of(options, model, given)
    rows = sorted(_rows(options, subject, given, question), key=lambda row: -row["improvement"])
    found = records(rows, subject.words.unit)
    document = _document(question, found)
    if options.output is not None:
        write_explanations(options.output, document)
    if options.as_json:
        print_json(document)
        return
    many = counted(len({record["episode_id"] for record in found}), given.noun)
    heading = f"{many}, {detail(given.noun, question, found)}"
    print_explanations(found, heading, given.noun)
    if options.output is not None:
        note(f"Wrote {options.output}.")
    for line in () if options.episode else given.notes:
        note(line)


def _rows(
    options: ExplainOptions, subject: Subject, given: Input, question: Question
) -> Iterator[dict[str, Any]]:
    from counterplan.cohort.answers import answers

    recorded = list(given.read())
    far: list[Outlier] = []
    for one in tracked(recorded, "explaining"):
        try:
            found = answers(subject, one, question)
        except CounterplanError as problem:
            raise type(problem)(f"{options.episodes}: {problem}") from None
        far += found[0].far or ()
        yield from (answer.row() for answer in found)
    _warn_of_outliers(far, given.noun)


def _warn_of_outliers(found: Sequence[Outlier], noun: str) -> None:
    if not found:
        return
    stay, column, value, low, high = found[0]
    others = len(found) - 1
    more = f" (and {others} more like it, see far_outside_training in --json)" if others else ""
    note(
        f"warning: {noun} {stay!r}, column {column!r}: {value:g} is far outside what the model has "
        f"learned from, {low:g} to {high:g}; what it says about this {noun} means nothing{more}"
    )


def _document(question: Question, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    budgets = question.budgets
    document: dict[str, Any] = {"k": budgets[0] if len(budgets) == 1 else list(budgets)}
    document["solver"] = question.solver
    if methods := methods_of(found):
        document["method"] = methods
    return {**document, "explanations": list(found)}
