"""The first section of a report of explanations: what was asked, and what all cases come to."""

from __future__ import annotations

import math

from counterplan.cohort.question import EXACT
from counterplan.core.words import counted
from counterplan.viz.html import Html, element, facts, items, join
from counterplan.viz.page import Panel, panels
from counterplan.viz.report.model import poor_fit_of
from counterplan.viz.report.provenance import incomplete
from counterplan.viz.report.source import Source
from counterplan.viz.report.totals import Failure, Totals

MEANINGS = {
    "optimal": ("proved optimal", "no other choice of so few changes is better in this model"),
    "limit": ("stopped at a limit", "the best may be better, by at most the gap"),
    "heuristic": ("without proof", "a simple method, to compare with"),
    "failed": ("failed", "there is no answer; the reasons are below"),
}


def summary_section(source: Source, totals: Totals, shown: list[Panel]) -> Html:
    """All of it."""
    return join(
        *_warnings(source, totals),
        facts(*_cards(source, totals), class_="cards"),
        *(element("p", text) for text in _findings(source, totals)),
        element("h3", "What was asked"),
        items(*question_in_words(source)),
        element("h3", "What became of it"),
        _statuses(totals),
        *(element("p", f"What was read: {text}") for text in source.run.manifest.notes),
        *_failures(source, totals),
        panels(shown),
        *_recurring(source, totals),
    )


def general_warnings(source: Source) -> list[str]:
    """What is to be known before any case of the run is believed."""
    found = [text] if (text := incomplete(source.run)) else []
    if better := poor_fit_of(source):
        found.append(f"The model fits poorly: {better}. Do not trust these explanations.")
    if not source.run.manifest.repeatable:
        found.append("Limited in seconds: another run of the same question may give other answers.")
    return found


def _warnings(source: Source, totals: Totals) -> list[Html]:
    noun, found = source.terms.noun, general_warnings(source)
    if totals.far:
        found.append(
            f"{counted(totals.far, noun)} far outside what the model has learned from: what it "
            "says there means nothing."
        )
    if totals.statuses["failed"]:
        found.append(f"{counted(totals.statuses['failed'], noun)} could not be explained.")
    return [warning_note(found)] if found else []


def warning_note(texts: list[str]) -> Html:
    """Warnings that nobody should overlook."""
    return element("div", items(*texts), class_="note weak warnings")


def _cards(source: Source, totals: Totals) -> list[tuple[str, str]]:
    allowed = counted(source.k, "change")
    cards = [
        (f"{source.terms.noun}s explained", f"{totals.explained:,}"),
        (f"could have been improved with at most {allowed}", f"{totals.improvable:,}"),
    ]
    if not math.isnan(totals.mean_gain):
        cards.append(("improvement on average", source.quantity.write_gain(totals.mean_gain)))
    if totals.holds is not None:
        cards.append(("improved in every causal model that fits", f"{totals.holds:,}"))
    elif sum(totals.supported):
        cards.append(("with data under all of the explanation", f"{totals.supported[0]:,}"))
    return cards


def _findings(source: Source, totals: Totals) -> list[str]:
    """What the means say, and on how much data they stand."""
    found, write = [], source.quantity.write
    budgets = [pair for pair in totals.by_budget if pair[0] > 0]
    if budgets:
        shown = budgets if len(budgets) <= 4 else [*budgets[:3], budgets[-1]]
        gains = "; ".join(
            f"{write(value)} with at most {counted(k, 'change')}" for k, value in shown
        )
        found.append(
            f"On average over all {source.terms.noun}s the outcome ({source.outcome}) goes from "
            f"{write(totals.observed)} to {gains}. The median improvement is "
            f"{source.quantity.write_gain(totals.median_gain)}."
        )
    seen, unseen = totals.supported
    if unseen:
        found.append(
            f"{counted(unseen, 'explanation')} of {seen + unseen:,} leave the data: they use "
            "actions that were never taken there, or pass through states far from any that was "
            "seen. The column “Data” says which; choose “seen” above the table to leave them out."
        )
    elif not seen and totals.explained:
        found.append(
            "Whether explanations leave the data is not known: the model keeps nothing of its data."
        )
    return found


def question_in_words(source: Source) -> list[str]:
    """The question of the run."""
    asked, noun = source.question, source.terms.noun
    budgets = ", ".join(map(str, source.budgets))
    texts = [
        f"For every {noun}: which decisions, at most {source.k}, would have led to the best "
        "outcome had all that was left to chance been the same?"
        + (f" Also asked for k = {budgets}." if len(source.budgets) > 1 else ""),
        f"Outcome: {source.outcome}. Higher is better.",
    ]
    if asked.solver == EXACT:
        texts.append("Method: exact, with a bound that proves how good the answer is.")
    else:
        texts.append(f"Method: {asked.solver}, a simple one without proof.")
    limits = [
        *([f"{asked.nodes:,} nodes"] if asked.nodes is not None else []),
        *([f"{asked.seconds:g} seconds"] if asked.seconds is not None else []),
    ]
    if limits:
        texts.append(f"Each search stops after {' or '.join(limits)}.")
    if asked.gap:
        texts.append(f"A search also stops once the best can be better by at most {asked.gap:g}.")
    if asked.max_move is not None:
        texts.append(f"A dose may differ from the one given by at most {asked.max_move:g}.")
    if asked.robust:
        texts.append("Also asked: the range of each answer over every causal model that fits.")
    return texts


def _statuses(totals: Totals) -> Html:
    rows = (
        element(
            "tr",
            element("td", MEANINGS[name][0], class_="strong"),
            element("td", f"{count:,}", class_="number"),
            element("td", MEANINGS[name][1]),
        )
        for name, count in totals.statuses.items()
        if count
    )
    return element("table", element("tbody", *rows), class_="narrow")


def _failures(source: Source, totals: Totals) -> list[Html]:
    if not totals.failures:
        return []
    lines = [_failure(source, one) for one in totals.failures]
    told = sum(one.count for one in totals.failures)
    if told < totals.statuses["failed"]:
        lines.append(f"{totals.statuses['failed'] - told:,} more for other reasons.")
    return [element("h3", "Why some failed"), items(*lines)]


def _failure(source: Source, failure: Failure) -> str:
    names = ", ".join(source.names.shown(name) for name, _ in failure.examples)
    more = failure.count - len(failure.examples)
    others = f" and {more:,} more" if more else ""
    first, reason = failure.examples[0]
    return f"{names}{others}: {source.names.within(reason, first)}"


def _recurring(source: Source, totals: Totals) -> list[Html]:
    if not totals.recurring:
        return []
    heads = (
        element("th", "Change"),
        element("th", "How often", class_="number"),
        element("th", f"In {source.terms.noun}s", class_="number"),
    )
    rows = (
        element(
            "tr",
            element("td", one.what),
            element("td", f"{one.changes:,}", class_="number"),
            element("td", f"{one.cases:,}", class_="number"),
        )
        for one in totals.recurring
    )
    head = element("thead", element("tr", *heads))
    table = element("table", head, element("tbody", *rows), class_="narrow")
    return [element("h3", "Changes that recur"), table]
