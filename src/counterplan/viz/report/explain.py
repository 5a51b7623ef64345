"""The whole report of a run of explanations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from counterplan.core.validation import counted
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import support_in_words
from counterplan.runs.question import EXACT, DiscreteExplainer
from counterplan.runs.run import CaseQuery, Run
from counterplan.viz.page import (
    Html,
    Page,
    Panel,
    Section,
    data,
    element,
    facts,
    items,
    join,
    panels,
    render,
)
from counterplan.viz.report.case import (
    CloseLook,
    arrow,
    case_panels,
    close_look,
    cohort_panels,
    policy_look,
)
from counterplan.viz.report.model import incomplete, made_by, model_section, poor_fit_of, provenance
from counterplan.viz.report.source import (
    MOST_ROWS,
    Failure,
    Report,
    ReportOptions,
    Source,
    Totals,
    open_source,
    totals_of,
)

# ----------------------------------------------------------------------------------------------
# The first section of a report of explanations: what was asked, and what all cases come to.

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


# ----------------------------------------------------------------------------------------------
# How to read a report of explanations, and what it does not claim.

# The unit of doses that are numbered only.
LEVEL = "level"


def reading(source: Source) -> list[str]:
    """For those who see such a report for the first time."""
    is_discrete = isinstance(source.explainer, DiscreteExplainer)
    noun, k = source.terms.noun, source.k
    unit = source.terms.unit
    times = f"Times are in {unit}." if unit else "Steps count from 0."
    texts = [
        f"An explanation keeps everything that happened in {_a(noun)}, its luck included, and asks "
        f"what would have happened had at most {counted(k, 'decision')} been different. {times}",
        f"Outcome: {source.outcome}. The improvement is the outcome of the "
        "explanation less the one that was observed.",
    ]
    levels = [dose.name for dose in source.labels.doses if dose.unit == LEVEL]
    if levels:
        texts.append(
            f"Doses of {' and '.join(levels)} are levels, not amounts: 0 is none, and each further "
            "level is more."
        )
    if is_discrete:
        texts.append(
            "What comes next depends on how things respond, so an explanation is a plan: a change "
            "has a probability, and the outcome is an expected one. The changes listed first are "
            "those of the likeliest course."
        )
    texts += [
        "Status: “proved optimal” means that no other choice of so few changes is better in this "
        "model. “Stopped at a limit” means that the best may be better by at most the gap. "
        "“Without proof” comes from a simple method for comparison.",
        "Data: “seen” means that the model speaks of something it has seen. “2 new” means that "
        "two of the changed actions were never taken there; “far” and “new” that the course "
        "leaves the data otherwise. Read such cases with care, or leave them out.",
    ]
    if source.question.robust:
        texts.append(
            "Data alone cannot say what would have happened to the same case under another "
            "decision; that takes a causal model. The range gives the lowest and highest value "
            "over all causal models with the same probabilities: a narrow one does not depend on "
            "that choice, a wide one does. “With stability” leaves out models in which a state "
            "that became relatively less likely happens instead. “Guaranteed” is the value of the "
            "plan whose worst case over all of them is best."
        )
    return texts


def not_claimed(source: Source) -> list[str]:
    """What the numbers must not be taken for."""
    return [
        "It is not advice for the next case. These are answers in hindsight: they know how things "
        "turned out. They show which decisions to review.",
        "It says nothing about blame. Whoever decided could not know what the explanation knows.",
        "“Optimal” is a statement about the model, not about the world. A wrong model has optimal "
        "explanations too.",
        "The ranking picks the largest improvements, which by selection tend to be too good.",
        "Names and outcomes beside the numbers come from the table as it was; nothing here has "
        "checked them.",
        *(
            ["Ranges over causal models cover other causal models, not a wrong model of the data."]
            if source.question.robust
            else []
        ),
    ]


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


# ----------------------------------------------------------------------------------------------
# The table of all cases, which a script in the page searches, sorts and turns over.
#
# The rows are in the page as plain values. The first ones are also written out, for browsers that
# run no scripts; `ranking.js` takes their place.
#
#     cell        a text, or [number to sort by, text], or a list of texts in a cell of changes
#     row         the place of the case's own section (empty if it has none), then its cells

# Rows that are written out, and those that a page of the table shows.
WRITTEN, PAGE = 20, 50
# Letters of a text that stays on one line.
SHORT = 24
TEXT, NUMBER, NAME, CHANGES = "text", "number", "name", "changes"
PLACE = "ranking"


@dataclass(frozen=True)
class Heading:
    """A column: its title, what its cells are (TEXT, NUMBER, NAME or CHANGES), and whether one of
    its texts can be chosen in a list above the table."""

    title: str
    kind: str = TEXT
    choose: bool = False


@dataclass(frozen=True)
class Ranking:
    """The cases in their order.

    rows   (place of the case's section, cells)
    total  how many there are; the rows may be the first of them only
    noun   what a case is called
    more   where to find the others
    """

    headings: Sequence[Heading]
    rows: Sequence[tuple[str, Sequence[Any]]]
    total: int
    noun: str
    more: str = ""


def number(value: float | None, text: str) -> list[Any]:
    """A cell with a number: JSON has no infinities, so the largest number stands for them."""
    if value is None or math.isnan(value):
        return [None, text]
    return [float(f"{max(-1e300, min(1e300, value)):.9g}"), text]


def ranking(table: Ranking) -> Html:
    """The table, with what searches it."""
    values = {
        "headings": [[one.title, one.kind, one.choose] for one in table.headings],
        "rows": [[place, *cells] for place, cells in table.rows],
        "page": PAGE,
        "short": SHORT,
    }
    written = table.rows[:WRITTEN]
    body = (_row(rank, place, cells, table) for rank, (place, cells) in enumerate(written, 1))
    head = element("tr", element("th", "#", class_="number", scope="col"), *_heads(table))
    whole = element(
        "table",
        element("thead", head),
        element("tbody", *body),
        class_="ranking",
        id=PLACE,
    )
    return join(
        _controls(),
        element("div", whole, class_="scroll"),
        element("noscript", element("p", _without_scripts(len(written), table), class_="note")),
        element("p", table.more, class_="certificate") if table.more else Html(""),
        data(values, f"{PLACE}-data"),
    )


def script() -> str:
    """What searches and sorts."""
    return files(__package__).joinpath("ranking.js").read_text(encoding="utf-8")


def _heads(table: Ranking) -> list[Html]:
    return [
        element("th", one.title, class_="number" if one.kind == NUMBER else "", scope="col")
        for one in table.headings
    ]


def _controls() -> Html:
    """Shown by the script; it adds a list for each column whose texts can be chosen."""
    search = element(
        "label",
        "Search ",
        element("input", type="search", id=f"{PLACE}-search", size="28", autocomplete="off"),
    )
    turn = element(
        "span",
        element("button", "◀ previous", type="button", id=f"{PLACE}-previous"),
        element("span", "", id=f"{PLACE}-status", role="status", aria_live="polite"),
        element("button", "next ▶", type="button", id=f"{PLACE}-next"),
        class_="turn",
    )
    return element("div", search, turn, class_="controls", id=f"{PLACE}-controls", hidden="hidden")


def _row(rank: int, place: str, cells: Sequence[Any], table: Ranking) -> Html:
    written = [
        _cell(cell, one.kind, place) for cell, one in zip(cells, table.headings, strict=True)
    ]
    return element("tr", element("td", str(rank), class_="number"), *written)


def _cell(cell: Any, kind: str, place: str) -> Html:
    if kind == NUMBER:
        return element("td", cell[1], class_="number")
    if kind == CHANGES:
        return element("td", *(element("div", text) for text in cell), class_="changes")
    if kind == NAME:
        named = element("a", cell, href=f"#{place}") if place else cell
        return element("td", named, class_=f"name {_shortness(cell)}".strip())
    return element("td", cell, class_=_shortness(cell))


def _shortness(text: str) -> str:
    return "short" if len(text) <= SHORT else ""


def _without_scripts(written: int, table: Ranking) -> str:
    return (
        f"The first {written:,} of {table.total:,} {table.noun}s. This browser runs no scripts; "
        "with them all can be searched and sorted here."
    )


# ----------------------------------------------------------------------------------------------

Row = Mapping[str, Any]


def explain_report(run: Run, options: ReportOptions) -> Report:
    """The report of a run of explanations."""
    source = open_source(run, options.names, options.k)
    if options.case is not None:
        return _single(source, options.case)
    totals = totals_of(source)
    ranked = run.cases(CaseQuery(k=source.k, limit=MOST_ROWS)).to_dicts()
    about_all = cohort_panels(source, totals, ranked)
    chosen = ranked[: options.cases]
    looks = _close_looks(source, chosen, range(1, len(chosen) + 1))
    noun = source.terms.noun
    title = "What should have been done differently?"
    sections = [
        Section("summary", "In short", "In short", summary_section(source, totals, about_all)),
        Section(
            "cases",
            f"{noun.capitalize()}s by improvement",
            f"All {noun}s",
            ranking(_ranking(source, ranked, looks, totals.explained)),
        ),
        *_looked_at(source, looks, f"The top {len(looks)}, closely"),
        *_ending(source),
    ]
    lead = [
        f"For each of {counted(totals.cases, noun)}: which decisions, at most {source.k}, would "
        "have led to the best outcome had all that was left to chance been the same, how much "
        "better it would have been, and how sure that is."
    ]
    kicker = "counterplan · counterfactual explanations"
    page = Page(kicker, title, lead, sections, made_by(options.names), script())
    shown = (*about_all, *(panel for look in looks for panel in look.panels))
    return Report(render(page), shown)


def _single(source: Source, name: str) -> Report:
    """The report of one case."""
    rows = source.rows_of([name])[name]
    if not rows:
        raise InputError(f"{source.run.layout.out}: has no {source.terms.noun} {name!r}; check it")
    row = next(one for one in rows if one["k"] == source.k)
    (look,) = _close_looks(source, [row], [0])
    title = f"{source.terms.noun.capitalize()} {source.names.shown(name)}"
    body = close_look(source, look)
    if texts := general_warnings(source):
        body = join(warning_note(texts), body)
    sections = [
        Section("close", "What should have been done differently?", "The case", body),
        *_ending(source),
    ]
    lead = [
        f"Which decisions, at most {source.k}, would have led to the best outcome had all that was "
        "left to chance been the same, how much better it would have been, and how sure that is."
    ]
    kicker = "counterplan · a counterfactual explanation"
    page = Page(kicker, title, lead, sections, made_by(source.names))
    return Report(render(page), tuple(look.panels))


def _ending(source: Source) -> list[Section]:
    """What every report ends with."""
    return [
        Section("model", "The model and its assumptions", "The model", model_section(source)),
        Section("reading", "How to read this", "How to read this", items(*reading(source))),
        Section("limits", "What this does not claim", "What this does not claim",
                items(*not_claimed(source))),
        Section("provenance", "Where it comes from", "Where it comes from", provenance(source.run)),
    ]  # fmt: skip


def _looked_at(source: Source, looks: Sequence[CloseLook], heading: str) -> list[Section]:
    if not looks:
        return []
    body = join(*(close_look(source, look) for look in looks))
    return [Section("close", heading, "Closely", body)]


def _close_looks(source: Source, chosen: Sequence[Row], ranks: Iterable[int]) -> list[CloseLook]:
    ids = [row["episode_id"] for row in chosen]
    rows, courses = source.rows_of(ids), source.courses_of(ids)
    episodes = source.run.episodes(ids) if source.terms.is_discrete else {}
    found = []
    for row, rank in zip(chosen, ranks, strict=True):
        name, place = row["episode_id"], f"case-{rank}" if rank else "case"
        course = courses[name]
        if row["status"] == "failed":
            found.append(CloseLook(row, course, None, (), rank, place))
            continue
        if not course:
            raise FileError(
                f"{source.run.layout.out}: has no trajectory of {name!r}; run the same command "
                "again to make it anew"
            )
        policy = policy_look(source, episodes[name], row["value"]) if episodes else None
        shown = case_panels(source, rows[name], course, policy, place)
        found.append(CloseLook(row, course, policy, shown, rank, place))
    return found


def _ranking(
    source: Source, ranked: Sequence[Row], looks: Sequence[CloseLook], total: int
) -> Ranking:
    quantity, noun = source.quantity, source.terms.noun
    has_range = any(row["interval_low"] is not None for row in ranked)
    has_data = any(row["supported"] is not None for row in ranked)
    has_status = len({row["status"] for row in ranked}) > 1
    headings = [
        Heading(noun.capitalize(), NAME),
        *(Heading(name, choose=True) for name in source.outcomes),
        Heading("Steps", NUMBER),
        Heading("Observed", NUMBER),
        Heading(f"With at most {counted(source.k, 'change')}", NUMBER),
        Heading(f"Improvement{', points' if quantity.percent else ''}", NUMBER),
        *([Heading("Range over causal models", NUMBER)] if has_range else []),
        *([Heading("Status", choose=True)] if has_status else []),
        *([Heading("Data", choose=True)] if has_data else []),
        Heading("Changes", CHANGES),
    ]
    places = {look.row["episode_id"]: look.place for look in looks}
    rows = []
    for row in ranked:
        cells: list[Any] = [
            source.names.shown(row["episode_id"]),
            *(row[f"outcome:{name}"] or "" for name in source.outcomes),
            number(row["steps"], f"{row['steps']:,}"),
            *(number(row[name], quantity.write(row[name])) for name in ("factual", "value")),
            number(
                row["improvement"],
                quantity.write_gain(row["improvement"]).removesuffix(" points"),
            ),
        ]
        if has_range:
            cells.append(_range(row, quantity.write_range))
        if has_status:
            cells.append(MEANINGS[row["status"]][0])
        if has_data:
            cells.append(support_in_words(row))
        cells.append([arrow(change["text"]) for change in row["changes"]])
        rows.append((places.get(row["episode_id"], ""), cells))
    return Ranking(headings, rows, total, noun, _more(source, len(rows), total))


def _range(row: Row, write: Any) -> list[Any]:
    if row["interval_low"] is None:
        return number(None, "")
    return number(row["interval_low"], write(row["interval_low"], row["interval_high"]))


def _more(source: Source, shown: int, total: int) -> str:
    text = (
        f"Any other {source.terms.noun} has a page of its own with "
        "counterplan report OUT --case ID -o page.html."
    )
    if shown < total:
        text = f"The first {shown:,} of {total:,} are in this table. {text}"
    return text
