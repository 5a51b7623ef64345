"""A section for each case looked at closely: what to change, how sure that is, and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterplan.cohort.subject import ContinuousSubject
from counterplan.cohort.support import NEIGHBOURS, TOLERATED
from counterplan.core.words import counted
from counterplan.viz.case import Footing
from counterplan.viz.html import Html, element, facts, items, join
from counterplan.viz.page import Panel, panels
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.report.course_table import course_table
from counterplan.viz.report.policies import PolicyLook
from counterplan.viz.report.source import Source
from counterplan.viz.words import certificate_in_words, robustness_in_words

Row = Mapping[str, Any]
# How many of a policy's possible changes are listed, and from which probability on.
LISTED, LEAST_LISTED = 8, 0.02
PROBABILITY = Quantity("probability", percent=True)


@dataclass(frozen=True, eq=False)
class CloseLook:
    """A case with all that is shown of it.

    row     its result for the budget that is reported on
    course  its steps
    rank    its place in the ranking, 0 if it has none
    """

    row: Row
    course: Sequence[Row]
    policy: PolicyLook | None
    panels: Sequence[Panel]
    rank: int
    place: str


def close_look(source: Source, look: CloseLook) -> Html:
    """The section of a case."""
    row, name = look.row, source.names.shown(look.row["episode_id"])
    title = f"{look.rank}. {name}" if look.rank else name
    head = [element("h3", title), element("p", _headline(source, look), class_="headline")]
    if row["status"] == "failed":
        reason = source.names.within(row["reason"] or "", row["episode_id"])
        words = element("p", f"Could not be explained: {reason}", class_="note weak")
        return element("article", *head, words, class_="case", id=look.place)
    left = element(
        "div",
        element("h4", "What would have been done differently"),
        _changes(source, look),
        *_warnings(source, row),
        *_robustness(source, look),
    )
    right = element(
        "div",
        element("h4", "In numbers"),
        _facts(source, look),
        element("h4", "Certificate"),
        element("p", certificate_in_words(row, source.quantity), class_="certificate"),
        element("p", _method(row), class_="certificate"),
    )
    return element(
        "article",
        *head,
        element("div", left, right, class_="columns"),
        panels(look.panels),
        course_table(source, look.course),
        class_="case",
        id=look.place,
    )


def _headline(source: Source, look: CloseLook) -> str:
    row, quantity = look.row, source.quantity
    given = {name: row[f"outcome:{name}"] for name in source.outcomes}
    told = ", ".join(f"{name}: {text}" for name, text in given.items() if text)
    if row["status"] == "failed":
        return f"{counted(row['steps'], 'step')}. {told}"
    expected = " expected" if source.terms.is_discrete else ""
    decisions = row["steps"] if source.terms.is_discrete else row["steps"] - 1
    return (
        f"{quantity.label} {quantity.write(row['factual'])} observed, "
        f"{quantity.write(row['value'])}{expected} with at most {min(source.k, decisions)} of "
        f"{decisions} decisions changed. {told}"
    )


def _changes(source: Source, look: CloseLook) -> Html:
    """The changes in words, one line each; for a policy all that are likely enough."""
    rows = _policy_rows(source, look) if look.policy is not None else _plain_rows(source, look.row)
    if not rows:
        is_proved = look.row["status"] == "optimal"
        words = "No admissible change improves the outcome."
        return element("p", words if is_proved else "No change was found that improves it.")
    has_chance = any(chance for _, _, chance, _ in rows)
    has_data = any(taken for _, _, _, taken in rows)
    heads = [element("th", text) for text in ("When", "Change")]
    heads += [element("th", "Probability", class_="number")] if has_chance else []
    heads += [element("th", "In the data")] if has_data else []
    body = []
    for when, change, chance, taken in rows:
        cells = [element("td", when), element("td", change, class_="strong")]
        cells += [element("td", chance, class_="number")] if has_chance else []
        cells += [element("td", taken)] if has_data else []
        body.append(element("tr", *cells))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    rest = len(look.policy.likely) - len(rows) if look.policy is not None else 0
    note = f"{counted(rest, 'less probable change')} not listed." if rest > 0 else ""
    return join(table, element("p", note, class_="certificate") if note else Html(""))


Line = tuple[str, str, str, str]


def _plain_rows(source: Source, row: Row) -> list[Line]:
    """When, what, with which probability, and how often that was done in the data."""
    words = source.subject.words
    found = []
    for change in row["changes"]:
        chance = "" if change["probability"] is None else share(change["probability"])
        text = words.change(change["observed"], change["alternative"])
        found.append((words.when(change["time"]), arrow(text), chance, _taken(source, change)))
    return found


def _policy_rows(source: Source, look: CloseLook) -> list[Line]:
    assert look.policy is not None
    words = source.subject.words
    likely = [one for one in look.policy.likely if one.probability >= LEAST_LISTED][:LISTED]
    found = []
    for one in sorted(likely, key=lambda one: (one.change.t, -one.probability)):
        t, observed, alternative = one.change
        known = [c for c in look.row["changes"] if (c["t"], c["alternative"]) == (t, alternative)]
        taken = _taken(source, known[0]) if known else ""
        when = words.when(look.course[t]["time"])
        found.append(
            (when, arrow(words.change(observed, alternative)), share(one.probability), taken)
        )
    return found


def _taken(source: Source, change: Row) -> str:
    """How often the new action was taken there."""
    count = change["taken"]
    if count is None:
        return ""
    if isinstance(source.subject, ContinuousSubject):
        seen = source.subject.seen.seen
        most = NEIGHBOURS if seen is None else min(NEIGHBOURS, len(seen.states))
        return f"in {count} of the {most} nearest" if count else f"in none of the {most} nearest"
    return f"{counted(count, 'time')} in that state" if count else "never in that state"


def _warnings(source: Source, row: Row) -> list[Html]:
    """What is to be known before the case is believed."""
    found = []
    noun = source.terms.noun
    if row["far_outside_training"]:
        found.append(
            f"The observed {noun} lies far outside what the model has learned from "
            f"({row['far_outside_training']}): what the model says about it means nothing."
        )
    if row["new_actions"]:
        found.append(
            f"{counted(row['new_actions'], 'change')} to an action that was never taken there in "
            "the data."
        )
    if row["far_from_data"]:
        found.append(
            f"The course leaves the data: its states are up to {row['distance_max']:.1f} times as "
            "far from the nearest ones as is typical between different episodes."
        )
    if (row["unseen_probability"] or 0.0) > TOLERATED:
        found.append(
            f"With probability {share(row['unseen_probability'])} the course comes to take an "
            "action in a state in which nobody took it."
        )
    if row["filled"]:
        found.append(
            f"{counted(row['filled'], 'gap')} of the {noun} {_were(row['filled'])} filled in."
        )
    if row["status"] == "limit":
        found.append("The search was stopped: a better explanation may exist, within the gap.")
    if row["status"] == "heuristic":
        found.append("From a simple method without proof: better explanations may exist.")
    if not found:
        return []
    return [
        element("h4", "Read with care"),
        element("div", items(*found), class_="note weak warnings"),
    ]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _robustness(source: Source, look: CloseLook) -> list[Html]:
    case = None if look.policy is None else look.policy.case
    if case is None:
        return []
    kind = {Footing.ASSUMPTION: "note weak", Footing.OTHER_POLICY: "note partly"}
    words = robustness_in_words(case, source.quantity)
    return [
        element("h4", "How much rests on the causal assumption"),
        element("p", words, class_=kind.get(case.footing, "note")),
    ]


def _facts(source: Source, look: CloseLook) -> Html:
    row, write = look.row, source.quantity.write
    pairs = [
        ("Observed outcome", write(row["factual"])),
        ("Outcome of the explanation", write(row["value"])),
        ("Improvement", source.quantity.write_gain(row["improvement"])),
    ]
    relative = row["relative_improvement"]
    if relative is not None and math.isfinite(relative) and not source.quantity.percent:
        pairs.append(("As a share of the observed outcome", f"{100 * relative:.1f} %"))
    if row["interval_low"] is not None:
        span = source.quantity.write_range(row["interval_low"], row["interval_high"])
        pairs.append(("Range, all causal models", span))
    if look.policy is not None:
        pairs += _policy_facts(look.policy, source.quantity)
    pairs.append(("Steps", f"{row['steps']:,}"))
    return facts(*pairs, class_="facts")


def _policy_facts(look: PolicyLook, quantity: Quantity) -> list[tuple[str, str]]:
    found = look.explanation
    changes = float(sum(n * p for n, p in enumerate(found.changes_distribution())))
    pairs = [
        ("Better than observed, probability", PROBABILITY.write(look.probability_better)),
        ("Changes made, on average", f"{changes:.2f}"),
    ]
    if math.isfinite(found.outcome_variance):
        pairs.insert(0, ("Standard deviation", quantity.write(found.outcome_variance**0.5)))
    case = look.case
    if case is not None:
        stable = quantity.write_range(*case.stable_interval)
        pairs.insert(0, ("Range, with counterfactual stability", stable))
        pairs += [
            ("Robust plan: guaranteed", quantity.write(case.robust.value)),
            ("Robust plan: expected", quantity.write(case.robust.outcome_mean)),
        ]
    return pairs


def _method(row: Row) -> str:
    """How it was found."""
    how = f"Method: {row['method']}. " if row["method"] else ""
    return f"{how}{row['nodes']:,} nodes were looked at." if row["nodes"] is not None else how


def arrow(text: str) -> str:
    """Typeset as on paper."""
    return text.replace("->", "→")
