"""The course of a case in numbers, step by step, for those who want to check a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterplan.cohort.subject import DiscreteSubject
from counterplan.viz.data.labels import with_unit
from counterplan.viz.html import Html, element
from counterplan.viz.report.source import Source

Row = Mapping[str, Any]
OTHER = "counterfactual_"


def course_table(source: Source, course: Sequence[Row]) -> Html:
    """Folded away until it is asked for."""
    if not course:
        return Html("")
    headings, cells = (
        _discrete(source, course)
        if isinstance(source.subject, DiscreteSubject)
        else _continuous(source, course)
    )
    unit = source.terms.unit
    head = element(
        "tr",
        *(element("th", text) for text in (f"Time ({unit})" if unit else "Step", *headings)),
    )
    body = (
        element(
            "tr",
            element("td", f"{row['time']:g}"),
            *(element("td", text) for text in texts),
            class_="changed" if row["changed"] else "",
        )
        for row, texts in zip(course, cells, strict=True)
    )
    table = element("table", element("thead", head), element("tbody", *body), class_="course")
    return element(
        "details",
        element("summary", "The course in numbers, observed → counterfactual where they differ"),
        element("div", table, class_="scroll"),
    )


def _discrete(source: Source, course: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    assert isinstance(source.subject, DiscreteSubject)
    mdp, words = source.subject.mdp, source.subject.words
    cells = [
        [
            _both(mdp.state_name(row["state"]), mdp.state_name(row[f"{OTHER}state"])),
            _both(words.action(row["action"]), words.action(row[f"{OTHER}action"])),
            f"{100 * row['change_probability']:.0f} %",
            _both(_number(row["reward"]), _number(row[f"{OTHER}reward"])),
        ]
        for row in course
    ]
    return ["State", "Action", "Changed in", "Reward"], cells


def _continuous(source: Source, course: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    labels = source.labels
    doses = [name for name in course[0] if name.startswith("action:")]
    features = [f"state:{column.name}" for column in labels.features]
    cells = [
        [_both(_number(row[name]), _number(row[OTHER + name])) for name in (*doses, *features)]
        for row in course
    ]
    units = {dose.name: with_unit(dose) for dose in labels.doses}
    names = [name.removeprefix("action:") for name in doses]
    titles = [units.get(name, name) for name in names]
    return [*titles, *(with_unit(column) for column in labels.features)], cells


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.4g}"
