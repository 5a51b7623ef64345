"""`explain`: to the terminal, into one file, or into the folder of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplan.cli.explain_options import (
    COHORT_SECONDS,
    ExplainOptions,
    SolverName,
)
from counterplan.cli.support import (
    check_where,
    keep_inputs,
    note,
    print_json,
    print_table,
    refuse,
    tracked,
)
from counterplan.errors import CounterplanError, FileError, InputError

if TYPE_CHECKING:
    from counterplan.cohort.inputs import Input, Model
    from counterplan.cohort.question import Question
    from counterplan.cohort.subject import Subject
    from counterplan.io.schema import Schema
    from counterplan.io.stay_models import Outlier

FILES = (".json", ".csv")
# Names that end so are meant to be files, not folders.
OTHER_FILES = (".xlsx", ".xls", ".parquet", ".tsv", ".txt", ".html", ".pdf", ".toml", ".md")


class Column(NamedTuple):
    """A further column of the printed table: its alignment, and what it says of a record."""

    alignment: str
    text: Callable[[Mapping[str, Any]], str]


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


def inputs_of(options: ExplainOptions) -> tuple[Path | None, ...]:
    """The files that are read."""
    return options.episodes, options.model, options.schema


def schema_of(options: ExplainOptions) -> Schema | None:
    """The schema asked for."""
    from counterplan.io.schema import read_schema

    return None if options.schema is None else read_schema(options.schema)


def subject_of(options: ExplainOptions, model: Model, given: Input) -> Subject:
    """The model ready to be asked; what keeps it from that is told with the file to blame."""
    from counterplan.cohort.subject import open_subject

    try:
        return open_subject(model, given.about)
    except InputError as problem:
        raise FileError(f"{options.schema or options.model}: {problem}") from None


def question_of(
    options: ExplainOptions, model: Model, seconds: float | None, nodes: int | None
) -> Question:
    """What is asked; `seconds` and `nodes` limit the searches of neural models unless another
    limit is given."""
    from counterplan.cohort.question import MOST_BUDGETS, Question
    from counterplan.scm.tabular import TabularMDP

    _refuse_options(options, isinstance(model, TabularMDP))
    budgets = options.k
    if options.all_k:
        if len(budgets) > 1:
            raise InputError("--all-k goes up to one number: give a single --k with it")
        if budgets[0] > MOST_BUDGETS:
            raise InputError(f"--all-k goes up to --k {MOST_BUDGETS:,} at most, got {budgets[0]}")
        budgets = tuple(range(budgets[0] + 1))
    if isinstance(model, TabularMDP) or options.solver is not SolverName.EXACT:
        seconds, nodes = None, None
    return Question(
        budgets=budgets,
        solver=options.solver.value,
        nodes=nodes if options.nodes is None and options.seconds is None else options.nodes,
        seconds=seconds if options.seconds is None else options.seconds,
        gap=options.gap,
        max_move=options.max_move,
        robust=options.robust,
        seed=options.seed,
    )


def _refuse_options(options: ExplainOptions, is_discrete: bool) -> None:
    if is_discrete and options.max_move is not None:
        raise InputError("--max-move is about doses: discrete actions have none; leave it out")
    if is_discrete and options.solver is SolverName.TOP_K:
        raise InputError(
            "--solver top-k changes a fixed sequence, but a discrete model asks for a policy: use "
            "--solver greedy"
        )
    if options.solver is not SolverName.EXACT:
        limits = {
            "--seconds": options.seconds is not None,
            "--nodes": options.nodes is not None,
            "--gap": options.gap > 0.0,
        }
        why = f"limits the exact search; --solver {options.solver} ends by itself: leave it out"
        refuse(limits, why)
    if not is_discrete and options.robust:
        raise InputError(
            "--robust is for discrete models: a neural model has one counterfactual, no range"
        )


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
    document = _document(options, question, found)
    if options.output is not None:
        write_explanations(options.output, document)
    if options.as_json:
        print_json(document)
        return
    many = counted(len({record["episode_id"] for record in found}), given.noun)
    heading = f"{many}, {detail(given.noun, question, found)}"
    print_explanations(found, heading, given.noun, subject.is_discrete)
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


def _document(
    options: ExplainOptions, question: Question, found: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    budgets = question.budgets
    document: dict[str, Any] = {"k": budgets[0] if len(budgets) == 1 else list(budgets)}
    document["solver"] = question.solver
    if methods := methods_of(found):
        document["method"] = methods
    return {**document, "explanations": list(found)}


def methods_of(found: Sequence[Mapping[str, Any]]) -> str:
    """How the answers were found."""
    return ", ".join(sorted({record["method"] for record in found if record.get("method")}))


def detail(noun: str, question: Question, found: Sequence[Mapping[str, Any]]) -> str:
    """What the title of a table says of its records."""
    budgets = ", ".join(str(k) for k in sorted({record["k"] for record in found}))
    text = f"k = {budgets or question.budgets[-1]}, {question.solver}"
    if methods := methods_of(found):
        text += f" ({methods if question.solver == SolverName.EXACT else 'no bound'})"
    if noun == "stay":
        text += ", outcome: summed -SOFA"
    return f"{text}, according to the model"


def counted(number: int, noun: str) -> str:
    """Such as "1 stay" and "1,200 stays"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_explanations(
    found: Sequence[Mapping[str, Any]], heading: str, noun: str, is_discrete: bool
) -> None:
    """A table with one row for each record."""
    from counterplan.cohort.records import changes_in_words, support_in_words

    extra: dict[str, Column] = {}
    if any("interval_low" in record for record in found):
        extra["over causal models"] = Column("right", _interval)
    if not is_discrete:
        extra["proof"] = Column("left", proof_in_words)
    if any("supported" in record for record in found):
        extra["data"] = Column("left", support_in_words)
    several = len({record["k"] for record in found}) > 1
    columns = {noun: "left"} | ({"k": "right"} if several else {})
    columns |= dict.fromkeys(("observed", "value", "improvement"), "right")
    columns |= {name: column.alignment for name, column in extra.items()}
    columns["changes"] = "left"
    rows = [
        [
            str(record["episode_id"]),
            *([str(record["k"])] if several else []),
            *(number(record.get(name)) for name in ("factual", "value", "improvement")),
            *(column.text(record) for column in extra.values()),
            record.get("reason") or "\n".join(changes_in_words(record)) or "none",
        ]
        for record in found
    ]
    print_table(heading, columns, rows)


def number(value: float | str | None) -> str:
    """As tables show it."""
    from counterplan.viz.quantity import Quantity

    return "" if value is None else Quantity().write(float(value))


def _interval(record: Mapping[str, Any]) -> str:
    return f"{number(record['interval_low'])} to {number(record['interval_high'])}"


def proof_in_words(record: Mapping[str, Any]) -> str:
    """What is known of the optimum."""
    status = str(record["status"])
    return f"limit, gap {number(record['gap'])}" if status == "limit" else status
