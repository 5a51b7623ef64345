"""The whole report of a run of explanations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterplan.cohort.cases import CaseQuery, review_list
from counterplan.cohort.reading import Run
from counterplan.cohort.records import support_in_words
from counterplan.core.words import counted
from counterplan.errors import FileError, InputError
from counterplan.viz.html import items, join
from counterplan.viz.page import Page, Section, render
from counterplan.viz.report.closely import CloseLook, arrow, close_look
from counterplan.viz.report.courses import case_panels, cohort_panels
from counterplan.viz.report.model import model_section
from counterplan.viz.report.options import MOST_ROWS, Report, ReportOptions
from counterplan.viz.report.policies import policy_look
from counterplan.viz.report.provenance import made_by, provenance
from counterplan.viz.report.ranking import (
    CHANGES,
    NAME,
    NUMBER,
    Heading,
    Ranking,
    number,
    ranking,
    script,
)
from counterplan.viz.report.reading import not_claimed, reading
from counterplan.viz.report.source import Source, open_source
from counterplan.viz.report.summary import (
    MEANINGS,
    general_warnings,
    summary_section,
    warning_note,
)
from counterplan.viz.report.totals import totals_of

Row = Mapping[str, Any]


def explain_report(run: Run, options: ReportOptions) -> Report:
    """The report of a run of explanations."""
    source = open_source(run, options.names, options.k)
    if options.case is not None:
        return _single(source, options.case)
    totals = totals_of(source)
    ranked = review_list(run, CaseQuery(k=source.k, limit=MOST_ROWS)).to_dicts()
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
