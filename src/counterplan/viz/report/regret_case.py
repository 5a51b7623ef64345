"""A section for each scenario looked at closely: the decisions, what they lost, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplan.cohort.records import changes_in_words
from counterplan.core.validation import FloatArray
from counterplan.exogenous.model import State
from counterplan.io.plan_answer import action_in_words, state_in_words
from counterplan.viz.data.path_names import path_names
from counterplan.viz.figures import path_figure
from counterplan.viz.html import Html, element, facts, join
from counterplan.viz.page import Panel, panels
from counterplan.viz.report.regret_source import RegretSource

Row = Mapping[str, Any]
# Losses below this share of the largest are not worth a line.
LEAST_LOSS = 1e-6
VALUES = {
    "executed": "as executed",
    "hindsight": "best in hindsight",
    "without_foresight": "best policy without foresight",
    "open_loop": "open loop: the plan for expected values",
    "planned": "planner",
}


@dataclass(frozen=True, eq=False)
class Scenario:
    """A scenario with all that is shown of it."""

    row: Row
    steps: Sequence[Row]
    panels: Sequence[Panel]
    rank: int
    place: str


def scenario_of(source: RegretSource, row: Row, steps: Sequence[Row], rank: int) -> Scenario:
    """With its figure drawn."""
    place = f"case-{rank}" if rank else "case"
    if row["status"] == "failed":
        return Scenario(row, steps, (), rank, place)
    panel = Panel(
        f"{place}-path",
        path_figure(list(steps), source.problem),
        "What was seen, what everyone did, and what was left, step by step.",
        f"Decisions of {len(steps)} steps as executed, planned and in hindsight; the numbers are "
        "in the table below.",
    )
    return Scenario(row, steps, (panel,), rank, place)


def scenario_section(source: RegretSource, scenario: Scenario) -> Html:
    """The section of a scenario."""
    row, name = scenario.row, source.names.shown(scenario.row["scenario_id"])
    title = f"{scenario.rank}. {name}" if scenario.rank else name
    if row["status"] == "failed":
        reason = source.names.within(row["reason"] or "", row["scenario_id"])
        words = element("p", f"Could not be judged: {reason}", class_="note weak")
        return element("article", element("h3", title), words, class_="case", id=scenario.place)
    left = element(
        "div",
        element("h4", "Which decisions lost, and what would have been better"),
        _decisions(source, scenario),
        *_changes(source, row),
    )
    right = element(
        "div",
        element("h4", "In numbers"),
        facts(*_facts(source, row), class_="facts"),
        element("h4", "Certificate"),
        element("p", _certificate(row), class_="certificate"),
    )
    return element(
        "article",
        element("h3", title),
        element("p", _headline(source, row), class_="headline"),
        element("div", left, right, class_="columns"),
        panels(scenario.panels),
        _table(source, scenario.steps),
        class_="case",
        id=scenario.place,
    )


def _headline(source: RegretSource, row: Row) -> str:
    write = source.quantity.write
    best = f"{write(row['hindsight'])} would have been possible had the future been known"
    if row["executed"] is None:
        return f"No decisions are given; {best}."
    text = f"{source.did.capitalize()} {write(row['executed'])}; {best}."
    if row["expected_regret"] is not None:
        text += f" The decisions lost {write(row['expected_regret'])} in expectation."
    return text


def _changes(source: RegretSource, row: Row) -> list[Html]:
    """The few decisions that should have been others, knowing the path, where that was asked."""
    if row.get("value") is None:
        return []
    title = element("h4", f"In hindsight, with at most {row['k']} changed decisions")
    if not row["changes"]:
        return [title, element("p", "No such change would have been better.")]
    items = [element("li", text) for text in changes_in_words(row)]
    write = source.quantity.write
    words = f"{write(row['value'])} instead of {write(row['executed'])}."
    return [title, element("ul", *items), element("p", words)]


def _decisions(source: RegretSource, scenario: Scenario) -> Html:
    """The decisions that lost in expectation, the costliest first."""
    steps = scenario.steps
    losses = [step["expected_loss"] for step in steps]
    if scenario.row["executed"] is None:
        return element("p", "The table says nothing about what was done.")
    if None in losses:
        words = "What each decision lost is not known here; the policy's own are in the figure."
        return element("p", words)
    least = LEAST_LOSS * max(1e-12, *losses)
    costly = sorted((s for s, loss in enumerate(losses) if loss > least), key=lambda s: -losses[s])
    if not costly:
        return element("p", "No decision lost anything in expectation.", class_="note")
    states = _states(source, scenario)
    heads = (
        *(element("th", text) for text in ("When", "Done", "Better")),
        element("th", "Lost", class_="number"),
    )
    body = []
    for s in costly:
        done, better = (_action(source, steps[s], name) for name in ("executed", "advised"))
        cells = (
            # Ports and dates are counted from 1, steps in the figure from 0: say both.
            element("td", f"t={states[s].t}: {state_in_words(source.problem, states[s])}"),
            element("td", action_in_words(source.problem, states[s], done)),
            element("td", action_in_words(source.problem, states[s], better), class_="strong"),
            element("td", source.quantity.write(losses[s]), class_="number"),
        )
        body.append(element("tr", *cells))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    return join(table)


def _states(source: RegretSource, scenario: Scenario) -> list[State]:
    """Where each decision was made."""
    form = source.form
    seen = np.array(
        [
            [entry.names.index(step[entry.column]) if entry.names else step[entry.column]
             for entry in form.seen]
            for step in scenario.steps
        ],
        dtype=np.float64,
    )  # fmt: skip
    path, first = form.path(seen), source.problem.start.t
    levels = [_numbers(step, "executed_level", form.tanks) for step in scenario.steps]
    return [State(first + s, path[s], levels[s]) for s in range(len(path))]


def _action(source: RegretSource, step: Row, name: str) -> FloatArray:
    return _numbers(step, name, source.form.parts)


def _numbers(step: Row, name: str, endings: Sequence[str]) -> FloatArray:
    return np.array([step[f"{name}{ending}"] for ending in endings], dtype=np.float64)


def _facts(source: RegretSource, row: Row) -> list[tuple[str, str]]:
    write = source.quantity.write
    pairs = [(_value_name(name, row), write(row[name])) for name in VALUES if row[name] is not None]
    for name, words in (
        ("regret_hindsight", "Worse than hindsight by"),
        ("regret_policy", "Worse than the policy by, luck included"),
        ("expected_regret", "Lost in expectation, without luck"),
    ):
        if row[name] is not None:
            pairs.append((words, write(row[name])))
    return pairs


def _value_name(name: str, row: Row) -> str:
    if name == "planned" and row["planner"]:
        return f"Planner {row['planner']}"
    return VALUES[name].capitalize()


def _certificate(row: Row) -> str:
    """What is proved."""
    hindsight = "The value in hindsight is exact: no decisions on this path are better."
    if row["status"] == "optimal":
        return f"{hindsight} The policy is the optimum without foresight, by dynamic programming."
    return (
        f"{hindsight} The optimum without foresight cannot be computed here; the policy is the "
        f"best one known ({row['policy']})."
    )


def _table(source: RegretSource, steps: Sequence[Row]) -> Html:
    """All numbers of the scenario, folded away until they are asked for."""
    if not steps:
        return Html("")
    form, names = source.form, path_names(source.problem)
    columns = [(entry.column, entry.column) for entry in form.seen]
    for player in ("executed", "advised", "policy", "planned", "hindsight"):
        for ending, title in zip(form.parts, names.actions, strict=True):
            columns.append((f"{player}{ending}", f"{title}, {player}"))
    columns += [
        (f"executed_level{ending}", f"{title}, executed")
        for ending, title in zip(form.tanks, names.levels, strict=True)
    ]
    columns.append(("expected_loss", "expected loss"))
    known = [one for one in columns if any(step.get(one[0]) is not None for step in steps)]
    head = element("tr", element("th", names.step), *(element("th", title) for _, title in known))
    body = (
        element("tr", element("td", str(step["t"])), *(_cell(step[name]) for name, _ in known))
        for step in steps
    )
    table = element("table", element("thead", head), element("tbody", *body), class_="course")
    return element(
        "details",
        element("summary", "All decisions in numbers"),
        element("div", table, class_="scroll"),
    )


def _cell(value: Any) -> Html:
    text = value if isinstance(value, str) else "" if value is None else f"{value:.6g}"
    return element("td", text)
