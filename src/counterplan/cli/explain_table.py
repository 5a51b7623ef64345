"""Explanations as a table in the terminal, and what its title says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplan.cli.explain_options import SolverName
from counterplan.cli.support import print_table

if TYPE_CHECKING:
    from counterplan.cohort.question import Question


class Column(NamedTuple):
    """A further column of the printed table: its alignment, and what it says of a record."""

    alignment: str
    text: Callable[[Mapping[str, Any]], str]


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


def print_explanations(found: Sequence[Mapping[str, Any]], heading: str, noun: str) -> None:
    """A table with one row for each record."""
    from counterplan.cohort.records import changes_in_words, support_in_words

    extra: dict[str, Column] = {}
    if any("interval_low" in record for record in found):
        extra["over causal models"] = Column("right", _interval)
    extra["proof"] = Column("left", _proof)
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
            *(_number(record.get(name)) for name in ("factual", "value", "improvement")),
            *(column.text(record) for column in extra.values()),
            record.get("reason") or "\n".join(changes_in_words(record)) or "none",
        ]
        for record in found
    ]
    print_table(heading, columns, rows)


def _number(value: float | str | None) -> str:
    """As tables show it."""
    from counterplan.viz.quantity import Quantity

    return "" if value is None else Quantity().write(float(value))


def _interval(record: Mapping[str, Any]) -> str:
    return f"{_number(record['interval_low'])} to {_number(record['interval_high'])}"


def _proof(record: Mapping[str, Any]) -> str:
    """What is known of the optimum."""
    status = str(record["status"])
    return f"limit, gap {_number(record['gap'])}" if status == "limit" else status
