"""`explain`: to the terminal, into one file, or into the folder of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from counterplan.cli import support as cli
from counterplan.errors import InputError, counted

if TYPE_CHECKING:
    from counterplan.runs.explain import Cohort
    from counterplan.runs.question import Question

FILES = (".json", ".csv")
# Names that end so are meant to be files, not folders.
OTHER_FILES = (".xlsx", ".xls", ".parquet", ".tsv", ".txt", ".html", ".pdf", ".toml", ".md")
# A case of a list takes so many lines at most, so many of them below the table.
LINES, LINES_BELOW = 3, 2
# What stands below a table for which the terminal is too narrow, in this order.
BELOW = ("changes", "at the end", "over causal models", "established", "search")
# Cases of a run that are shown at the end.
TOP = 10
# As in `runs.explain`, which takes too long to load for a help text.
COHORT_SECONDS, COHORT_NODES = 60.0, 20_000


def _listed(accepted: str, wanted: str) -> cli.Parse:
    """Reads whole numbers with commas between, each as the pattern has it."""

    def parse(text: str) -> tuple[int, ...]:
        parts = [part.strip() for part in text.split(",")]
        for part in parts:
            if not re.fullmatch(accepted, part, re.ASCII) or abs(int(part)) > cli.LARGEST:
                raise ValueError(f"is not {wanted}", part)
        return tuple(map(int, parts))

    return parse


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(cli.TableOptions):
    """Options of `counterplan explain`."""

    model: Path = cli.option(
        "Model file: .safetensors, or .json by hand.", MISSING, "--model", "-m"
    )
    k: tuple[int, ...] = cli.option(
        "How many actions may change at most; several numbers with commas between.",
        "3",
        parse=_listed(r"\d{1,10}", f"a whole number from 0 to {cli.LARGEST}"),
    )
    all_k: bool = cli.option("Every number of changes from 0 to that of --k.", False)
    episode: list[str] | None = cli.option(
        "Explain only this episode; repeat for more.", metavar="ID"
    )
    schema: Path | None = cli.option(
        "What the columns of the table mean (.toml), if not as the model remembers."
    )
    robust: bool = cli.option(
        "Add the lowest and highest value over every causal model that fits the data.", False
    )
    risk: float | None = cli.option(
        "Models with members: optimise the mean of the worst share of them (0.25; 1: of all). "
        "Discrete models that know their counts: of tables drawn from what the data admits.",
        parse=cli.number(lambda share: 0.0 < share <= 1.0, "a share above 0 and up to 1"),
        metavar="SHARE",
    )
    doubt: float | None = cli.option(
        "Discrete models: the weight of the worst causal model at every step (0.2; 0: none, the "
        "Gumbel-Max optimum; 1: the best guarantee).",
        parse=cli.number(lambda weight: 0.0 <= weight <= 1.0, "a number from 0 to 1"),
        metavar="WEIGHT",
    )
    seconds: float | None = cli.option(
        "Stop after so many seconds for each episode, with a bound on the optimum (continuous "
        f"states: {COHORT_SECONDS:g} if not given). With a folder for the results the same command "
        "may then give other answers.",
        parse=cli.number(lambda seconds: seconds > 0.0, "a positive number"),
        metavar="S",
    )
    nodes: int | None = cli.option(
        "Likewise after so many nodes (discrete: rows of the model; continuous states with a "
        f"folder for the results: {COHORT_NODES:,} if neither is given).",
        parse=cli.whole_number(1),
    )
    gap: float = cli.option(
        "Stop once the optimum can be better by at most this.", 0.0, parse=cli.from_zero
    )
    max_move: float | None = cli.option(
        "Continuous states: by how much a dose may differ from the one given, in the units of the "
        "schema's levels; cohort tables: by how many levels.",
        parse=cli.from_zero,
        metavar="LEVELS",
    )
    supported: bool | None = cli.option(
        "Keep changes inside the data that the model was learned from: only to actions that were "
        "taken in similar states, which all then stay near the data (so where the model has kept "
        "its data). Or propose whatever the model thinks best, also where it has seen nothing.",
        None,
        "--supported/--unsupported",
    )
    allow: list[str] | None = cli.option(
        "Only these actions may be done instead of others, by the names in the schema or model: "
        "'heparin', 'drug=none|heparin', 'drug=heparin & dose=200'; repeat for more.",
        metavar="ACTIONS",
    )
    forbid: list[str] | None = cli.option(
        "These may not; discrete models: 'worn:replace' is an action that is never taken in that "
        "state. Repeat for more.",
        metavar="ACTIONS",
    )
    keep: tuple[int, ...] | None = cli.option(
        "Steps that stay as they were, from 0 up with commas between; -1 is the last decision.",
        parse=_listed(r"-?\d{1,10}", "the number of a step, such as 0, 3 or -1"),
        metavar="STEPS",
    )
    cost: list[str] | None = cli.option(
        "What a change to an action takes of --k instead of 1: 'surgery=2', 'dose=400=3'; repeat "
        "for more.",
        metavar="ACTIONS=N",
    )
    solver: Literal["exact", "greedy", "noisy-greedy", "top-k", "random"] = cli.option(
        "The exact optimum, or a simple method to compare with.", "exact"
    )
    output: Path | None = cli.output(
        "File for the results (.json or .csv), or a folder: then all results and trajectories are "
        "kept as Parquet, and the same command continues a run that was stopped."
    )
    retry_failed: bool = cli.option("With a folder: do anew what failed in it.", False)
    workers: int | None = cli.workers()
    cluster: str | None = cli.cluster()


@cli.command()
def explain(options: ExplainOptions) -> None:
    """Say what should have been done differently in each episode.

    For every episode of the table: which actions, at most k, should have been others, all that was
    left to chance being the same; ranked by what is sure of the improvement, with whether the
    search proved that nothing is better, or how much better anything could be.

    Where states are discrete the answer is a policy; the changes shown are those of the likeliest
    course, each with the probability that the policy makes it. Where they are measurements it is a
    sequence, such as doses.

    With a folder for the results (-o OUT) all cores work at once, everything is kept as Parquet
    with the trajectories, and the same command continues a run that was stopped.
    """
    from counterplan.runs.explain import open_cohort
    from counterplan.tables.episodes import check_explanations_target

    files, out = (options.table, options.model, options.schema), options.output
    is_run = out is not None and not _is_file(out)
    why = None if is_run else "is for runs into a folder: give one with -o OUT"
    cli.check_where(options, why)
    cli.refuse(cli.given(options, "retry_failed") if why else {}, str(why))
    if out is not None:
        if not is_run:
            check_explanations_target(out)
        cli.keep_inputs(out, files)
    cohort = open_cohort(*files, options.episode or ())
    question = _question(options, cohort.explainer.is_discrete)
    if options.supported and not cohort.explainer.data_rule:
        raise InputError(
            f"--supported: {options.model} has kept none of its data, so nobody can tell what lies "
            "inside it; learn it anew with `counterplan fit` (not by hand, nor with --no-support)"
        )
    if out is not None and is_run:
        _into_folder(options, out, cohort, question)
    else:
        _at_once(options, cohort, question)


def _is_file(output: Path) -> bool:
    suffix = output.suffix.lower()
    return suffix in FILES or (suffix in OTHER_FILES and not output.is_dir())


def _question(options: ExplainOptions, is_discrete: bool) -> Question:
    """What is asked; options that do not go together or with the model are refused."""
    from counterplan.runs.question import MOST_BUDGETS, RULES, Question

    if is_discrete and options.max_move is not None:
        raise InputError("--max-move is about doses: discrete actions have none; leave it out")
    if is_discrete and options.solver == "top-k":
        raise InputError(
            "--solver top-k changes a fixed sequence, but a discrete model asks for a policy: use "
            "--solver greedy"
        )
    if options.solver != "exact":
        why = f"limits the exact search; --solver {options.solver} ends by itself: leave it out"
        cli.refuse(cli.given(options, "seconds", "nodes", "gap"), why)
    if not is_discrete and options.robust:
        raise InputError(
            "--robust is for discrete models: continuous states have one counterfactual, no range"
        )
    budgets = tuple(sorted({*options.k}))
    if options.all_k:
        if len(budgets) > 1:
            raise InputError("--all-k goes up to one number: give a single --k with it")
        if budgets[0] > MOST_BUDGETS:
            raise InputError(f"--all-k goes up to --k {MOST_BUDGETS:,} at most, got {budgets[0]}")
        budgets = tuple(range(budgets[0] + 1))
    same = {one.name for one in fields(Question)} - {"budgets", *RULES}
    asked: dict[str, Any] = {name: getattr(options, name) for name in same}
    rules: dict[str, Any] = {name: getattr(options, name) or () for name in RULES}
    return Question(budgets=budgets, **asked, **rules)


def _at_once(options: ExplainOptions, cohort: Cohort, question: Question) -> None:
    """To the terminal, or into one file."""
    from counterplan.runs.answer import records, results_table
    from counterplan.runs.run import ranked
    from counterplan.tables.episodes import write_explanations

    noun, budgets = cohort.noun, question.budgets
    with cli.episode_bar() as progress:
        answers = cohort.answers(question, progress)
    last = [one for one in answers if one.k == budgets[-1]]
    if senseless := [one for one in last if one.far_outside_training]:
        others = len(senseless) - 1
        more = f" (and {others} more like it, see reason in --json)" if others else ""
        name, reason = senseless[0].episode_id, senseless[0].reason
        cli.note(f"warning: no answer about {noun} {name!r}, {reason}{more}")
    rows = ranked(results_table(answers, cohort.outcomes).lazy()).collect().to_dicts()
    found = records(rows, cohort.explainer.unit)
    methods = _methods(found)
    document = {
        "k": budgets[0] if len(budgets) == 1 else list(budgets),
        "solver": question.solver,
        **({"method": methods} if methods else {}),
        "notes": (about := cohort.explainer.notes(question)),
        "explanations": found,
    }
    if options.output is not None:
        write_explanations(options.output, document)
    if options.as_json:
        cli.print_json(document)
        return
    many = counted(len({record["episode_id"] for record in found}), noun)
    rule = cohort.explainer.rule(question)
    print_explanations(found, f"{many}, {_detail(cohort, question, found)}", noun, rule)
    _note_ends(found)
    if options.output is not None:
        cli.note(f"Wrote {options.output}.")
    for line in (*about, *(() if options.episode else cohort.notes)):
        cli.note(line)


def _into_folder(options: ExplainOptions, folder: Path, cohort: Cohort, question: Question) -> None:
    """Keeps everything; prints the surest improvements, and what became of all."""
    from counterplan.runs.answer import records
    from counterplan.runs.cohort import RunSettings
    from counterplan.runs.run import STATUSES, CaseQuery, open_run

    settings = RunSettings(
        workers=options.workers, cluster=options.cluster, again=options.retry_failed
    )
    with cli.run_display() as progress:
        summary = cohort.run(folder, question, settings, progress)
    run, noun = open_run(summary.out), cohort.noun
    top = records(run.cases(CaseQuery(limit=TOP)).to_dicts(), run.terms.unit)
    totals = {name: int(summary.totals.get(name, 0)) for name in ("episodes", *STATUSES)}
    if options.as_json:
        counts = {"parts": summary.parts, "resumed": summary.resumed, **totals}
        about = cohort.explainer.notes(question)
        cli.print_json({"out": str(summary.out), **counts, "notes": about, "top": top})
        return
    many = counted(totals["episodes"], noun)
    known = any("established" in record for record in top)
    first = "surest improvements" if known else "most improvable"
    heading = f"The {first} of {many}, {_detail(cohort, question, top)}"
    print_explanations(top, heading, noun, cohort.explainer.rule(question))
    _note_ends(top)
    for line in (*cohort.explainer.notes(question), *cohort.notes):
        cli.note(line)
    became = [f"{totals[name]:,} {text}" for name, (text, _) in STATUSES.items() if totals[name]]
    cli.note(f"Searches for {many}: {', '.join(became)}.")
    if totals["failed"]:
        cli.note(
            f"Why: counterplan cases {summary.out} --status failed; where the cause is gone, "
            "--retry-failed does it anew."
        )
    if "established" in summary.totals:
        cli.note(f"Improvements established: {summary.totals['established']:,.0f}.")
    if far := run.count_far():
        cli.note(
            f"warning: {counted(far, noun)} far outside what the model has learned from (see "
            "far_outside_training): no answer about them"
        )
    if not question.is_repeatable:
        cli.note("Limited in seconds: another run of the same question may give other answers.")
    cli.note(f"Wrote {summary.out}. Next: counterplan cases {summary.out}")


# --- Explanations as a table in the terminal, and what its title says ---------------------------


def _methods(found: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({record["method"] for record in found if record.get("method")}))


def _note_ends(found: Sequence[Mapping[str, Any]]) -> None:
    if gaming := sum(bool(record.get("at_end_only")) for record in found):
        cli.note(
            f"warning: {gaming:,} of the {len(found):,} answers above change a step near the end "
            'only because nothing after it counts; final = "value" in [table] of the schema (then '
            "fit anew) counts what usually follows"
        )


def _detail(cohort: Cohort, question: Question, found: Sequence[Mapping[str, Any]]) -> str:
    """What the title of a table says of its records."""
    budgets = ", ".join(str(k) for k in sorted({record["k"] for record in found}))
    text = f"k = {budgets or question.budgets[-1]}, {question.solver}"
    if methods := _methods(found):
        text += f" ({methods if question.solver == 'exact' else 'no bound'})"
    if outcome := cohort.explainer.outcome:
        text += f", outcome: {outcome}"
    return f"{text}, according to the model"


def print_explanations(
    found: Sequence[Mapping[str, Any]], heading: str, noun: str, rule: str = ""
) -> None:
    """A table with one row for each record; `rule`: what kept them inside the data, if anything."""
    cells = _cells(found, noun, "none inside the data" if rule else "none")
    if "search" not in cells:
        heading += "; searches proved optimal"
    rows = [{name: text(one) for name, (_, text) in cells.items()} for one in found]
    if len(found) > 1:
        for row in rows:
            row["changes"] = _in_few_lines(row["changes"])
    shown = {name: alignment for name, (alignment, _) in cells.items()}
    below: list[str] = []
    # What finds no room in the table is told under it.
    for name in BELOW:
        if name in shown and not cli.fits([*shown], rows):
            del shown[name]
            below.append(name)
    cli.print_table(heading, shown, [[row[name] for name in shown] for row in rows])
    for record, row in zip(found, rows, strict=True) if below else ():
        k = f", k = {record['k']}" if "k" in cells else ""
        told = [
            ("" if name == "changes" else f"{name}: ") + row[name].replace("\n", "; ")
            for name in below
            if row[name]
        ]
        text = f"{record['episode_id']}{k}: {'; '.join(told)}"
        cli.print_text(text, LINES_BELOW if len(found) > 1 else None, indent=2)
    if len(found) == 1 and found[0]["changes"] and found[0].get("established") is not None:
        from counterplan.viz.quantity import Quantity, claim_of

        # JSON's words for what is infinite are numbers again.
        infinite = ("inf", "-inf")
        only = {name: float(one) if one in infinite else one for name, one in found[0].items()}
        cli.print_text(claim_of(only).sentence(Quantity(), only["factual"]))


def _in_few_lines(changes: str) -> str:
    """Of a case in a list: no more lines than a glance takes; --json and reports have all."""
    first, *more = changes.split("\n")
    if len(more) < LINES:
        return changes
    kept = more[: LINES - 2]
    return "\n".join([first, *kept, f"and {counted(len(more) - len(kept), 'more change')}"])


Text = Callable[[Mapping[str, Any]], str]


def _cells(
    found: Sequence[Mapping[str, Any]], noun: str, nothing: str
) -> dict[str, tuple[str, Text]]:
    """By heading: how a column is aligned, and what it says of a record; only those columns that
    say something of these."""
    from counterplan.runs.answer import changes_in_words, support_in_words

    def number(name: str) -> Text:
        return lambda record: _number(record.get(name))

    def predicted(record: Mapping[str, Any]) -> str:
        return "\n".join(one["text"] for one in record.get("predicted") or ())

    def changes(record: Mapping[str, Any]) -> str:
        return record.get("reason") or "\n".join(changes_in_words(record) or [nothing])

    statuses = {record["status"] for record in found}
    known = {name for record in found for name in record}
    differs = any(
        _number(one.get("observed")) not in ("", _number(one.get("factual"))) for one in found
    )
    cells: dict[str, tuple[bool, str, Text]] = {
        noun: (True, "left", lambda record: str(record["episode_id"])),
        "k": (len({record["k"] for record in found}) > 1, "right", lambda one: str(one["k"])),
        "observed": (True, "right", number("observed" if differs else "factual")),
        # What an improvement is counted from, where the model expects another end.
        "by model": (differs, "right", number("factual")),
        # What is optimised over the worst members is not what is claimed.
        "value": ("risk" not in known, "right", number("value")),
        "improvement": (True, "right", number("improvement")),
        "established": ("established" in known, "left", _established),
        "over causal models": ("interval_low" in known, "right", partial(_interval, "interval")),
        "at the end": ("predicted" in known, "left", predicted),
        "search": (statuses != {"optimal"}, "left", _search),
        "data": ("supported" in known, "left", support_in_words),
        "changes": (True, "left", changes),
    }
    return {name: (align, text) for name, (is_shown, align, text) in cells.items() if is_shown}


def _number(value: float | str | None) -> str:
    from counterplan.viz.quantity import Quantity

    return "" if value is None else Quantity().write(float(value))


def _interval(name: str, record: Mapping[str, Any]) -> str:
    return " to ".join(_number(record.get(f"{name}_{end}")) for end in ("low", "high"))


def _established(record: Mapping[str, Any]) -> str:
    if record.get("established") is None or not record["changes"]:
        return ""
    says = "yes" if record["established"] else "no"
    if record.get("guaranteed") is not None:
        gain = float(record["guaranteed"]) - float(record["factual"])
        more = "" if math.isnan(gain) else f", {'+' if gain > 0.0 else ''}{_number(gain)} or more"
        if record.get("risk") is None:
            return f"{says}{more}"
        return f"{says}{more}; {_interval('improvement', record)} by the data"
    worse = f" ({record['harm']:.0%} worse)" if record["harm"] >= 0.005 else ""
    return f"{says}, {_interval('improvement', record)}{worse}"


def _search(record: Mapping[str, Any]) -> str:
    is_limit = record["status"] == "limit"
    return f"limit, gap {_number(record['gap'])}" if is_limit else str(record["status"])
