"""One self-contained HTML page about many explained cases.

The caller says what the page is about; this module lays it out: key numbers, cohort figures, a
ranked table, a section for each case looked at closely, how to read it, what it does not claim.
Nothing is loaded from elsewhere, so the file can be opened from disk, sent and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from counterplan.viz.case import Case, Footing
from counterplan.viz.html import Html, document, element, facts, items, join, picture
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.words import (
    ActionName,
    certificate_in_words,
    counted,
    main_changes_in_words,
    robustness_in_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How many of a policy's possible changes a case's section lists.
LISTED_CHANGES = 8
LEAST_LISTED = 0.02
PROBABILITY = Quantity("probability", percent=True)


@dataclass(frozen=True, eq=False)
class Panel:
    """A figure, the name of its file, and what it shows in words."""

    name: str
    figure: Figure
    caption: str
    alternative: str


@dataclass(frozen=True, eq=False)
class CloseLook:
    """A case with its figures."""

    case: Case
    panels: Sequence[Panel]


@dataclass(frozen=True, eq=False)
class Content:
    """What the page says.

    kicker, title, lead   the head of the page
    key_numbers           (what, number) pairs, the one that rests on least last
    findings              paragraphs under the key numbers
    panels                figures about all cases
    cases                 all cases, ranked; those that cannot be improved are left to `leftover`
    leftover              a paragraph on those
    close_looks           the cases that get a section of their own
    reading, not_claimed  lists of sentences
    sources               where model and data come from, and how the page was made
    """

    kicker: str
    title: str
    lead: str
    key_numbers: Sequence[tuple[str, str]]
    findings: Sequence[str]
    panels: Sequence[Panel]
    cases: Sequence[Case]
    leftover: str
    close_looks: Sequence[CloseLook]
    reading: Sequence[str]
    not_claimed: Sequence[str]
    sources: Sequence[str]


@dataclass(frozen=True)
class Terms:
    """The words of the domain: how outcome, actions, one case and all cases are called."""

    quantity: Quantity
    action_name: ActionName
    case: str = "case"
    cases: str = "cases"


def render(content: Content, terms: Terms) -> str:
    """The page as text."""
    css = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    sections = [_section("summary", "In short", _summary(content))]
    if content.cases:
        heading = f"{terms.cases.capitalize()} by improvement"
        sections.append(_section("cases", heading, _table(content, terms)))
    if content.close_looks:
        looks = (
            _close_look(rank, look, terms) for rank, look in enumerate(content.close_looks, start=1)
        )
        sections.append(_section("close", f"The top {len(content.close_looks)}, closely", *looks))
    sections += [
        _section("reading", "How to read this", items(*content.reading)),
        _section("limits", "What this does not claim", items(*content.not_claimed)),
    ]
    head = element(
        "header",
        element("p", content.kicker, class_="kicker"),
        element("h1", content.title),
        element("p", content.lead, class_="lead"),
        _contents(content),
    )
    foot = element("footer", *(element("p", source) for source in content.sources))
    return document(content.title, join(head, element("main", *sections), foot), css)


def _contents(content: Content) -> Html:
    places = [("summary", "In short")]
    places += [("cases", "All cases")] if content.cases else []
    places += [("close", "Closely")] if content.close_looks else []
    places += [("reading", "How to read this"), ("limits", "What this does not claim")]
    return element("nav", *(element("a", name, href=f"#{place}") for place, name in places))


def _section(place: str, heading: str, *children: Html) -> Html:
    return element("section", element("h2", heading), *children, id=place)


def _summary(content: Content) -> Html:
    return join(
        facts(*content.key_numbers, class_="cards"),
        *(element("p", finding) for finding in content.findings),
        _panels(content.panels),
    )


def _panels(panels: Sequence[Panel]) -> Html:
    if not panels:
        return Html("")
    return element(
        "div",
        *(picture(panel.figure, panel.caption, panel.alternative) for panel in panels),
        class_="panels",
    )


def _table(content: Content, terms: Terms) -> Html:
    improvable = [case for case in content.cases if case.improvable]
    if not improvable:
        return element("p", content.leftover)
    allowed = counted(improvable[0].explanation.k, "change")
    headings = (
        ("", "number"),
        (terms.case.capitalize(), ""),
        ("Steps", "number"),
        ("Observed", "number"),
        (f"With at most {allowed}", "number"),
        (f"Improvement{', points' if terms.quantity.percent else ''}", "number"),
        ("Range over all causal models, and with stability", ""),
        ("Guaranteed in every model", "number"),
        ("Most probable changes", ""),
    )
    head = element("tr", *(element("th", text, class_=kind) for text, kind in headings))
    closely = [look.case for look in content.close_looks]
    body = (
        _row(rank, case, terms, closely=case in closely)
        for rank, case in enumerate(improvable, start=1)
    )
    table = element("table", element("thead", head), element("tbody", *body), class_="ranking")
    return join(element("div", table, class_="scroll"), element("p", content.leftover))


def _row(rank: int, case: Case, terms: Terms, *, closely: bool) -> Html:
    quantity, explanation = terms.quantity, case.explanation
    ranges = (
        element("small", quantity.write_range(*case.interval)),
        element("small", f"stable: {quantity.write_range(*case.stable_interval)}"),
    )
    changes = main_changes_in_words(case, terms.action_name)
    return element(
        "tr",
        _number(str(rank)),
        element("td", _name(rank, case, closely=closely), class_="name"),
        _number(str(len(explanation.episode))),
        _number(quantity.write(explanation.factual_value)),
        element("td", quantity.write(explanation.value), class_="number strong"),
        _number(quantity.write_gain(explanation.improvement).removesuffix(" points")),
        element("td", _range_bar(case) if quantity.percent else "", *ranges),
        _number(quantity.write(case.robust.value)),
        element("td", *(element("div", _arrow(change)) for change in changes), class_="changes"),
    )


def _name(rank: int, case: Case, *, closely: bool) -> str:
    return element("a", case.name, href=f"#case-{rank}") if closely else case.name


def _number(text: str) -> Html:
    return element("td", text, class_="number")


def _range_bar(case: Case) -> Html:
    """The range as a bar from 0 to 1, the value as a dot, the guarantee as a diamond."""

    def place(value: float) -> str:
        return f"{100 * min(1.0, max(0.0, value)):.1f}%"

    low, high = case.interval
    return element(
        "span",
        element("i", class_="span", style=f"--low: {place(low)}; --high: {place(high)}"),
        element("i", class_="sure", style=f"--at: {place(case.robust.value)}"),
        element("i", class_="dot", style=f"--at: {place(case.explanation.value)}"),
        class_="range",
        aria_hidden="true",
    )


def _close_look(rank: int, look: CloseLook, terms: Terms) -> Html:
    case, quantity = look.case, terms.quantity
    explanation = case.explanation
    kind = {Footing.ASSUMPTION: "note weak", Footing.OTHER_POLICY: "note partly"}
    headline = (
        f"{quantity.title} {quantity.write(explanation.factual_value)} observed, "
        f"{quantity.write(explanation.value)} expected with at most "
        f"{min(explanation.k, len(explanation.episode))} of {len(explanation.episode)} decisions "
        "changed."
    )
    words = element(
        "div",
        element("h4", "What would have been done differently"),
        _changes_table(case, terms),
        element("h4", "How much rests on the causal assumption"),
        element("p", robustness_in_words(case, quantity), class_=kind.get(case.footing, "note")),
    )
    numbers = element(
        "div",
        element("h4", "In numbers"),
        _facts(case, quantity),
        element("h4", "Certificate"),
        element("p", certificate_in_words(explanation, quantity), class_="certificate"),
    )
    return element(
        "article",
        element("h3", f"{rank}. {case.name}"),
        element("p", headline, class_="headline"),
        element("div", words, numbers, class_="columns"),
        _panels(look.panels),
        class_="case",
        id=f"case-{rank}",
    )


def _changes_table(case: Case, terms: Terms) -> Html:
    likely = [one for one in case.likely_changes if one.probability >= LEAST_LISTED]
    shown = sorted(likely[:LISTED_CHANGES], key=lambda one: (one.change.t, -one.probability))
    head = element(
        "tr", *(element("th", text) for text in ("Step", "Observed", "Instead")),
        element("th", "Probability", class_="number"),
    )  # fmt: skip
    body = (
        element(
            "tr",
            element("td", str(one.change.t)),
            element("td", terms.action_name(one.change.observed)),
            element("td", terms.action_name(one.change.alternative), class_="strong"),
            _number(share(one.probability)),
        )
        for one in shown
    )
    rest = len(case.likely_changes) - len(shown)
    note = f"{counted(rest, 'less probable change')} not listed." if rest else ""
    table = element("table", element("thead", head), element("tbody", *body))
    return join(table, element("p", note, class_="certificate") if note else Html(""))


def _facts(case: Case, quantity: Quantity) -> Html:
    explanation, robust = case.explanation, case.robust
    counts = explanation.changes_distribution()
    expected_changes = float(sum(n * p for n, p in enumerate(counts)))
    pairs = (
        ("Observed outcome", quantity.write(explanation.factual_value)),
        ("Expected outcome", quantity.write(explanation.outcome_mean)),
        ("Standard deviation", quantity.write(explanation.outcome_variance**0.5)),
        ("Better than observed, probability", PROBABILITY.write(case.probability_better)),
        ("Changes made, on average", f"{expected_changes:.2f}"),
        ("Range, all causal models", quantity.write_range(*case.interval)),
        ("Range, with counterfactual stability", quantity.write_range(*case.stable_interval)),
        ("Robust explanation: guaranteed", quantity.write(robust.value)),
        ("Robust explanation: expected", quantity.write(robust.outcome_mean)),
    )
    return facts(*pairs, class_="facts")


def _arrow(text: str) -> str:
    return text.replace("->", "→")
