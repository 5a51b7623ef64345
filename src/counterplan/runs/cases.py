"""The review list of a run: the episodes that are worth a look, the most improvable first.

Results are read as they are needed: filters and order are applied file by file, so that a list of
twenty does not load a million rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplan.errors import FileError, InputError
from counterplan.runs.explain import RESULTS
from counterplan.runs.question import COHORT, DISCRETE, ICU, SCHEMA
from counterplan.runs.reading import Run
from counterplan.runs.task import EXPLAIN, REGRET

if TYPE_CHECKING:
    import polars as pl

# By what to rank: the column, and whether the largest comes first.
ORDERS = {
    "improvement": ("improvement", True),
    "relative": ("relative_improvement", True),
    "gap": ("gap", True),
    "factual": ("factual", False),
}
STATUSES = ("optimal", "limit", "heuristic", "failed")
OUTCOME = "outcome:"
# Actions and parts of actions that are listed where none of them was meant.
SHOWN_ACTIONS = 8


@dataclass(frozen=True)
class CaseQuery:
    """Which episodes, and in which order.

    k                the budget; None for the largest of the run
    min_improvement  at least this much better
    statuses         with one of these; none given means any but failed
    supported        only what the data supports
    max_changes      with at most so many changes
    outcomes         (name, text) pairs that the table must tell of the episode
    changed_action   with a change to this action, or of this component of actions
    by               improvement, relative, gap (largest first) or factual (lowest first)
    limit            at most so many; None for all
    """

    k: int | None = None
    min_improvement: float | None = None
    statuses: tuple[str, ...] = ()
    supported: bool = False
    max_changes: int | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    changed_action: str | None = None
    by: str = "improvement"
    limit: int | None = None


def review_list(run: Run, query: CaseQuery) -> pl.DataFrame:
    """The rows of results that a query asks for, in its order."""
    import polars as pl

    column, is_falling = ORDERS[query.by]
    conditions = _conditions(run, query)
    chosen = run.scan(RESULTS).filter(conditions)
    # The list is the same every time, ties and all.
    ranked = chosen.sort(
        [column, "improvement", "episode_id"],
        descending=[is_falling, True, False],
        nulls_last=True,
    )
    if query.limit is not None:
        ranked = ranked.head(query.limit)
    try:
        found = ranked.collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"{run.layout.out}: its results cannot be read: {reason}") from None
    if query.changed_action is not None and found.is_empty():
        _check_action(run, query.changed_action)
    return found


def count_far(run: Run) -> int:
    """How many episodes lie far outside what the model has learned from."""
    import polars as pl

    far = run.scan(RESULTS).filter(pl.col("far_outside_training") != "")
    return int(far.select(pl.col("episode_id").n_unique()).collect(engine="streaming").item())


def budgets_of(run: Run) -> list[int]:
    """The budgets that were asked about, in rising order."""
    return [int(k) for k in description_of(run)["question"]["budgets"]]


@dataclass(frozen=True)
class Terms:
    """How the episodes of a run are talked about: the noun, the unit of times, their states."""

    noun: str
    unit: str
    is_discrete: bool


def terms_of(run: Run) -> Terms:
    """Those of a run."""
    from counterplan.tables.schema import schema_from_dict

    subject: Mapping[str, Any] = description_of(run)["subject"]
    if subject["kind"] == SCHEMA:
        schema = schema_from_dict(subject.get("schema"), str(run.layout.manifest))
        return Terms("episode", schema.unit, schema.is_discrete)
    if subject["kind"] == DISCRETE:
        return Terms("episode", "", True)
    return Terms("stay", "h", False)


def description_of(run: Run) -> Mapping[str, Any]:
    """What was asked, or an error if the run is about something else."""
    task = run.manifest.task
    if task["kind"] != EXPLAIN:
        plans = (
            "; look at it with `counterplan report` or `serve`" if task["kind"] == REGRET else ""
        )
        what = "`counterplan plan`" if plans else repr(task["kind"])
        raise FileError(
            f"{run.layout.out}: is a run of {what}, which has no cases{plans}; give one of "
            "`counterplan explain -o OUT`"
        )
    found: Mapping[str, Any] = task["description"]
    if not _is_whole(found):
        raise FileError(
            f"{run.layout.manifest}: is damaged at 'task'; choose another folder for a new run"
        )
    return found


def _is_whole(description: Mapping[str, Any]) -> bool:
    """Whether a description says all that review lists need."""
    question, subject, outcomes = (
        description.get(name) for name in ("question", "subject", "outcomes")
    )
    budgets = question.get("budgets") if isinstance(question, dict) else None
    kind = subject.get("kind") if isinstance(subject, dict) else None
    return (
        isinstance(budgets, list)
        and bool(budgets)
        and all(type(k) is int for k in budgets)
        and kind in (COHORT, ICU, DISCRETE, SCHEMA)
        and isinstance(outcomes, list)
        and all(type(name) is str for name in outcomes)
    )


def _conditions(run: Run, query: CaseQuery) -> list[pl.Expr]:
    import polars as pl

    known = budgets_of(run)
    k = known[-1] if query.k is None else query.k
    if k not in known:
        there = ", ".join(map(str, known))
        raise InputError(f"{run.layout.out}: was run for k = {there}, not for {k}; choose one")
    found = [pl.col("k") == k]
    if query.statuses:
        found.append(pl.col("status").is_in(list(query.statuses)))
    else:
        found.append(pl.col("status") != "failed")
    if query.min_improvement is not None:
        found.append(pl.col("improvement") >= query.min_improvement)
    if query.supported:
        found.append(pl.col("supported"))
    if query.max_changes is not None:
        found.append(pl.col("n_changes") <= query.max_changes)
    if query.changed_action is not None:
        found.append(_changes_to(query.changed_action))
    outcomes = description_of(run)["outcomes"]
    for name, text in query.outcomes:
        if name not in outcomes:
            hint = f"there are {', '.join(outcomes)}" if outcomes else "its table had none"
            raise InputError(f"{run.layout.out}: has no outcome {name!r}: {hint}; leave it out")
        found.append(pl.col(OUTCOME + name) == text)
    return found


def _check_action(run: Run, name: str) -> None:
    """Raise if there is no such action, and no action has such a part: nothing could be found."""
    from counterplan.runs.explain import stored_subject

    words = stored_subject(description_of(run), run.file).words
    actions = [words.action(number) for number in range(words.count)]
    if name in words.components or name in actions:
        return
    known = [*map(repr, words.components), *map(repr, actions)]
    more = f" and {len(known) - SHOWN_ACTIONS:,} more" if len(known) > SHOWN_ACTIONS else ""
    raise InputError(
        f"{run.layout.out}: has no action {name!r}, and no action has such a part: there are "
        f"{', '.join(known[:SHOWN_ACTIONS])}{more}; choose one"
    )


def _changes_to(name: str) -> pl.Expr:
    """Whether a change is to the action `name`, or of the component `name`."""
    import polars as pl

    change = pl.element().struct
    parts = change.field("parts").list.eval(pl.element().struct.field("name") == name).list.any()
    wanted = (change.field("alternative_label") == name) | parts.fill_null(False)
    return pl.col("changes").list.eval(wanted).list.any().fill_null(False)
