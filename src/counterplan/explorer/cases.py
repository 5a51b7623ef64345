"""The list of cases, and all about one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from counterplan.cohort.cases import OUTCOME, budgets_of
from counterplan.cohort.records import changes_in_words
from counterplan.cohort.tables import RESULTS, TRAJECTORIES
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.courses import answer_of_row, names_in, observed_course, order_in
from counterplan.explorer.desk import Desk
from counterplan.explorer.folder import collected
from counterplan.explorer.paging import Window, contains, page_of
from counterplan.explorer.plain import number, numbers
from counterplan.explorer.whatif import decisions_of
from counterplan.io.episode_parts import Recorded

if TYPE_CHECKING:
    import polars as pl

# What a list can be sorted by, and the column of each.
SORTS = {
    "improvement": "improvement",
    "relative": "relative_improvement",
    "gap": "gap",
    "factual": "factual",
    "value": "value",
    "changes": "n_changes",
    "steps": "steps",
    "id": "episode_id",
}
SUPPORTED = "yes"


@dataclass(frozen=True)
class CaseFilter:
    """Which cases.

    k          None for the largest of the run
    statuses   none given means any
    support    "yes", "no" or "" for both
    outcomes   "name=value" of what the table says
    changed    with a change of this part of actions, or to the action of this name
    search     part of the id
    """

    k: int | None = None
    statuses: tuple[str, ...] = ()
    min_improvement: float | None = None
    max_changes: int | None = None
    support: str = ""
    outcomes: tuple[str, ...] = ()
    changed: str = ""
    search: str = ""


def list_cases(desk: Desk, wanted: CaseFilter, window: Window) -> models.CasePage:
    """A page of the list."""
    k = budget_of(desk, wanted.k)
    at = Window(SORTS[window.sort], window.descending, window.offset, window.limit)
    chosen = replace(wanted, k=k)
    found = page_of(desk.rankings, chosen, _conditions(desk, chosen), at)
    lines = [_line(desk, row) for row in found.rows]
    return models.CasePage(total=found.total, offset=window.offset, k=k, lines=lines)


def budget_of(desk: Desk, k: int | None) -> int:
    """One of the run's budgets; None stands for the largest."""
    known = budgets_of(desk.folder.run)
    if k is None:
        return known[-1]
    if k not in known:
        raise InputError(f"the run has answers for k = {', '.join(map(str, known))}, not for {k}")
    return k


def _conditions(desk: Desk, wanted: CaseFilter) -> list[pl.Expr]:
    import polars as pl

    found = [pl.col("k") == wanted.k]
    if wanted.statuses:
        found.append(pl.col("status").is_in(list(wanted.statuses)))
    if wanted.min_improvement is not None:
        found.append(pl.col("improvement") >= wanted.min_improvement)
    if wanted.max_changes is not None:
        found.append(pl.col("n_changes") <= wanted.max_changes)
    if wanted.support:
        found.append(pl.col("supported").eq(wanted.support == SUPPORTED))
    for text in wanted.outcomes:
        name, sign, value = text.partition("=")
        if not sign or name not in desk.outcomes:
            known = ", ".join(desk.outcomes) or "none"
            raise InputError(f"outcome {text!r}: write NAME=VALUE; names here: {known}")
        found.append(pl.col(OUTCOME + name) == value)
    if wanted.changed:
        found.append(_changes(wanted.changed))
    if wanted.search:
        found.append(contains("episode_id", wanted.search))
    return found


def _changes(text: str) -> pl.Expr:
    """Whether the words of a change contain a text."""
    import polars as pl

    words = pl.element().struct.field("text").str.to_lowercase()
    found = pl.col("changes").list.eval(words.str.contains(text.lower(), literal=True))
    return found.list.any().fill_null(False)


def _line(desk: Desk, row: dict[str, Any]) -> models.CaseLine:
    return models.CaseLine(
        id=row["episode_id"],
        steps=row["steps"],
        factual=number(row["factual"]),
        value=number(row["value"]),
        improvement=number(row["improvement"]),
        relative=number(row["relative_improvement"]),
        gap=number(row["gap"]),
        status=row["status"],
        reason=row["reason"],
        changes=changes_in_words(row),
        new_actions=row["new_actions"],
        far=row["far_from_data"],
        supported=row["supported"],
        outcomes={name: row[OUTCOME + name] for name in desk.outcomes},
    )


# --- One case ---------------------------------------------------------------------------------


def case_of(desk: Desk, name: str, k: int | None) -> models.Case:
    """An episode with what the run has about it; no answer for a k that was not asked about."""
    import polars as pl

    recorded = desk.recorded(name)
    rows = collected(desk.folder.rows(RESULTS, name)).sort("k").to_dicts()
    wanted = rows[-1]["k"] if k is None else k
    row = next((one for one in rows if one["k"] == wanted), None)
    answer = None
    if row is not None:
        steps = collected(desk.folder.rows(TRAJECTORIES, name).filter(pl.col("k") == wanted))
        answer = answer_of_row(desk, recorded, row, steps.sort("t"))
    observed = _observed(desk, recorded)
    course = None if answer is None else answer.course
    return models.Case(
        id=name,
        steps=len(recorded.episode),
        times=numbers(recorded.times),
        outcomes={name: rows[0][OUTCOME + name] for name in desk.outcomes},
        filled=recorded.filled,
        outside=rows[0]["far_outside_training"] or None,
        fixed=_fixed(desk, recorded),
        observed=observed,
        budgets=[_budget(one) for one in rows],
        answer=answer,
        names=names_in(desk, observed, course),
        order=order_in(desk, observed, course),
    )


def _observed(desk: Desk, recorded: Recorded) -> models.Course:
    """Empty where the model knows nothing of the episode's states or actions: it has failed."""
    try:
        return observed_course(desk, recorded)
    except (CounterplanError, IndexError):
        return models.Course(states=[], actions=[], rewards=[], changed=[])


def _fixed(desk: Desk, recorded: Recorded) -> list[int]:
    episode = recorded.episode
    given = desk.subject.constraints(episode).fixed_steps
    decisions = decisions_of(desk.subject, episode)
    undecided = range(decisions, len(episode))
    return sorted({*(t % len(episode) for t in given), *undecided})


def _budget(row: dict[str, Any]) -> models.Budget:
    return models.Budget(
        k=row["k"], value=number(row["value"]), bound=number(row["bound"]), status=row["status"]
    )
