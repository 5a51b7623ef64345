"""The table of all cases, which a script in the page searches, sorts and turns over.

The rows are in the page as plain values. The first ones are also written out, for browsers that run
no scripts; `ranking.js` takes their place.

    cell        a text, or [number to sort by, text], or a list of texts in a cell of changes
    row         the place of the case's own section (empty if it has none), then its cells
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from counterplan.viz.html import Html, data, element, join

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
